//! What XDP can do on an interface, by the generic netlink family "netdev" (Linux 6.3 and newer).
//!
//! ```text
//!  CTRL_CMD_GETFAMILY "netdev" ──► family number
//!  NETDEV_CMD_DEV_GET ifindex  ──► xdp-features (bits), xdp-zc-max-segs, xdp-rx-metadata-features (bits)
//! ```
//!
//! The kernel keeps these bits up to date with the state of the device: a veth whose peer has more queues
//! than it could serve reports nothing. So they answer "what would work now", which is what a capture has to
//! know.

use std::collections::HashMap;

use libc::{CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL};
use netlink_packet_core::{parse_u16, parse_u32, parse_u64};
use netlink_sys::protocols::NETLINK_GENERIC;
use serde::Serialize;

use super::error::Result;
use super::netlink::{Conversation, Message, Scope, each_attribute, split_header};

// linux/netdev.h; not in libc.
const NETDEV_FAMILY: &[u8] = b"netdev\0";
const NETDEV_VERSION: u8 = 1;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;

/// Bytes of `struct genlmsghdr`: command u8, version u8, reserved u16.
const GENLMSGHDR_BYTES: usize = 4;

/// What XDP can do on an interface in its present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct XdpFeatures {
    /// Programs run in the driver, and may pass, drop and send back (`NETDEV_XDP_ACT_BASIC`).
    pub native: bool,
    /// Programs may redirect packets, into AF_XDP sockets too (`NETDEV_XDP_ACT_REDIRECT`).
    pub redirect: bool,
    /// AF_XDP sockets in zero-copy mode (`NETDEV_XDP_ACT_XSK_ZEROCOPY`).
    pub zero_copy: bool,
    /// Received packets may span several buffers (`NETDEV_XDP_ACT_RX_SG`): jumbo frames.
    pub multi_buffer: bool,
    /// Most buffers a packet may span in zero-copy mode; 1 is no multi-buffer. `None` without zero-copy, and
    /// on kernels older than 6.6.
    #[serde(skip)]
    pub zero_copy_max_segments: Option<u32>,
    /// What the driver hands XDP programs beside the packet. `None` ("unknown") on kernels older than 6.7.
    pub rx_metadata: Option<RxMetadata>,
}

/// What the driver hands an XDP program beside the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RxMetadata {
    /// The NIC's receive timestamp (`bpf_xdp_metadata_rx_timestamp`).
    pub timestamp: bool,
    /// The RSS hash and what it was computed over (`bpf_xdp_metadata_rx_hash`).
    pub hash: bool,
    /// The VLAN tag that the NIC took off the packet (`bpf_xdp_metadata_rx_vlan_tag`).
    pub vlan_tag: bool,
}

impl XdpFeatures {
    fn set_features(&mut self, bits: u64) {
        self.native = bits & 1 != 0;
        self.redirect = bits & 2 != 0;
        self.zero_copy = bits & 8 != 0;
        self.multi_buffer = bits & 32 != 0;
    }
}

impl RxMetadata {
    fn from_bits(bits: u64) -> Self {
        Self { timestamp: bits & 1 != 0, hash: bits & 2 != 0, vlan_tag: bits & 4 != 0 }
    }
}

/// A socket to the family "netdev", in the namespace of the thread that opened it.
pub(super) struct NetdevFamily {
    conversation: Conversation,
    /// The number the kernel gave the family; `None` where the kernel does not have it.
    number: Option<u16>,
}

