//! A queue whose packets a program packs into blocks.
//!
//! ```text
//!   packet ──► program ── copies it behind the last one ──► block of its stream ── a part ──► PackedQueue ──► pool
//! ```
//!
//! Rule: there is no socket. The stream is filled as long as a link keeps the program attached.

use std::{ops::Range, sync::Arc, time::Duration};

use wirecap_core::{Direction, Geometry, PoolId};
use wirecap_filter::UserFilter;
use wirecap_sys::{
    clock::{StampClock, StampShift, system_ns},
    memory::LivePool,
    packed::{PackedError, PackedLook, PackedStream, ReceivedPart},
};

use super::{
    intake::Intake,
    queue::{Look, OpenQueue, QueueCounts, ReceiveQueue, WaitingCells},
    stamp_reader::StampReader,
};
use crate::{
    Wait,
    filter::packet_type,
    packet::ChunkReader,
    program::{Counters, Packing},
};

/// How long packets that a program packs, and stamps, wait at most for a thread that sleeps
/// ([`Wait::Sleep`]): a sleep and the wake-up after it cost some 15 µs, so that one per millisecond would be
/// half of a receiver's CPU time. Blocks of TPACKET_V3 wait as long on a link of unknown speed.
pub const LONGEST_HOLD: Duration = Duration::from_millis(8);

/// Holds packets back for more that follow closely: each look costs a wake-up, and a receiver that is close
/// behind the program contends with it for each cache line.
#[derive(Debug)]
struct Hold {
    /// For how long after packets were received the next ones wait for more, at most, in nanoseconds.
    longest_ns: u64,
    /// This many bytes do not wait.
    most_bytes: u64,
    /// When packets were received last, in nanoseconds since 1970 (UTC).
    received_ns: u64,
    /// What is in front of it does not wait, in bytes counted since the start; and since when.
    released: u64,
    released_ns: u64,
    /// How fast packets came between the last two releases, in bytes per millisecond.
    bytes_per_ms: u64,
    /// The program gets free blocks: it is not the end.
    gives: bool,
    /// The thread sleeps for as long after it has received: the next packet does not wake it.
    sleeps: bool,
}

const NS_PER_MS: u64 = 1_000_000;

impl Hold {
    /// At this many bytes, receive at once, while they are still in the cache, if the cores share one.
    const MAX_BYTES: u64 = 2 << 20;
    /// Times of batches are as exact as looks are frequent.
    const BATCH: Duration = Duration::from_micros(500);
    /// A thread that blocks wants packets soon. Shorter than the shortest sleep, so that one sleep ends it.
    const SHORT: Duration = Duration::from_micros(40);
    const FEW_BYTES: u64 = 32 << 10;
    /// No more than this part of the pool is held back.
    const SHARE_OF_POOL: u64 = 8;

    /// For packets with times of their own or without, in pools of this size. A thread that does not sleep
    /// gets them at once.
    fn new(wait: Wait, stamped: bool, geometry: Geometry) -> Self {
        let (longest, most) = match (wait, stamped) {
            (Wait::Busy, _) => (Duration::ZERO, 0),
            (Wait::Sleep, true) => (LONGEST_HOLD, Self::MAX_BYTES),
            (Wait::Sleep, false) => (Self::BATCH, Self::MAX_BYTES),
            (Wait::Block, _) => (Self::SHORT, Self::FEW_BYTES),
        };
        let most_bytes = most.min(geometry.pool_bytes() / Self::SHARE_OF_POOL);
        Self {
            longest_ns: longest.as_nanos() as u64,
            most_bytes,
            received_ns: 0,
            released: 0,
            released_ns: 0,
            bytes_per_ms: 0,
            gives: true,
            sleeps: wait == Wait::Sleep,
        }
    }

    /// How long the bytes of `waiting` still wait for more at `now_ns`, by a clock that may have been set
    /// back; no longer than until there are too many of them, if they come as fast as before. If the answer
    /// is zero, all of them are released: they do not wait again, even if they are received in several parts.
    fn time_left(&mut self, waiting: Range<u64>, now_ns: u64) -> Duration {
        if waiting.start >= self.released {
            let left = self.left(waiting.end.saturating_sub(waiting.start), now_ns);
            if !left.is_zero() {
                return left;
            }
            let passed_ns = now_ns.abs_diff(self.released_ns).max(1);
            let came = waiting.end.saturating_sub(self.released).min(u64::MAX / NS_PER_MS);
            (self.bytes_per_ms, self.released_ns) = (came * NS_PER_MS / passed_ns, now_ns);
        }
        self.released = waiting.end;
        Duration::ZERO
    }

