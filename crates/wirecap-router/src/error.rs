//! What can go wrong before packets are routed.

use std::io;

use wirecap_sys::netdev;

use crate::RouteProblem;

/// Why a router cannot be made, or its resolver cannot be started.
///
/// # Example
///
/// ```
/// let error = "10.0.0.0/8".parse::<wirecap_router::Routes>().unwrap_err();
/// assert!(error.to_string().starts_with("line 1 of the routes: 10.0.0.0/8 goes nowhere"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A line of a table of routes makes no sense.
    #[error("line {line} of the routes: {problem}")]
    Line {
        /// Which, from 1 on.
        line: usize,
        /// What is wrong with it.
        problem: RouteProblem,
    },
    /// Routes name a device that the router has no port on.
    #[error("routes name the device {device}, but the interfaces are {}", .interfaces.join(", "))]
    UnknownDevice {
        /// The device.
        device: String,
        /// Names of the ports.
        interfaces: Vec<String>,
    },
    /// No route leads over a port.
    #[error(
        "the routes lead over no interface, so nothing would be forwarded: write one as 10.0.0.0/8 dev eth1"
    )]
    NoDevice,
    /// A port has no Ethernet address that packets can come from: the name of the port.
    #[error("{0} has no Ethernet address of its own to route by")]
    NoEthernetAddress(String),
    /// The eventfd that wakes the resolver could not be made.
    #[error("cannot make the eventfd that wakes the resolver of next hops: {0}")]
    Alarm(#[source] io::Error),
    /// The resolver's thread could not be started.
    #[error("cannot start the thread {name}: {cause}")]
    Thread {
        /// Its name.
        name: &'static str,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The kernel cannot be asked about neighbours or links.
    #[error(transparent)]
    Kernel(#[from] netdev::Error),
}