impl NetdevFamily {
    /// Opens the socket and looks the family up. Needs no privilege.
    pub fn open() -> Result<Self> {
        const ACTION: &str = "looking up the netlink family \"netdev\"";
        let mut conversation = Conversation::open(NETLINK_GENERIC)?;
        let request = Message::new(GENL_ID_CTRL as u16, &[CTRL_CMD_GETFAMILY as u8, 1, 0, 0])
            .with(CTRL_ATTR_FAMILY_NAME as u16, NETDEV_FAMILY);
        let replies = match conversation.ask(ACTION, Scope::One, &request) {
            Err(error) if error.errno() == Some(libc::ENOENT) => Vec::new(),
            replies => replies?,
        };
        let mut number = None;
        for reply in &replies {
            let (_, attributes) = split_header::<GENLMSGHDR_BYTES>(ACTION, &reply.payload)?;
            each_attribute(ACTION, attributes, |kind, value| {
                if kind == CTRL_ATTR_FAMILY_ID as u16 {
                    number = Some(parse_u16(value)?);
                }
                Ok(())
            })?;
        }
        Ok(Self { conversation, number })
    }

    /// The features of all interfaces, by index; empty on kernels older than 6.3.
    pub fn all(&mut self) -> Result<HashMap<u32, XdpFeatures>> {
        self.ask("listing the XDP features", Scope::All, None)
    }

    /// The features of one interface; `None` on kernels older than 6.3, and if the interface is no longer
    /// there.
    pub fn one(&mut self, ifindex: u32) -> Result<Option<XdpFeatures>> {
        match self.ask("reading the XDP features", Scope::One, Some(ifindex)) {
            Err(error) if error.errno() == Some(libc::ENODEV) => Ok(None),
            answer => Ok(answer?.remove(&ifindex)),
        }
    }

    fn ask(&mut self, action: &str, scope: Scope, ifindex: Option<u32>) -> Result<HashMap<u32, XdpFeatures>> {
        let Some(number) = self.number else { return Ok(HashMap::new()) };
        let mut request = Message::new(number, &[NETDEV_CMD_DEV_GET, NETDEV_VERSION, 0, 0]);
        if let Some(ifindex) = ifindex {
            request = request.with(NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes());
        }
        let replies = self.conversation.ask(action, scope, &request)?;
        replies.iter().map(|reply| parse_device(action, &reply.payload)).collect()
    }
}

fn parse_device(action: &str, payload: &[u8]) -> Result<(u32, XdpFeatures)> {
    let (_, attributes) = split_header::<GENLMSGHDR_BYTES>(action, payload)?;
    let (mut ifindex, mut features) = (0, XdpFeatures::default());
    each_attribute(action, attributes, |kind, value| {
        match kind {
            NETDEV_A_DEV_IFINDEX => ifindex = parse_u32(value)?,
            NETDEV_A_DEV_XDP_FEATURES => features.set_features(parse_u64(value)?),
            NETDEV_A_DEV_XDP_ZC_MAX_SEGS => features.zero_copy_max_segments = Some(parse_u32(value)?),
            NETDEV_A_DEV_XDP_RX_METADATA_FEATURES => {
                features.rx_metadata = Some(RxMetadata::from_bits(parse_u64(value)?));
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((ifindex, features))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_message_is_read_field_by_field() {
        // Bits 1 (redirect) and 5 (several buffers) are off, all others on; of the metadata, the hash is off.
        let message = Message::new(0, &[NETDEV_CMD_DEV_GET, 1, 0, 0])
            .with(NETDEV_A_DEV_IFINDEX, &7_u32.to_ne_bytes())
            .with(NETDEV_A_DEV_XDP_FEATURES, &0b101_1101_u64.to_ne_bytes())
            .with(NETDEV_A_DEV_XDP_ZC_MAX_SEGS, &8_u32.to_ne_bytes())
            .with(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES, &0b101_u64.to_ne_bytes());
        let expected = XdpFeatures {
            native: true,
            redirect: false,
            zero_copy: true,
            multi_buffer: false,
            zero_copy_max_segments: Some(8),
            rx_metadata: Some(RxMetadata { timestamp: true, hash: false, vlan_tag: true }),
        };
        assert_eq!(parse_device("test", &message.payload).unwrap(), (7, expected));
    }

    #[test]
    fn a_number_of_the_wrong_width_is_an_error() {
        let message = Message::new(0, &[0; 4]).with(NETDEV_A_DEV_XDP_FEATURES, &[1, 0]);
        assert!(parse_device("test", &message.payload).is_err());
    }
}
