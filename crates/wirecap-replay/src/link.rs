//! Watches the link while it is sent to.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use wirecap_sys::netdev::{self, Interface, LinkChanges, LinkEvent};

use crate::{Control, Error, error::LinkFault};

const TICK: Duration = Duration::from_millis(20);
/// After this time it is known what has become of an interface: one that is deleted goes down first.
const SETTLE: Duration = Duration::from_millis(100);

/// Whether an interface can send now.
///
/// # Errors
/// [`Error::Link`].
pub(crate) fn check(interface: &Interface) -> Result<(), Error> {
    match state(interface.up, interface.carrier) {
        None => Ok(()),
        Some(state) => Err(Error::Link { interface: interface.name.clone(), state }),
    }
}

fn state(up: bool, carrier: bool) -> Option<LinkFault> {
    match (up, carrier) {
        (true, true) => None,
        (true, false) => Some(LinkFault::NoCarrier),
        (false, _) => Some(LinkFault::Down),
    }
}

/// What is wrong with an interface now, if something is.
pub(crate) fn fault_now(interface: &Interface) -> Option<LinkFault> {
    match netdev::interface(&interface.name) {
        Ok(now) if now.ifindex == interface.ifindex => state(now.up, now.carrier),
        _ => Some(LinkFault::Removed),
    }
}

/// What is wrong for good, when `first` was told of first.
pub(crate) fn settled(interface: &Interface, first: LinkFault) -> LinkFault {
    thread::sleep(SETTLE);
    fault_now(interface).unwrap_or(first)
}

/// Tells `control` of the first thing that goes wrong, until `is_over`. To be run in the interface's network namespace.
pub(crate) fn watch(
    interface: &Interface,
    mut changes: LinkChanges,
    control: &Control,
    is_over: &AtomicBool,
) {
    while !is_over.load(Ordering::Relaxed) {
        // An error of reading is no news of the link.
        while let Ok(Some(event)) = changes.next_event() {
            if let Some(fault) = fault(&event, interface) {
                control.fail(fault);
            }
        }
        thread::sleep(TICK);
    }
}

fn fault(event: &LinkEvent, interface: &Interface) -> Option<LinkFault> {
    match event {
        LinkEvent::State { ifindex, up, carrier, .. } if *ifindex == interface.ifindex => {
            state(*up, *carrier)
        }
        LinkEvent::Removed { ifindex, .. } if *ifindex == interface.ifindex => Some(LinkFault::Removed),
        LinkEvent::Overrun => fault_now(interface),
        _ => None,
    }
}
