//! The ring of a receive queue and its pool: what both dispatches do with them.

use std::collections::VecDeque;

use wirecap_core::{Descriptor, Pool};

/// Length of the packets, which nothing depends on.
const PACKET_BYTES: u32 = 60;

/// Gives free cells to the NIC, as far as its ring has room.
pub(super) fn attach(pool: &mut Pool, ring: &mut VecDeque<u64>, entries: u32) {
    let room = entries - ring.len() as u32;
    pool.attach(room, |address| ring.push_back(address));
}

/// Puts this many packets into the next cells of the ring.
pub(super) fn fill(pool: &mut Pool, ring: &mut VecDeque<u64>, packets: u64) {
    if packets == 0 {
        return;
    }
    let mut filler = pool.filler().expect("a chunk is attached, whose cells the NIC has");
    let packet = |address| Descriptor { address, len: PACKET_BYTES, more: false, timestamp_ns: 0 };
    filler.fill_all(ring.drain(..packets as usize).map(packet));
    filler.finish();
}
