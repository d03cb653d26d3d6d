//! What the program does beside packing, against the running kernel: what it has counted, the times that it
//! has written, and the blocks that it has chosen. Needs root.

mod times;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use wirecap_core::{Geometry, Handover, PoolId};
use wirecap_sys::{
    bpf::{
        Assembler, FrameLength, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec, Reg, Size,
        XDP_DROP, XDP_PASS,
    },
    clock::StampShift,
    memory::LivePool,
    packed::{
        MAX_PACKET_BYTES, PackSpec, PackedMemory, PackedReader, PackedStream, PacketForm, ReceivedPart,
    },
};

const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };
const BLOCKS: u32 = 4;
/// Blocks of 128 KiB.
const M: u32 = 64;
const STAMP: i16 = -8;
/// No leap second is near.
const SHIFT: StampShift =
    StampShift { add_ns: 1_000_000, leap_at: u64::MAX, add_after_ns: 0, not_before_ns: 0 };

/// A program that stamps packets with what a map says and drops what it has packed, and its stream.
struct Bench {
    program: Arc<Program>,
    clock: Map,
    stream: PackedStream,
    pool: LivePool,
    reader: PackedReader,
    /// The time of the first packet of each part that is received; 0 for the times that the program gives.
    first_ns: u64,
}

impl Bench {
    fn new() -> Self {
        Self::of(create())
    }

    fn of(memory: PackedMemory) -> Self {
        let memory = Arc::new(memory);
        let spec =
            MapSpec { kind: MapKind::Array, key_size: 4, value_size: 8, max_entries: 1, name: "clock" };
        let clock = Map::create(&spec).unwrap();
        let program = Arc::new(load(&memory, &clock));
        let (mut stream, mut pool, reader) = memory.open_stream(0, ID).unwrap().unwrap();
        stream.set_shift(SHIFT);
        assert_eq!(stream.attach(Some(&mut pool)), pool.geometry().chunks_per_pool());
        Self { program, clock, stream, pool, reader, first_ns: 0 }
    }

    /// Sends a frame that is stamped like this. Returns whether it found room.
    fn send(&self, frame: &[u8], stamp: u64) -> bool {
        self.clock.update(&0_u32.to_ne_bytes(), &stamp.to_ne_bytes()).unwrap();
        self.program.test_run(frame, 1).unwrap().action as i32 == XDP_DROP
    }

    /// Takes the next part: what was handed over, and by how much times were raised.
    fn receive(&mut self) -> Option<(Handover, u64)> {
        loop {
            self.stream.attach(Some(&mut self.pool));
            let mut filler = self.pool.filler()?;
            let first_ns = self.first_ns;
            let received = self.stream.receive_counted(filler.space(), |_, _| first_ns);
            let ReceivedPart { part, raised_ns } = received?;
            assert!(filler.fill_part(part));
            filler.finish();
            // The end of a block may have no packets.
            if let Some(handover) = self.pool.hand_over() {
                return Some((handover, raised_ns));
            }
        }
    }

    /// Takes everything that is there, and counts packets and bytes as a reader finds them: they are those of
    /// the hand-over.
    fn drain(&mut self) -> (u64, u64) {
        let (mut packets, mut bytes) = (0, 0);
        while let Some((handover, _)) = self.receive() {
            let mut found = (0, 0);
            for packet in self.reader.packets(&handover.range) {
                found = (found.0 + 1, found.1 + packet.len() as u32);
            }
            assert_eq!(found, (handover.packets, handover.bytes));
            (packets, bytes) = (packets + u64::from(found.0), bytes + u64::from(found.1));
            self.recycle(handover);
        }
        (packets, bytes)
    }

    /// The times of what is there, less what is added to stamps, and by how much they were raised at most.
    fn times(&mut self) -> (Vec<i64>, u64) {
        let (mut times, mut raised_ns) = (Vec::new(), 0);
        while let Some((handover, raised)) = self.receive() {
            let added = |time_ns: u64| time_ns as i64 - SHIFT.add_ns;
            times.extend(self.reader.packets(&handover.range).map(|packet| added(packet.timestamp_ns())));
            raised_ns = raised_ns.max(raised);
            self.recycle(handover);
        }
        (times, raised_ns)
    }

    fn recycle(&mut self, handover: Handover) {
        handover.into_ranges().for_each(|range| self.pool.recycle(range).unwrap());
    }
}

