//! Errors of sending.

use std::io;

use nix::errno::Errno;
use wirecap_sys::{
    netdev::{self, Interface, LinkFault},
    xsk::XskError,
};

/// Why frames cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A transmit queue cannot be opened.
    #[error("cannot send from queue {queue} of {interface}: {source}")]
    Open {
        /// Name of the interface.
        interface: String,
        /// Number of the queue.
        queue: u16,
        /// Why not.
        source: XskError,
    },
    /// The interface does not have this transmit queue.
    #[error(
        "{interface} has {queues} transmit queues, numbers 0 to {}, so there is no queue {queue}; choose one of them, or add queues with ethtool -L",
        .queues.saturating_sub(1)
    )]
    NoQueue {
        /// Name of the interface.
        interface: String,
        /// Transmit queues that it has.
        queues: u32,
        /// Number of the queue.
        queue: u16,
    },
    /// The interface is down, has no carrier, or is gone.
    #[error("{interface} {fault}{}", remedy(*.fault, interface))]
    Link {
        /// Name of the interface.
        interface: String,
        /// The fault of the link.
        fault: LinkFault,
    },
    /// The kernel refuses frames for another reason.
    #[error("queue {queue} of {interface} does not send: {source}; see ip link show {interface}")]
    Refused {
        /// Name of the interface.
        interface: String,
        /// Number of the queue.
        queue: u16,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The kernel has stopped sending without saying why.
    #[error(
        "{interface} has sent none of {frames} frames for {seconds} s; see ip link show {interface}, and whether its driver has AF_XDP \
         transmit"
    )]
    Stalled {
        /// Name of the interface.
        interface: String,
        /// Frames that are still with the kernel.
        frames: u64,
        /// Seconds in which it sent none of them.
        seconds: u64,
    },
}

impl SendError {
    /// What an error of the kernel means for queue `queue`: the kernel refuses frames (ENETDOWN, ENXIO)
    /// before it reports the loss of the link.
    ///
    /// Call it in the network namespace of the interface; a thread elsewhere does not see the interface, so
    /// that only the error decides.
    pub(crate) fn refused(interface: &str, ifindex: u32, queue: u16, source: io::Error) -> Self {
        let fault = match source.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENETDOWN) => Some(LinkFault::settled(ifindex).unwrap_or(LinkFault::Down)),
            Some(Errno::ENXIO) => Some(LinkFault::Removed),
            _ => LinkFault::now(ifindex),
        };
        let interface = interface.to_owned();
        match fault {
            Some(fault) => Self::Link { interface, fault },
            None => Self::Refused { interface, queue, source },
        }
    }
}

/// Checks that an interface could send when it was looked up.
///
/// # Errors
/// [`SendError::Link`].
pub fn check_link(interface: &Interface) -> Result<(), SendError> {
    match interface.fault() {
        None => Ok(()),
        Some(fault) => Err(SendError::Link { interface: interface.name.clone(), fault }),
    }
}

/// How many transmit queues an interface has.
pub fn transmit_queues(interface: &Interface) -> u32 {
    netdev::transmit_queues(&interface.name).ok().flatten().unwrap_or(interface.queues.current)
}

/// Checks that an interface has these transmit queues.
///
/// # Errors
/// [`SendError::NoQueue`].
pub fn check_queues(interface: &Interface, queues: impl IntoIterator<Item = u16>) -> Result<(), SendError> {
    let available = transmit_queues(interface);
    match queues.into_iter().find(|&queue| u32::from(queue) >= available) {
        None => Ok(()),
        Some(queue) => {
            Err(SendError::NoQueue { interface: interface.name.clone(), queues: available, queue })
        }
    }
}

/// The remedy for a fault of `interface`, ready to be appended; empty if there is no general one.
fn remedy(fault: LinkFault, interface: &str) -> String {
    match fault {
        LinkFault::Down => format!("; bring it up: ip link set {interface} up"),
        LinkFault::NoCarrier => String::new(),
        LinkFault::Removed => ", or moved to another network namespace".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has this index.
    const NO_INTERFACE: u32 = i32::MAX as u32;

    fn refused(ifindex: u32, errno: Errno) -> SendError {
        SendError::refused("x0", ifindex, 7, io::Error::from_raw_os_error(errno as i32))
    }

    #[test]
    fn a_link_errno_is_a_link_fault() {
        let removed = refused(NO_INTERFACE, Errno::ENXIO);
        assert!(matches!(removed, SendError::Link { fault: LinkFault::Removed, .. }), "{removed}");
        assert!(matches!(refused(NO_INTERFACE, Errno::ENETDOWN), SendError::Link { .. }));
        let loopback = refused(1, Errno::ENOBUFS);
        assert!(matches!(loopback, SendError::Refused { queue: 7, .. }), "{loopback}");
    }

    #[test]
    fn a_missing_queue_is_refused() {
        let loopback = netdev::interface("lo").unwrap();
        let there = transmit_queues(&loopback);
        check_queues(&loopback, 0..there as u16).unwrap();
        let error = check_queues(&loopback, [0, there as u16]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("lo has {there} transmit queues, numbers 0 to")), "{error}");
    }

    #[test]
    fn a_link_fault_has_a_remedy() {
        let message = |fault| SendError::Link { interface: "x0".into(), fault }.to_string();
        assert_eq!(message(LinkFault::Down), "x0 is down; bring it up: ip link set x0 up");
        assert!(message(LinkFault::NoCarrier).starts_with("x0 has no carrier"));
        assert_eq!(message(LinkFault::Removed), "x0 was removed, or moved to another network namespace");
    }
}
