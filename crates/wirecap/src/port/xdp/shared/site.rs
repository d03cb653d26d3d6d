//! Where a program is attached, also for threads of another network namespace.

use std::ops::Deref;

use wirecap_sys::bpf::{self, Link, Program, XdpMode};

use crate::{
    HostUse,
    nic::{host_use::watch::HostWatch, place::Place},
};

/// Where a program is attached, and in which mode.
#[derive(Debug)]
pub(crate) struct Site {
    place: Place,
    pub(super) mode: XdpMode,
}

impl Deref for Site {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Site {
    /// On an interface of the calling thread's network namespace.
    pub(super) fn new(ifindex: u32, mode: XdpMode) -> Self {
        Self { place: Place::new(ifindex), mode }
    }

    /// Uses that have begun of the interface, which is taken.
    pub(super) fn new_uses(&self, watch: &mut HostWatch) -> Vec<HostUse> {
        self.enter(|| Ok(watch.look(self.ifindex))).ok().flatten().unwrap_or_default()
    }

    pub(super) fn attach(&self, program: &Program) -> Result<Link, bpf::Error> {
        Link::attach_xdp(program, self.ifindex, self.mode)
    }
}
