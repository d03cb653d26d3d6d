//! Packed packets against the running kernel. Needs root: programs run on test packets, without an interface.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use wirecap_core::{ChunkRange, Direction, Geometry, Handover, PoolId};
use wirecap_file::{PacketHeader, pcapng};
use wirecap_sys::{
    bpf::{
        Assembler, FrameLength, Label, Program, ProgramKind, ProgramSpec, Reg, Size, TCX_NEXT, XDP_ABORTED,
        XDP_DROP, XDP_PASS, xdp_md,
    },
    memory::LivePool,
    packed::{
        PackOption, PackSpec, PackedError, PackedHash, PackedMemory, PackedReader, PackedStream, PacketForm,
        RecordMark,
    },
    wake::{Bell, WakeCause, Wakers, Watch},
};

const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };
/// Blocks of 128 KiB, the smallest.
const M: u32 = 64;
/// The stream of a program that is loaded for no other one, and its interface.
const STREAM: u32 = 1;
const INTERFACE: u32 = 2;

/// A program that drops what it has packed and passes what had no room, and its stream.
struct Bench {
    program: Program,
    stream: PackedStream,
    pool: LivePool,
    reader: PackedReader,
    at_end: bool,
}

impl Bench {
    fn new(blocks: u32, hash: Option<PackedHash>) -> Self {
        Self::with(blocks, |memory| load(memory, FrameLength::of_kernel(), hash))
    }

    /// With the program that `load` loads.
    fn with(blocks: u32, load: impl FnOnce(&PackedMemory) -> Program) -> Self {
        Self::of_stream(0, blocks, load)
    }

    /// With this stream.
    fn of_stream(number: u32, blocks: u32, load: impl FnOnce(&PackedMemory) -> Program) -> Self {
        Self::in_memory(blocks, create(blocks), number, load)
    }

    /// With the program of machines that do not keep stores and loads in order, and of kernels that have
    /// only the helper for a frame's length. It runs on any.
    fn by_atomics(blocks: u32, hash: Option<PackedHash>) -> Self {
        let load = |memory: &_| load(memory, FrameLength::by_helper(), hash);
        Self::in_memory(blocks, create(blocks).ordered_by_atomics(), 0, load)
    }

    fn in_memory(
        blocks: u32,
        memory: PackedMemory,
        number: u32,
        load: impl FnOnce(&PackedMemory) -> Program,
    ) -> Self {
        let memory = Arc::new(memory);
        let program = load(&memory);
        let (mut stream, mut pool, reader) = memory.open_stream(number, ID).unwrap().unwrap();
        for stream in [number, 2] {
            assert!(memory.open_stream(stream, ID).unwrap().is_none());
        }
        assert_eq!(stream.attach(Some(&mut pool)), blocks);
        Self { program, stream, pool, reader, at_end: false }
    }

    /// Whether it found room.
    fn send(&self, frame: &[u8], repeat: u32) -> bool {
        match self.program.test_run(frame, repeat).unwrap().action as i32 {
            XDP_DROP => true,
            XDP_PASS => false,
            action => panic!("action {action}"),
        }
    }

    /// Takes the next part: packet n gets the time `first_ns + n`.
    fn receive(&mut self, first_ns: u64) -> Option<Handover> {
        self.stream.attach((!self.at_end).then_some(&mut self.pool));
        let mut filler = self.pool.filler()?;
        let mut time_ns = first_ns;
        let part = self.stream.receive(u64::MAX, filler.space(), |record| {
            record.set_time(time_ns);
            time_ns += 1;
            record.data()[0] != b'x'
        })?;
        assert!(filler.fill_part(part.part));
        filler.finish();
        self.pool.hand_over()
    }

    /// Takes the next part, as soon as it is there.
    fn receive_within(&mut self, first_ns: u64, timeout: Duration) -> Handover {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(handover) = self.receive(first_ns) {
                return handover;
            }
            assert!(Instant::now() < deadline, "nothing comes");
        }
    }

    fn recycle(&mut self, handover: Handover) {
        handover.into_ranges().for_each(|range| self.pool.recycle(range).unwrap());
    }
}

/// The memory of streams 0 and 1.
fn create(blocks: u32) -> PackedMemory {
    PackedMemory::create([0, 1], Geometry::new(M, blocks, 2048).unwrap()).unwrap()
}