fn create() -> PackedMemory {
    PackedMemory::create([0], Geometry::new(M, BLOCKS, 2048).unwrap()).unwrap()
}

/// Counts each packet as seen, and packs it into stream 0, with the time that `clock` has.
fn load(memory: &PackedMemory, clock: &Map) -> Program {
    use Reg::{R0, R1, R6, R7, R10};
    let mut asm = Assembler::new();
    let none = asm.label();
    asm.mov(R6, R1).mov_imm(R7, 0);
    memory.emit_seen(&mut asm, R7, none);
    asm.load_map_value(R1, clock, 0);
    asm.load(Size::Double, R1, R1, 0).store(Size::Double, R10, STAMP, R1);
    let pack = PackSpec {
        stream: R7,
        interface: 0,
        stamp: Some(STAMP),
        to_utc: true,
        form: PacketForm::Frame(FrameLength::of_kernel()),
        option: None,
        stack_end: STAMP,
        no_block: none,
        busy: none,
        impossible: none,
    };
    memory.emit_pack(&mut asm, &pack);
    asm.mov_imm(R0, XDP_DROP).exit();
    asm.bind(none).mov_imm(R0, XDP_PASS).exit();
    let insns = asm.finish().unwrap();
    Program::load(&ProgramSpec { frags: true, ..ProgramSpec::new(ProgramKind::Xdp, "counted", &insns) })
        .unwrap()
}

#[test]
fn parts_have_what_the_program_has_counted() {
    if !wirecap_lab::require_root("parts_have_what_the_program_has_counted") {
        return;
    }
    for mut bench in [Bench::new(), Bench::of(create().ordered_by_atomics())] {
        let (mut sent, mut received) = ((0, 0), (0, 0));
        // Several rounds through all blocks, in parts of one packet and of many, short of the pool's size.
        for round in 0..60_u64 {
            for number in 0..1 + round % 7 * 40 {
                let frame = vec![0; 60 + (number * 37 % 1441) as usize];
                assert!(bench.send(&frame, 1000 * round + number));
                sent = (sent.0 + 1, sent.1 + frame.len() as u64);
            }
            let drained = bench.drain();
            received = (received.0 + drained.0, received.1 + drained.1);
        }
        // What lies in a cell's last part waits for the end of the block.
        assert!(sent.0 - received.0 < 300, "{sent:?} {received:?}");
        bench.send(&[0; 60_000], 1 << 30);
        bench.send(&[0; 60_000], 1 << 30);
        bench.send(&[0; 60_000], 1 << 30);
        let drained = bench.drain();
        let all = (received.0 + drained.0, received.1 + drained.1);
        assert_eq!(all, (sent.0 + 3, sent.1 + 180_000));
    }
}

/// The end of the program's last packet and its counters are read while it goes on.
#[test]
fn counters_and_place_belong_together_while_the_program_runs() {
    if !wirecap_lab::require_root("counters_and_place_belong_together_while_the_program_runs") {
        return;
    }
    for mut bench in [Bench::new(), Bench::of(create().ordered_by_atomics())] {
        const RUNS: u32 = 20;
        const REPEAT: u32 = 50_000;
        let (has_ended, program) = (AtomicBool::new(false), Arc::clone(&bench.program));
        let received = thread::scope(|scope| {
            scope.spawn(|| {
                (0..RUNS).for_each(|_| _ = program.test_run(&[0; 60], REPEAT).unwrap());
                has_ended.store(true, Ordering::Release);
            });
            let mut received = 0;
            while !has_ended.load(Ordering::Acquire) {
                received += bench.drain().0;
            }
            received + bench.drain().0
        });
        assert_eq!(bench.stream.seen(), u64::from(RUNS * REPEAT), "also those that found no block");
        assert!((10_000..=u64::from(RUNS * REPEAT)).contains(&received), "{received}");
    }
}

/// Each part takes a cell at least: the last one of a block is left for its end, which comes with the next
/// packet, or after a while.
#[test]
fn packets_that_are_received_one_by_one_end_their_block_early() {
    if !wirecap_lab::require_root("packets_that_are_received_one_by_one_end_their_block_early") {
        return;
    }
    let mut bench = Bench::new();
    let sent = 3 * u64::from(M);
    let mut received = 0;
    for number in 0..sent {
        assert!(bench.send(&[0; 60], number));
        received += bench.drain().0;
    }
    assert!(sent - received <= 1, "{received} of {sent}");
    let deadline = Instant::now() + Duration::from_secs(5);
    while received < sent {
        assert!(Instant::now() < deadline, "{received} of {sent}");
        received += bench.drain().0;
    }
    // Three blocks were begun, and each is counted to its end.
    assert!(bench.send(&[0; 1500], sent));
    assert_eq!(bench.drain(), (1, 1500));
}

