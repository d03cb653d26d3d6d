//! IPv4, and IPv6 with its extension headers.
//!
//! ```text
//!   IPv4 (RFC 791)                                 IPv6 (RFC 8200)
//!   0  version, length of the header in words      0   version
//!   2  total length                                4   length of all that follows
//!   6  flags and fragment offset                   6   next header ──► extensions: type of the next, length, …
//!   8  TTL      9  protocol     10 checksum        7   hop limit
//!   12 source   16 destination  20 options         8   source      24  destination      40 next header
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::protocol;
use crate::bytes::{array, word};

/// Most extension headers of IPv6 that are walked over. Behind more, the transport header is not found.
pub const MAX_EXTENSIONS: usize = 8;

const V4_HEADER_LEN: usize = 20;
const V6_HEADER_LEN: usize = 40;

/// Version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    pub(super) fn of_ether_type(ether_type: u16) -> Option<Self> {
        match ether_type {
            0x0800 => Some(Self::V4),
            0x86dd => Some(Self::V6),
            _ => None,
        }
    }

    fn of_header(data: &[u8]) -> Option<Self> {
        match data.first()? >> 4 {
            4 => Some(Self::V4),
            6 => Some(Self::V6),
            _ => None,
        }
    }
}

/// Where an IP header is, what it carries, and where that is.
///
/// INVARIANT: the header of `header_len` bytes at `start` is in the data it was made from, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpLayout {
    version: IpVersion,
    start: usize,
    header_len: usize,
    inner: Inner,
}

/// What is behind the header, extension headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inner {
    protocol: u8,
    fragment: bool,
    source_routed: bool,
    transport: Option<usize>,
}

impl IpLayout {
    /// That of a packet that begins with its IP header; `None` if it does not, or if not all of the header is
    /// there.
    ///
    /// # Example
    ///
    /// ```
    /// use wirecap_headers::IpLayout;
    ///
    /// let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    /// let ip = IpLayout::of(&packet).unwrap();
    /// assert_eq!((ip.protocol(), ip.destination(&packet)), (6, Some([192, 0, 2, 2].into())));
    /// assert!(IpLayout::of(&packet[..19]).is_none());
    /// ```
    pub fn of(packet: &[u8]) -> Option<Self> {
        Self::at(packet, 0, IpVersion::of_header(packet)?)
    }

    /// That of the header at `start`, which has to be of this version.
    pub(super) fn at(data: &[u8], start: usize, version: IpVersion) -> Option<Self> {
        let packet = data.get(start..)?;
        if IpVersion::of_header(packet)? != version {
            return None;
        }
        let header_len = match version {
            IpVersion::V4 => usize::from(packet[0] & 0x0f) * 4,
            IpVersion::V6 => V6_HEADER_LEN,
        };
        if header_len < V4_HEADER_LEN || packet.len() < header_len {
            return None;
        }
        let mut inner = match version {
            IpVersion::V4 => Inner::of_v4(packet, header_len)?,
            IpVersion::V6 => Inner::of_v6(packet)?,
        };
        inner.transport = inner.transport.map(|offset| start + offset);
        Some(Self { version, start, header_len, inner })
    }

    /// Its version.
    pub fn version(&self) -> IpVersion {
        self.version
    }

    /// Offset of the header.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Bytes of the header with options of IPv4, without extension headers of IPv6. All of them are there.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Offset of the TTL, or of the hop limit.
    pub fn ttl_offset(&self) -> usize {
        self.start
            + match self.version {
                IpVersion::V4 => 8,
                IpVersion::V6 => 7,
            }
    }

    /// The TTL or the hop limit. `None` only in data that is not that of this layout, as all that is read
    /// from `data`.
    pub fn ttl(&self, data: &[u8]) -> Option<u8> {
        data.get(self.ttl_offset()).copied()
    }

    /// The source address.
    pub fn source(&self, data: &[u8]) -> Option<IpAddr> {
        match self.version {
            IpVersion::V4 => v4_address(data, self.start + 12),
            IpVersion::V6 => v6_address(data, self.start + 8),
        }
    }

