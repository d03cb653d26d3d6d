//! Ethernet/IP/UDP or TCP frames with a flow, a sequence number and the time of sending.
//!
//! ```text
//!  0        12     14/18            34/38 or 54/58       +8 or +20              +18
//!  ├ MACs ──┼ VLAN? ┼ IPv4 or IPv6 ──┼ UDP or TCP ───────┼ marks ───────────────┼ filler …
//!             type    source address   source port        magic, run, sequence,
//!                     by flow          by flow            time                    (all numbers big-endian)
//! ```
//!
//! Rule: only the marked fields depend on flow, sequence and time, and checksums stay right:
//! - IPv4: the identification field is 255 minus the part of the address that varies, so the header checksum
//!   is a constant. The UDP checksum is zero, "not computed".
//! - IPv6, and TCP: the checksum is required (RFC 8200, section 8.1), and computed from the sum of the
//!   constant fields.
//!
//! Lengths are bytes given to the device, without the 4 bytes of FCS. The "64-byte frame" of the benchmarks
//! has length 60 here. Addresses are those reserved for benchmarks, 198.18.0.0/15 (RFC 2544) and 2001:2::/48
//! (RFC 5180).

use wirecap_headers::checksum;

use crate::{
    checksum::{fold, number_sum, transport_checksum},
    error::Error,
    layout::{
        HOST_BITS, IpVersion, Layout, PORT_FIRST, PREFIX_V4, PREFIX_V6, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN,
        Transport,
    },
    marks::{MAGIC, MARKS_LEN, Marks},
};

/// Shortest frame in bytes without FCS, the minimum of Ethernet.
pub const FRAME_LEN_MIN: usize = 60;
/// Longest frame in bytes without FCS: an MTU of 9,000 with Ethernet header and VLAN tag.
pub const FRAME_LEN_MAX: usize = 9018;
/// Bytes of the frame check sequence, which the device adds.
pub const FCS_LEN: usize = 4;
/// Most distinct flows: 256 source addresses with 64,512 source ports each.
pub const FLOWS_MAX: u32 = (65_536 - PORT_FIRST as u32) << HOST_BITS;

/// Destination port: discard.
const PORT_DISCARD: u16 = 9;

const VLAN_MAX: u16 = 4094;

const HOPS: u8 = 64;
/// A header of 20 bytes; ACK and PSH; the largest window.
const TCP_FLAGS: [u8; 4] = [0x50, 0x18, 0xff, 0xff];

/// Properties of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSpec {
    /// Length in bytes without FCS, Ethernet header included.
    pub len: usize,
    /// Version of IP.
    pub ip: IpVersion,
    /// UDP or TCP.
    pub transport: Transport,
    /// An 802.1Q tag with this VLAN number (0 to 4094).
    pub vlan: Option<u16>,
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
    /// Distinguishes the frames of this run from those of others.
    pub run: u16,
}

impl Default for FrameSpec {
    /// [`FrameSpec::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl FrameSpec {
    /// 60 bytes, IPv4, UDP, no VLAN, locally administered MAC addresses, run 0.
    pub const DEFAULT: Self = Self {
        len: FRAME_LEN_MIN,
        ip: IpVersion::V4,
        transport: Transport::Udp,
        vlan: None,
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        run: 0,
    };

    /// Shortest length that holds its headers and the marks, in bytes without FCS.
    pub fn len_min(&self) -> usize {
        (Layout::new(self.ip, self.transport, self.vlan.is_some()).payload + MARKS_LEN).max(FRAME_LEN_MIN)
    }

    /// Bytes before the IP header, which an MTU does not count.
    pub fn link_header_len(&self) -> usize {
        Layout::new(self.ip, self.transport, self.vlan.is_some()).ip
    }
}

/// A frame whose flow, sequence number and time can be set repeatedly without rebuilding it.
///
/// ```
/// use wirecap_traffic::{FrameSpec, Marks, Template};
///
/// let mut template = Template::new(FrameSpec { len: 1514, ..FrameSpec::default() })?;
/// let frame = template.stamp(7, 42);
/// assert_eq!(frame.len(), 1514);
/// assert_eq!(Marks::read(frame), Some(Marks { run: 0, flow: 7, sequence: 42, sent_ns: 0 }));
/// # Ok::<(), wirecap_traffic::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Template {
    spec: FrameSpec,
    pub(crate) layout: Layout,
    bytes: Vec<u8>,
    /// Sum of the constant words under the transport checksum, folded to 16 bits.
    pub(crate) constant_sum: u16,
}

impl Template {
    /// Builds a frame of flow 0 and sequence 0. Allocates its bytes, once.
    ///
    /// # Errors
    /// [`Error::FrameLen`] if the headers and marks do not fit (60 bytes for IPv4 and UDP; 12 more for TCP,
    /// 20 for IPv6, 4 for a VLAN tag) or above [`FRAME_LEN_MAX`]; [`Error::Vlan`].
    pub fn new(spec: FrameSpec) -> Result<Self, Error> {
        let layout = Layout::new(spec.ip, spec.transport, spec.vlan.is_some());
        let min = spec.len_min();
        if !(min..=FRAME_LEN_MAX).contains(&spec.len) {
            return Err(Error::FrameLen { len: spec.len, min, max: FRAME_LEN_MAX });
        }
        if let Some(vlan) = spec.vlan.filter(|&vlan| vlan > VLAN_MAX) {
            return Err(Error::Vlan(vlan));
        }
        let mut template = Self { spec, layout, bytes: vec![0; spec.len], constant_sum: 0 };
        template.write_ethernet();
        match spec.ip {
            IpVersion::V4 => template.write_ipv4(),
            IpVersion::V6 => template.write_ipv6(),
        }
        template.write_transport();
        template.put(layout.payload, &MAGIC.to_be_bytes());
        for (index, byte) in template.bytes[layout.payload + MARKS_LEN..].iter_mut().enumerate() {
            *byte = index as u8;
        }
        template.constant_sum = fold(template.blank_sum());
        template.stamp(0, 0);
        Ok(template)
    }

