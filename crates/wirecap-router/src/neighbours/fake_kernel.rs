//! A kernel's table of neighbours that is made up, for tests in virtual time.

use std::collections::HashMap;

use wirecap_headers::MacAddress;
use wirecap_sys::netdev::{Neighbour, NeighbourState};

use super::{
    Hop,
    next_hops::{Kernel, Refusal},
};

/// A kernel that answers nothing by itself, and notes what is done.
#[derive(Default)]
pub(crate) struct FakeKernel {
    pub(crate) entries: HashMap<Hop, Neighbour>,
    pub(crate) asked: Vec<Hop>,
    pub(crate) is_full: bool,
}

pub(crate) fn neighbour(hop: Hop, state: NeighbourState, mac: Option<MacAddress>) -> Neighbour {
    Neighbour { ifindex: 1, address: hop.address, mac, state, is_kernels_own: true }
}

impl Kernel for FakeKernel {
    fn ask(&mut self, hop: Hop) -> Result<Option<Neighbour>, Refusal> {
        if self.is_full {
            return Err(Refusal::TableFull);
        }
        self.asked.push(hop);
        let made = || neighbour(hop, NeighbourState::Incomplete, None);
        Ok(Some(*self.entries.entry(hop).or_insert_with(made)))
    }

    fn get(&mut self, hop: Hop) -> Option<Neighbour> {
        self.entries.get(&hop).copied()
    }

    fn forget(&mut self, hop: Hop) {
        self.entries.remove(&hop);
    }
}
