//! Promiscuous mode that cannot outlive the capture.
//!
//! The flag that `ip link set promisc on` sets stays until someone clears it. A membership of a PACKET socket
//! is counted instead: the kernel takes it back when the socket closes, and it closes whatever becomes of the
//! process, a `kill -9` included. Several captures of one interface, and a flag the administrator set, do not
//! disturb each other.

use std::{io, os::fd::OwnedFd};

use super::error::{Error, Result};
use crate::{interface_name::interface_name, socket_option};

/// Keeps an interface in promiscuous mode as long as it lives.
#[derive(Debug)]
#[must_use = "promiscuous mode ends when this is dropped"]
pub struct PromiscuousMode {
    /// INVARIANT: holds a PACKET_MR_PROMISC membership of `ifindex`.
    _socket: OwnedFd,
    ifindex: u32,
}

impl PromiscuousMode {
    /// Puts the interface with index `ifindex` into promiscuous mode. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] without the capability, [`Error::NoSuchIndex`] if there is no such interface
    /// in the network namespace of the calling thread.
    pub fn enable(ifindex: u32) -> Result<Self> {
        let action = || format!("putting {} into promiscuous mode", described(ifindex));
        let Ok(signed_index) = i32::try_from(ifindex) else {
            return Err(Error::NoSuchIndex(ifindex));
        };
        // Protocol 0: the socket receives nothing, it only holds the membership.
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(libc::ENODEV) => Error::NoSuchIndex(ifindex),
            _ => Error::refused(action(), "CAP_NET_RAW", source),
        };
        let socket = socket_option::open(libc::AF_PACKET, libc::SOCK_RAW).map_err(failed)?;
        let membership = libc::packet_mreq {
            mr_ifindex: signed_index,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket_option::set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
            .map_err(failed)?;
        Ok(Self { _socket: socket, ifindex })
    }

    /// The index of the interface.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }
}

/// The name of an interface, or its index if it has none any more.
fn described(ifindex: u32) -> String {
    interface_name(ifindex).unwrap_or_else(|| format!("the interface with index {ifindex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_named_while_it_has_a_name() {
        assert_eq!(described(1), "lo");
        assert_eq!(described(999_999), "the interface with index 999999");
    }
}
