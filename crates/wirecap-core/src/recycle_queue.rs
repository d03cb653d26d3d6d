//! The recycle queue of a pool: used cells on their way home.
//!
//! The second half of the work-queue pair. The paper gives each application thread one; here each
//! *pool* has one, so that a chunk that was offloaded goes straight home, whoever had it.
//!
//! ```text
//!    head ──► node 17 ──► node 4 ──► node 96 ──► end        any worker pushes (compare and swap)
//!             range       range      range                  the pool's owner takes all (swap)
//! ```
//!
//! Many producers, one consumer. A node is named by the slot of the range's first cell, so there
//! are as many nodes as cells: nothing is allocated, a push cannot fail for lack of room, and since
//! the consumer takes everything at once there is no ABA problem.
//!
//! Rule: a node is in the list at most once. `words[node]` is claimed by a swap before the node is
//! linked, so a range that is pushed twice is refused at once instead of making a cycle.

use crate::{
    chunk::{ChunkRange, PoolId},
    geometry::Geometry,
    pool::Refused,
    sync::{AtomicU32, AtomicU64, Ordering, Padded},
};

const END: u32 = 0;

#[derive(Debug)]
struct Node {
    /// The range's word, 0 when the node is not in the list. Claimed by producers, cleared by the
    /// consumer.
    word: AtomicU64,
    /// The next node plus one, or [`END`]. Written by the producer that claimed the node; published
    /// by the release exchange of `head`.
    next: AtomicU32,
}

/// Used cells on their way home to one pool.
#[derive(Debug)]
pub struct RecycleQueue {
    pool: PoolId,
    geometry: Geometry,
    nodes: Box<[Node]>,
    /// The newest node plus one, or [`END`]. Producers and the consumer write.
    head: Padded<AtomicU32>,
}

impl RecycleQueue {
    /// An empty queue for the pool.
    pub fn new(pool: PoolId, geometry: Geometry) -> Self {
        let nodes = (0..geometry.cells_per_pool())
            .map(|_| Node { word: AtomicU64::new(0), next: AtomicU32::new(END) })
            .collect();
        Self { pool, geometry, nodes, head: Padded(AtomicU32::new(END)) }
    }

    /// Sends a range home. Any thread may call this.
    ///
    /// # Errors
    /// [`Refused`] when the range names no cells of this pool or is on its way already. Whether the
    /// cells are captured is checked by the pool when they arrive.
    pub fn push(&self, range: ChunkRange) -> Result<(), Refused> {
        let (chunk, first, count) = (range.chunk(), range.first(), range.count());
        if chunk.pool != self.pool {
            return Err(Refused::WrongPool { given: chunk, pool: self.pool });
        }
        let cells = self.geometry.cells_per_chunk();
        if chunk.chunk_id >= self.geometry.chunks_per_pool() || count == 0 || first + count > cells {
            return Err(Refused::OutOfBounds(self.pool, chunk.chunk_id, first, first + count));
        }
        let index = chunk.chunk_id * cells + first;
        let node = &self.nodes[index as usize];
        // Acquire pairs with the release store in `take_all`: the node is out of the list.
        if node.word.compare_exchange(0, range.into_word(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(Refused::NotCaptured(chunk, first, first + count));
        }
        let mut head = self.head.0.load(Ordering::Relaxed);
        loop {
            node.next.store(head, Ordering::Relaxed);
            // Release pairs with the acquire swap in `take_all`: `word` and `next` are visible, and
            // so is everything the worker did to the cells.
            match self.head.0.compare_exchange_weak(head, index + 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(newer) => head = newer,
            }
        }
    }

    /// Whether there is nothing to take. One load of a line that is mostly not contended.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.0.load(Ordering::Relaxed) == END
    }

    /// Takes everything and calls `each` with every range, newest first. Only the pool's owner
    /// calls this. Returns the number of ranges.
    pub fn take_all(&self, mut each: impl FnMut(ChunkRange)) -> u32 {
        if self.is_empty() {
            return 0;
        }
        // Acquire pairs with the release exchange in `push`.
        let mut next = self.head.0.swap(END, Ordering::Acquire);
        let mut taken = 0;
        // The bound is for a queue in shared memory that another party has scribbled on.
        while next != END && taken < self.nodes.len() as u32 {
            let Some(node) = self.nodes.get(next as usize - 1) else { break };
            next = node.next.load(Ordering::Relaxed);
            let word = node.word.load(Ordering::Relaxed);
            // Release pairs with the acquire exchange in `push`: `next` has been read.
            node.word.store(0, Ordering::Release);
            each(ChunkRange::from_untrusted_word(word));
            taken += 1;
        }
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::chunk::ChunkId;

    const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };

    fn range(chunk_id: u32, first: u32, count: u32) -> ChunkRange {
        ChunkRange::new(ChunkId { pool: ID, chunk_id }, first, count)
    }

    #[test]
    fn ranges_come_out_once_and_twice_is_refused() {
        let queue = RecycleQueue::new(ID, Geometry::new(8, 2, 2048).unwrap());
        assert!(queue.is_empty());
        queue.push(range(0, 0, 3)).unwrap();
        queue.push(range(1, 7, 1)).unwrap();
        assert!(matches!(queue.push(range(0, 0, 3)), Err(Refused::NotCaptured(..))));
        let mut taken = Vec::new();
        assert_eq!(queue.take_all(|range| taken.push(range)), 2);
        assert_eq!(taken, [range(1, 7, 1), range(0, 0, 3)]);
        assert_eq!(queue.take_all(|_| unreachable!()), 0);
        queue.push(range(0, 0, 3)).unwrap();
    }

    /// Every cell of a pool has a node of its own, and a refusal says which cells were meant.
    #[test]
    fn each_cell_goes_home_by_itself() {
        let queue = RecycleQueue::new(ID, Geometry::new(4, 3, 2048).unwrap());
        let all: Vec<_> = (0..3).flat_map(|chunk_id| (0..4).map(move |cell| (chunk_id, cell))).collect();
        for &(chunk_id, cell) in &all {
            queue.push(range(chunk_id, cell, 1)).unwrap();
        }
        let again = queue.push(range(2, 3, 1));
        let chunk = ChunkId { pool: ID, chunk_id: 2 };
        assert_eq!(again, Err(Refused::NotCaptured(chunk, 3, 4)));
        assert_eq!(queue.push(range(2, 3, 2)), Err(Refused::OutOfBounds(ID, 2, 3, 5)));
        let mut taken = Vec::new();
        assert_eq!(queue.take_all(|range| taken.push((range.chunk().chunk_id, range.first()))), 12);
        taken.reverse();
        assert_eq!(taken, all);
    }

    #[test]
    fn ranges_that_name_no_cells_are_refused() {
        let queue = RecycleQueue::new(ID, Geometry::new(8, 2, 2048).unwrap());
        assert!(matches!(queue.push(range(2, 0, 1)), Err(Refused::OutOfBounds(..))));
        assert!(matches!(queue.push(range(0, 7, 2)), Err(Refused::OutOfBounds(..))));
        let foreign = ChunkRange::new(ChunkId { pool: PoolId { nic_id: 1, ring_id: 0 }, chunk_id: 0 }, 0, 1);
        assert!(matches!(queue.push(foreign), Err(Refused::WrongPool { .. })));
    }
}