/// Bytes are counted in 64 bits, of which parts need the lower half.
#[test]
fn counters_go_on_beyond_32_bits() {
    if !wirecap_lab::require_root("counters_go_on_beyond_32_bits") {
        return;
    }
    // 128 blocks of 512 KiB.
    let mut bench = Bench::of(PackedMemory::create([0], Geometry::new(256, 128, 2048).unwrap()).unwrap());
    let (frame, mut bytes) = (vec![0; 60_000], 0);
    while bytes < 5 << 30 {
        assert_eq!(bench.program.test_run(&frame, 900).unwrap().action as i32, XDP_DROP);
        let drained = bench.drain();
        assert!(drained.0 > 800, "{drained:?}");
        bytes += drained.1;
    }
}

/// Parts whose packets are looked at, and parts that are counted, in turns.
#[test]
fn a_stream_may_be_received_in_both_ways() {
    if !wirecap_lab::require_root("a_stream_may_be_received_in_both_ways") {
        return;
    }
    let mut bench = Bench::new();
    for round in 0..50 {
        for number in 0..40 {
            assert!(bench.send(&vec![0; 60 + 11 * number], 100 * round + number as u64));
        }
        if round % 2 == 0 {
            bench.stream.attach(Some(&mut bench.pool));
            let mut filler = bench.pool.filler().unwrap();
            let part = bench.stream.receive(u64::MAX, filler.space(), |packet| packet.data().len() % 2 == 0);
            let Some(ReceivedPart { part, .. }) = part else { continue };
            assert!(filler.fill_part(part));
            filler.finish();
            let handover = bench.pool.hand_over().unwrap();
            bench.recycle(handover);
        }
        bench.drain();
    }
}

#[test]
fn packets_that_were_cut_are_counted() {
    if !wirecap_lab::require_root("packets_that_were_cut_are_counted") {
        return;
    }
    let mut bench = Bench::new();
    assert!(bench.send(&vec![0; MAX_PACKET_BYTES as usize], 1));
    assert_eq!(bench.stream.cut(), 0);
    assert!(bench.send(&vec![0; MAX_PACKET_BYTES as usize + 1], 2));
    assert_eq!((bench.stream.cut(), bench.drain()), (1, (2, 2 * u64::from(MAX_PACKET_BYTES))));
}

/// Where the first packet of a hand-over lies.
fn address(bench: &Bench, handover: &Handover) -> usize {
    bench.reader.packets(&handover.range).next().unwrap().data().as_ptr() as usize
}

/// Two of these fill a block so far that a third one goes to the next. With the rest, it is full to its end.
static HALF_BLOCK: [u8; 60_000] = [0; 60_000];
static REST: [u8; 9_500] = [0; 9_500];

/// What was given back last is filled next, unless it is not enough: packets stay in the cache.
#[test]
fn blocks_that_were_used_last_are_used_again() {
    if !wirecap_lab::require_root("blocks_that_were_used_last_are_used_again") {
        return;
    }
    const BLOCKS: u32 = 16;
    let create = || PackedMemory::create([0], Geometry::new(M, BLOCKS, 2048).unwrap()).unwrap();
    for mut bench in [Bench::of(create()), Bench::of(create().ordered_by_atomics())] {
        // The program fills `fill` blocks with these frames each, then they are received and given back.
        // Returns in how many places they lay.
        let mut run = |fill: u32, frames: &[&[u8]], rounds: u32| -> usize {
            let mut places = BTreeSet::new();
            for _ in 0..rounds {
                for frame in (0..fill).flat_map(|_| frames) {
                    assert!(bench.send(frame, 0));
                }
                while let Some((handover, _)) = bench.receive() {
                    places.insert(address(&bench, &handover));
                    bench.recycle(handover);
                }
            }
            // Two places in each block, if both were received on their own.
            places.len()
        };
        let (halves, full) = ([&HALF_BLOCK[..]; 2], [&HALF_BLOCK[..], &HALF_BLOCK, &REST]);
        run(1, &halves, 10);
        let few = run(1, &halves, 50);
        assert!(few <= 2 * 2, "{few}");
        let more = run(4, &halves, 50);
        assert!((4..=2 * 6).contains(&more), "{more}");
        // A burst gets all blocks; then few are used, as before.
        assert!(run(BLOCKS - 1, &halves, 2) >= BLOCKS as usize);
        run(1, &halves, 8 * BLOCKS);
        let few = run(1, &halves, 50);
        assert!(few <= 2 * 2, "{few}");
        // Each block comes back before the program has gone on to the next one.
        run(1, &full, 8 * BLOCKS);
        let few = run(1, &full, 50);
        assert!(few <= 2 * 2, "{few}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send {
        frames: u8,
        len: u16,
    },
    Receive,
    /// Gives back the hand-over at this place of those that are held.
    Recycle(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..40_u8, prop_oneof![Just(60), 60..1500_u16, 9_000..60_000_u16])
            .prop_map(|(frames, len)| Step::Send { frames, len }),
        3 => Just(Step::Receive),
        3 => any::<u8>().prop_map(Step::Recycle),
    ]
}

