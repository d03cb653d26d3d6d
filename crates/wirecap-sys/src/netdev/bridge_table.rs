//! The Ethernet addresses that an interface takes besides its own: what `bridge fdb show dev NAME` lists as
//! `self`.
//!
//! ```text
//!   macvlan in a container ── its address ──► unicast list of the interface below ──► RTM_GETNEIGH of AF_BRIDGE
//! ```
//!
//! The kernel enters the address of each macvlan that is up, in whatever namespace it is; an administrator
//! may enter some, too.

use libc::{AF_BRIDGE, NDA_DST, NDA_LLADDR, NTF_SELF, RTM_GETNEIGH};

use super::error::Result;
use super::netlink::{Message, each_attribute, split_header};
use super::{MacAddress, link, mac_address};

const ACTION: &str = "reading the bridge table of an interface";
/// Length of `struct ndmsg`.
const HEADER_BYTES: usize = 12;

/// The unicast addresses in the table of the interface with index `ifindex`.
///
/// # Errors
/// As [`interfaces`](super::interfaces).
pub fn bridge_table(ifindex: u32) -> Result<Vec<MacAddress>> {
    let mut header = [0; HEADER_BYTES];
    header[0] = AF_BRIDGE as u8;
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    let mut addresses = Vec::new();
    link::open()?.strict()?.find(ACTION, &Message::new(RTM_GETNEIGH, &header), |reply| {
        addresses.extend(parse(&reply.payload, ifindex)?);
        Ok(None::<()>)
    })?;
    Ok(addresses)
}

/// `None` for what is no unicast address that the interface takes.
fn parse(payload: &[u8], ifindex: u32) -> Result<Option<MacAddress>> {
    let (header, attributes) = split_header::<HEADER_BYTES>(ACTION, payload)?;
    let of = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
    let (mut address, mut is_remote) = (None, false);
    each_attribute(ACTION, attributes, |kind, value| {
        match kind {
            NDA_LLADDR => address = mac_address(value),
            // A tunnel's table: this is where the other end is.
            NDA_DST => is_remote = true,
            _ => {}
        }
        Ok(())
    })?;
    let is_ours = of == ifindex && header[10] & NTF_SELF != 0 && !is_remote;
    Ok(address.filter(|MacAddress(octets)| is_ours && octets[0] & 1 == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unicast_addresses_of_the_interface_itself_are_listed() {
        let entry = |ifindex: u32, flags, address: [u8; 6]| {
            let mut header = [0; HEADER_BYTES];
            header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
            header[10] = flags;
            Message::new(0, &header).with(NDA_LLADDR, &address)
        };
        let parsed = |message: Message| parse(&message.payload, 7).unwrap();
        let macvlan = [2, 0, 0, 0, 0, 9];
        assert_eq!(parsed(entry(7, NTF_SELF, macvlan)), Some(MacAddress(macvlan)));
        assert_eq!(parsed(entry(8, NTF_SELF, macvlan)), None, "of another interface");
        assert_eq!(parsed(entry(7, 0, macvlan)), None, "learnt by a bridge");
        assert_eq!(parsed(entry(7, NTF_SELF, [0x33, 0x33, 0, 0, 0, 1])), None, "multicast");
        assert_eq!(parsed(entry(7, NTF_SELF, [0; 6])), None, "a tunnel's default");
        assert_eq!(
            parsed(entry(7, NTF_SELF, macvlan).with(NDA_DST, &[192, 0, 2, 1])),
            None,
            "a tunnel's peer"
        );
    }
}
