//! Batches that are written from where they lie: the kernel copies them from the memory of the capture into
//! the file, and nothing copies them before.
//!
//! ```text
//!   pool of a queue    │ chunk 0 │ chunk 1 │ chunk 2 │ chunk 3 │ …     a quarter of the chunks at most
//!                         ▲     ▲      ▲
//!                      Permit Permit Permit ── with its batch: Lane ─► merger ─► write ─► dropped: back to the pool
//! ```
//!
//! Rule: a chunk goes back as a whole, so chunks are what is counted, not bytes. A batch of a chunk that is
//! held costs the pool nothing more. A batch that would hold one chunk too many is encoded, so a slow output
//! takes no more of the pool than this.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use wirecap::{Batch, PcapngBlocks, Report};
use wirecap_file::Format;
use wirecap_sys::packed::MAX_PACKET_BYTES;

/// The share of a pool's chunks that may be held, as a divisor.
const SHARE: u32 = 4;

/// What may be held of each queue's pool.
#[derive(Debug)]
pub(crate) struct Places {
    /// By queue, as [`Queues`](super::queues::Queues) numbers them; empty if files have packets in another
    /// form.
    pools: Vec<Arc<PoolShare>>,
}

/// The chunks of a pool that are held. The counters guard no other memory, so all accesses are relaxed.
#[derive(Debug)]
struct PoolShare {
    /// By chunk, the batches that are held. Added by workers, removed by whichever thread drops a permit.
    batches: Box<[AtomicU32]>,
    /// Chunks with such batches. Written like `batches`.
    chunks: AtomicU32,
}

/// The right to hold a batch of a chunk, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Arc<PoolShare>,
    chunk: usize,
}

/// A batch whose packets lie in memory as they will be in the file.
#[derive(Debug)]
pub(crate) struct InPlaceBatch {
    batch: Batch,
    /// Bytes of the records that are to be written, from the first one on.
    pub(crate) len: usize,
    _permit: Permit,
}

impl Places {
    /// For a file of this format that keeps `snaplen` bytes of each packet; 0 keeps all.
    pub(crate) fn new(report: &Report, queues: usize, format: Format, snaplen: u32) -> Self {
        let cuts = snaplen > 0 && snaplen < MAX_PACKET_BYTES;
        let queues = if format == Format::Pcapng && !cuts { queues } else { 0 };
        let chunks = report.memory.chunks_per_pool;
        Self { pools: (0..queues).map(|_| Arc::new(PoolShare::new(chunks))).collect() }
    }

    /// The right to hold a batch of this queue; `None` if it has to be encoded.
    pub(crate) fn permit(&self, queue: usize, batch: &mut Batch) -> Option<Permit> {
        let pool = self.pools.get(queue)?;
        batch.write_times();
        pool.permit(batch.pcapng()?.chunk() as usize)
    }
}

impl PoolShare {
    fn new(chunks: u32) -> Self {
        Self { batches: (0..chunks).map(|_| AtomicU32::new(0)).collect(), chunks: AtomicU32::new(0) }
    }

    fn permit(self: &Arc<Self>, chunk: usize) -> Option<Permit> {
        let batches = self.batches.get(chunk)?;
        if !add_one(batches, |held| held > 0) {
            let most = self.batches.len() as u32 / SHARE;
            if !add_one(&self.chunks, |held| held < most) {
                return None;
            }
            // Another thread has counted the chunk in between.
            if batches.fetch_add(1, Ordering::Relaxed) > 0 {
                self.chunks.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Some(Permit { pool: Arc::clone(self), chunk })
    }
}

/// Adds 1 to a counter that `may` grow. Returns whether it did.
fn add_one(counter: &AtomicU32, may: impl Fn(u32) -> bool) -> bool {
    let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
    counter.fetch_update(set, read, |count| may(count).then_some(count + 1)).is_ok()
}

impl Drop for Permit {
    fn drop(&mut self) {
        let PoolShare { batches, chunks } = &*self.pool;
        if batches[self.chunk].fetch_sub(1, Ordering::Relaxed) == 1 {
            chunks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl InPlaceBatch {
    pub(crate) fn new(batch: Batch, permit: Permit) -> Self {
        Self { batch, len: 0, _permit: permit }
    }

    /// The records of all packets.
    pub(crate) fn blocks(&self) -> PcapngBlocks<'_> {
        self.batch
            .pcapng()
            .expect("a batch gets a permit only if it lies in memory like that, and not drained")
    }

    /// The bytes that are to be written.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.blocks().bytes()[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of a pool of 16 chunks.
    const MAX: usize = 4;

    fn held(pool: &PoolShare) -> u32 {
        pool.chunks.load(Ordering::Relaxed)
    }

    #[test]
    fn a_quarter_of_the_chunks_is_held_with_any_number_of_batches_in_each() {
        let pool = Arc::new(PoolShare::new(16));
        let mut permits: Vec<_> = (0..3 * MAX).map(|batch| pool.permit(batch / 3).unwrap()).collect();
        assert!(pool.permit(MAX).is_none() && pool.permit(16).is_none());
        assert_eq!(held(&pool), MAX as u32, "a refusal leaves nothing behind");
        // The chunk is held until its last batch is written.
        permits.drain(..2);
        assert!(pool.permit(MAX).is_none());
        permits.remove(0);
        permits.push(pool.permit(MAX).unwrap());
        assert!(pool.permit(0).is_none());
        permits.clear();
        assert_eq!(held(&pool), 0);
    }

    #[test]
    fn a_pool_that_has_no_quarter_is_left_alone() {
        let pool = Arc::new(PoolShare::new(3));
        assert!(pool.permit(0).is_none());
    }

    #[test]
    fn permits_of_several_threads_are_all_given_back() {
        let pool = Arc::new(PoolShare::new(16));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut permits = std::collections::VecDeque::new();
                    for turn in 0..2_000 {
                        permits.extend(pool.permit((turn * 7 + thread) % 16));
                        assert!(held(pool) as usize <= MAX);
                        if permits.len() > 3 {
                            permits.pop_front();
                        }
                    }
                });
            }
        });
        assert_eq!(held(&pool), 0);
        assert!(pool.batches.iter().all(|batches| batches.load(Ordering::Relaxed) == 0));
    }
}
