//! Tests of the pool, the last one against a model that tracks every cell.

use super::*;
use crate::slots::Descriptor;
use proptest::prelude::*;

const ID: PoolId = PoolId { nic_id: 1, ring_id: 2 };
const BASE: u64 = 1 << 20;

// Under miri, which is a hundred times slower, fewer cases of the same kinds.
/// Histories to try, and the most steps that one of them has.
const HISTORIES: u32 = if cfg!(miri) { 3 } else { 256 };
const STEPS: usize = if cfg!(miri) { 30 } else { 400 };

/// Fills one cell.
fn fill(pool: &mut Pool, descriptor: Descriptor) -> bool {
    let mut filler = pool.filler().expect("an attached chunk");
    let ours = filler.fill(descriptor);
    filler.finish();
    ours
}

fn pool(cells: u32, chunks: u32) -> Pool {
    Pool::new(ID, Geometry::new(cells, chunks, 2048).unwrap(), BASE)
}

/// A kernel that fills the cells it was given, in order, with head room like AF_XDP's.
#[derive(Default)]
struct Kernel {
    fill_ring: VecDeque<u64>,
}

impl Kernel {
    fn attach(&mut self, pool: &mut Pool, room: u32) -> u32 {
        pool.attach(room, |address| self.fill_ring.push_back(address))
    }

    fn receive(&mut self, pool: &mut Pool, more: bool) {
        let address = self.fill_ring.pop_front().expect("a cell") + 256;
        assert!(fill(pool, Descriptor { address, len: 60, more, timestamp_ns: 7 }));
    }
}

/// A hand-over is as uncertain as its most uncertain packet, even one of which only the beginning has
/// arrived.
#[test]
fn the_uncertainty_of_a_hand_over_is_the_largest_of_its_packets() {
    let mut pool = pool(8, 1);
    let mut kernel = Kernel::default();
    kernel.attach(&mut pool, 8);
    let mut receive = |pool: &mut Pool, more: bool, uncertainty_ns: u64| {
        let address = kernel.fill_ring.pop_front().expect("a cell") + 256;
        let mut filler = pool.filler().expect("an attached chunk");
        assert!(filler.fill(Descriptor { address, len: 60, more, timestamp_ns: 7 }));
        filler.uncertain(uncertainty_ns);
        filler.finish();
    };
    for uncertainty_ns in [3, 900, 20] {
        receive(&mut pool, false, uncertainty_ns);
    }
    let hand_over = |pool: &mut Pool| pool.hand_over().expect("packets").uncertainty_ns;
    assert_eq!(hand_over(&mut pool), 900);
    receive(&mut pool, false, 5);
    receive(&mut pool, true, 700);
    assert_eq!(hand_over(&mut pool), 700, "the incomplete packet counts");
    receive(&mut pool, false, 1);
    assert_eq!(hand_over(&mut pool), 700, "the packet keeps the time of its beginning");
    receive(&mut pool, false, 2);
    assert_eq!(hand_over(&mut pool), 2);
}

#[test]
fn a_chunk_passes_through_its_three_states() {
    let (mut pool, mut kernel) = (pool(4, 2), Kernel::default());
    assert_eq!(pool.state(0), ChunkState::Free);
    assert!(!pool.is_full(), "no chunk is filled");
    assert_eq!(kernel.attach(&mut pool, 7), 4, "only whole chunks are attached");
    assert_eq!(pool.state(0), ChunkState::Attached);
    assert!(!pool.is_full());
    for _ in 0..4 {
        kernel.receive(&mut pool, false);
    }
    assert!(pool.is_full());
    let handover = pool.hand_over().unwrap();
    assert_eq!((handover.range.first(), handover.range.count()), (0, 4));
    assert_eq!(pool.state(0), ChunkState::Captured);
    pool.recycle(handover.range).unwrap();
    assert_eq!(pool.state(0), ChunkState::Free);
}

#[test]
fn a_partly_filled_chunk_is_handed_over_as_a_range_and_goes_home_with_its_last_cell() {
    let (mut pool, mut kernel) = (pool(4, 1), Kernel::default());
    kernel.attach(&mut pool, 4);
    kernel.receive(&mut pool, false);
    let first = pool.hand_over().unwrap();
    assert!(pool.hand_over().is_none());
    kernel.receive(&mut pool, false);
    kernel.receive(&mut pool, false);
    kernel.receive(&mut pool, false);
    assert_eq!(pool.filled_cells(), 3, "without the cell that was handed over");
    let second = pool.hand_over().unwrap();
    assert_eq!((second.range.first(), second.range.count(), second.first_number), (1, 3, 1));
    pool.recycle(second.range).unwrap();
    assert_eq!(pool.state(0), ChunkState::Captured);
    assert_eq!(kernel.attach(&mut pool, 4), 0);
    pool.recycle(first.range).unwrap();
    assert_eq!(pool.state(0), ChunkState::Free);
    assert_eq!(kernel.attach(&mut pool, 4), 4);
}

