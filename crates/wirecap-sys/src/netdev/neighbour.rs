//! An entry of the kernel's table of neighbours.
//!
//! ```text
//!   ndmsg: family │ ifindex │ state │ flags │ type ─┬ NDA_DST ─┬ NDA_LLADDR ─┬ NDA_FLAGS_EXT …
//! ```

use std::net::IpAddr;

use libc::{
    AF_INET, AF_INET6, NDA_DST, NDA_LLADDR, NTF_EXT_LEARNED, NUD_DELAY, NUD_FAILED, NUD_INCOMPLETE,
    NUD_NOARP, NUD_PERMANENT, NUD_PROBE, NUD_REACHABLE, NUD_STALE,
};
use netlink_packet_core::{parse_ip, parse_u32};

use super::{
    MacAddress,
    error::Result,
    mac_address,
    netlink::{Message, each_attribute, split_header},
};

/// Length of `struct ndmsg`.
const HEADER_BYTES: usize = 12;
/// Flags that newer kernels keep apart (include/uapi/linux/neighbour.h; not in libc).
const NDA_FLAGS_EXT: u16 = 15;
/// Flag of an entry that is not to be moved (not in libc). One that a routing daemon or a switch has learned
/// has `NTF_EXT_LEARNED`.
const NTF_STICKY: u8 = 0x40;

/// What the kernel knows of an address on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface.
    pub ifindex: u32,
    /// Its IP address.
    pub address: IpAddr,
    /// Its Ethernet address, if the entry has one, right or not.
    pub mac: Option<MacAddress>,
    /// How sure the kernel is of it.
    pub state: NeighbourState,
    /// Whether the kernel keeps the entry right by asking. Entries of an administrator (permanent, without
    /// ARP) and of a routing daemon (learned elsewhere, managed) are theirs, and must not be touched.
    pub is_kernels_own: bool,
}

/// How sure the kernel is of a neighbour's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// The address has not been asked for.
    Idle,
    /// It is being asked for.
    Incomplete,
    /// It is right, as far as is known.
    Valid,
    /// It was right; the kernel verifies it when it is used.
    Stale,
    /// No answer came.
    Failed,
}

impl Neighbour {
    /// The Ethernet address, if packets may be sent to it: that of one host (RFC 1812, section 3.3.2).
    #[must_use]
    pub fn usable_mac(&self) -> Option<MacAddress> {
        let is_usable = matches!(self.state, NeighbourState::Valid | NeighbourState::Stale);
        self.mac.filter(|mac| is_usable && !mac.is_group())
    }

    /// That of a message RTM_NEWNEIGH or RTM_DELNEIGH. `None` if it is about something else, like an entry of
    /// a bridge.
    pub(super) fn read(action: &str, message: &Message) -> Result<Option<Self>> {
        let (header, attributes) = split_header::<HEADER_BYTES>(action, &message.payload)?;
        let family = i32::from(header[0]);
        if family != AF_INET && family != AF_INET6 {
            return Ok(None);
        }
        let [_, _, _, _, a, b, c, d, low, high, flags, _] = *header;
        let bits = u16::from_ne_bytes([low, high]);
        let (mut address, mut mac, mut extended) = (None, None, 0);
        each_attribute(action, attributes, |kind, value| {
            match kind {
                NDA_DST => address = Some(parse_ip(value)?),
                NDA_LLADDR => mac = mac_address(value),
                NDA_FLAGS_EXT => extended = parse_u32(value)?,
                _ => {}
            }
            Ok(())
        })?;
        let is_static = bits & (NUD_PERMANENT | NUD_NOARP) != 0;
        let is_learned = flags & (NTF_EXT_LEARNED | NTF_STICKY) != 0 || extended != 0;
        Ok(address.map(|address| Self {
            ifindex: u32::from_ne_bytes([a, b, c, d]),
            address,
            mac,
            state: NeighbourState::of(bits),
            is_kernels_own: !is_static && !is_learned,
        }))
    }

