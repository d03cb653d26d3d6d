//! The checksum of IP, TCP and UDP: computed, brought up to date, written, verified.
//!
//! ```text
//!   bytes ── sum ──► 16 bits ── ! ──► checksum                        of: all bytes, 8 at a time
//!   checksum, old value, new value ── Change ──► checksum             update: what changed alone
//!   packet from the IP header on ── fill, verify                      IP header and transport header
//! ```
//!
//! It is the complement of the sum of 16-bit words, with carries added back ([RFC
//! 1071](https://www.rfc-editor.org/rfc/rfc1071)). A change of a covered word `m` to `m'` makes the checksum
//! `HC` into `HC' = ~(~HC + ~m + m')` ([RFC 1624](https://www.rfc-editor.org/rfc/rfc1624), equation 3), which
//! is what would have been computed anew, and, unlike that, leaves a checksum that is wrong wrong.
//!
//! All 16-bit values here are numbers as the packet means them: what stands in it big-endian.

mod packet;
mod pending;

use std::net::IpAddr;

pub use packet::{FilledChecksums, Verdict, fill, ipv4_header, transport, verify};
pub use pending::PendingChecksum;

/// The one's complement sum of bytes, the last padded with a zero if it is alone.
///
/// A checksum is its complement; over data that has its checksum in it, it is `0xffff`. It is 0 for nothing
/// but zeros. Eight bytes are added at a time: 1,500 take some 50 ns (`cargo bench -p wirecap-headers`).
///
/// # Example
///
/// The example of RFC 1071, section 3:
///
/// ```
/// assert_eq!(wirecap_headers::checksum::sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
/// ```
pub fn sum(bytes: &[u8]) -> u16 {
    // In the byte order of the machine, eight bytes at a time: the sum is that of the other order, swapped
    // (RFC 1071, section 2).
    let (mut total, mut other) = (0, 0);
    let mut rest = bytes;
    // Two sums, since each addition waits for the carry of the one before.
    while let Some((words, behind)) = rest.split_first_chunk::<16>() {
        let words = u128::from_ne_bytes(*words);
        total = add_u64(total, words as u64);
        other = add_u64(other, (words >> 64) as u64);
        rest = behind;
    }
    if let Some((words, behind)) = rest.split_first_chunk() {
        total = add_u64(total, u64::from_ne_bytes(*words));
        rest = behind;
    }
    if let Some((words, behind)) = rest.split_first_chunk() {
        other = add_u64(other, u32::from_ne_bytes(*words).into());
        rest = behind;
    }
    let last = match *rest {
        [a, b, c] => u64::from(u16::from_ne_bytes([a, b])) + u64::from(u16::from_ne_bytes([c, 0])),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a] => u16::from_ne_bytes([a, 0]).into(),
        _ => 0,
    };
    total = add_u64(add_u64(total, other), last);
    u16::from_be(fold(total))
}

/// The internet checksum of bytes: the complement of [`sum`].
///
/// # Example
///
/// ```
/// // An IPv4 header whose checksum field is zero, as it has to be while the checksum is computed.
/// let header = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
/// assert_eq!(wirecap_headers::checksum::of(&header), 0xf6d5);
/// ```
pub fn of(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// The sum of the pseudo header that TCP, UDP and ICMPv6 have covered by their checksum: addresses, protocol
/// and `len`, the bytes of transport header and what follows it (RFC 9293, section 3.1; RFC 768; RFC 8200,
/// section 8.1).
///
/// # Example
///
/// ```
/// use wirecap_headers::checksum;
///
/// let (source, destination) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
/// assert_eq!(checksum::pseudo_header(source, destination, 17, 8), 0x841d);
/// ```
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: u32) -> u16 {
    let rest = add(add((len >> 16) as u16, len as u16), u16::from(protocol));
    add(add(address_sum(source), address_sum(destination)), rest)
}