#[test]
fn cells_that_come_home_before_the_chunk_is_full_do_not_free_it() {
    let (mut pool, mut kernel) = (pool(2, 1), Kernel::default());
    kernel.attach(&mut pool, 2);
    kernel.receive(&mut pool, false);
    let first = pool.hand_over().unwrap();
    pool.recycle(first.range).unwrap();
    assert_eq!(pool.state(0), ChunkState::Attached);
    kernel.receive(&mut pool, false);
    let second = pool.hand_over().unwrap();
    pool.recycle(second.range).unwrap();
    assert_eq!(pool.state(0), ChunkState::Free);
}

#[test]
fn a_packet_in_two_chunks_is_handed_over_whole() {
    let (mut pool, mut kernel) = (pool(4, 2), Kernel::default());
    kernel.attach(&mut pool, 8);
    kernel.receive(&mut pool, false);
    assert!(!pool.has_begun());
    kernel.receive(&mut pool, true);
    assert!(pool.has_begun());
    kernel.receive(&mut pool, true);
    kernel.receive(&mut pool, true);
    let first = pool.hand_over().unwrap();
    assert_eq!(first.cells(), 1);
    assert!(pool.hand_over().is_none(), "an incomplete packet stays");
    assert!(pool.has_begun());
    kernel.receive(&mut pool, false);
    assert!(!pool.has_begun());
    let second = pool.hand_over().unwrap();
    assert_eq!((second.cells(), second.range.first(), second.first_number), (4, 4, 1));
    assert_eq!((second.packets, second.bytes), (1, 4 * 60));
    let lead = second.lead.unwrap();
    assert_eq!((lead.first(), lead.count()), (1, 3));
    pool.recycle(first.range).unwrap();
    pool.recycle(lead).unwrap();
    assert_eq!(pool.state(0), ChunkState::Free);
    assert_eq!(pool.captured_packets(), 2);
}

/// The port rules it out, by its geometry. If it happens all the same, no cell is lost.
#[test]
fn the_beginning_of_a_packet_in_three_chunks_goes_home_and_is_counted() {
    let (mut pool, mut kernel) = (pool(2, 3), Kernel::default());
    kernel.attach(&mut pool, 6);
    for _ in 0..2 {
        kernel.receive(&mut pool, true);
        kernel.receive(&mut pool, true);
        assert!(pool.hand_over().is_none());
    }
    assert_eq!((pool.foreign(), pool.levels().free_chunks), (1, 1));
    kernel.receive(&mut pool, false);
    assert_eq!(pool.hand_over().unwrap().cells(), 3);
}

#[test]
fn the_levels_count_each_cell_once() {
    let (mut pool, mut kernel) = (pool(8, 4), Kernel::default());
    kernel.attach(&mut pool, 16);
    // Three cells of a captured chunk come home, and two of the one that is filled.
    for (filled, home) in [(8, 3), (4, 2)] {
        (0..filled).for_each(|_| kernel.receive(&mut pool, false));
        let (first, _outstanding) = pool.hand_over().unwrap().range.split_at(home);
        pool.recycle(first).unwrap();
    }
    kernel.receive(&mut pool, false);
    let levels = PoolLevels {
        free_chunks: 2,
        attached_chunks: 1,
        captured_chunks: 1,
        attached_cells: 3,
        resting_cells: 2,
        filled_cells: 1,
        outstanding_cells: 5 + 2,
        cells: 32,
    };
    assert_eq!(pool.levels(), levels, "without runs, cells of a captured chunk do not wait to be filled");
    pool.allow_runs(4);
    assert_eq!(pool.levels(), PoolLevels { resting_cells: 2 + 3, ..levels });
}

#[test]
fn the_kernel_gets_the_cells_of_a_chunk_in_order_from_the_base_of_the_pool_on() {
    let (mut pool, mut kernel) = (pool(4, 2), Kernel::default());
    assert_eq!(pool.base(), BASE);
    kernel.attach(&mut pool, 4);
    assert_eq!(kernel.fill_ring, [BASE, BASE + 2048, BASE + 2 * 2048, BASE + 3 * 2048]);
}

