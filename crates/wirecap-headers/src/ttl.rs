//! TTL of IPv4 and hop limit of IPv6.

use std::{fmt, num::NonZeroU8, str::FromStr};

use crate::{
    Error, IpLayout, IpVersion, Layout,
    bytes::{set_word, word},
    checksum,
};

/// What becomes of the TTL of IPv4, and of the hop limit of IPv6, which is the same under another name. What
/// is not IP is left alone.
///
/// On the command line: `keep`, `decrement`, or what it is set to, 1 to 255.
///
/// # Example
///
/// ```
/// use std::num::NonZeroU8;
/// use wirecap_headers::Ttl;
///
/// assert_eq!("decrement".parse::<Ttl>()?, Ttl::Decrement);
/// assert_eq!("64".parse::<Ttl>()?, Ttl::Set(NonZeroU8::new(64).unwrap()));
/// assert_eq!(Ttl::Keep.to_string(), "keep");
/// assert!("0".parse::<Ttl>().is_err());
/// # Ok::<(), wirecap_headers::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// As it is.
    #[default]
    Keep,
    /// One less, as a router does (RFC 1812, section 5.3.1; RFC 8200, section 3). A packet with 1 or 0 has
    /// expired, and goes no further.
    Decrement,
    /// This, whatever it was.
    Set(NonZeroU8),
}

impl Ttl {
    /// Whether the packet may not be forwarded: it would be decremented to nothing.
    pub fn expires(self, layout: &Layout, data: &[u8]) -> bool {
        let ttl = layout.ip().and_then(|ip| ip.ttl(data));
        self == Self::Decrement && ttl.is_some_and(|ttl| ttl <= 1)
    }

    /// Changes a frame of this layout; the checksum of the IPv4 header is brought up to date (RFC 1624). A
    /// packet that [expires](Self::expires) stays as it is.
    ///
    /// # Example
    ///
    /// ```
    /// use wirecap_headers::{Layout, Ttl};
    ///
    /// let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    /// frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0xf6, 0xd5, 192, 0, 2, 1, 192, 0, 2, 2]);
    /// let layout = Layout::of(&frame).unwrap();
    /// Ttl::Decrement.apply(&layout, &mut frame);
    /// assert_eq!((frame[22], &frame[24..26]), (63, [0xf7, 0xd5].as_slice()));
    /// ```
    pub fn apply(self, layout: &Layout, data: &mut [u8]) {
        let Some(ip) = layout.ip() else { return };
        let Some(old) = ip.ttl(data) else { return };
        let new = match self {
            Self::Keep => return,
            Self::Decrement if old <= 1 => return,
            Self::Decrement => old - 1,
            Self::Set(ttl) => ttl.get(),
        };
        let _ = write(ip, data, new);
    }
}

fn write(ip: &IpLayout, data: &mut [u8], ttl: u8) -> Option<()> {
    let offset = ip.ttl_offset();
    match ip.version() {
        IpVersion::V6 => *data.get_mut(offset)? = ttl,
        IpVersion::V4 => {
            // With the protocol behind it, it is a word of the checksum, which is the next.
            let old = word(data, offset)?;
            let new = u16::from_be_bytes([ttl, old as u8]);
            let checksum = checksum::update(word(data, offset + 2)?, old, new);
            set_word(data, offset, new)?;
            set_word(data, offset + 2, checksum)?;
        }
    }
    Some(())
}

impl FromStr for Ttl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "keep" => Ok(Self::Keep),
            "decrement" => Ok(Self::Decrement),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse().map(Self::Set),
            _ => return Err(Error::Ttl(text.to_owned())),
        }
        .map_err(|_| Error::Ttl(text.to_owned()))
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Decrement => f.write_str("decrement"),
            Self::Set(ttl) => ttl.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