    /// How long bytes that are not released still wait at `now_ns`, if there are this many.
    fn left(&self, bytes: u64, now_ns: u64) -> Duration {
        let age_ns = now_ns.abs_diff(self.received_ns);
        if !self.gives || age_ns >= self.longest_ns || bytes >= self.most_bytes {
            return Duration::ZERO;
        }
        let room = self.most_bytes - bytes;
        let filled_ns = (room * NS_PER_MS).checked_div(self.bytes_per_ms).unwrap_or(u64::MAX);
        Duration::from_nanos(filled_ns.min(self.longest_ns - age_ns))
    }

    /// Notes that packets were received at `now_ns`. Returns how long the thread may leave what comes next.
    fn received(&mut self, now_ns: u64) -> Duration {
        self.received_ns = now_ns;
        if self.sleeps { self.left(0, now_ns) } else { Duration::ZERO }
    }
}

/// One stream of a port whose program packs packets: a receive queue, or a CPU.
#[derive(Debug)]
pub(crate) struct PackedQueue {
    stream: PackedStream,
    counters: Arc<Counters>,
    queue: u32,
    geometry: Geometry,
    /// Cells of the block that is received which the pool has not filled.
    space: u32,
    /// Filters packets that the kernel left undecided.
    filter: Option<Arc<UserFilter>>,
    /// Packets that it has refused.
    refused: u64,
    /// Packets that the program has cut.
    cut: u64,
    stamps: StampReader,
    /// How the program brings stamps to UTC, if it does.
    shift: Option<StampShift>,
    hold: Hold,
    /// The last counters that could be read.
    last: QueueCounts,
}

impl PackedQueue {
    /// The queue `id` of an interface, whose packets a program packs into the stream of its number, and
    /// counts.
    pub(crate) fn open(
        packing: &Packing,
        id: PoolId,
        counters: &Arc<Counters>,
        filter: Option<Arc<UserFilter>>,
        stamps: StampReader,
        wait: Wait,
    ) -> Result<OpenQueue, PackedError> {
        let &Packing { ref memory, has_hashes, to_utc, .. } = packing;
        let queue = u32::from(id.ring_id);
        let (mut stream, mut pool, reader) = memory.open_stream(queue, id)?.expect("a stream for each queue");
        let waker = Some(stream.waker());
        let clock = stamps.clock().filter(|_| to_utc);
        let shift = clock.and_then(|clock| clock.program_shift(system_ns()));
        shift.into_iter().for_each(|shift| stream.set_shift(shift));
        stream.attach(Some(&mut pool));
        let geometry = pool.geometry();
        let space = geometry.cells_per_chunk();
        let counters = Arc::clone(counters);
        let last = QueueCounts::default();
        let hold = Hold::new(wait, stamps.clock().is_some(), geometry);
        // Files are little-endian and have no hashes.
        let as_in_files = cfg!(target_endian = "little") && !has_hashes;
        let queue = Self {
            stream,
            counters,
            queue,
            geometry,
            space,
            filter,
            refused: 0,
            cut: 0,
            stamps,
            shift,
            hold,
            last,
        };
        let reader = ChunkReader::Packed { reader, as_in_files };
        Ok(OpenQueue { waker, ..OpenQueue::new(queue, pool, reader) })
    }

    /// Follows the system clock, if the program brings stamps to UTC.
    fn follow_clock(&mut self, now_ns: u64) {
        let Some(before) = self.shift else { return };
        let Some(shift) = self.stamps.changed_shift(now_ns).filter(|&shift| shift != before) else { return };
        self.stream.set_shift(shift);
        self.shift = Some(shift);
    }

