//! The live generator sends into a veth pair whose other end counts. Needs root.

use std::time::Duration;

use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_sys::bpf::{
    Alu, Assembler, Cond, Helper, Link, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec, Reg, Size,
    XDP_DROP, XdpMode,
};
use wirecap_testing::LiveSender;
use wirecap_traffic::{Error, FrameSpec, LiveOptions, Marks, Template};

const FLOWS: u32 = 4096;

/// Offsets in a 60-byte IPv4 frame.
const SOURCE_ADDRESS: i16 = 26;
const SOURCE_PORT: i16 = 34;
const SEQUENCE: i16 = 44;
const FRAME_LEN: i32 = 60;

#[test]
fn every_frame_sent_is_counted_and_flows_take_turns() {
    if !require_root("every_frame_sent_is_counted_and_flows_take_turns") {
        return;
    }
    let lab = Lab::new("count");
    let counter = Counter::attach(&lab);
    let mut generator = lab.generator(LiveOptions::default()).unwrap();
    let sent = lab.left.enter(|| generator.run(100_000)).unwrap();
    assert_eq!((sent.frames, sent.taken, sent.dropped), (100_000, 100_000, 0));
    assert_eq!(counter.frames(), 100_000);
    assert_eq!(counter.out_of_order(), 0);

    // Every frame belongs to one of 4,096 flows, which differ in address and port.
    let per_flow: Vec<u64> = (0..FLOWS).map(|flow| counter.of_flow(flow)).collect();
    let (least, most) = (100_000 / u64::from(FLOWS), 100_000 / u64::from(FLOWS) + 1);
    assert!(per_flow.iter().all(|&frames| frames == least || frames == most), "{per_flow:?}");
    assert_eq!(per_flow.iter().sum::<u64>(), 100_000);

    // A second run continues the numbering.
    lab.left.enter(|| generator.run(1)).unwrap();
    assert_eq!(generator.next_sequence().unwrap(), 100_001);
    assert_eq!((counter.frames(), counter.out_of_order()), (100_001, 0));
}

#[test]
fn a_rate_and_a_duration_are_kept() {
    if !require_root("a_rate_and_a_duration_are_kept") {
        return;
    }
    let lab = Lab::new("rate");
    let counter = Counter::attach(&lab);
    let mut generator = lab.generator(LiveOptions::default()).unwrap().at(20_000);
    let sent = lab.left.enter(|| generator.run_for(Duration::from_millis(500))).unwrap();
    // Other work on the machine may delay the last step, not the rate as a whole.
    assert!((8_000..=10_001).contains(&sent.frames), "{sent:?}");
    assert!((0.5..1.5).contains(&sent.seconds), "{sent:?}");
    assert_eq!((sent.taken, counter.frames()), (sent.frames, sent.frames));
}

/// Unless the program stays in the kernel's dispatcher, each call waits for two RCU grace periods.
#[test]
fn a_short_run_is_fast() {
    if !require_root("a_short_run_is_fast") {
        return;
    }
    let lab = Lab::new("short");
    let _counter = Counter::attach(&lab);
    let mut generator = lab.generator(LiveOptions::default()).unwrap();
    let shortest =
        (0..20).map(|_| lab.left.enter(|| generator.run(64)).unwrap().seconds).fold(f64::MAX, f64::min);
    assert!(shortest < 0.002, "{shortest} s for 64 frames");
}

#[test]
fn a_veth_that_cannot_take_frames_is_reported() {
    if !require_root("a_veth_that_cannot_take_frames_is_reported") {
        return;
    }
    let lab = Lab::new("deaf");
    let mut generator = lab.generator(LiveOptions::default()).unwrap();
    let error = lab.left.enter(|| generator.run(1000)).unwrap_err();
    assert!(matches!(&error, Error::NothingTaken { frames: 1000, .. }), "{error}");
    lab.veth.b().set_gro(true).unwrap();
    let sent = lab.left.enter(|| generator.run(1000)).unwrap();
    assert_eq!(sent.taken, 1000, "polling is enough");
}

#[test]
fn invalid_options_are_refused() {
    if !require_root("invalid_options_are_refused") {
        return;
    }
    let lab = Lab::new("mistakes");
    let flows = |flows| lab.generator(LiveOptions { flows, ..LiveOptions::default() });
    assert!(matches!(flows(0), Err(Error::Flows { flows: 0, .. })));
    assert!(matches!(flows(u32::MAX), Err(Error::Flows { .. })));
    let nowhere = lab.left.enter(|| LiveSender::new(999_999, LiveOptions::default()));
    assert!(matches!(nowhere, Err(Error::Interface(_))), "{nowhere:?}");
    let frame = FrameSpec { len: 4000, ..FrameSpec::default() };
    let mut long = lab.generator(LiveOptions { frame, ..LiveOptions::default() }).unwrap();
    let error = lab.left.enter(|| long.run(1)).unwrap_err();
    assert!(matches!(error, Error::LiveRefused { len: 4000, .. }), "{error}");
}

/// Two namespaces joined by a veth pair with one queue.
struct Lab {
    left: Namespace,
    right: Namespace,
    veth: VethPair,
}

impl Lab {
    fn new(label: &str) -> Self {
        let (left, right) = (Namespace::new(label).unwrap(), Namespace::new(label).unwrap());
        let veth = VethPair::new(&left, "l0", &right, "r0", VethOptions::default()).unwrap();
        Self { left, right, veth }
    }