    /// The destination address, as the IP header says.
    pub fn destination(&self, data: &[u8]) -> Option<IpAddr> {
        match self.version {
            IpVersion::V4 => v4_address(data, self.start + 16),
            IpVersion::V6 => v6_address(data, self.start + 24),
        }
    }

    /// What the packet carries, behind the extension headers of IPv6 that could be walked over: protocol of
    /// IPv4, the last next header of IPv6.
    pub fn protocol(&self) -> u8 {
        self.inner.protocol
    }

    /// Offset of the transport header: behind the IP header and the extension headers of IPv6. `None` in a
    /// fragment other than the first, in IPv6 without any (next header 59), and where the data ends before
    /// it, or there are more than [`MAX_EXTENSIONS`]. The transport header may be cut short, but its first
    /// byte is there.
    pub fn transport(&self) -> Option<usize> {
        self.inner.transport
    }

    /// Whether the last header that was found is an IPv6 extension header, which hides what the packet
    /// carries: it is cut short, or the last of [`MAX_EXTENSIONS`] and more.
    pub fn ends_in_extensions(&self) -> bool {
        self.version == IpVersion::V6 && is_extension(self.inner.protocol)
    }

    /// Whether this is part of a packet, be it the first part.
    pub fn is_fragment(&self) -> bool {
        self.inner.fragment
    }

    /// Whether the packet has yet to go to addresses that are in a routing header of IPv6 or in options of
    /// IPv4. Then its destination is not the one that transport headers mean.
    pub(crate) fn is_source_routed(&self, data: &[u8]) -> bool {
        match self.version {
            IpVersion::V4 => has_source_route(self.v4_options(data)),
            IpVersion::V6 => self.inner.source_routed,
        }
    }

    /// Whether the packet is of IPv4 and names each router on its way (a strict source route, RFC 791,
    /// section 3.1).
    pub fn is_strictly_source_routed(&self, data: &[u8]) -> bool {
        self.version == IpVersion::V4
            && options(self.v4_options(data)).any(|(kind, _)| kind == STRICT_SOURCE_ROUTE)
    }

    /// The bytes of the options of an IPv4 header.
    fn v4_options<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        data.get(self.start + V4_HEADER_LEN..self.start + self.header_len).unwrap_or(&[])
    }

    /// Where the packet ends by its own account. `None` if the data ends before that, or if it ends before
    /// its header, as packets over 64 KiB that the kernel makes do (length 0).
    pub(crate) fn end(&self, data: &[u8]) -> Option<usize> {
        self.packet_end(data).filter(|&end| end <= data.len())
    }

    /// Offset at which the packet ends by its own account; `data` may be its first part only. `None` if the
    /// packet ends before its header, as those of IPv6 over 64 KiB do (length 0).
    pub fn packet_end(&self, data: &[u8]) -> Option<usize> {
        let end = self.claimed_end(data).filter(|&end| end >= self.start + self.header_len);
        // In IPv6, length 0 may stand for a packet of more than 64 KiB.
        end.filter(|&end| self.version == IpVersion::V4 || end > self.start + V6_HEADER_LEN)
    }

    /// Offset at which the header says that the packet ends, be it before the end of the header. `None` only
    /// in data that is not that of this layout.
    pub fn claimed_end(&self, data: &[u8]) -> Option<usize> {
        let len = match self.version {
            IpVersion::V4 => usize::from(word(data, self.start + 2)?),
            IpVersion::V6 => V6_HEADER_LEN + usize::from(word(data, self.start + 4)?),
        };
        Some(self.start + len)
    }
}

impl Inner {
    fn of_v4(packet: &[u8], header_len: usize) -> Option<Self> {
        let flags = word(packet, 6)?;
        let (more_fragments, offset) = (flags & 0x2000 != 0, flags & 0x1fff);
        let there = offset == 0 && packet.len() > header_len;
        Some(Self {
            protocol: *packet.get(9)?,
            fragment: more_fragments || offset != 0,
            source_routed: false,
            transport: there.then_some(header_len),
        })
    }

