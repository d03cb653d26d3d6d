//! The recycle queue of a pool: used cells on their way home.
//!
//! The second half of the work-queue pair. The paper gives each application thread one; here each
//! *pool* has one, so that a chunk that was offloaded goes straight home, from any worker.
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
//! Rule: a node is in the list at most once. `words[node]` is taken by a swap before the node is
//! linked, so a range that is pushed twice is refused at once instead of making a cycle.

use crate::{
    chunk::{ChunkRange, PoolId, PoolNumber},
    pool::{Pool, RecycleError},
    sync::{AtomicU32, AtomicU64, CacheLine, Ordering},
};

const END: u32 = 0;

#[derive(Debug)]
struct Node {
    /// The range's word, 0 when the node is not in the list. Set by producers, cleared by the
    /// consumer.
    word: AtomicU64,
    /// The next node plus one, or [`END`]. Written by the producer that took the node; published
    /// by the release exchange of `head`.
    next: AtomicU32,
}

/// Used cells on their way home to one pool.
#[derive(Debug)]
pub struct RecycleQueue {
    id: PoolId,
    number: PoolNumber,
    nodes: Box<[Node]>,
    /// The newest node plus one, or [`END`]. Producers and the consumer write.
    head: CacheLine<AtomicU32>,
}

impl RecycleQueue {
    /// An empty queue for the pool.
    pub fn new(pool: &Pool) -> Self {
        let nodes = (0..pool.geometry().cells_per_pool())
            .map(|_| Node { word: AtomicU64::new(0), next: AtomicU32::new(END) })
            .collect();
        Self { id: pool.id(), number: pool.number(), nodes, head: CacheLine(AtomicU32::new(END)) }
    }

    /// Sends a range home. Any thread may call this.
    ///
    /// # Errors
    /// [`RecycleError`] when the range names no cells of this pool or is on its way already. Whether the
    /// cells are captured is checked by the pool when they arrive.
    pub fn push(&self, range: ChunkRange) -> Result<(), RecycleError> {
        let (first, end) = (range.first(), range.first() + range.count());
        if range.pool() != self.number {
            return Err(RecycleError::WrongPool(self.id));
        }
        if range.count() == 0 || end as usize > self.nodes.len() {
            return Err(RecycleError::OutOfBounds(self.id, first, end));
        }
        let index = first;
        let node = &self.nodes[index as usize];
        // Acquire pairs with the release store in `take_all`: the node is out of the list.
        if node.word.compare_exchange(0, range.into_word(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(RecycleError::NotCaptured(self.id, first, end));
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
            each(ChunkRange::from_word(word));
            taken += 1;
        }
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::geometry::Geometry;

    const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };

    fn pool(cells: u32, chunks: u32) -> Pool {
        Pool::new(ID, Geometry::new(cells, chunks, 2048).unwrap(), 0)
    }

    #[test]
    fn ranges_come_out_once_and_a_second_push_is_refused() {
        let pool = pool(8, 2);
        let range = |first, count| ChunkRange::new(pool.number(), first, count);
        let queue = RecycleQueue::new(&pool);
        assert!(queue.is_empty());
        queue.push(range(0, 3)).unwrap();
        queue.push(range(15, 1)).unwrap();
        assert!(matches!(queue.push(range(0, 3)), Err(RecycleError::NotCaptured(..))));
        let mut taken = Vec::new();
        assert_eq!(queue.take_all(|range| taken.push(range)), 2);
        assert_eq!(taken, [range(15, 1), range(0, 3)]);
        assert_eq!(queue.take_all(|_| unreachable!()), 0);
        queue.push(range(0, 3)).unwrap();
    }

    /// Every cell of a pool has its own node, and a refusal names the cells.
    #[test]
    fn each_cell_goes_home_by_itself() {
        let pool = pool(4, 3);
        let range = |first, count| ChunkRange::new(pool.number(), first, count);
        let queue = RecycleQueue::new(&pool);
        for cell in 0..12 {
            queue.push(range(cell, 1)).unwrap();
        }
        assert_eq!(queue.push(range(11, 1)), Err(RecycleError::NotCaptured(ID, 11, 12)));
        assert_eq!(queue.push(range(11, 2)), Err(RecycleError::OutOfBounds(ID, 11, 13)));
        let mut taken = Vec::new();
        assert_eq!(queue.take_all(|range| taken.push(range.first())), 12);
        taken.reverse();
        assert_eq!(taken, (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn ranges_that_name_no_cells_are_refused() {
        let (pool, other) = (pool(8, 2), pool(8, 2));
        let range = |first, count| ChunkRange::new(pool.number(), first, count);
        let queue = RecycleQueue::new(&pool);
        assert!(matches!(queue.push(range(16, 1)), Err(RecycleError::OutOfBounds(..))));
        assert!(matches!(queue.push(range(15, 2)), Err(RecycleError::OutOfBounds(..))));
        let of_other = ChunkRange::new(other.number(), 0, 1);
        assert!(
            matches!(queue.push(of_other), Err(RecycleError::WrongPool(ID))),
            "although both have the same name"
        );
    }
}
