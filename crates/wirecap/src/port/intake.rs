//! Where a port puts what it received: the rest of the chunk that is filled.
//!
//! ```text
//!   rx ring ──► FilledCell ──► Intake { time, cache hint } ──► LiveFiller ──► slots of the chunk
//! ```
//!
//! Rule: times of a queue increase strictly. A packet that would not be later than the one before it is 1 ns
//! later. Only when the system clock is set back do they go back with it, which is counted: see
//! `engine/arrival.rs`.

use std::time::Duration;

use wirecap_sys::memory::{CellReader, FilledBlock, FilledCell, FilledPart, LiveFiller};

/// What is known of the time of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellTime {
    /// When its packet came, in nanoseconds since 1970 (UTC).
    At(u64),
    /// Nothing: its packet has the time of the batch.
    Unknown,
    /// The cell continues the packet before.
    Continued,
}

/// Which cells are received together, and when they came. Times are nanoseconds since 1970 (UTC).
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchTime {
    /// The present.
    pub(crate) now_ns: u64,
    /// The time of packets that have none of their own.
    pub(crate) time_ns: u64,
    /// How much earlier these may have come, at most, in nanoseconds.
    pub(crate) uncertainty_ns: u64,
    /// No packet may have a time before this one.
    pub(crate) min_ns: u64,
    /// Number of cells to receive, at most.
    pub(crate) max: u32,
    /// Number of the first cell of the ring to leave there: it may have come after `now_ns`. Packets that
    /// have times of their own may be taken all the same.
    pub(crate) end: u64,
}

impl BatchTime {
    /// For up to `max` packets that bring their own times, or certainly came at `time_ns`.
    pub(crate) fn certain(time_ns: u64, min_ns: u64, max: u32) -> Self {
        Self { now_ns: time_ns, time_ns, uncertainty_ns: 0, min_ns, max, end: u64::MAX }
    }
}

/// The times of a batch that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchEnd {
    /// The next packet must have a later time.
    pub(crate) last_ns: u64,
    /// Number of packets that have the time of the batch.
    pub(crate) untimed: u64,
    /// How much earlier than their times packets may have come, at most, in nanoseconds: those, and others
    /// whose own time would have gone back.
    pub(crate) uncertainty_ns: u64,
}

/// The times of the packets of a batch, one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketTimes {
    /// The time of packets that have none of their own.
    time_ns: u64,
    /// No further packet may have a time before this one.
    min_ns: u64,
    /// Number of packets that have the time of the batch, and the latest time one of them got.
    untimed: u64,
    latest_ns: u64,
    /// By how much times of single packets were raised, at most.
    raised_ns: u64,
}

impl PacketTimes {
    fn new(batch: &BatchTime) -> Self {
        let &BatchTime { time_ns, min_ns, .. } = batch;
        Self { time_ns, min_ns, untimed: 0, latest_ns: 0, raised_ns: 0 }
    }

    /// Notes that times of packets which have their own already were raised, at most by this, in nanoseconds.
    pub(crate) fn raised_by(&mut self, raised_ns: u64) {
        self.raised_ns = self.raised_ns.max(raised_ns);
    }

    /// Gives times to this number of packets, 1 ns apart, and returns the first: the time of the batch, or
    /// `now_ns` if some of them came later. At least one packet.
    pub(crate) fn run(&mut self, packets: u32, now_ns: Option<u64>) -> u64 {
        let packets = u64::from(packets);
        let first_ns = self.time_ns.max(now_ns.unwrap_or(0)).max(self.min_ns);
        self.untimed += packets;
        self.min_ns = first_ns + packets;
        self.latest_ns = self.min_ns - 1;
        first_ns
    }

    /// The time of the next cell.
    #[inline]
    pub(crate) fn next(&mut self, time: CellTime) -> u64 {
        let timestamp_ns = match time {
            CellTime::At(own_ns) => {
                self.raised_ns = self.raised_ns.max(self.min_ns.saturating_sub(own_ns));
                own_ns.max(self.min_ns)
            }
            CellTime::Unknown => {
                self.untimed += 1;
                self.latest_ns = self.time_ns.max(self.min_ns);
                self.latest_ns
            }
            CellTime::Continued => self.min_ns - 1,
        };
        self.min_ns = timestamp_ns + 1;
        timestamp_ns
    }
}

