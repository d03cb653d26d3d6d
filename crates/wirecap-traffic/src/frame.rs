//! Ethernet/IP/UDP frames that carry a flow number and a sequence number.
//!
//! ```text
//!  0        12     14/18            34/38 or 54/58   +8 payload     +8         +12
//!  ├ MACs ──┼ VLAN? ┼ IPv4 or IPv6 ──┼ UDP ──────────┼ sequence ────┼ flow ─────┼ filler …
//!             type    source address   source port      u64           u32         (all numbers big-endian)
//!                     by flow          by flow
//! ```
//!
//! **The rule that holds here:** only the marked fields depend on flow and sequence, and checksums stay right:
//! - IPv4: the identification field is 255 minus the part of the address that varies, so the header checksum is a
//!   constant. The UDP checksum is zero, "not computed".
//! - IPv6: the UDP checksum is computed, as it has to be (RFC 8200, section 8.1).
//!
//! Lengths are bytes given to the device: without the 4 bytes of FCS. The "64-byte frame" of the benchmarks is 60 here.
//! Addresses are those reserved for benchmarks, 198.18.0.0/15 (RFC 2544) and 2001:2::/48 (RFC 5180).

use crate::error::Error;

/// Shortest frame in bytes without FCS, the minimum of Ethernet.
pub const FRAME_LEN_MIN: usize = 60;
/// Longest frame in bytes without FCS: an MTU of 9,000 with Ethernet header and VLAN tag.
pub const FRAME_LEN_MAX: usize = 9018;
/// Most flows that can be told apart: 256 source addresses with 64,512 source ports each.
pub const FLOWS_MAX: u32 = (65_536 - PORT_FIRST as u32) << HOST_BITS;

/// Bits of the flow number that go into the source address; the rest goes into the source port.
pub(crate) const HOST_BITS: u32 = 8;
/// Source port of the first 256 flows.
pub(crate) const PORT_FIRST: u16 = 1024;
/// Destination port: discard.
const PORT_DISCARD: u16 = 9;

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const UDP_LEN: usize = 8;
const MARKS_LEN: usize = 12;
const VLAN_MAX: u16 = 4094;

const TYPE_VLAN: u16 = 0x8100;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const PROTOCOL_UDP: u8 = 17;
const HOPS: u8 = 64;

/// Version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IpVersion {
    /// IPv4, a header of 20 bytes.
    #[default]
    V4,
    /// IPv6, a header of 40 bytes.
    V6,
}

impl IpVersion {
    fn header_len(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

/// What frames shall be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSpec {
    /// Length in bytes without FCS, Ethernet header included.
    pub len: usize,
    /// Version of IP.
    pub ip: IpVersion,
    /// An 802.1Q tag with this VLAN number (0 to 4094).
    pub vlan: Option<u16>,
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
}

impl Default for FrameSpec {
    /// 60 bytes, IPv4, no VLAN, locally administered MAC addresses.
    fn default() -> Self {
        Self {
            len: FRAME_LEN_MIN,
            ip: IpVersion::V4,
            vlan: None,
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
        }
    }
}

/// Where the fields of a frame are, in bytes from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub ip: usize,
    pub udp: usize,
    pub payload: usize,
}

impl Layout {
    pub(crate) fn new(ip: IpVersion, vlan: bool) -> Self {
        let start = ETHERNET_LEN + if vlan { VLAN_LEN } else { 0 };
        let udp = start + ip.header_len();
        Self { ip: start, udp, payload: udp + UDP_LEN }
    }

    /// End of the fields that vary.
    pub(crate) fn marks_end(&self) -> usize {
        self.payload + MARKS_LEN
    }
}

/// A frame whose flow and sequence numbers can be set again and again without building it anew.
///
/// ```
/// use wirecap_traffic::{FrameSpec, Marks, Template};
///
/// let mut template = Template::new(FrameSpec { len: 1514, ..FrameSpec::default() })?;
/// let frame = template.stamp(7, 42);
/// assert_eq!(frame.len(), 1514);
/// assert_eq!(Marks::read(frame), Some(Marks { flow: 7, sequence: 42 }));
/// # Ok::<(), wirecap_traffic::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Template {
    spec: FrameSpec,
    layout: Layout,
    bytes: Vec<u8>,
}

