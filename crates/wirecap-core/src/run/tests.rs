//! Runs in virtual time: a kernel, a worker that handles packets at once, and a user who keeps some packets
//! for long.
//!
//! ```text
//!   burst ──► fill ring ──► receive ring ──► pool ──► worker ──► recycled at once
//!                                                       └─ one packet in KEPT_EVERY ──► kept until KEPT later ones are
//! ```

use std::collections::VecDeque;

use super::{Run, RunSearch};
use crate::{
    chunk::{ChunkRange, PoolId},
    geometry::Geometry,
    pool::Pool,
    slots::Descriptor,
};

/// M and R. Under miri everything is smaller.
const M: u32 = if cfg!(miri) { 16 } else { 256 };
const R: u32 = if cfg!(miri) { 8 } else { 32 };
const CELLS: u32 = M * R;
const BURSTS: u32 = if cfg!(miri) { 14 } else { 400 };

struct Bench {
    pool: Pool,
    fill_ring: VecDeque<u64>,
    receive_ring: VecDeque<u64>,
    kept: VecDeque<ChunkRange>,
    /// How many packets are kept at the same time.
    keeps: usize,
    lost: u32,
    packets: u32,
    batches: u32,
}

impl Bench {
    fn new(shortest: Option<u32>, keeps: u32) -> Self {
        let id = PoolId { nic_id: 0, ring_id: 0 };
        let mut pool = Pool::new(id, Geometry::new(M, R, 2048).unwrap(), 0);
        if let Some(shortest) = shortest {
            pool.allow_runs(shortest);
        }
        Self {
            pool,
            fill_ring: VecDeque::new(),
            receive_ring: VecDeque::new(),
            kept: VecDeque::new(),
            keeps: keeps as usize,
            lost: 0,
            packets: 0,
            batches: 0,
        }
    }

    fn attach(&mut self) {
        let room = CELLS - self.fill_ring.len() as u32;
        self.pool.attach(room, |address| self.fill_ring.push_back(address));
    }

    /// Packets come while none of our threads runs. Then all of them are handled.
    fn burst(&mut self, packets: u32, kept_every: u32) {
        self.attach();
        for _ in 0..packets {
            match self.fill_ring.pop_front() {
                Some(address) => self.receive_ring.push_back(address),
                None => self.lost += 1,
            }
        }
        while !self.receive_ring.is_empty() {
            self.batch(kept_every);
        }
    }

    /// One batch: what a worker does between two looks at its queue.
    fn batch(&mut self, kept_every: u32) {
        self.attach();
        let mut filler = self.pool.filler().expect("cells in the ring are of an attached run");
        let count = (filler.space() as usize).min(self.receive_ring.len());
        let cell = |address| Descriptor { address, len: 60, more: false, timestamp_ns: 0 };
        filler.fill_all(self.receive_ring.drain(..count).map(cell));
        filler.finish();
        let mut rest = self.pool.hand_over().map(|handover| handover.range);
        self.batches += 1;
        while let Some(range) = rest {
            let (packet, others) = range.split_at(1);
            rest = others;
            self.packets += 1;
            if self.packets % kept_every == 0 {
                self.kept.push_back(packet);
            } else {
                self.pool.recycle(packet).unwrap();
            }
            while self.kept.len() > self.keeps {
                self.pool.recycle(self.kept.pop_front().unwrap()).unwrap();
            }
        }
    }

    /// Keeps all packets of the pool, then recycles all but one in `kept_every`.
    fn keep_every(&mut self, kept_every: u32) {
        self.burst(CELLS, 1);
        for (number, packet) in (1..).zip(std::mem::take(&mut self.kept)) {
            if number % kept_every == 0 {
                self.kept.push_back(packet);
            } else {
                self.pool.recycle(packet).unwrap();
            }
        }
        assert!(self.fill_ring.is_empty());
    }

    /// The average number of packets in a batch since the last call.
    fn take_batch_size(&mut self) -> u32 {
        std::mem::take(&mut self.packets) / std::mem::take(&mut self.batches)
    }
}