/// Takes cells that the kernel has filled.
#[derive(Debug)]
#[must_use = "the cells count as filled only after finish()"]
pub(crate) struct Intake<'q> {
    filler: LiveFiller<'q>,
    pub(crate) batch: BatchTime,
    pub(crate) times: PacketTimes,
    /// Set if this thread reads the packets, too: it prefetches them.
    near: Option<&'q CellReader>,
    /// How long the port leaves packets where they are, so that more can join them: those that wait, or, if
    /// it has received these, those that come next.
    pub(crate) hold: Duration,
}

impl<'q> Intake<'q> {
    /// Fills what is left of a chunk.
    #[inline]
    pub(crate) fn new(filler: LiveFiller<'q>, batch: BatchTime, near: Option<&'q CellReader>) -> Self {
        Self { filler, batch, times: PacketTimes::new(&batch), near, hold: Duration::ZERO }
    }

    /// How many cells it takes.
    #[inline]
    pub(crate) fn space(&self) -> u32 {
        self.filler.space()
    }

    /// Takes cells, as long as there is space. Packets get the time of the batch, 1 ns apart.
    #[inline]
    pub(crate) fn take(&mut self, cells: impl Iterator<Item = FilledCell>) {
        let (near, first_ns) = (self.near, self.times.time_ns.max(self.times.min_ns));
        let (space, mut timestamp_ns) = (self.space(), first_ns);
        self.filler.fill(cells.map(|cell| {
            if let Some(reader) = near {
                reader.fetch(cell.address());
            }
            let packet_ns = timestamp_ns;
            // All parts of a packet have the time of the packet.
            timestamp_ns += u64::from(!cell.more());
            (cell, packet_ns)
        }));
        if self.space() < space {
            self.times.min_ns = timestamp_ns;
            self.times.untimed += timestamp_ns - first_ns;
            self.times.latest_ns = timestamp_ns;
        }
    }

    /// Takes cells whose times may be known one by one, as long as there is space.
    #[inline]
    pub(crate) fn take_stamped(&mut self, cells: impl Iterator<Item = (FilledCell, CellTime)>) {
        // A copy, so that it can be in registers.
        let (near, mut times) = (self.near, self.times);
        self.filler.fill(cells.map(|(cell, time)| {
            if let Some(reader) = near {
                reader.fetch(cell.address());
            }
            (cell, times.next(time))
        }));
        self.times = times;
    }

    /// Takes cells whose packets have a time already: it is kept as it is.
    pub(crate) fn take_timed(&mut self, cells: impl Iterator<Item = (FilledCell, u64)>) {
        self.filler.fill(cells);
    }

    /// Takes a block: a chunk that the kernel has packed with packets.
    pub(crate) fn take_block(&mut self, block: FilledBlock) {
        self.filler.fill_block(block);
    }

    /// Takes a part of a block, whose packets have their times already: those of [`PacketTimes`], or the
    /// program's.
    #[inline]
    pub(crate) fn take_part(&mut self, part: FilledPart) {
        let taken = self.filler.fill_part(part);
        debug_assert!(taken, "a part of the block that the pool fills");
    }

    /// Counts a cell that lies nowhere, as a broken driver reports it.
    pub(crate) fn take_nowhere(&mut self) {
        self.filler.fill_nowhere();
    }