impl Template {
    /// Builds a frame of flow 0 and sequence 0. Allocates its bytes, once.
    ///
    /// # Errors
    /// [`Error::FrameLen`] if the headers and marks do not fit (74 bytes for IPv6, 4 more with VLAN) or above
    /// [`FRAME_LEN_MAX`]; [`Error::Vlan`].
    pub fn new(spec: FrameSpec) -> Result<Self, Error> {
        let layout = Layout::new(spec.ip, spec.vlan.is_some());
        let min = layout.marks_end().max(FRAME_LEN_MIN);
        if !(min..=FRAME_LEN_MAX).contains(&spec.len) {
            return Err(Error::FrameLen { len: spec.len, min, max: FRAME_LEN_MAX });
        }
        if let Some(vlan) = spec.vlan.filter(|&vlan| vlan > VLAN_MAX) {
            return Err(Error::Vlan { vlan });
        }
        let mut template = Self { spec, layout, bytes: vec![0; spec.len] };
        template.write_ethernet();
        match spec.ip {
            IpVersion::V4 => template.write_ipv4(),
            IpVersion::V6 => template.write_ipv6(),
        }
        template.write_udp();
        for (index, byte) in template.bytes[layout.marks_end()..].iter_mut().enumerate() {
            *byte = index as u8;
        }
        template.stamp(0, 0);
        Ok(template)
    }

    /// Sets flow and sequence number and gives the frame. Costs a dozen stores; IPv6 also a checksum over the payload.
    ///
    /// Flow numbers count modulo [`FLOWS_MAX`] for address and port.
    pub fn stamp(&mut self, flow: u32, sequence: u64) -> &[u8] {
        let Layout { ip, udp, payload } = self.layout;
        let (host, port) = host_and_port(flow);
        match self.spec.ip {
            IpVersion::V4 => {
                self.bytes[ip + 5] = 255 - host;
                self.bytes[ip + 15] = host;
            }
            IpVersion::V6 => self.bytes[ip + 23] = host,
        }
        self.put(udp, &port.to_be_bytes());
        self.put(payload, &sequence.to_be_bytes());
        self.put(payload + 8, &flow.to_be_bytes());
        if self.spec.ip == IpVersion::V6 {
            let checksum = udp_checksum(self.udp_v6_sum());
            self.put(udp + 6, &checksum.to_be_bytes());
        }
        &self.bytes
    }