    fn generator(&self, options: LiveOptions) -> Result<LiveSender, Error> {
        let ifindex = self.veth.a().ifindex().unwrap();
        self.left.enter(|| LiveSender::new(ifindex, options))
    }
}

/// An XDP program at the right end that counts frames, frames per flow, and breaks in the sequence.
struct Counter {
    /// Per CPU: entry 0 counts frames, entry 1 counts breaks in the sequence.
    totals: Map,
    /// Keyed by source address and port in network order, padded to 8 bytes.
    flows: Map,
    _link: Link,
}

impl Counter {
    fn attach(lab: &Lab) -> Self {
        let map = |kind, key_size, max_entries, name| {
            Map::create(&MapSpec { kind, key_size, value_size: 8, max_entries, name }).unwrap()
        };
        let totals = map(MapKind::PerCpuArray, 4, 2, "totals");
        let expected = map(MapKind::Array, 4, 1, "expected");
        let flows = map(MapKind::Hash, 8, 2 * FLOWS, "flows");
        let insns = counting_program(&totals, &expected, &flows).finish().unwrap();
        let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "count", &insns)).unwrap();
        let ifindex = lab.veth.b().ifindex().unwrap();
        let link = lab.right.enter(|| Link::attach_xdp(&program, ifindex, XdpMode::Native)).unwrap();
        Self { totals, flows, _link: link }
    }

    fn frames(&self) -> u64 {
        self.totals.lookup_per_cpu(&0u32.to_ne_bytes()).unwrap().sum_u64(0)
    }

    fn out_of_order(&self) -> u64 {
        self.totals.lookup_per_cpu(&1u32.to_ne_bytes()).unwrap().sum_u64(0)
    }

    fn of_flow(&self, flow: u32) -> u64 {
        let mut template = Template::new(FrameSpec::default()).unwrap();
        let frame = template.stamp(flow, 0);
        assert_eq!(Marks::read(frame).unwrap().flow, flow);
        let mut key = [0; 8];
        key[..4].copy_from_slice(&frame[SOURCE_ADDRESS as usize..][..4]);
        key[4..6].copy_from_slice(&frame[SOURCE_PORT as usize..][..2]);
        self.flows.lookup(&key).unwrap().map_or(0, |count| u64::from_ne_bytes(count.try_into().unwrap()))
    }
}

fn counting_program(totals: &Map, expected: &Map, flows: &Map) -> Assembler {
    let mut asm = Assembler::new();
    let (drop, in_order, known) = (asm.label(), asm.label(), asm.label());
    asm.load(Size::Word, Reg::R6, Reg::R1, 0).load(Size::Word, Reg::R2, Reg::R1, 4);
    asm.mov(Reg::R3, Reg::R6).alu64(Alu::Add, Reg::R3, FRAME_LEN).jump_if(Cond::Gt, Reg::R3, Reg::R2, drop);
    count_total(&mut asm, totals, 0);

    // Is the sequence number the expected one?
    asm.load(Size::Double, Reg::R7, Reg::R6, SEQUENCE).be64(Reg::R7);
    asm.load_map_value(Reg::R1, expected, 0).load(Size::Double, Reg::R8, Reg::R1, 0);
    asm.mov(Reg::R2, Reg::R7).alu64(Alu::Add, Reg::R2, 1).store(Size::Double, Reg::R1, 0, Reg::R2);
    asm.jump_if(Cond::Eq, Reg::R7, Reg::R8, in_order);
    count_total(&mut asm, totals, 1);
    asm.bind(in_order);

    // Counts the frame for its flow; the first frame of a flow makes the entry.
    asm.load(Size::Word, Reg::R1, Reg::R6, SOURCE_ADDRESS).store(Size::Word, Reg::R10, -8, Reg::R1);
    asm.load(Size::Half, Reg::R1, Reg::R6, SOURCE_PORT).store(Size::Word, Reg::R10, -4, Reg::R1);
    asm.mov(Reg::R2, Reg::R10)
        .alu64(Alu::Add, Reg::R2, -8)
        .load_map_fd(Reg::R1, flows)
        .call(Helper::MapLookupElem);
    asm.jump_if(Cond::Ne, Reg::R0, 0, known);
    asm.mov_imm(Reg::R1, 1).store(Size::Double, Reg::R10, -16, Reg::R1);
    asm.mov(Reg::R2, Reg::R10).alu64(Alu::Add, Reg::R2, -8).mov(Reg::R3, Reg::R10).alu64(
        Alu::Add,
        Reg::R3,
        -16,
    );
    asm.load_map_fd(Reg::R1, flows).mov_imm(Reg::R4, 0).call(Helper::MapUpdateElem).jump(drop);
    asm.bind(known).mov_imm(Reg::R1, 1).atomic_add(Size::Double, Reg::R0, 0, Reg::R1);
    asm.bind(drop).mov_imm(Reg::R0, XDP_DROP).exit();
    asm
}

/// Adds one to entry `index` of the per-CPU map `totals`.
fn count_total(asm: &mut Assembler, totals: &Map, index: i32) {
    let none = asm.label();
    asm.store_imm(Size::Word, Reg::R10, -4, index).mov(Reg::R2, Reg::R10).alu64(Alu::Add, Reg::R2, -4);
    asm.load_map_fd(Reg::R1, totals).call(Helper::MapLookupElem).jump_if(Cond::Eq, Reg::R0, 0, none);
    asm.load(Size::Double, Reg::R1, Reg::R0, 0).alu64(Alu::Add, Reg::R1, 1).store(
        Size::Double,
        Reg::R0,
        0,
        Reg::R1,
    );
    asm.bind(none);
}