    /// Makes what was taken known to the pool.
    #[inline]
    pub(crate) fn finish(self) -> BatchEnd {
        let Self { mut filler, batch, times, .. } = self;
        let PacketTimes { min_ns, untimed, latest_ns, raised_ns, .. } = times;
        // The beginning of a packet counts, too.
        let uncertainty_ns = match latest_ns {
            0 => 0,
            latest_ns => batch.uncertainty_ns + latest_ns.saturating_sub(batch.time_ns),
        };
        let uncertainty_ns = uncertainty_ns.max(raised_ns);
        filler.uncertain(uncertainty_ns);
        filler.finish();
        BatchEnd { last_ns: min_ns, untimed, uncertainty_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use wirecap_core::{Geometry, PoolId};
    use wirecap_sys::memory::{CellWriter, LivePool, PacketMemory};

    /// A batch at `time_ns` whose packets came up to 300 ns before.
    fn batch(time_ns: u64, min_ns: u64) -> BatchTime {
        BatchTime { uncertainty_ns: 300, ..BatchTime::certain(time_ns, min_ns, 8) }
    }

    fn pool() -> (LivePool, CellWriter) {
        let geometry = Geometry::new(8, 1, 2048).unwrap();
        let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), 2048).unwrap());
        let mut pool = memory.carve(PoolId { nic_id: 0, ring_id: 0 }, geometry).unwrap();
        let mut writer = CellWriter::new(&pool).unwrap();
        writer.attach(&mut pool);
        (pool, writer)
    }

    /// The next cell, with a part of a packet.
    fn cell(writer: &mut CellWriter, more: bool) -> FilledCell {
        writer.fill_unwritten(1, 60, more).next().expect("an attached cell")
    }

    fn times(pool: &mut LivePool) -> Vec<u64> {
        let (slots, handover) = (pool.slots(), pool.hand_over().unwrap());
        slots.range(&handover.range).unwrap().map(|cell| cell.timestamp_ns).collect()
    }

    #[test]
    fn packets_keep_their_own_times_unless_these_would_go_back() {
        let (mut pool, mut writer) = pool();
        let mut intake = Intake::new(pool.filler().unwrap(), batch(1_000, 500), None);
        let own = [
            CellTime::At(110),
            CellTime::At(700),
            CellTime::At(700),
            CellTime::Unknown,
            CellTime::At(990),
            CellTime::At(2_000),
        ];
        intake.take_stamped(own.into_iter().map(|time| (cell(&mut writer, false), time)));
        let end = intake.finish();
        assert_eq!(
            (end.last_ns, end.untimed, end.uncertainty_ns),
            (2_001, 1, 390),
            "only the time of the first packet is raised by more"
        );
        assert_eq!(times(&mut pool), [500, 700, 701, 1_000, 1_001, 2_000]);
    }

    #[test]
    fn a_run_of_packets_is_late_by_what_its_time_is_later_than_the_batch() {
        for (min_ns, now_ns, first_ns, uncertainty_ns) in [
            (500, None, 1_000, 300 + 9),
            // Some came after the look.
            (500, Some(1_200), 1_200, 300 + 209),
            // The clock was set back in between.
            (500, Some(900), 1_000, 300 + 9),
            (2_000, Some(1_200), 2_000, 300 + 1_009),
        ] {
            let (mut pool, _writer) = pool();
            let mut intake = Intake::new(pool.filler().unwrap(), batch(1_000, min_ns), None);
            assert_eq!(intake.times.run(10, now_ns), first_ns);
            let end = intake.finish();
            let expected = BatchEnd { last_ns: first_ns + 10, untimed: 10, uncertainty_ns };
            assert_eq!(end, expected, "{min_ns}, {now_ns:?}");
        }
    }

    /// A packet that began in the previous batch keeps its time, and the next packet may be earlier than this
    /// batch.
    #[test]
    fn a_packet_that_goes_on_in_the_next_batch_keeps_its_time() {
        let (mut pool, mut writer) = pool();
        let mut intake = Intake::new(pool.filler().unwrap(), batch(1_000, 1), None);
        intake.take_stamped([(cell(&mut writer, true), CellTime::At(600))].into_iter());
        let last_ns = intake.finish().last_ns;
        let mut intake = Intake::new(pool.filler().unwrap(), batch(5_000, last_ns + 1), None);
        let parts = [(true, CellTime::Continued), (false, CellTime::Continued), (false, CellTime::At(800))];
        intake.take_stamped(parts.into_iter().map(|(more, time)| (cell(&mut writer, more), time)));
        assert_eq!(intake.finish().untimed, 0);
        let times = times(&mut pool);
        assert_eq!((times[0], times[3]), (600, 800));
    }

    #[test]
    fn an_empty_batch_leaves_the_times_unchanged() {
        let (mut pool, mut writer) = pool();
        let mut intake = Intake::new(pool.filler().unwrap(), batch(1_000, 500), None);
        intake.take(std::iter::empty());
        let end = intake.finish();
        assert_eq!(
            end,
            BatchEnd { last_ns: 500, untimed: 0, uncertainty_ns: 0 },
            "a stamp before 1,000 is still to come"
        );
        let mut intake = Intake::new(pool.filler().unwrap(), batch(1_000, 2_000), None);
        intake.take([true, false, false].into_iter().map(|more| cell(&mut writer, more)));
        let end = intake.finish();
        assert_eq!(
            (end.untimed, end.uncertainty_ns),
            (2, 300 + 1_002),
            "their times are later than the batch"
        );
        assert_eq!(times(&mut pool), [2_000, 2_000, 2_001]);
    }
}
