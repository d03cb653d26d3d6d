//! Why a queue does not send.

use std::{fmt, io};

use nix::errno::Errno;
use wirecap_sys::netdev::LinkFault;

/// Why a queue takes no more frames.
#[derive(Debug)]
pub enum Obstacle {
    /// The interface is down, has no carrier, or is gone.
    Link(LinkFault),
    /// The kernel refuses frames for another reason.
    Refused(io::Error),
}

impl Obstacle {
    /// What an error of [`Lane::flush`](crate::Lane::flush) means for interface `ifindex`: the kernel refuses
    /// (ENETDOWN, ENXIO) before the news of the link arrive. Call it in the network namespace of the
    /// interface; a thread elsewhere sees no interface, and then the error alone decides.
    pub fn of(ifindex: u32, error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENETDOWN) => Self::Link(LinkFault::settled(ifindex).unwrap_or(LinkFault::Down)),
            Some(Errno::ENXIO) => Self::Link(LinkFault::Removed),
            _ => LinkFault::now(ifindex).map_or(Self::Refused(error), Self::Link),
        }
    }

    /// What helps against a fault of `interface`, ready to be appended to it; empty where nothing general can
    /// be said.
    pub fn remedy(fault: LinkFault, interface: &str) -> String {
        match fault {
            LinkFault::Down => format!("; bring it up: ip link set {interface} up"),
            LinkFault::NoCarrier => String::new(),
            LinkFault::Removed => ", or moved to another network namespace".into(),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(fault) => write!(f, "the interface {fault}"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has this index.
    const NO_INTERFACE: u32 = i32::MAX as u32;

    #[test]
    fn an_errno_of_the_link_is_a_fault_of_the_link() {
        let of = |errno: Errno| Obstacle::of(NO_INTERFACE, io::Error::from_raw_os_error(errno as i32));
        assert!(matches!(of(Errno::ENXIO), Obstacle::Link(LinkFault::Removed)));
        assert!(matches!(of(Errno::ENETDOWN), Obstacle::Link(_)));
        let loopback = Obstacle::of(1, io::Error::from_raw_os_error(Errno::ENOBUFS as i32));
        assert!(matches!(loopback, Obstacle::Refused(_)), "{loopback}");
    }

    #[test]
    fn a_link_that_is_down_has_a_remedy() {
        assert_eq!(Obstacle::remedy(LinkFault::Down, "x0"), "; bring it up: ip link set x0 up");
        assert_eq!(Obstacle::remedy(LinkFault::NoCarrier, "x0"), "");
    }
}
