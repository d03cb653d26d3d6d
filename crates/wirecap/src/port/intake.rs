//! Where a port puts what it received: the rest of the chunk that is filled.
//!
//! ```text
//!   rx ring ──► Descriptor ──► Intake { time, cache hint } ──► Filler ──► slots of the chunk
//! ```
//!
//! Rule: times of a queue increase strictly. A packet that would not be later than the one before it is 1 ns later.

use wirecap_core::{Descriptor, Filler};
use wirecap_sys::memory::CellReader;

/// What is known of the time of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// When its packet came, in nanoseconds since 1970 (UTC).
    At(u64),
    /// Nothing: its packet has the time of the batch.
    Unknown,
    /// It goes on with the packet before.
    Continued,
}

/// Takes cells that the kernel has filled.
#[derive(Debug)]
#[must_use = "the cells count as filled only after finish()"]
pub(crate) struct Intake<'q> {
    filler: Filler<'q>,
    /// When the batch is taken.
    now_ns: u64,
    /// No packet may have a time before this one.
    least_ns: u64,
    /// Given if this thread reads the packets, too: asks for them in time.
    near: Option<&'q CellReader>,
}

impl<'q> Intake<'q> {
    /// Fills what is left of a chunk at the time `now_ns`. Times begin with `least_ns`.
    #[inline]
    pub(crate) fn new(filler: Filler<'q>, now_ns: u64, least_ns: u64, near: Option<&'q CellReader>) -> Self {
        Self { filler, now_ns, least_ns, near }
    }

    /// When the batch is taken.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How many cells it takes.
    #[inline]
    pub(crate) fn space(&self) -> u32 {
        self.filler.space()
    }

    /// Takes cells, as long as there is space. Their `timestamp_ns` does not matter: they are of now, and packets are 1 ns
    /// apart.
    #[inline]
    pub(crate) fn take(&mut self, descriptors: impl Iterator<Item = Descriptor>) {
        let (near, mut timestamp_ns) = (self.near, self.now_ns.max(self.least_ns));
        let space = self.space();
        self.filler.fill_all(descriptors.map(|descriptor| {
            if let Some(reader) = near {
                reader.fetch(descriptor.address);
            }
            let timed = Descriptor { timestamp_ns, ..descriptor };
            // All parts of a packet have the time of the packet.
            timestamp_ns += u64::from(!descriptor.more);
            timed
        }));
        if self.space() < space {
            self.least_ns = timestamp_ns;
        }
    }

    /// Takes cells whose times may be known one by one, as long as there is space.
    #[inline]
    pub(crate) fn take_stamped(&mut self, cells: impl Iterator<Item = (Descriptor, Told)>) {
        let (near, now_ns, mut least_ns) = (self.near, self.now_ns, self.least_ns);
        self.filler.fill_all(cells.map(|(descriptor, told)| {
            if let Some(reader) = near {
                reader.fetch(descriptor.address);
            }
            let timestamp_ns = match told {
                Told::At(told_ns) => told_ns.max(least_ns),
                Told::Unknown => now_ns.max(least_ns),
                Told::Continued => least_ns - 1,
            };
            least_ns = timestamp_ns + 1;
            Descriptor { timestamp_ns, ..descriptor }
        }));
        self.least_ns = least_ns;
    }

    /// Takes cells whose packets have a time already: it is kept as it is.
    pub(crate) fn take_timed(&mut self, descriptors: impl Iterator<Item = Descriptor>) {
        self.filler.fill_all(descriptors);
    }

    /// Takes a block: a chunk that the kernel has packed with packets.
    pub(crate) fn take_block(&mut self, packets: u32, bytes: u32) {
        self.filler.fill_block(packets, bytes);
    }

    /// Makes what was taken known to the pool. Returns a time that no later packet may have.
    #[inline]
    pub(crate) fn finish(self) -> u64 {
        self.filler.finish();
        self.least_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirecap_core::{Geometry, Pool, PoolId};

    fn pool() -> Pool {
        let mut pool = Pool::new(PoolId { nic_id: 0, ring_id: 0 }, Geometry::new(8, 1, 2048).unwrap(), 0);
        pool.attach(8, |_| ());
        pool
    }

    fn cell(index: u64, more: bool) -> Descriptor {
        Descriptor { address: index * 2048 + 256, len: 60, more, timestamp_ns: 0 }
    }

    fn times(pool: &mut Pool) -> Vec<u64> {
        let (slots, handover) = (pool.slots(), pool.hand_over().unwrap());
        slots.range(&handover.range).unwrap().map(|cell| cell.timestamp_ns).collect()
    }

    #[test]
    fn told_times_are_kept_unless_they_would_go_back() {
        let mut pool = pool();
        let mut intake = Intake::new(pool.filler().unwrap(), 1_000, 500, None);
        let told =
            [Told::At(400), Told::At(700), Told::At(700), Told::Unknown, Told::At(990), Told::At(2_000)];
        intake.take_stamped((0..).zip(told).map(|(index, told)| (cell(index, false), told)));
        assert_eq!(intake.finish(), 2_001);
        assert_eq!(times(&mut pool), [500, 700, 701, 1_000, 1_001, 2_000]);
    }

    /// A packet that began in the batch before has its time, and what follows may be earlier than this batch.
    #[test]
    fn a_packet_that_goes_on_in_the_next_batch_keeps_its_time() {
        let mut pool = pool();
        let mut intake = Intake::new(pool.filler().unwrap(), 1_000, 1, None);
        intake.take_stamped([(cell(0, true), Told::At(600))].into_iter());
        let last_ns = intake.finish();
        let mut intake = Intake::new(pool.filler().unwrap(), 5_000, last_ns + 1, None);
        let parts = [(cell(1, true), Told::Continued), (cell(2, false), Told::Continued)];
        intake.take_stamped(parts.into_iter().chain([(cell(3, false), Told::At(800))]));
        intake.finish();
        let times = times(&mut pool);
        assert_eq!((times[0], times[3]), (600, 800));
    }

    #[test]
    fn a_batch_that_is_empty_leaves_the_times_as_they_were() {
        let mut pool = pool();
        let mut intake = Intake::new(pool.filler().unwrap(), 1_000, 500, None);
        intake.take(std::iter::empty());
        assert_eq!(intake.finish(), 500, "a stamp before 1,000 is still to come");
        let mut intake = Intake::new(pool.filler().unwrap(), 1_000, 2_000, None);
        intake.take([cell(0, true), cell(1, false), cell(2, false)].into_iter());
        intake.finish();
        assert_eq!(times(&mut pool), [2_000, 2_000, 2_001], "the clock was set back");
    }
}
