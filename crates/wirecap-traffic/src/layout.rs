//! The offsets of the fields of a frame, and the constants in its headers.

use wirecap_core::choices;

/// Bits of the flow number that go into the source address; the rest goes into the source port.
pub(crate) const HOST_BITS: u32 = 8;
/// Source port of the first 256 flows.
pub(crate) const PORT_FIRST: u16 = 1024;
pub(crate) const ETHERNET_LEN: usize = 14;
pub(crate) const VLAN_LEN: usize = 4;
pub(crate) const TYPE_VLAN: u16 = 0x8100;
pub(crate) const TYPE_IPV4: u16 = 0x0800;
pub(crate) const TYPE_IPV6: u16 = 0x86dd;
pub(crate) const PREFIX_V4: [u8; 3] = [198, 18, 0];
pub(crate) const PREFIX_V6: [u8; 4] = [0x20, 0x01, 0, 2];

choices! {
    /// Version of IP.
    pub enum IpVersion = V4 {
        /// IPv4.
        V4 = "4",
        /// IPv6.
        V6 = "6",
    }
}

choices! {
    /// Transport protocol.
    pub enum Transport = Udp {
        /// UDP.
        Udp = "udp",
        /// TCP: data segments, without a handshake.
        Tcp = "tcp",
    }
}

impl Transport {
    pub(crate) fn protocol(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Tcp => 6,
        }
    }

    pub(crate) fn checksum_at(self) -> usize {
        match self {
            Self::Udp => 6,
            Self::Tcp => 16,
        }
    }
}

/// Offsets of the fields of a frame, in bytes from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub ip: usize,
    /// The byte of the source address that varies.
    pub host: usize,
    pub transport: usize,
    pub payload: usize,
}

impl Layout {
    pub(crate) fn new(ip: IpVersion, transport: Transport, vlan: bool) -> Self {
        let start = ETHERNET_LEN + if vlan { VLAN_LEN } else { 0 };
        let (host, ip_header) = if ip == IpVersion::V4 { (15, 20) } else { (23, 40) };
        let transport_header = if transport == Transport::Udp { 8 } else { 20 };
        let above = start + ip_header;
        Self { ip: start, host: start + host, transport: above, payload: above + transport_header }
    }

    /// The layout of a frame with addresses of this crate.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let vlan = be16(frame, 12)? == TYPE_VLAN;
        let start = if vlan { ETHERNET_LEN + VLAN_LEN } else { ETHERNET_LEN };
        let (ip, prefix, source, protocol): (_, &[u8], _, _) = match be16(frame, start - 2)? {
            TYPE_IPV4 => (IpVersion::V4, &PREFIX_V4, start + 12, start + 9),
            TYPE_IPV6 => (IpVersion::V6, &PREFIX_V6, start + 8, start + 6),
            _ => return None,
        };
        let transport = [Transport::Udp, Transport::Tcp]
            .into_iter()
            .find(|transport| frame.get(protocol) == Some(&transport.protocol()))?;
        frame.get(source..)?.starts_with(prefix).then(|| Self::new(ip, transport, vlan))
    }
}

#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}