/// The checksum after one covered 16-bit word has changed (RFC 1624, equation 3). For more than one, and for
/// UDP, see [`Change`].
///
/// # Example
///
/// The example of RFC 1624, section 4:
///
/// ```
/// assert_eq!(wirecap_headers::checksum::update(0xdd2f, 0x5555, 0x3285), 0x0000);
/// ```
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Change::none().word(old, new).apply(checksum)
}

/// What a change of a packet does to every checksum that covers what was changed.
///
/// Collected once and applied to as many checksums as cover it: that of an address of IPv4 to those of the
/// header and of TCP. The result equals a new computation, except for data of zeros alone, which no IP packet
/// is.
///
/// # Example
///
/// ```
/// use wirecap_headers::checksum::Change;
///
/// // Port 80 becomes 8080, at 192.0.2.1, which becomes 198.51.100.1.
/// let address = Change::none().address([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
/// let (ipv4, tcp) = (0xf6d5, 0x1234);
/// let ipv4 = address.apply(ipv4);
/// let tcp = address.word(80, 8080).apply(tcp);
/// # assert_eq!((ipv4, tcp), (0x8ea2, 0x8ac0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Change {
    /// One's complement sum of all `~m + m'`.
    sum: u16,
}

impl Change {
    /// Nothing has changed yet.
    pub const fn none() -> Self {
        Self { sum: 0 }
    }

    /// And a 16-bit word, at an even offset from where the checksum begins to count.
    pub const fn word(self, old: u16, new: u16) -> Self {
        Self { sum: add(self.sum, add(!old, new)) }
    }

    /// And a 32-bit word, at an even offset.
    pub const fn double_word(self, old: u32, new: u32) -> Self {
        self.word((old >> 16) as u16, (new >> 16) as u16).word(old as u16, new as u16)
    }

    /// And an address, at an even offset as all addresses of IP are, or in the pseudo header. The two may be
    /// of different versions, as where IPv4 and IPv6 are translated into each other.
    pub fn address(self, old: IpAddr, new: IpAddr) -> Self {
        self.word(address_sum(old), address_sum(new))
    }

    /// And a range of bytes, `offset` bytes from where the checksum begins to count; only whether that is odd
    /// matters. Where one is shorter, zeros stand for what it lacks.
    pub fn bytes(self, offset: usize, old: &[u8], new: &[u8]) -> Self {
        let (old, new) = (sum(old), sum(new));
        match offset % 2 {
            0 => self.word(old, new),
            _ => self.word(old.swap_bytes(), new.swap_bytes()),
        }
    }

    /// The checksum `checksum` after the change.
    pub const fn apply(self, checksum: u16) -> u16 {
        !add(!checksum, self.sum)
    }

    /// The checksum of UDP after the change. 0 means "not computed" and stays 0; a sum of 0 is written as
    /// `0xffff` (RFC 768).
    ///
    /// # Example
    ///
    /// ```
    /// use wirecap_headers::checksum::Change;
    ///
    /// assert_eq!(Change::none().word(53, 5353).apply_udp(0), 0);
    /// assert_eq!(Change::none().word(0x5555, 0x3285).apply_udp(0xdd2f), 0xffff);
    /// ```
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        match checksum {
            0 => 0,
            there => never_zero(self.apply(there)),
        }
    }
}

/// What UDP sends where the checksum is 0.
const fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

fn address_sum(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    }
}

/// The sum of two sums.
const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    // After a carry the sum is 0xfffe at most.
    sum + carry as u16
}

const fn add_u64(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// A sum of sums, its carries added back.
#[inline]
const fn fold(sum: u64) -> u16 {
    let (high, low) = ((sum >> 32) as u32, sum as u32);
    let (sum, carry) = high.overflowing_add(low);
    let sum = sum + carry as u32;
    add((sum >> 16) as u16, sum as u16)
}

#[cfg(test)]
mod tests;
