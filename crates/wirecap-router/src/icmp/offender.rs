//! Which packets may be answered by an ICMP error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirecap_headers::{IpLayout, IpVersion, Layout, MacAddress, SourceMac, checksum};

use super::{ICMP_V4, ICMP_V6};

/// Offset of the outer VLAN tag, or of the EtherType.
const TAG_OFFSET: usize = 12;

/// Messages of ICMP that ask, answer or announce; all others are errors, or may be: echo (0, 8; RFC 792),
/// routers (9, 10; RFC 1256), time, information and address masks (13 to 18; RFC 792, RFC 950), extended echo
/// (42, 43; RFC 8335).
const V4_QUERIES: [u8; 12] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18, 42, 43];
/// From here on messages of ICMPv6 are no errors (RFC 4443, section 2.1).
const V6_FIRST_QUERY: u8 = 128;
/// A redirect is no error by its number, and is not answered either (RFC 4443, section 2.4, e.2).
const V6_REDIRECT: u8 = 137;

/// A packet that may be answered by an ICMP error.
///
/// # Example
///
/// ```
/// use wirecap_router::Offender;
///
/// let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
/// frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0xf6, 0xd5, 192, 0, 2, 1, 192, 0, 2, 2]);
/// let offender = Offender::of(&frame, frame.len()).unwrap();
/// assert_eq!(offender.sender(), std::net::IpAddr::from([192, 0, 2, 1]));
///
/// frame[0] = 0xff; // to all
/// assert!(Offender::of(&frame, frame.len()).is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Offender<'f> {
    /// The first part of the frame.
    frame: &'f [u8],
    layout: Layout,
    ip: IpLayout,
    /// Bytes of the packet from its IP header on, by its own account.
    len: usize,
    sender: IpAddr,
    destination: IpAddr,
    mac: SourceMac,
}

impl<'f> Offender<'f> {
    /// Checks whether a frame may be answered by an error; `frame` is its first part, `frame_len` the length
    /// of all.
    ///
    /// `None` for what is
    /// - not IP, truncated, or IPv4 with a wrong header checksum: what is damaged may have any sender;
    /// - to or from an Ethernet address of a group;
    /// - to or from an address that is not one host's: of this network (0.0.0.0/8, ::), loopback, multicast,
    ///   reserved (240.0.0.0/4, broadcast among them);
    /// - a fragment other than the first;
    /// - an ICMP error itself: each message of ICMP that is not known to ask, answer or announce, each of
    ///   ICMPv6 below 128, redirects, and messages of unknown type, because the packet is cut, or behind too
    ///   many extension headers.
    ///
    /// Not known here is the broadcast address of a network: callers that know networks check
    /// [`Offender::sender`] and [`Offender::destination`].
    pub fn of(frame: &'f [u8], frame_len: usize) -> Option<Self> {
        let layout = Layout::of(frame)?;
        let ip = *layout.ip()?;
        let mac = SourceMac::try_from(MacAddress::source_of(frame)?).ok()?;
        if MacAddress::destination_of(frame)?.is_group() {
            return None;
        }
        let end = ip.packet_end(frame).filter(|&end| end <= frame_len)?;
        let header = frame.get(ip.start()..ip.start() + ip.header_len())?;
        if ip.version() == IpVersion::V4 && checksum::sum(header) != 0xffff {
            return None;
        }
        let (sender, destination) = (ip.source(frame)?, ip.destination(frame)?);
        let may_be_answered =
            is_of_one_host(sender) && is_of_one_host(destination) && !may_be_error(&ip, frame);
        may_be_answered.then_some(Self { frame, layout, ip, len: end - ip.start(), sender, destination, mac })
    }

    /// Where the answer goes: the source address of the packet.
    pub fn sender(&self) -> IpAddr {
        self.sender
    }

    /// Where the packet was to go.
    pub fn destination(&self) -> IpAddr {
        self.destination
    }

    pub(super) fn version(&self) -> IpVersion {
        self.ip.version()
    }

    pub(crate) fn sender_mac(&self) -> MacAddress {
        self.mac.address()
    }

    /// What stands between the Ethernet addresses and the IP header.
    pub(super) fn tags_and_type(&self) -> &'f [u8] {
        self.frame.get(TAG_OFFSET..self.layout.network()).unwrap_or(&[])
    }

    /// The packet from its IP header on, `most` bytes at most, without what follows it in the frame.
    pub(super) fn quoted(&self, most: usize) -> &'f [u8] {
        let packet = self.frame.get(self.ip.start()..).unwrap_or(&[]);
        &packet[..packet.len().min(self.len).min(most)]
    }

    pub(super) fn is_longer_than(&self, mtu: u32) -> bool {
        self.len as u64 > u64::from(mtu)
    }

    /// Whether routers on the way may cut it into fragments: IPv4 that does not forbid it.
    pub(super) fn may_be_fragmented(&self) -> bool {
        const DONT_FRAGMENT: u16 = 0x4000;
        let flags = self.frame.get(self.ip.start() + 6..).and_then(<[u8]>::first_chunk);
        self.version() == IpVersion::V4
            && flags.is_some_and(|flags| u16::from_be_bytes(*flags) & DONT_FRAGMENT == 0)
    }
}

fn is_of_one_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_of_one_v4_host(v4),
        IpAddr::V6(v6) => is_of_one_v6_host(v6),
    }
}

fn is_of_one_v4_host(address: Ipv4Addr) -> bool {
    // From 224 on: multicast and reserved, the last of which is broadcast.
    !matches!(address.octets()[0], 0 | 127 | 224..)
}

fn is_of_one_v6_host(address: Ipv6Addr) -> bool {
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// Whether it is an ICMP error, or may be one.
fn may_be_error(ip: &IpLayout, frame: &[u8]) -> bool {
    let kind = ip.transport().and_then(|offset| frame.get(offset).copied());
    let is_later_fragment = ip.is_fragment() && kind.is_none();
    is_later_fragment
        || match (ip.version(), ip.protocol()) {
            (IpVersion::V4, ICMP_V4) => kind.is_none_or(|kind| !V4_QUERIES.contains(&kind)),
            (IpVersion::V6, ICMP_V6) => kind.is_none_or(|kind| kind < V6_FIRST_QUERY || kind == V6_REDIRECT),
            _ => ip.ends_in_extensions(),
        }
}