/// A hand-over, and the numbers of its packets.
struct Held(Handover, std::ops::Range<u64>);

/// The packets of a hand-over have these numbers, and nothing else has been written there.
fn check(bench: &Bench, Held(handover, numbers): &Held) {
    let mut expected = numbers.clone();
    for packet in bench.reader.packets(&handover.range) {
        let number = expected.next().expect("as many packets as it says");
        let mut words = packet.data().chunks_exact(8);
        assert!(words.all(|word| word == number.to_be_bytes()), "packet {number}");
    }
    assert_eq!(expected.count(), 0);
}

fn blocks_keep_their_packets(memory: PackedMemory, steps: &[Step]) {
    let mut bench = Bench::of(memory);
    let (mut sent, mut received, mut held) = (0_u64, 0_u64, VecDeque::new());
    let mut receive = |bench: &mut Bench, held: &mut VecDeque<Held>| {
        while let Some((handover, _)) = bench.receive() {
            let numbers = received..received + u64::from(handover.packets);
            received = numbers.end;
            held.push_back(Held(handover, numbers));
            check(bench, held.back().unwrap());
        }
        received
    };
    for step in steps {
        match *step {
            Step::Send { frames, len } => {
                for _ in 0..frames {
                    let mut frame = sent.to_be_bytes().repeat(usize::from(len).div_ceil(8));
                    frame.truncate(len.into());
                    // What finds no room is not among those received.
                    sent += u64::from(bench.send(&frame, sent));
                }
            }
            Step::Receive => _ = receive(&mut bench, &mut held),
            Step::Recycle(place) => {
                let place = usize::from(place) % held.len().max(1);
                let Some(one) = held.remove(place) else { continue };
                check(&bench, &one);
                bench.recycle(one.0);
            }
        }
    }
    // All blocks are there again, and take as much as at the start.
    let deadline = Instant::now() + Duration::from_secs(10);
    while receive(&mut bench, &mut held) < sent || !held.is_empty() {
        for one in held.drain(..) {
            check(&bench, &one);
            bench.recycle(one.0);
        }
        // The last packets of a block may wait for its end.
        assert!(Instant::now() < deadline, "the last packets do not come");
        thread::yield_now();
    }
    assert!(bench.receive().is_none());
    let fits = (0..2 * BLOCKS).take_while(|&number| bench.send(&HALF_BLOCK, number.into())).count();
    assert!(fits as u32 >= 2 * (BLOCKS - 1), "{fits}");
}

/// Whatever is held, for however long, stays as it was received, and packets keep their order.
#[test]
fn blocks_keep_their_packets_until_they_are_given_back() {
    if !wirecap_lab::require_root("blocks_keep_their_packets_until_they_are_given_back") {
        return;
    }
    let steps = prop::collection::vec(step(), 1..200);
    // Also where the numbers of blocks begin anew.
    let first = prop_oneof![Just(0), u32::MAX - 20..u32::MAX];
    proptest!(ProptestConfig::with_cases(64), |(steps in steps, first in first, by_atomics: bool)| {
        let memory = if by_atomics { create().ordered_by_atomics() } else { create() };
        blocks_keep_their_packets(memory.numbered_from(first), &steps);
    });
}