/// Packs each packet into the stream of its receive queue, with the time 7 and this hash.
fn load(memory: &PackedMemory, length: FrameLength, hash: Option<PackedHash>) -> Program {
    use Reg::{R1, R6, R7, R10};
    let mut asm = Assembler::new();
    let (no_block, impossible) = (asm.label(), asm.label());
    asm.mov(R6, R1).load(Size::Word, R7, R6, xdp_md::RX_QUEUE_INDEX);
    asm.mov_imm(R1, 7).store(Size::Double, R10, -8, R1);
    if let Some(PackedHash { value, type_bits }) = hash {
        asm.store_imm(Size::Word, R10, -16, value as i32);
        asm.store_imm(Size::Word, R10, -12, 1 << 31 | i32::from(type_bits));
    }
    let option = hash.map(|_| PackOption::Hash(-16));
    memory.emit_pack(&mut asm, &pack(PacketForm::Frame(length), option, no_block, impossible));
    finish(asm, no_block, impossible)
}

/// Packs each packet into [`STREAM`], with the time 7 and this option.
fn load_with(memory: &PackedMemory, option: Option<PackOption>) -> Program {
    use Reg::{R1, R6, R7, R10};
    let mut asm = Assembler::new();
    let (no_block, impossible) = (asm.label(), asm.label());
    asm.mov(R6, R1).mov_imm(R7, STREAM as i32);
    asm.mov_imm(R1, 7).store(Size::Double, R10, -8, R1);
    memory.emit_pack(
        &mut asm,
        &pack(PacketForm::Frame(FrameLength::of_kernel()), option, no_block, impossible),
    );
    finish(asm, no_block, impossible)
}

/// Behind the packing.
fn finish(mut asm: Assembler, no_block: Label, impossible: Label) -> Program {
    use Reg::R0;
    asm.mov_imm(R0, XDP_DROP).exit();
    asm.bind(no_block).mov_imm(R0, XDP_PASS).exit();
    asm.bind(impossible).mov_imm(R0, XDP_ABORTED).exit();
    let insns = asm.finish().unwrap();
    Program::load(&ProgramSpec { frags: true, ..ProgramSpec::new(ProgramKind::Xdp, "pack", &insns) }).unwrap()
}

/// What is packed: the stream's number is in R7, the time at -8 on the stack, something else at -16.
fn pack(form: PacketForm, option: Option<PackOption>, no_block: Label, impossible: Label) -> PackSpec {
    let (stream, interface, stamp, stack_end, busy) = (Reg::R7, INTERFACE, Some(-8), -16, impossible);
    let to_utc = false;
    PackSpec { stream, interface, stamp, to_utc, form, option, stack_end, no_block, busy, impossible }
}

/// Packs each packet into stream 0, with the time 7, this direction and this tag: protocol and TCI.
fn load_classifier(memory: &PackedMemory, direction: Direction, tag: (u16, u16)) -> Program {
    use Reg::{R0, R1, R6, R7, R10};
    let mut asm = Assembler::new();
    let none = asm.label();
    asm.mov(R6, R1).mov_imm(R7, 0).mov_imm(R1, 7).store(Size::Double, R10, -8, R1);
    asm.store_imm(Size::Word, R10, -16, i32::from(tag.0.to_be())).store_imm(
        Size::Word,
        R10,
        -12,
        tag.1.into(),
    );
    let option = Some(PackOption::Direction(direction));
    memory.emit_pack(&mut asm, &pack(PacketForm::SocketBuffer { tag: -16 }, option, none, none));
    asm.mov_imm(R0, TCX_NEXT).exit();
    asm.bind(none).mov_imm(R0, 0).exit();
    let insns = asm.finish().unwrap();
    Program::load(&ProgramSpec::new(ProgramKind::Classifier, "pack", &insns)).unwrap()
}

