//! How many cells of each pool one transmitter holds, and how many it may.
//!
//! ```text
//!   pool of queue 0 ─┐                             ┌── at most a share of each pool is out here
//!   pool of queue 1 ─┼─► transmit ring ─► kernel ──┤
//!   allocator 0     ─┘                             └── the rest goes to other outputs, and is left to receive into
//! ```
//!
//! Rule: a transmitter that holds no cell of a pool takes a packet of that pool of any length, so every
//! packet can be sent.

/// The shares of one transmitter.
#[derive(Debug)]
pub(super) struct Shares {
    /// By pool, cells that are with the kernel.
    held: Box<[u32]>,
    /// Maximum number of cells of one pool.
    max_cells: u32,
}

impl Shares {
    /// Without a limit, for this number of pools.
    pub(super) fn new(pools: usize) -> Self {
        Self { held: vec![0; pools].into(), max_cells: u32::MAX }
    }

    /// Limits the cells of each pool to `cells` from now on.
    pub(super) fn limit(&mut self, cells: u32) {
        self.max_cells = cells;
    }

    /// Whether a packet of `cells` cells of this pool may be sent. Packets of another engine's pool pass
    /// here: they are refused as not sendable.
    #[inline]
    pub(super) fn has_room(&self, pool: usize, cells: u32) -> bool {
        let held = self.held.get(pool).copied().unwrap_or(0);
        held == 0 || u64::from(held) + u64::from(cells) <= u64::from(self.max_cells)
    }

    #[inline]
    pub(super) fn note_sent(&mut self, pool: usize, cells: u32) {
        self.held[pool] += cells;
    }

    #[inline]
    pub(super) fn note_home(&mut self, pool: usize, cells: u32) {
        self.held[pool] -= cells;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pool_has_a_share_and_a_single_packet_always_fits() {
        let mut shares = Shares::new(2);
        shares.note_sent(0, 1_000);
        assert!(shares.has_room(0, 1_000), "no limit yet");
        shares.note_home(0, 1_000);
        shares.limit(10);
        assert!(shares.has_room(0, 37), "otherwise it could never be sent");
        shares.note_sent(0, 8);
        assert!(shares.has_room(0, 2) && !shares.has_room(0, 3));
        assert!(shares.has_room(1, 10), "the share of another pool is its own");
        shares.note_sent(0, 2);
        assert!(!shares.has_room(0, 1));
        shares.note_home(0, 1);
        assert!(shares.has_room(0, 1));
        assert!(shares.has_room(7, 1), "a pool of another engine");
    }
}
