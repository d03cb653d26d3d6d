//! What pools take besides their cells, and bringing their memory in.
//!
//! Rule: no packet waits for a page fault.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use wirecap_core::Geometry;
use wirecap_sys::memory::{MemoryError, Need, PacketMemory};

use super::opening::GiveUpFlag;
use crate::Error;

/// Bytes that the kernel keeps for each cell of a registration, with each socket that uses it (`struct
/// xdp_buff_xsk`).
const RECORD_BYTES: u64 = 128;
/// Entries of the fill and receive rings together, or of the transmit and completion rings, in bytes.
const RING_ENTRY_BYTES: u64 = 8 + 16;
/// Bytes that a pool keeps for each of its cells: a slot, a node of its recycle queue.
const BOOKKEEPING_BYTES: u64 = 32;
/// What a thread brings in at a time.
const PIECE_BYTES: usize = 16 << 20;
/// Threads that bring memory in: more do not make it faster.
const MAX_HELPERS: usize = 8;
/// What the kernel keeps for each page of cells: once to map it, and once for a registration.
const PAGE_ENTRY_BYTES: u64 = 8;
const PAGE_BYTES: u64 = 4096;
/// How long memory of a capture that has ended counts against its control group, at most: the kernel frees
/// BPF arrays some time after their last user is gone.
const FREED_WITHIN: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(50);
/// Bytes that a transmitter keeps for each cell that it could send.
const TOKEN_BYTES: u64 = 8;

/// Pools that the kernel knows under one registration.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) pools: u64,
    /// Sockets that use it.
    pub(crate) sockets: u64,
}

impl Part {
    /// What its pools take besides their cells; `transmit_entries` is 0 where nothing is sent.
    pub(crate) fn beside(&self, geometry: Geometry, transmit_entries: u32) -> Need {
        let rings = u64::from(geometry.ring_entries() + transmit_entries) * RING_ENTRY_BYTES;
        let cells = self.pools * u64::from(geometry.cells_per_pool());
        let pages = self.pools * geometry.pool_bytes() / PAGE_BYTES;
        let tokens = if transmit_entries > 0 { self.sockets * TOKEN_BYTES } else { 0 };
        Need {
            process: cells * (BOOKKEEPING_BYTES + tokens),
            charged: pages * PAGE_ENTRY_BYTES * (1 + self.sockets.min(1)),
            kernel: self.sockets * (cells * RECORD_BYTES + rings),
            rest: 0,
        }
    }
}

/// What this process keeps for pools whose memory the kernel or a port makes.
pub(crate) fn beside_outside(pools: u64, geometry: Geometry) -> Need {
    let process = pools * u64::from(geometry.cells_per_pool()) * BOOKKEEPING_BYTES;
    Need { process, ..Need::default() }
}

/// Allocates memory, and tries again for a while where the lack of it may pass: see
/// [`MemoryError::may_pass`].
///
/// # Errors
/// The last error of `attempt`; [`Error::GivenUp`].
pub(crate) fn patiently<T>(
    give_up: &GiveUpFlag,
    mut attempt: impl FnMut() -> Result<T, MemoryError>,
) -> Result<T, Error> {
    let deadline = Instant::now() + FREED_WITHIN;
    loop {
        match attempt() {
            Err(error) if error.may_pass() && Instant::now() < deadline => thread::sleep(RETRY),
            result => return Ok(result?),
        }
        give_up.check()?;
    }
}

/// Brings in all pages, in pieces that several threads share: on a virtual machine the host takes a
/// millisecond for each MiB that is touched for the first time.
pub(crate) fn bring_in(memories: &[Arc<PacketMemory>], give_up: &GiveUpFlag) -> Result<(), Error> {
    let pieces = |memory| (0..PacketMemory::len(memory)).step_by(PIECE_BYTES).map(move |at| (memory, at));
    let pieces: Vec<_> = memories.iter().map(Arc::as_ref).flat_map(pieces).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), Error> {
        while let Some(&(memory, at)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let populated = memory.populate(at..at + PIECE_BYTES as u64, &|| !give_up.is_wanted());
            give_up.check()?;
            populated.map_err(|source| MemoryError::Map { needed: memory.len(), source })?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_HELPERS).min(pieces.len());
    thread::scope(|scope| {
        // A helper that cannot be started is no error: the others do its work.
        let help = |_| thread::Builder::new().name("wirecap-memory".into()).spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (1..threads).map_while(help).collect();
        let helped = helpers.into_iter().map(|helper| helper.join().expect("no panic"));
        work().and(helped.collect())
    })
}