    /// A request about an entry, with these flags.
    pub(super) fn request(kind: u16, ifindex: u32, address: IpAddr, flags: u8) -> Message {
        let mut header = [0; HEADER_BYTES];
        header[0] = if address.is_ipv4() { AF_INET } else { AF_INET6 } as u8;
        header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        header[10] = flags;
        let message = Message::new(kind, &header);
        match address {
            IpAddr::V4(v4) => message.with(NDA_DST, &v4.octets()),
            IpAddr::V6(v6) => message.with(NDA_DST, &v6.octets()),
        }
    }
}

impl NeighbourState {
    fn of(bits: u16) -> Self {
        if bits & (NUD_REACHABLE | NUD_DELAY | NUD_PROBE | NUD_NOARP | NUD_PERMANENT) != 0 {
            Self::Valid
        } else if bits & NUD_STALE != 0 {
            Self::Stale
        } else if bits & NUD_INCOMPLETE != 0 {
            Self::Incomplete
        } else if bits & NUD_FAILED != 0 {
            Self::Failed
        } else {
            Self::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use libc::{AF_BRIDGE, RTM_NEWNEIGH};

    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    /// The neighbour read from an entry with this state, these flags and these extended flags.
    fn read(state: u16, flags: u8, extended: u32, mac: [u8; 6]) -> Neighbour {
        let mut message = Neighbour::request(RTM_NEWNEIGH, 7, [192, 0, 2, 1].into(), flags);
        message.payload[8..10].copy_from_slice(&state.to_ne_bytes());
        let message = message.with(NDA_LLADDR, &mac).with(NDA_FLAGS_EXT, &extended.to_ne_bytes());
        Neighbour::read("test", &message).unwrap().unwrap()
    }

    #[test]
    fn foreign_entries_are_distinguished_from_the_kernels_own() {
        for (state, flags, extended, is_kernels_own) in [
            (NUD_REACHABLE, 0, 0, true),
            (NUD_STALE, 0x80, 0, true),
            (NUD_FAILED, 0, 0, true),
            (NUD_PERMANENT, 0, 0, false),
            (NUD_NOARP, 0, 0, false),
            (NUD_STALE, NTF_EXT_LEARNED, 0, false),
            // Managed: the kernel keeps the entry valid by itself.
            (NUD_REACHABLE, 0, 1, false),
        ] {
            let neighbour = read(state, flags, extended, MAC);
            assert_eq!(neighbour.is_kernels_own, is_kernels_own, "{state:#x} {flags:#x} {extended:#x}");
            assert_eq!((neighbour.ifindex, neighbour.address), (7, [192, 0, 2, 1].into()));
        }
    }

    #[test]
    fn only_a_confirmed_unicast_address_is_used() {
        for (state, mac, usable) in [
            (NUD_REACHABLE, MAC, true),
            (NUD_STALE, MAC, true),
            (NUD_DELAY, MAC, true),
            (NUD_PROBE, MAC, true),
            (NUD_NOARP, MAC, true),
            (NUD_PERMANENT, MAC, true),
            (NUD_INCOMPLETE, MAC, false),
            (NUD_FAILED, MAC, false),
            (0, MAC, false),
            (NUD_NOARP, [0xff; 6], false),
            (NUD_REACHABLE, [1, 0, 0x5e, 0, 0, 1], false),
        ] {
            let neighbour = read(state, 0, 0, mac);
            assert_eq!(neighbour.usable_mac(), usable.then_some(MacAddress(mac)), "{state:#x} {mac:?}");
        }
    }

    #[test]
    fn an_entry_of_a_bridge_is_ignored_and_a_broken_one_is_an_error() {
        let mut message = Neighbour::request(RTM_NEWNEIGH, 7, [192, 0, 2, 1].into(), 0);
        message.payload[0] = AF_BRIDGE as u8;
        assert_eq!(Neighbour::read("test", &message).unwrap(), None);
        let message = Message::new(RTM_NEWNEIGH, &[AF_INET as u8; HEADER_BYTES]).with(NDA_DST, &[1, 2, 3]);
        assert!(Neighbour::read("test", &message).is_err());
        assert!(Neighbour::read("test", &Message::new(RTM_NEWNEIGH, &[0; 5])).is_err());
    }
}