    /// Receives a part whose packets need not be looked at: the program has counted them, and they have their
    /// times, or that of the batch.
    fn receive_counted(&mut self, intake: &mut Intake<'_>) -> Option<ReceivedPart> {
        let (end, space, is_stamped) = (intake.batch.end, intake.space(), self.shift.is_some());
        let part = self.stream.receive_counted(space, |packets, received| match is_stamped {
            true => 0,
            // Those behind the end came after the look, whose time they must not have.
            false => intake.times.run(packets, (received > end).then(system_ns)),
        })?;
        self.cut = self.stream.cut();
        Some(part)
    }

    /// Receives a part and looks at each packet: for its time, unless the program has brought it to UTC, and
    /// to filter it.
    fn receive_one_by_one(&mut self, intake: &mut Intake<'_>) -> Option<ReceivedPart> {
        let Self { stream, filter, refused, cut, stamps, shift, .. } = self;
        let end = intake.batch.end;
        // What is looked at here is not seen by `follow_clock`.
        let mut times = shift.is_none().then(|| stamps.times(intake.batch.now_ns));
        stream.receive(end, intake.space(), |packet| {
            let is_wanted = filter.as_ref().is_none_or(|filter| {
                // A record without a direction is inbound.
                let direction = packet.direction().unwrap_or(Direction::In);
                filter.wants_of_type(packet_type(direction), packet.data(), packet.original_len())
            });
            if is_wanted {
                if let Some(times) = &mut times {
                    packet.set_time(intake.times.next(times(packet.stamp())));
                }
                *cut += u64::from(packet.is_cut());
            }
            *refused += u64::from(!is_wanted);
            is_wanted
        })
    }

    /// Cells that these bytes take.
    fn cells(&self, bytes: &Range<u64>) -> u32 {
        (bytes.end - bytes.start).div_ceil(self.geometry.cell_bytes().into()) as u32
    }
}