#[test]
fn a_user_who_keeps_one_packet_in_twenty_blocks_no_other_cells() {
    let keeps = CELLS / 8;
    // Eight ninths of the cells that are not kept.
    let burst = (CELLS - keeps) * 8 / 9 - M;
    let mut bench = Bench::new(Some(1), keeps);
    for _ in 0..BURSTS {
        bench.burst(burst, 20);
    }
    assert_eq!((bench.lost, bench.kept.len()), (0, keeps as usize));
    // Between two packets that are kept there are seven, on average.
    let batch = bench.take_batch_size();
    assert!(batch >= 3, "{batch} packets a batch");

    // With whole chunks only, all chunks are soon away.
    let mut bench = Bench::new(None, keeps);
    for _ in 0..BURSTS {
        bench.burst(burst, 20);
    }
    assert_eq!(bench.pool.levels().captured_chunks, R);
    assert!(bench.lost > (BURSTS - 10) * burst, "{}", bench.lost);
}

#[test]
fn chunks_are_whole_again_soon_after_the_last_kept_packet() {
    let mut bench = Bench::new(Some(1), CELLS / 4);
    for _ in 0..BURSTS {
        bench.burst(CELLS / 2, 7);
    }
    assert_eq!(bench.lost, 0);
    bench.keeps = 0;
    bench.take_batch_size();
    // Each time all cells have been filled once, one part in sixteen is mended; free cells elsewhere join
    // up, too.
    for _ in 0..2 * 16 {
        bench.burst(CELLS / 2, 1);
    }
    let levels = bench.pool.levels();
    assert_eq!((bench.lost, levels.captured_chunks), (0, 0), "{levels:?}");
    bench.take_batch_size();
    bench.burst(CELLS / 2, 1);
    assert!(bench.take_batch_size() >= M / 2);
}

#[test]
fn a_kernel_without_cells_gets_free_ones_in_bounded_steps() {
    let mut bench = Bench::new(Some(1), CELLS);
    // One cell is kept between any two cells that are home.
    bench.keep_every(2);
    bench.attach();
    let given = bench.fill_ring.len() as u32;
    assert!((1..=super::STEPS_AT_ONCE).contains(&given), "{given}");
    for _ in 0..CELLS.div_ceil(super::STEPS_AT_ONCE) {
        bench.attach();
    }
    let given = bench.fill_ring.len() as u32;
    assert!(given >= CELLS / 2 * 8 / 9, "{given}");
    bench.burst(given, 1);
    assert_eq!(bench.lost, 0);
}

/// What is left can be mended.
#[test]
fn a_search_ends_when_few_cells_are_left_at_home() {
    let mut bench = Bench::new(Some(1), CELLS);
    bench.keep_every(8);
    for _ in 0..R {
        bench.attach();
    }
    let levels = bench.pool.levels();
    let most = levels.attached_cells / 16;
    // The last run had seven cells.
    assert!((most.saturating_sub(8)..=most).contains(&levels.resting_cells), "{levels:?}");
}

#[test]
fn cells_that_did_not_fit_the_ring_go_to_the_kernel_later() {
    let mut bench = Bench::new(Some(2), CELLS);
    bench.keep_every(4);
    for room in [0, 1].into_iter().cycle().take(4 * R as usize) {
        assert_eq!(bench.pool.attach(room, |_| ()), 0, "a run has at least two cells");
    }
    // The runs are cut to the room in the ring.
    assert_eq!(bench.pool.attach(2, |_| ()), 2);
    assert_eq!(bench.pool.attach(5, |_| ()), 5);
    assert!(bench.pool.attach(CELLS, |_| ()) > M / 2);
}

#[test]
fn shorter_runs_than_the_port_can_use_stay_at_home() {
    let gaps = M / 4;
    for (shortest, least) in [(gaps, 0), (gaps - 1, (CELLS - CELLS / gaps) * 8 / 9)] {
        let mut bench = Bench::new(Some(shortest), CELLS);
        bench.keep_every(gaps);
        for _ in 0..R {
            bench.attach();
        }
        let given = bench.fill_ring.len() as u32;
        assert!(given >= least && (given == 0) == (least == 0), "{given} in runs of {shortest}");
    }
}

