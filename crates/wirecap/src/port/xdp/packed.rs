//! Whether the XDP program of an interface can pack its packets.
//!
//! Rule: there is no socket then. The program is on the interface for as long as its link is held, and drops what
//! it has packed.

use wirecap_sys::netdev::Interface;

use crate::{Config, Modes, QueueSet, diagnostic::PackingRefusal};

/// Drivers that run the program in the context of whoever sends, several at a time for one queue.
const SEVERAL_WRITERS: [&str; 1] = ["tun"];

/// Why packets cannot be packed, if that is asked for.
pub(super) fn refuses(
    interface: &Interface,
    queues: Option<&QueueSet>,
    config: &Config,
) -> Option<PackingRefusal> {
    if config.xdp_mode != Modes::Packed {
        return None;
    }
    let driver = interface.driver.as_ref().map_or("", |driver| &driver.name);
    if queues.is_some() {
        Some(PackingRefusal::SomeQueues)
    } else if config.transmit_entries > 0 || config.allocators > 0 {
        Some(PackingRefusal::Sending)
    } else {
        SEVERAL_WRITERS.contains(&driver).then(|| PackingRefusal::SeveralWriters { driver: driver.into() })
    }
}