    /// The frame as it was stamped last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it was built from.
    pub fn spec(&self) -> &FrameSpec {
        &self.spec
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Sum of the words the UDP checksum of an IPv6 frame is over, with a checksum field of zero.
    fn udp_v6_sum(&self) -> u64 {
        let Layout { ip, udp, .. } = self.layout;
        let length = self.bytes.len() - udp;
        let pseudo_header = word_sum(&self.bytes[ip + 8..udp]) + length as u64 + u64::from(PROTOCOL_UDP);
        pseudo_header + word_sum(&self.bytes[udp..udp + 6]) + word_sum(&self.bytes[udp + UDP_LEN..])
    }

    /// The part of [`Self::udp_v6_sum`] that does not depend on flow and sequence, folded to 16 bits.
    pub(crate) fn udp_v6_constant(&self) -> u16 {
        let mut blank = self.clone();
        let Layout { ip, udp, payload } = self.layout;
        blank.bytes[ip + 23] = 0;
        blank.put(udp, &[0; 2]);
        blank.put(payload, &[0; MARKS_LEN]);
        fold(blank.udp_v6_sum())
    }

    fn write_ethernet(&mut self) {
        let FrameSpec { destination_mac, source_mac, vlan, ip, .. } = self.spec;
        self.put(0, &destination_mac);
        self.put(6, &source_mac);
        if let Some(vlan) = vlan {
            self.put(12, &TYPE_VLAN.to_be_bytes());
            self.put(14, &vlan.to_be_bytes());
        }
        let ethertype = if ip == IpVersion::V4 { TYPE_IPV4 } else { TYPE_IPV6 };
        self.put(self.layout.ip - 2, &ethertype.to_be_bytes());
    }

    fn write_ipv4(&mut self) {
        let ip = self.layout.ip;
        let length = (self.bytes.len() - ip) as u16;
        self.bytes[ip] = 0x45;
        self.put(ip + 2, &length.to_be_bytes());
        self.put(ip + 4, &255u16.to_be_bytes());
        self.put(ip + 8, &[HOPS, PROTOCOL_UDP]);
        self.put(ip + 12, &[198, 18, 0, 0]);
        self.put(ip + 16, &[198, 19, 0, 1]);
        let checksum = internet_checksum(&self.bytes[ip..ip + 20]);
        self.put(ip + 10, &checksum.to_be_bytes());
    }

    fn write_ipv6(&mut self) {
        let ip = self.layout.ip;
        let length = (self.bytes.len() - self.layout.udp) as u16;
        self.bytes[ip] = 0x60;
        self.put(ip + 4, &length.to_be_bytes());
        self.put(ip + 6, &[PROTOCOL_UDP, HOPS]);
        self.put(ip + 8, &[0x20, 0x01, 0, 2]);
        self.put(ip + 24, &[0x20, 0x01, 0, 2, 0, 0, 0, 1]);
        self.bytes[ip + 39] = 1;
    }

    fn write_udp(&mut self) {
        let udp = self.layout.udp;
        let length = (self.bytes.len() - udp) as u16;
        self.put(udp + 2, &PORT_DISCARD.to_be_bytes());
        self.put(udp + 4, &length.to_be_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// What tells one frame from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marks {
    /// Number of its flow, which also is in its source address and port.
    pub flow: u32,
    /// Its sequence number over all flows.
    pub sequence: u64,
}

impl Marks {
    /// Reads the marks of a frame made by this crate, of which the first 90 bytes are enough; `None` if it is another
    /// kind of frame: other protocols, other addresses, or a flow number that does not fit its source address and port.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let vlan = be16(frame, 12)? == TYPE_VLAN;
        let ethertype = be16(frame, if vlan { 16 } else { 12 })?;
        let (ip, prefix, host_at): (_, &[u8], _) = match ethertype {
            TYPE_IPV4 => (IpVersion::V4, &[198, 18, 0], 15),
            TYPE_IPV6 => (IpVersion::V6, &[0x20, 0x01, 0, 2], 23),
            _ => return None,
        };
        let layout = Layout::new(ip, vlan);
        let source_at = layout.ip + if ip == IpVersion::V4 { 12 } else { 8 };
        let marks = frame.get(layout.payload..layout.marks_end())?;
        let sequence = u64::from_be_bytes(marks[..8].try_into().ok()?);
        let flow = u32::from_be_bytes(marks[8..].try_into().ok()?);
        let from = (frame[layout.ip + host_at], be16(frame, layout.udp)?);
        (frame[source_at..].starts_with(prefix) && from == host_and_port(flow))
            .then_some(Self { flow, sequence })
    }
}

/// The internet checksum (RFC 1071) of `bytes`; over a header that includes its checksum it is 0 if that is right.
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    !fold(word_sum(bytes))
}

/// Last byte of the source address, and the source port, of a flow.
fn host_and_port(flow: u32) -> (u8, u16) {
    let flow = flow % FLOWS_MAX;
    (flow as u8, PORT_FIRST + (flow >> HOST_BITS) as u16)
}

/// Sum of the big-endian 16-bit words; a last odd byte counts as a high one.
fn word_sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks_exact(2);
    let odd = pairs.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    pairs.fold(odd, |sum, pair| sum + u64::from(u16::from_be_bytes([pair[0], pair[1]])))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of a sum; a result of zero is sent as 0xffff, as zero means "none".
fn udp_checksum(sum: u64) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