    /// Sets flow and sequence number, omits the time, and returns the frame. Costs a dozen stores.
    ///
    /// Flow numbers count modulo [`FLOWS_MAX`], sequence numbers modulo
    /// [`SEQUENCE_END`](crate::SEQUENCE_END).
    pub fn stamp(&mut self, flow: u32, sequence: u64) -> &[u8] {
        self.stamp_at(flow, sequence, 0)
    }

    /// Like [`Template::stamp`], with the time of sending.
    pub fn stamp_at(&mut self, flow: u32, sequence: u64, sent_ns: u64) -> &[u8] {
        let mut bytes = std::mem::take(&mut self.bytes);
        self.stamp_into(&mut bytes, flow, sequence, sent_ns);
        self.bytes = bytes;
        &self.bytes
    }

    /// Stamps a copy of [`Template::bytes`], or a first part that includes the marks.
    ///
    /// # Panics
    /// When the frame does not include the marks.
    #[inline]
    pub fn stamp_into(&self, frame: &mut [u8], flow: u32, sequence: u64, sent_ns: u64) {
        let Layout { ip, host: host_at, transport, payload } = self.layout;
        let frame = &mut frame[..payload + MARKS_LEN];
        let (host, port) = host_and_port(flow);
        let numbers = Marks::numbers(self.spec.run, sequence);
        if self.spec.ip == IpVersion::V4 {
            frame[ip + 5] = 255 - host;
        }
        frame[host_at] = host;
        put(frame, transport, port.to_be_bytes());
        put(frame, payload + 2, numbers.to_be_bytes());
        put(frame, payload + 10, sent_ns.to_be_bytes());
        let mut sum = u64::from(self.constant_sum) + u64::from(host) + u64::from(port);
        if self.spec.transport == Transport::Tcp {
            let position = (sequence as u32).wrapping_mul((self.spec.len - payload) as u32);
            put(frame, transport + 4, position.to_be_bytes());
            sum += u64::from(position);
        }
        if self.has_checksum() {
            sum += number_sum(numbers) + number_sum(sent_ns);
            put(frame, transport + self.spec.transport.checksum_at(), transport_checksum(sum).to_be_bytes());
        }
    }

    /// The frame as last stamped by [`Template::stamp`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The properties of the frame.
    pub fn spec(&self) -> &FrameSpec {
        &self.spec
    }

    fn has_checksum(&self) -> bool {
        self.spec.ip == IpVersion::V6 || self.spec.transport == Transport::Tcp
    }

    /// Sum of the words under the transport checksum, while the varying fields are zero.
    fn blank_sum(&self) -> u64 {
        let Layout { ip, transport, .. } = self.layout;
        let addresses = if self.spec.ip == IpVersion::V4 { ip + 12 } else { ip + 8 };
        let length = (self.bytes.len() - transport) as u64;
        u64::from(checksum::sum(&self.bytes[addresses..transport]))
            + length
            + u64::from(self.spec.transport.protocol())
            + u64::from(checksum::sum(&self.bytes[transport..]))
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
        self.put(ip + 8, &[HOPS, self.spec.transport.protocol()]);
        self.put(ip + 12, &PREFIX_V4);
        self.put(ip + 16, &[198, 19, 0, 1]);
        let checksum = checksum::ipv4_header(&self.bytes[ip..ip + 20]);
        self.put(ip + 10, &checksum.to_be_bytes());
    }

    fn write_ipv6(&mut self) {
        let ip = self.layout.ip;
        let length = (self.bytes.len() - self.layout.transport) as u16;
        self.bytes[ip] = 0x60;
        self.put(ip + 4, &length.to_be_bytes());
        self.put(ip + 6, &[self.spec.transport.protocol(), HOPS]);
        self.put(ip + 8, &PREFIX_V6);
        self.put(ip + 24, &[0x20, 0x01, 0, 2, 0, 0, 0, 1]);
        self.bytes[ip + 39] = 1;
    }

    fn write_transport(&mut self) {
        let at = self.layout.transport;
        self.put(at + 2, &PORT_DISCARD.to_be_bytes());
        match self.spec.transport {
            Transport::Udp => {
                let length = (self.bytes.len() - at) as u16;
                self.put(at + 4, &length.to_be_bytes());
            }
            Transport::Tcp => {
                self.put(at + 8, &1u32.to_be_bytes());
                self.put(at + 12, &TCP_FLAGS);
            }
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

#[inline]
fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) {
    frame[at..at + N].copy_from_slice(&bytes);
}

/// The last byte of the source address, which varies, and the source port of a flow.
#[inline]
fn host_and_port(flow: u32) -> (u8, u16) {
    let flow = flow % FLOWS_MAX;
    (flow as u8, PORT_FIRST + (flow >> HOST_BITS) as u16)
}

#[cfg(test)]
mod tests;
