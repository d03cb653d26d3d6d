//! Ethernet addresses.

use std::{fmt, str::FromStr};

use crate::Error;

/// An Ethernet address.
///
/// # Example
///
/// ```
/// use wirecap_headers::MacAddress;
///
/// let mut frame = [0; 60];
/// let router: MacAddress = "02:00:00:00:00:0A".parse()?;
/// assert!(router.set_destination(&mut frame));
/// assert_eq!(frame[..6], [2, 0, 0, 0, 0, 10]);
/// assert_eq!(router.to_string(), "02:00:00:00:00:0a");
/// # Ok::<(), wirecap_headers::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Whether it is that of a group: multicast or broadcast (IEEE 802, section 8.2.2).
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The destination of a frame. `None` if that is not there whole.
    pub fn destination_of(data: &[u8]) -> Option<Self> {
        data.first_chunk().copied().map(Self)
    }

    /// The source of a frame. `None` if that is not there whole.
    pub fn source_of(data: &[u8]) -> Option<Self> {
        data.get(6..)?.first_chunk().copied().map(Self)
    }

    /// Makes this the destination of a frame. `false`, and the frame as it was, if it is shorter than an
    /// Ethernet header.
    pub fn set_destination(self, data: &mut [u8]) -> bool {
        set(data, 0, self)
    }
}

impl From<[u8; 6]> for MacAddress {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

impl FromStr for MacAddress {
    type Err = Error;

    /// Six numbers of one or two hexadecimal digits, all separated by `:` or all by `-`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::MacAddress(text.to_owned());
        let separator = if text.contains(':') { ':' } else { '-' };
        let mut octets = [0; 6];
        let mut parts = text.split(separator);
        for octet in &mut octets {
            *octet = parts.next().and_then(hexadecimal).ok_or_else(wrong)?;
        }
        match parts.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(wrong()),
        }
    }
}

fn hexadecimal(part: &str) -> Option<u8> {
    let digits = matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An Ethernet address that frames may come from: no group's and not all zeros.
///
/// # Example
///
/// ```
/// use wirecap_headers::{MacAddress, SourceMac};
///
/// let mut frame = [0; 60];
/// let ours: SourceMac = "02:00:00:00:00:01".parse()?;
/// assert!(ours.set_source(&mut frame));
/// assert_eq!(MacAddress::source_of(&frame), Some(ours.address()));
/// assert!("ff:ff:ff:ff:ff:ff".parse::<SourceMac>().is_err());
/// # Ok::<(), wirecap_headers::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceMac(MacAddress);

impl SourceMac {
    /// The address.
    pub const fn address(self) -> MacAddress {
        self.0
    }

    /// Makes this the source of a frame. `false`, and the frame as it was, if it is shorter than an Ethernet
    /// header.
    pub fn set_source(self, data: &mut [u8]) -> bool {
        set(data, 6, self.0)
    }
}

impl TryFrom<MacAddress> for SourceMac {
    type Error = Error;

    fn try_from(address: MacAddress) -> Result<Self, Error> {
        if address.is_group() || address.0 == [0; 6] {
            let kind = if address.is_group() { "multicast" } else { "all zeros" };
            return Err(Error::NotASource { address: address.to_string(), kind });
        }
        Ok(Self(address))
    }
}

impl FromStr for SourceMac {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse::<MacAddress>()?.try_into()
    }
}

impl fmt::Display for SourceMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn set(data: &mut [u8], offset: usize, address: MacAddress) -> bool {
    let whole = data.len() >= crate::ETHERNET_LEN;
    if whole {
        data[offset..offset + 6].copy_from_slice(&address.0);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_both_notations_and_other_text_is_refused() {
        let expected = MacAddress([0x02, 0x0a, 0, 0, 0xff, 0x01]);
        for text in ["02:0a:00:00:ff:01", "2:A:0:0:FF:1", "02-0a-00-00-ff-01"] {
            assert_eq!(text.parse::<MacAddress>().unwrap(), expected, "{text}");
        }
        let wrong = [
            "",
            ":",
            "02:0a:00:00:ff",
            "02:0a:00:00:ff:01:02",
            "02:0a:00-00-ff-01",
            "020a0000ff01",
            "02:0a:00:00:ff:g1",
            "02:0a:00:00:ff:+1",
            "02:0a:00:00:ff:001",
            "02:0a:00:00:ff:",
            "02:0a:00:00:ff:é",
        ];
        for text in wrong {
            let error = text.parse::<MacAddress>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("02:00:00:00:00:01"), "{error}");
        }
    }

    #[test]
    fn groups_and_zeros_are_refused_as_a_source() {
        for text in ["01:00:5e:00:00:01", "33:33:00:00:00:01", "ff:ff:ff:ff:ff:ff", "0:0:0:0:0:0"] {
            let error = text.parse::<SourceMac>().unwrap_err();
            assert!(matches!(error, Error::NotASource { .. }), "{error}");
        }
        assert_eq!("fe:0:0:0:0:1".parse::<SourceMac>().unwrap().to_string(), "fe:00:00:00:00:01");
    }

    #[test]
    fn half_a_header_is_left_alone() {
        let mut half = [7; 13];
        let address = MacAddress([2, 0, 0, 0, 0, 1]);
        assert!(!address.set_destination(&mut half));
        assert!(!SourceMac(address).set_source(&mut half));
        assert_eq!(half, [7; 13]);
        assert_eq!(MacAddress::source_of(&half[..11]), None);
        assert_eq!(MacAddress::destination_of(&half[..5]), None);
    }
}