/// Slots of the part that is mended first, and of each other one.
const PART: u32 = 16;
/// Slots of the pool that is searched below: 32 chunks of 8 cells.
const SLOTS: u32 = 256;

fn search(shortest: u32) -> RunSearch {
    let mut search = RunSearch::new(Geometry::new(8, 32, 2048).unwrap());
    search.allow(shortest);
    search
}

/// Goes through the whole pool once.
fn search_round(search: &mut RunSearch, attached_cells: u32, has_found: bool) {
    loop {
        let end = search.span(attached_cells).end;
        if search.go_on_to(end, has_found) {
            return;
        }
    }
}

#[test]
fn there_are_as_many_runs_as_the_shortest_fits_and_none_as_long_as_a_chunk() {
    for (shortest, runs) in [(0, 256), (1, 256), (3, 85), (7, 36), (8, 0), (9, 0)] {
        let mut search = search(shortest);
        assert_eq!((search.allow(shortest), search.is_allowed()), (runs, runs > 0), "{shortest}");
    }
    assert!(search(3).is_enough(3) && !search(3).is_enough(2));
}

#[test]
fn a_search_begins_above_one_cell_in_eight_and_ends_at_one_in_sixteen() {
    let search = search(1);
    assert!(!search.is_due(84, 10) && search.is_due(84, 11));
    assert!(!search.is_done(84, 6) && search.is_done(84, 5));
}

#[test]
fn a_search_in_vain_is_repeated_only_after_a_change() {
    let mut search = search(1);
    search_round(&mut search, 0, false);
    assert!(search.is_due(0, 1), "there was a change during the round: runs were allowed");
    search_round(&mut search, 0, true);
    assert!(search.is_due(0, 1), "the round has found a run");
    search_round(&mut search, 0, false);
    assert!(!search.is_due(0, 1));
    search.note_change();
    assert!(search.is_due(0, 1));
    for _ in 0..2 {
        search_round(&mut search, SLOTS / 2, false);
    }
    assert!(!search.is_due(SLOTS / 2, SLOTS / 2));
    assert!(search.is_due(SLOTS / 2 - 1, SLOTS / 2), "the part that was passed over may have a run");
}

#[test]
fn a_search_goes_from_chunk_to_chunk_and_passes_over_the_part_that_is_mended() {
    let mut search = search(1);
    assert_eq!(search.span(SLOTS / 2 - 1), 0..8, "the kernel has too few cells to mend a part");
    assert_eq!(search.span(SLOTS / 2), PART..PART);
    search.go_on_to(PART, false);
    assert_eq!(search.span(SLOTS / 2), PART..PART + 8);
    search.go_on_to(PART + 3, true);
    assert_eq!(search.span(SLOTS / 2), PART + 3..PART + 8, "the rest of a chunk");
}

#[test]
fn the_next_part_is_mended_once_as_many_slots_were_filled_as_there_are() {
    let geometry = Geometry::new(8, 32, 2048).unwrap();
    let mut search = search(1);
    for part in (0..SLOTS / PART).chain([0]) {
        let mended = part * PART..(part + 1) * PART;
        search.go_on_to(mended.start, true);
        assert_eq!(search.span(SLOTS), mended.end..mended.end);
        for chunk_id in 0..32 {
            search.go_on_to(mended.start, true);
            assert!(search.span(SLOTS).is_empty(), "{chunk_id} chunks are filled");
            search.note_filled(Run::whole(chunk_id, geometry));
        }
        search.go_on_to(mended.start, true);
        assert_eq!(search.span(SLOTS), mended.start..mended.start + 8);
    }
}

/// The parts of a small pool are parts of chunks.
#[test]
fn a_span_ends_where_the_part_that_is_mended_begins() {
    let geometry = Geometry::new(8, 4, 2048).unwrap();
    let mut search = RunSearch::new(geometry);
    search.allow(1);
    (0..4).for_each(|chunk_id| search.note_filled(Run::whole(chunk_id, geometry)));
    assert_eq!(search.span(32), 0..2);
    search.go_on_to(2, true);
    assert_eq!(search.span(32), 4..4);
    search.go_on_to(4, true);
    assert_eq!(search.span(32), 4..8);
}