/// Fills and hands over all chunks, which are attached, and takes the cells back but for the first of each
/// chunk in `kept`.
fn capture_all(pool: &mut Pool, kernel: &mut Kernel, kept: &[u32]) -> Vec<ChunkRange> {
    let chunks = pool.geometry().chunks_per_pool();
    let cells = pool.geometry().cells_per_chunk();
    let kept_first = |_| {
        (0..cells).for_each(|_| kernel.receive(pool, false));
        let range = pool.hand_over().expect("a full chunk").range;
        if !kept.contains(&(range.first() / cells)) {
            pool.recycle(range).unwrap();
            return None;
        }
        let (first, rest) = range.split_at(1);
        pool.recycle(rest.expect("several cells")).unwrap();
        Some(first)
    };
    (0..chunks).filter_map(kept_first).collect()
}

#[test]
fn a_pool_can_attach_free_chunks_and_if_they_are_allowed_runs() {
    let (mut pool, mut kernel) = (pool(4, 1), Kernel::default());
    assert!(pool.can_attach());
    kernel.attach(&mut pool, 4);
    assert!(!pool.can_attach(), "the only chunk is attached");
    let kept = capture_all(&mut pool, &mut kernel, &[0]);
    assert_eq!((pool.can_attach(), kept.len()), (false, 1), "the chunk is not whole");
    pool.allow_runs(1);
    assert!(pool.can_attach());
    assert_eq!(kernel.attach(&mut pool, 4), 3);
    assert!(!pool.can_attach());
}

#[test]
fn no_run_is_attached_while_a_chunk_is_free() {
    let (mut pool, mut kernel) = (pool(4, 2), Kernel::default());
    pool.allow_runs(1);
    kernel.attach(&mut pool, 8);
    let kept = capture_all(&mut pool, &mut kernel, &[0]);
    assert_eq!((pool.levels().free_chunks, kept.len()), (1, 1));
    assert_eq!(kernel.attach(&mut pool, 3), 0, "the free chunk does not fit");
    assert_eq!(kernel.attach(&mut pool, 7), 7, "the free chunk, then the three cells at home");
}

/// A packet can be handed over if it lies in two runs at most.
#[test]
fn a_packet_fits_if_it_ends_in_the_second_attached_run() {
    let (mut pool, mut kernel) = (pool(4, 3), Kernel::default());
    let most = |pool: &Pool| (0..20).take_while(|&cells| pool.fits(cells)).last();
    assert_eq!(most(&pool), Some(0));
    kernel.attach(&mut pool, 4);
    assert_eq!(most(&pool), Some(4));
    kernel.attach(&mut pool, 8);
    assert_eq!(most(&pool), Some(8), "although three chunks are attached");
    kernel.receive(&mut pool, false);
    assert_eq!(most(&pool), Some(7));
}

/// Nothing is allocated later, and what is allocated grows with the number of runs, not with its square.
#[test]
fn a_pool_has_room_for_all_the_runs_there_can_be() {
    let mut pool = pool(64, 64);
    pool.allow_runs(2);
    assert!((64 + 2048..2 * 2048).contains(&pool.attached.capacity()), "{}", pool.attached.capacity());
}

#[test]
fn ranges_of_two_chunks_that_were_joined_free_both() {
    let (mut pool, mut kernel) = (pool(2, 2), Kernel::default());
    kernel.attach(&mut pool, 4);
    let mut halves = [(); 2].map(|()| {
        kernel.receive(&mut pool, false);
        kernel.receive(&mut pool, false);
        pool.hand_over().unwrap().range
    });
    halves.sort_by_key(ChunkRange::first);
    let [first, second] = halves;
    pool.recycle(first.join(second).unwrap()).unwrap();
    assert_eq!((pool.levels().free_chunks, pool.levels().outstanding_cells), (2, 0));
}