/// Bytes without a period, so that a part in a wrong place shows.
fn frame(len: usize, first: u8) -> Vec<u8> {
    let mut frame: Vec<_> = (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    frame[0] = first;
    frame
}

#[test]
fn packets_come_as_they_were_sent() {
    let hash = PackedHash { value: 0xdead_beef, type_bits: 9 };
    let hashed = Some(hash);
    for (hash, mut bench) in
        [(None, Bench::new(8, None)), (hashed, Bench::new(8, hashed)), (hashed, Bench::by_atomics(8, hashed))]
    {
        assert!(bench.receive(0).is_none(), "nothing was sent");
        // Every length that the program copies by itself, and then those at the edges of the sizes that it
        // distinguishes, and of the padding.
        let long = [1983, 1984, 1985, 2049, 9000, 16_320, 16_321, 65_535, 65_536, 65_549];
        let frames: Vec<_> = (14..=1_540).chain(long).map(|len| frame(len, len as u8 | 0x80)).collect();
        let mut got = Vec::new();
        for some in frames.chunks(100) {
            for frame in some {
                assert!(bench.send(frame, 1));
            }
            while let Some(handover) = bench.receive(1000 + got.len() as u64) {
                assert_eq!(handover.first_number, got.len() as u64);
                got.extend(bench.reader.packets(&handover.range).map(|packet| {
                    assert_eq!((packet.original_len() as usize, packet.hash()), (packet.data().len(), hash));
                    (packet.data().to_vec(), packet.timestamp_ns())
                }));
                bench.recycle(handover);
            }
        }
        let sent: Vec<_> = frames.into_iter().zip(1000..).collect();
        assert!(got == sent, "{} of {}", got.len(), sent.len());
    }
}

/// What lies in memory is what [`wirecap_file`] makes of the packets, also over several parts, and where
/// other packets were before.
#[test]
fn records_are_blocks_of_a_pcapng_file() {
    let directions = [Direction::In, Direction::Out].map(|direction| Some(PackOption::Direction(direction)));
    for option in [None, Some(PackOption::Queue)].into_iter().chain(directions) {
        let mut bench = Bench::of_stream(STREAM, 4, |memory| load_with(memory, option));
        // More than all blocks hold, and so few in the last one that there is room for what follows.
        let (mut sent, mut is_at_start) = (0, false);
        while sent * 9000 < 4 * M * 2048 || !is_at_start {
            assert!(bench.send(&[0xff; 9000], 1));
            sent += 1;
            while let Some(handover) = bench.receive(0) {
                is_at_start = handover.range.first() % M == 0;
                bench.recycle(handover);
            }
        }
        let (mut file, mut marks, mut range) = (Vec::new(), Vec::new(), None);
        for (timestamp_ns, len) in (1 << 40..).zip([14, 15, 16, 17, 60, 1514, 1983, 1984, 9000, 16_321]) {
            let frame = frame(len, b'a');
            assert!(bench.send(&frame, 1));
            let Handover { range: part, .. } = bench.receive_within(timestamp_ns, Duration::from_secs(60));
            range = match range.take() {
                None => Some(part),
                Some(before) => Some(ChunkRange::join(before, part).unwrap()),
            };
            let header = PacketHeader {
                timestamp_ns,
                original_len: len as u32,
                interface: INTERFACE,
                queue: matches!(option, Some(PackOption::Queue)).then_some(STREAM),
                packet_id: None,
                outbound: match option {
                    Some(PackOption::Direction(direction)) => Some(direction == Direction::Out),
                    _ => None,
                },
            };
            let start = file.len();
            pcapng::packet(&mut file, &header, 0, [frame.as_slice()]);
            marks.push(RecordMark { timestamp_ns, len: (file.len() - start) as u32 });
        }
        let range = range.unwrap();
        let records = bench.reader.records(&range).unwrap();
        assert!(records.bytes() == file, "{option:?}");
        assert_eq!(records.collect::<Vec<_>>(), marks);
        let other = Bench::new(2, None);
        assert!(other.reader.records(&range).is_none(), "a range of another pool");
        bench.pool.recycle(range).unwrap();
    }
}

/// Socket buffers: with the tag that the kernel keeps beside the packet, and the direction.
#[test]
fn socket_buffers_get_their_tags_back() {
    let lengths = || (14..=1_540).chain([1979, 1980, 1981, 1984, 1985, 3_000]);
    for (direction, tag) in
        [(Direction::In, (0, 0)), (Direction::Out, (0x8100, 0x6007)), (Direction::In, (0x88a8, 5))]
    {
        let mut bench = Bench::with(4, |memory| load_classifier(memory, direction, tag));
        let tag_bytes = [tag.0.to_be_bytes(), tag.1.to_be_bytes()].concat();
        for (number, len) in (0..).zip(lengths()) {
            let sent = frame(len, len as u8 | 0x80);
            let run = bench.program.test_run(&sent, 1).unwrap();
            assert_eq!((run.action as i32, &run.frame), (TCX_NEXT, &sent), "it leaves as it came");
            let expected =
                if tag.0 == 0 { sent } else { [&sent[..12], tag_bytes.as_slice(), &sent[12..]].concat() };
            let handover = bench.receive_within(1000 + number, Duration::from_secs(60));
            let packet = bench.reader.packets(&handover.range).next().unwrap();
            assert!(packet.data() == expected, "{tag:x?}: {:x?} of {expected:x?}", packet.data());
            assert_eq!(
                (packet.original_len() as usize, packet.timestamp_ns()),
                (expected.len(), 1000 + number)
            );
            assert_eq!((packet.direction(), packet.hash()), (Some(direction), None));
            bench.recycle(handover);
        }
    }
}

/// Over many rounds through the blocks: nothing is lost while there is room, all that has none is refused.
#[test]
fn a_full_pool_refuses_packets_and_takes_them_again() {
    for bench in [Bench::new(3, None), Bench::by_atomics(3, None)] {
        refuses_and_takes_again(bench);
    }
}

/// Of three blocks.
fn refuses_and_takes_again(mut bench: Bench) {
    let record = 64 + 32;
    let in_block = 1 + (u64::from(M) * 2048 - 2048) / record;
    let mut sent = 0;
    for round in 0..5 {
        let mut taken = 0;
        while bench.send(&frame(64, b'a'), 1) {
            taken += 1;
        }
        assert_eq!(taken, 3 * in_block, "round {round}");
        assert!(!bench.send(&frame(64, b'a'), 100), "still none");
        let mut handovers = Vec::new();
        while let Some(handover) = bench.receive(0) {
            assert_eq!(handover.first_number, sent);
            sent += u64::from(handover.packets);
            assert_eq!(bench.reader.packets(&handover.range).count(), handover.packets as usize);
            handovers.push(handover);
        }
        assert_eq!(sent, (round + 1) * 3 * in_block);
        assert!(
            bench.receive(0).is_none() && !bench.send(&frame(64, b'a'), 1),
            "the blocks are with the reader"
        );
        handovers.into_iter().for_each(|handover| bench.recycle(handover));
        assert!(bench.receive(0).is_none() && bench.pool.levels().attached_chunks == 3);
    }
}

/// One by one, they take a cell each, of which there are fewer than a block has room for. Each is received
/// before the next one comes.
#[test]
fn packets_that_are_received_one_by_one_end_their_block_early() {
    for len in [60, 1100, 1400] {
        let mut bench = Bench::new(4, None);
        for number in 0..1000 {
            assert!(bench.send(&frame(len, b'a'), 1));
            let handover = bench.receive_within(number, Duration::from_secs(60));
            assert_eq!((handover.packets, handover.first_number), (1, number));
            assert_eq!(bench.reader.packets(&handover.range).next().unwrap().timestamp_ns(), number);
            bench.recycle(handover);
        }
    }
}

/// Also if no block is free: the last packets are received, and further ones are refused.
#[test]
fn a_block_without_cells_ends_though_there_is_no_other() {
    let mut bench = Bench::new(2, None);
    let mut kept = Vec::new();
    while bench.send(&frame(60, b'a'), 1) {
        kept.push(bench.receive_within(0, Duration::from_secs(60)));
    }
    assert!(kept.len() > M as usize, "{} packets in two blocks", kept.len());
    kept.into_iter().for_each(|handover| bench.recycle(handover));
    assert!(bench.receive(0).is_none() && bench.send(&frame(60, b'a'), 1));
}

#[test]
fn a_packet_that_is_not_wanted_is_as_if_it_had_not_come() {
    let mut bench = Bench::new(2, None);
    for first in *b"axbxxc" {
        assert!(bench.send(&frame(100, first), 1));
    }
    let handover = bench.receive(0).unwrap();
    let firsts: Vec<_> = bench.reader.packets(&handover.range).map(|packet| packet.data()[0]).collect();
    assert_eq!((firsts.as_slice(), handover.packets, handover.bytes), (b"abc".as_slice(), 3, 300));
    assert!(bench.reader.records(&handover.range).is_none(), "the others lie between them");
    let (_, other, _) = {
        let geometry = Geometry::new(M, 2, 2048).unwrap();
        Arc::new(PackedMemory::create([0], geometry).unwrap()).open_stream(0, ID).unwrap().unwrap()
    };
    assert_ne!(other.number(), bench.pool.number());
    bench.recycle(handover);
}

#[test]
fn what_is_left_at_the_end_is_received_with_the_last_cell() {
    let mut bench = Bench::new(2, None);
    let keep: Vec<_> = (0..2)
        .flat_map(|_| {
            let mut kept = Vec::new();
            while bench.pool.filler().is_some_and(|filler| filler.space() > 1) {
                assert!(bench.send(&frame(60, b'a'), 1));
                kept.push(bench.receive_within(0, Duration::from_secs(60)));
            }
            kept
        })
        .collect();
    assert!(bench.send(&frame(60, b'b'), 1000));
    assert!(bench.receive(0).is_none(), "the last cell is kept for the last part");
    bench.at_end = true;
    let last = bench.receive(0).unwrap();
    assert_eq!((last.packets, bench.reader.packets(&last.range).count()), (1000, 1000));
    drop(keep);
}

/// So a slow reader that looks often does not use up the pool with a few packets in each block.
#[test]
fn packets_wait_for_more_when_half_of_the_pool_is_used() {
    let mut bench = Bench::new(4, None);
    let (frame, timeout) = (frame(60, b'a'), Duration::from_secs(60));
    let mut kept = Vec::new();
    for _ in 0..M {
        assert!(bench.send(&frame, 1));
        kept.push(bench.receive_within(0, timeout));
    }
    assert!(kept[..M as usize / 2].iter().all(|handover| handover.packets == 1), "the pool is empty");
    let mut packets = 0;
    while bench.send(&frame, 1) {
        packets += 1;
        if let Some(handover) = bench.receive(0) {
            kept.push(handover);
        }
    }
    // Two blocks at least are as full as they can be, unless the test is so slow that each packet waits long
    // enough.
    assert!(packets > 2 * 1200, "{packets}");
}

/// The last cell is that of the last part, which is received once all of it was seen.
#[test]
fn the_end_of_a_block_waits_until_it_was_seen_whole() {
    let mut bench = Bench::new(3, None);
    while bench.pool.filler().is_some_and(|filler| filler.space() > 1) {
        assert!(bench.send(&frame(1980, b'a'), 1));
        assert!(bench.receive(0).is_some());
    }
    let seen = bench.stream.waiting().start + 1;
    // More than the block has room for.
    assert!(bench.send(&frame(1980, b'b'), 50));
    let filler = bench.pool.filler().unwrap();
    assert!(bench.stream.receive(seen, filler.space(), |_| true).is_none());
    let rest: Vec<_> = std::iter::from_fn(|| bench.receive(0)).collect();
    assert_eq!(rest.iter().map(|handover| handover.packets).sum::<u32>(), 50);
}

#[test]
fn a_thread_that_waits_is_woken_by_a_packet() {
    let mut bench = Bench::new(2, None);
    let bell = Arc::new(Bell::new().unwrap());
    let wakers = Arc::new(Wakers::new(vec![Some(bench.stream.waker())]));
    let mut watch = Watch::new(&bell, &wakers, [0]);
    let (short, long) = (Duration::from_millis(1), Duration::from_secs(60));
    for _ in 0..300 {
        assert_eq!(watch.wait(1, short), WakeCause::Timeout);
        thread::scope(|scope| {
            let woken = scope.spawn(|| watch.wait(1, long));
            assert!(bench.send(&frame(60, b'a'), 1));
            assert_eq!(woken.join().unwrap(), WakeCause::Waker);
        });
        assert_eq!(watch.wait(1, long), WakeCause::Waker, "it was not received");
        let handover = bench.receive_within(0, long);
        bench.recycle(handover);
    }
}

#[test]
fn sizes_that_cannot_work_are_refused() {
    let create = |cells, blocks| PackedMemory::create([0], Geometry::new(cells, blocks, 2048).unwrap());
    assert!(matches!(create(32, 4), Err(PackedError::SmallBlock { block_bytes: 65_536 })));
    assert!(matches!(create(64, 1), Err(PackedError::FewBlocks { blocks: 1 })));
    // The second number of bytes would be small in 32 bits.
    for stream in [3_000_000, 20_000_000] {
        let many = PackedMemory::create([stream], Geometry::new(64, 2, 2048).unwrap());
        let streams = stream + 1;
        assert!(matches!(many, Err(PackedError::ManyStreams { streams: of, blocks: 2 }) if of == streams));
    }
}
