//! The bytes of a packet that are hashed.
//!
//! ```text
//!   source address │ destination address │ source port │ destination port          8 or 32 bytes, and 4
//! ```

use wirecap_core::choices;
use wirecap_headers::{IpLayout, IpVersion};

/// Addresses and ports of IPv6.
pub(super) const MAX_INPUT: usize = 36;

const TCP: u8 = 6;
const UDP: u8 = 17;

choices! {
    /// What of a packet is hashed. Fragments are always hashed by their addresses, since later ones have no
    /// ports.
    pub enum HashFields = Ports {
        /// Addresses, and the ports of TCP and UDP.
        Ports = "ports",
        /// Addresses, and the ports of TCP only, as Intel's drivers do by default.
        TcpPorts = "tcp-ports",
        /// Addresses only.
        Addresses = "addresses",
    }
}

/// What is hashed of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashInput {
    bytes: [u8; MAX_INPUT],
    len: usize,
}

impl HashInput {
    /// Of a packet with this IP header. `None` only if the header is that of other data.
    pub(super) fn of(packet: &[u8], ip: &IpLayout, fields: HashFields) -> Option<Self> {
        // Source and destination are neighbours in both versions.
        let (at, len) = match ip.version() {
            IpVersion::V4 => (ip.start() + 12, 8),
            IpVersion::V6 => (ip.start() + 8, 32),
        };
        let mut input = Self { bytes: [0; MAX_INPUT], len };
        input.bytes[..len].copy_from_slice(packet.get(at..at + len)?);
        let has_ports = match fields {
            HashFields::Ports => matches!(ip.protocol(), TCP | UDP),
            HashFields::TcpPorts => ip.protocol() == TCP,
            HashFields::Addresses => false,
        };
        let ports = ip.transport().filter(|_| has_ports && !ip.is_fragment());
        // A NIC sees whole packets; ports that a trace has cut off are as good as none.
        if let Some(ports) = ports.and_then(|at| packet.get(at..at + 4)) {
            input.bytes[len..len + 4].copy_from_slice(ports);
            input.len += 4;
        }
        Some(input)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