    fn of_v6(packet: &[u8]) -> Option<Self> {
        let mut inner =
            Self { protocol: *packet.get(6)?, fragment: false, source_routed: false, transport: None };
        let mut offset = V6_HEADER_LEN;
        for _ in 0..=MAX_EXTENSIONS {
            match inner.walk(packet, offset) {
                HeaderStep::Over(bytes) => offset += bytes,
                HeaderStep::Arrived => {
                    inner.transport = (offset < packet.len()).then_some(offset);
                    break;
                }
                HeaderStep::Ended => break,
            }
        }
        Some(inner)
    }

    /// Goes over the extension header at `offset`, if `protocol` is one.
    fn walk(&mut self, packet: &[u8], offset: usize) -> HeaderStep {
        let Some([next, len, high, low]) = array(packet, offset) else {
            return if is_extension(self.protocol) {
                HeaderStep::Ended
            } else {
                HeaderStep::arrived(self.protocol)
            };
        };
        let bytes = match self.protocol {
            protocol::FRAGMENT => 8,
            protocol::AUTHENTICATION => (usize::from(len) + 2) * 4,
            other if is_extension(other) => (usize::from(len) + 1) * 8,
            other => return HeaderStep::arrived(other),
        };
        if self.protocol == protocol::ROUTING && low != 0 {
            self.source_routed = true;
        }
        let fragment = u16::from_be_bytes([high, low]);
        let not_first = self.protocol == protocol::FRAGMENT && fragment >> 3 != 0;
        // A packet in one fragment is whole (RFC 6946).
        self.fragment |= self.protocol == protocol::FRAGMENT && fragment & 0xfff9 != 0;
        self.protocol = next;
        if not_first { HeaderStep::Ended } else { HeaderStep::Over(bytes) }
    }
}

/// What came of looking at a header behind that of IPv6.
enum HeaderStep {
    /// An extension header of this length in bytes.
    Over(usize),
    /// It is no extension header.
    Arrived,
    /// No transport header is there.
    Ended,
}

impl HeaderStep {
    fn arrived(protocol: u8) -> Self {
        if protocol == protocol::NOTHING { Self::Ended } else { Self::Arrived }
    }
}

/// Kinds of options of IPv4: loose and strict source route (RFC 791, section 3.1).
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;

/// Options of IPv4: the kind of each, and what stands behind that. What is cut short, or has an impossible
/// length, ends them.
fn options(mut rest: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        loop {
            let (&kind, behind) = rest.split_first()?;
            rest = match (kind, behind.first()) {
                (0, _) => return None,
                (1, _) => {
                    rest = behind;
                    continue;
                }
                (_, Some(&len)) if len >= 2 => rest.get(usize::from(len)..).unwrap_or(&[]),
                // The last one that can be looked at.
                _ => &[],
            };
            return Some((kind, behind));
        }
    })
}

/// Whether there is a loose or strict source route among options of IPv4 that is not used up: it points into
/// itself.
fn has_source_route(of_packet: &[u8]) -> bool {
    let route =
        options(of_packet).find(|(kind, _)| matches!(*kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE));
    route.is_some_and(|(_, behind)| matches!(behind, [len, pointer, ..] if pointer <= len))
}

/// Those with a next header and a length. Encrypted ones (ESP) have none, and are what is carried.
fn is_extension(protocol: u8) -> bool {
    use protocol::{AUTHENTICATION, DESTINATION, FRAGMENT, HIP, HOP_BY_HOP, MOBILITY, ROUTING, SHIM6};
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP | SHIM6
    )
}

fn v4_address(data: &[u8], offset: usize) -> Option<IpAddr> {
    array::<4>(data, offset).map(|octets| Ipv4Addr::from(octets).into())
}

fn v6_address(data: &[u8], offset: usize) -> Option<IpAddr> {
    array::<16>(data, offset).map(|octets| Ipv6Addr::from(octets).into())
}