#[test]
fn recycling_is_strictly_validated() {
    let (mut pool, mut kernel) = (pool(4, 2), Kernel::default());
    kernel.attach(&mut pool, 8);
    for _ in 0..3 {
        kernel.receive(&mut pool, false);
    }
    let word = pool.hand_over().unwrap().range.into_word();
    let again = || ChunkRange::from_word(word);
    let other = self::pool(4, 2);
    let of = |pool: &Pool, first, count| ChunkRange::new(pool.number(), first, count);
    let levels = pool.levels();
    let refused = [
        (of(&other, 0, 1), RecycleError::WrongPool(ID)),
        (of(&pool, 36, 1), RecycleError::OutOfBounds(ID, 36, 37)),
        (of(&pool, 7, 2), RecycleError::OutOfBounds(ID, 7, 9)),
        (ChunkRange::from_word(word & !0x7fff), RecycleError::OutOfBounds(ID, 0, 0)),
        (of(&pool, 2, 2), RecycleError::NotCaptured(ID, 2, 4)),
        (of(&pool, 4, 1), RecycleError::NotCaptured(ID, 4, 5)),
    ];
    for (range, why) in refused {
        assert_eq!(pool.recycle(range), Err(why));
        assert_eq!(pool.levels(), levels, "a refusal changes nothing");
    }
    pool.recycle(again()).unwrap();
    assert_eq!(pool.recycle(again()), Err(RecycleError::NotCaptured(ID, 0, 3)));
    assert_eq!(pool.refused(), 7);
}

#[test]
fn a_foreign_descriptor_is_counted_and_left_alone() {
    let (mut pool, mut kernel) = (pool(4, 1), Kernel::default());
    kernel.attach(&mut pool, 4);
    for address in [0, BASE - 1, BASE + 4 * 2048, u64::MAX] {
        assert!(!fill(&mut pool, Descriptor { address, len: 60, more: false, timestamp_ns: 0 }));
    }
    for (address, len) in [(BASE, 2049), (BASE + 2047, 2), (BASE + 2048 + 256, 1793), (BASE, u32::MAX)] {
        assert!(!fill(&mut pool, Descriptor { address, len, more: false, timestamp_ns: 0 }), "{len}");
    }
    assert_eq!((pool.foreign(), pool.captured_packets()), (8, 0));
    for (address, len) in [(BASE, 2048), (BASE + 2047, 1), (BASE + 4 * 2048 - 1, 1), (BASE + 256, 1792)] {
        assert!(fill(&mut pool, Descriptor { address, len, more: false, timestamp_ns: 0 }), "{len}");
    }
    assert!(!fill(&mut pool, Descriptor { address: BASE, len: 60, more: false, timestamp_ns: 0 }), "full");
}

