//! The checksums of a whole packet, from the IP header on.
//!
//! ```text
//!   IPv4 header ──────┼ TCP, UDP, ICMP, and what they carry ──┤ padding
//!   its own checksum    covers up to the length in the header   not covered
//! ```
//!
//! Rule: a transport checksum is looked at only if all it covers is there. It is not in a fragment, in a
//! packet cut short, or in one whose lengths contradict each other.

use std::net::IpAddr;

use super::{add, never_zero, pseudo_header, sum};
use crate::{
    bytes::{set_word, word},
    layout::{IpLayout, IpVersion, protocol},
};

/// What [`fill`] has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FilledChecksums {
    /// All checksums that the packet has.
    All,
    /// That of the IPv4 header, if it is IPv4. That of the transport header is as it was: the packet is a
    /// fragment, cut short or contradicts itself, its protocol is not TCP, UDP, ICMP or ICMPv6, or the
    /// address that counts is in a routing header or option.
    HeaderOnly,
    /// Nothing, it is no packet of IP.
    Nothing,
}

/// What [`verify`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// All checksums that the packet has are right.
    Right,
    /// That of the IPv4 header is right, or it is IPv6. There is no other, or it cannot be checked: see
    /// [`FilledChecksums::HeaderOnly`]. Also UDP over IPv4 that has none (RFC 768).
    Unverifiable,
    /// One of them is wrong. Also UDP over IPv6 that has none, which only tunnels may send (RFC 8200, section
    /// 8.1; RFC 6935).
    Wrong,
    /// It is no packet of IP.
    NotIp,
}

/// The checksum of an IPv4 header, whatever its checksum field says: 20 bytes or more, with options (RFC
/// 791).
///
/// # Example
///
/// ```
/// let header = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0xba, 0xad, 192, 0, 2, 1, 192, 0, 2, 2];
/// assert_eq!(wirecap_headers::checksum::ipv4_header(&header), 0xf6d5);
/// ```
pub fn ipv4_header(header: &[u8]) -> u16 {
    !sum_without(header, IPV4_CHECKSUM)
}

/// The checksum of TCP, UDP, ICMP or ICMPv6 over IPv4 or IPv6, whatever the checksum field of `segment` says:
/// the transport header and all that follows it. UDP's is never 0.
///
/// `None` for other protocols, for a segment too short for its checksum field, and if source and destination
/// are of different versions.
///
/// # Example
///
/// ```
/// use wirecap_headers::checksum;
///
/// let udp = [0xc0, 0x00, 0x00, 0x35, 0x00, 0x08, 0, 0];
/// let checksum = checksum::transport([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), 17, &udp);
/// assert_eq!(checksum, Some(0xbba4));
/// ```
pub fn transport(source: IpAddr, destination: IpAddr, protocol: u8, segment: &[u8]) -> Option<u16> {
    if source.is_ipv4() != destination.is_ipv4() {
        return None;
    }
    let version = if source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    let field = field_of(version, protocol)?;
    if segment.len() < field + 2 {
        return None;
    }
    let len = u32::try_from(segment.len()).ok()?;
    let pseudo = match protocol {
        protocol::ICMP => 0,
        _ => pseudo_header(source, destination, protocol, len),
    };
    let checksum = !add(pseudo, sum_without(segment, field));
    Some(if protocol == protocol::UDP { never_zero(checksum) } else { checksum })
}