impl ReceiveQueue for PackedQueue {
    fn receive(&mut self, _max: u32, intake: &mut Intake<'_>) {
        let batch = intake.batch;
        intake.hold = self.hold.time_left(self.stream.received()..batch.end, batch.now_ns);
        if !intake.hold.is_zero() {
            return;
        }
        let has_times = self.shift.is_some() || self.stamps.clock().is_none();
        let part = match &self.filter {
            None if has_times => self.receive_counted(intake),
            _ => self.receive_one_by_one(intake),
        };
        if let Some(ReceivedPart { part, raised_ns }) = part {
            intake.take_part(part);
            intake.times.raised_by(raised_ns);
            self.space = match intake.space() {
                0 => self.geometry.cells_per_chunk(),
                space => space,
            };
            let held = self.hold.received(batch.now_ns);
            // What is left of what was released does not wait.
            intake.hold = if self.stream.received() < batch.end { Duration::ZERO } else { held };
        }
    }

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        self.hold.gives = pool.is_some();
        // In silence, too: the next packet has its time before anything is received.
        self.follow_clock(system_ns());
        self.stream.attach(pool);
    }

    fn backlog(&self) -> u32 {
        self.cells(&self.stream.waiting())
    }

    fn look(&self) -> Look {
        let PackedLook { waiting, unreceived_cells } = self.stream.look(self.space);
        let outlook = self.stamps.outlook(!waiting.is_empty());
        let waiting = Some(WaitingCells { cells: waiting, may_refuse: true });
        Look { waiting, unreceived: unreceived_cells, outlook }
    }

    fn counts(&mut self) -> QueueCounts {
        if let Ok(program) = self.counters.of(self.queue) {
            self.last = QueueCounts {
                // A tap counts in its stream, other programs in the map.
                seen: program.seen + self.stream.seen(),
                filtered: program.filtered + self.refused,
                cut: self.cut,
                // The reader also counts implausible stamps.
                unstamped: program.unstamped.max(self.stamps.unknown()),
                ..program
            };
        }
        self.last
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        self.stamps.clock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    fn hold(wait: Wait, stamped: bool) -> Hold {
        let pool_of_64_mib = Geometry::new(128, 256, 2048).unwrap();
        Hold { received_ns: 1_000_000_000, ..Hold::new(wait, stamped, pool_of_64_mib) }
    }

    #[test]
    fn packets_that_follow_closely_wait_for_more() {
        let now_ns = 1_000_000_000;
        for (stamped, bytes, now_ns, waits_us) in [
            (true, 96, now_ns, 8000),
            (true, 96, now_ns + 300 * US, 7700),
            (true, 96, now_ns + 8000 * US, 0),
            (true, (2 << 20) - 1, now_ns, 8000),
            (true, 2 << 20, now_ns, 0),
            (false, 96, now_ns + 10 * US, 490),
            (false, 96, now_ns + 500 * US, 0),
            (false, (2 << 20) - 1, now_ns, 500),
            (false, 2 << 20, now_ns, 0),
            // The clock was set back: a little, and far.
            (true, 96, now_ns - 300 * US, 7700),
            (true, 96, 0, 0),
        ] {
            let waits = hold(Wait::Sleep, stamped).time_left(0..bytes, now_ns);
            assert_eq!(waits, Duration::from_micros(waits_us), "{stamped} {bytes} bytes at {now_ns}");
        }
        assert_eq!(hold(Wait::Block, true).time_left(0..96, now_ns), Duration::from_micros(40));
        assert!(hold(Wait::Block, true).time_left(0..32 << 10, now_ns).is_zero());
        assert!(hold(Wait::Busy, true).time_left(0..96, now_ns).is_zero());
        let mut at_the_end = Hold { gives: false, ..hold(Wait::Sleep, true) };
        assert!(at_the_end.time_left(0..96, 1_000_000_000).is_zero());
    }

    #[test]
    fn what_need_not_wait_is_received_in_one_go() {
        let mut hold = hold(Wait::Sleep, true);
        let now_ns = hold.received_ns;
        assert!(hold.time_left(0..2 << 20, now_ns).is_zero());
        // A part of it was received, and the rest is short.
        assert!(hold.time_left((2 << 20) - 96..2 << 20, now_ns).is_zero());
        hold.bytes_per_ms = 0;
        assert!(!hold.time_left(2 << 20..(2 << 20) + 96, now_ns).is_zero());
    }

    #[test]
    fn fast_packets_wait_until_they_are_many() {
        let mut hold = hold(Wait::Sleep, true);
        let mut now_ns = hold.received_ns;
        (hold.released, hold.released_ns) = (1 << 20, now_ns);
        // 1 MiB came within a millisecond: 2 MiB will take two, and then nothing waits any more.
        now_ns += 10 * NS_PER_MS;
        assert!(hold.time_left(1 << 20..11 << 20, now_ns).is_zero());
        hold.received_ns = now_ns;
        let ms = |ms: u64| Duration::from_millis(ms);
        assert_eq!(hold.time_left(11 << 20..11 << 20, now_ns), ms(2));
        assert_eq!(hold.time_left(11 << 20..12 << 20, now_ns + NS_PER_MS), ms(1));
        assert!(hold.time_left(11 << 20..13 << 20, now_ns + 2 * NS_PER_MS).is_zero());
        // Slow ones wait as long as any.
        hold.received_ns = now_ns + 2 * NS_PER_MS;
        assert!(hold.time_left(13 << 20..(13 << 20) + 96, now_ns + 100 * NS_PER_MS).is_zero());
        hold.received_ns = now_ns + 100 * NS_PER_MS;
        assert_eq!(hold.time_left((13 << 20) + 96..(13 << 20) + 96, now_ns + 100 * NS_PER_MS), LONGEST_HOLD);
    }

    #[test]
    fn a_thread_that_has_received_sleeps_until_more_would_be_released() {
        let now_ns = 2_000_000_000;
        assert_eq!(hold(Wait::Sleep, true).received(now_ns), LONGEST_HOLD);
        assert_eq!(hold(Wait::Sleep, false).received(now_ns), Duration::from_micros(500));
        // One that blocks is woken by the next packet.
        assert!(hold(Wait::Block, true).received(now_ns).is_zero());
        assert!(hold(Wait::Busy, true).received(now_ns).is_zero());
        let mut at_the_end = Hold { gives: false, ..hold(Wait::Sleep, true) };
        assert!(at_the_end.received(now_ns).is_zero());
    }

    #[test]
    fn a_small_pool_holds_back_a_part_of_itself_at_most() {
        let mut hold = Hold::new(Wait::Sleep, true, Geometry::new(128, 4, 2048).unwrap());
        assert!(!hold.time_left(0..(128 << 10) - 1, 0).is_zero());
        assert!(hold.time_left(0..128 << 10, 0).is_zero());
    }
}