#[derive(Debug, Clone)]
enum Step {
    Attach(u32),
    /// Attach until nothing is left to attach.
    Settle,
    /// Fill the cell at this place of the kernel's list, so that order is not assumed.
    Receive(prop::sample::Index, bool),
    HandOver,
    Recycle(prop::sample::Index),
    /// Recycle a range of these cells that the pool has not made.
    Forge(u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u32..40).prop_map(Step::Attach),
        (any::<prop::sample::Index>(), prop::bool::weighted(0.2))
            .prop_map(|(at, more)| Step::Receive(at, more)),
        (any::<prop::sample::Index>(), Just(false)).prop_map(|(at, more)| Step::Receive(at, more)),
        Just(Step::Settle),
        Just(Step::HandOver),
        any::<prop::sample::Index>().prop_map(Step::Recycle),
        (0_u32..40, 1_u32..10).prop_map(|(first, count)| Step::Forge(first, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: HISTORIES, ..ProptestConfig::default() })]

    /// In any order of events, no cell is lost, doubled or handed out twice. With `shortest` less than a
    /// chunk, runs are attached, so free cells do not stay at home.
    #[test]
    fn every_cell_is_always_in_one_place(
        shortest in prop::sample::select(vec![1, 2, 3, 8]),
        steps in prop::collection::vec(step(), 1..STEPS),
    ) {
        let mut pool = pool(8, 4);
        pool.allow_runs(shortest);
        let mut kernel: Vec<u64> = Vec::new();
        let mut held: Vec<ChunkRange> = Vec::new();
        let mut begun = 0u32;
        let mut next_number = 0;
        for step in steps {
            match step {
                Step::Attach(room) => {
                    let before = kernel.len();
                    let given = pool.attach(room, |address| kernel.push(address));
                    prop_assert_eq!(kernel.len() - before, given as usize);
                    prop_assert!(given <= room);
                }
                Step::Settle => {
                    // A round for each length, and one more.
                    for _ in 0..4 {
                        pool.attach(u32::MAX, |address| kernel.push(address));
                    }
                    prop_assert!(shortest > 1 || pool.scattered_cells <= pool.attached_cells() / 8);
                }
                Step::Receive(at, more) => {
                    // Parts are limited so that a packet lies in two runs at most.
                    let more = more && begun < shortest.min(7);
                    if pool.space() > 0 {
                        let address = kernel.remove(at.index(kernel.len()));
                        let descriptor = Descriptor { address: address + 256, len: 60, more, timestamp_ns: 0 };
                        prop_assert!(fill(&mut pool, descriptor));
                        begun = if more { begun + 1 } else { 0 };
                    }
                }
                Step::HandOver => if let Some(handover) = pool.hand_over() {
                    prop_assert_eq!(handover.first_number, next_number);
                    let slots = pool.slots();
                    for range in handover.lead.into_iter().chain([handover.range]) {
                        for offset in 0..range.count() {
                            let slot = slots.get(&range, offset).unwrap();
                            next_number += u64::from(!slot.more);
                        }
                        held.push(range);
                    }
                },
                Step::Recycle(at) => if !held.is_empty() {
                    let range = held.swap_remove(at.index(held.len()));
                    prop_assert!(pool.recycle(range).is_ok());
                },
                Step::Forge(first, count) => {
                    let overlaps = |range: &ChunkRange| range.first() < first + count && first < range.first() + range.count();
                    if !held.iter().chain(&pool.lead).any(overlaps) {
                        prop_assert!(pool.recycle(ChunkRange::new(pool.number(), first, count)).is_err());
                    }
                }
            }
            let mut cells: Vec<u64> = kernel.clone();
            let slots = pool.slots();
            for range in &held {
                cells.extend((0..range.count()).map(|offset| slots.get(range, offset).unwrap().address & !2047));
            }
            cells.sort_unstable();
            let before = cells.len();
            cells.dedup();
            prop_assert_eq!(cells.len(), before, "a cell is in two places");
            let levels = pool.levels();
            prop_assert_eq!(levels.free_chunks + levels.attached_chunks + levels.captured_chunks, 4);
            prop_assert_eq!(levels.attached_cells as usize, kernel.len());
            let captured = pool.chunks.iter().filter(|chunk| chunk.state == ChunkState::Captured);
            prop_assert_eq!(pool.scattered_cells, captured.map(|chunk| chunk.home).sum::<u32>());
        }
        prop_assert_eq!(pool.foreign(), 0);
        // Every attached cell is filled and every held range goes home: all chunks are free again.
        while pool.levels().free_chunks < 4 {
            while pool.space() > 0 {
                let address = kernel.pop().unwrap();
                fill(&mut pool, Descriptor { address, len: 1, more: false, timestamp_ns: 0 });
            }
            if let Some(handover) = pool.hand_over() {
                held.extend(handover.lead);
                held.push(handover.range);
            }
            for range in held.drain(..) {
                pool.recycle(range).unwrap();
            }
            // The beginning of a packet may wait for cells that were never attached.
            if pool.levels().attached_cells == 0 && pool.levels().outstanding_cells > 0 {
                pool.attach(8, |address| kernel.push(address));
            }
        }
        prop_assert_eq!(pool.levels().outstanding_cells, 0);
        let mut all = Vec::new();
        pool.attach(32, |address| all.push(address));
        all.sort_unstable();
        prop_assert_eq!(all, (0..32).map(|cell| BASE + cell * 2048).collect::<Vec<_>>());
    }
}

#[test]
fn a_block_is_a_whole_chunk_with_any_number_of_packets() {
    let mut pool = pool(4, 2);
    assert!(pool.attach_chunk(1) && !pool.attach_chunk(1), "only a free chunk can be attached");
    assert!(pool.attach_chunk(0));
    let fill_block = |pool: &mut Pool, packets, bytes| {
        let mut filler = pool.filler().unwrap();
        assert!(filler.fill_block(packets, bytes));
        assert!(!filler.fill_block(packets, bytes), "there is room for one block");
        filler.finish();
    };
    fill_block(&mut pool, 100, 6_000);
    let first = pool.hand_over().unwrap();
    assert_eq!((first.range.first(), first.range.count()), (4, 4));
    assert_eq!((first.packets, first.bytes, first.first_number), (100, 6_000, 0));
    // An empty block is not handed over.
    fill_block(&mut pool, 0, 0);
    assert!(pool.hand_over().is_none());
    assert_eq!((pool.state(0), pool.state(1)), (ChunkState::Free, ChunkState::Captured));
    assert!(pool.attach_chunk(0));
    fill_block(&mut pool, 1, 60);
    let second = pool.hand_over().unwrap();
    assert_eq!((second.packets, second.first_number, pool.captured_packets()), (1, 100, 101));
    for handover in [first, second] {
        pool.recycle(handover.range).unwrap();
    }
    assert_eq!((pool.levels().free_chunks, pool.levels().outstanding_cells), (2, 0));
}