/// Writes the checksums of a packet, which begins with its IP header: that of the header, and that of TCP,
/// UDP, ICMP or ICMPv6. UDP that had none has one afterwards. What follows the packet, as the padding of
/// Ethernet, is not looked at.
///
/// # Example
///
/// ```
/// use wirecap_headers::checksum::{self, FilledChecksums, Verdict};
///
/// let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
/// packet.extend([0xc0, 0x00, 0x00, 0x35, 0x00, 0x08, 0, 0]);
/// assert_eq!(checksum::fill(&mut packet), FilledChecksums::All);
/// assert_eq!(packet[26..], [0xbb, 0xa4]);
/// assert_eq!(checksum::verify(&packet), Verdict::Right);
/// ```
pub fn fill(packet: &mut [u8]) -> FilledChecksums {
    let Some(ip) = IpLayout::of(packet) else { return FilledChecksums::Nothing };
    if ip.version() == IpVersion::V4 {
        let checksum = ipv4_header(&packet[..ip.header_len()]);
        let _ = set_word(packet, IPV4_CHECKSUM, checksum);
    }
    match Segment::of(packet, &ip).and_then(|segment| set_word(packet, segment.field, segment.expected)) {
        Some(()) => FilledChecksums::All,
        None => FilledChecksums::HeaderOnly,
    }
}

/// Looks whether the checksums of a packet, which begins with its IP header, are right.
///
/// # Example
///
/// ```
/// use wirecap_headers::checksum::{self, Verdict};
///
/// let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0xf6, 0xd7, 192, 0, 2, 1, 192, 0, 2, 2];
/// assert_eq!(checksum::verify(&packet), Verdict::Wrong);
/// assert_eq!(checksum::verify(b"no packet"), Verdict::NotIp);
/// ```
pub fn verify(packet: &[u8]) -> Verdict {
    let Some(ip) = IpLayout::of(packet) else { return Verdict::NotIp };
    if ip.version() == IpVersion::V4 && sum(&packet[..ip.header_len()]) != 0xffff {
        return Verdict::Wrong;
    }
    let Some(segment) = Segment::of(packet, &ip) else { return Verdict::Unverifiable };
    match word(packet, segment.field) {
        Some(0) if ip.protocol() == protocol::UDP && ip.version() == IpVersion::V4 => Verdict::Unverifiable,
        Some(found) if same(found, segment.expected, ip.protocol()) => Verdict::Right,
        _ => Verdict::Wrong,
    }
}

/// 0 and `0xffff` are two forms of the same sum, and some senders of TCP write the other one. To UDP, 0 is no
/// checksum.
fn same(found: u16, expected: u16, protocol: u8) -> bool {
    found == expected || (protocol != protocol::UDP && found == 0xffff && expected == 0)
}

/// Offset of the checksum in the IPv4 header.
const IPV4_CHECKSUM: usize = 10;

/// The checksum of a transport header in a packet.
struct Segment {
    /// Where it stands in the packet.
    field: usize,
    /// What it should be.
    expected: u16,
}

impl Segment {
    /// `None` unless all that it covers is there.
    fn of(packet: &[u8], ip: &IpLayout) -> Option<Self> {
        if ip.is_fragment() || ip.is_source_routed(packet) {
            return None;
        }
        let start = ip.transport()?;
        let mut segment = packet.get(start..ip.end(packet)?)?;
        if ip.protocol() == protocol::UDP {
            let len = usize::from(word(segment, UDP_LEN)?);
            segment = segment.get(..len).filter(|_| len >= UDP_HEADER_LEN)?;
        }
        let expected = transport(ip.source(packet)?, ip.destination(packet)?, ip.protocol(), segment)?;
        Some(Self { field: start + field_of(ip.version(), ip.protocol())?, expected })
    }
}

/// Offset of the length in the UDP header.
const UDP_LEN: usize = 4;
const UDP_HEADER_LEN: usize = 8;

/// Offset of the checksum in the transport header.
pub(super) fn field_of(version: IpVersion, protocol: u8) -> Option<usize> {
    match (protocol, version) {
        (protocol::TCP, _) => Some(16),
        (protocol::UDP, _) => Some(6),
        (protocol::ICMP, IpVersion::V4) | (protocol::ICMP_V6, IpVersion::V6) => Some(2),
        _ => None,
    }
}

/// The sum of all but the word at `offset`, which is even.
fn sum_without(bytes: &[u8], offset: usize) -> u16 {
    let (before, rest) = bytes.split_at(offset.min(bytes.len()));
    add(sum(before), sum(rest.get(2..).unwrap_or(&[])))
}
