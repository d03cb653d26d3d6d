//! The program that packs packets, against what Linux 5.18 knows: the oldest kernel that has what it calls,
//! as long as it asks no driver (which takes Linux 6.3), and finds the length of a frame by the helper.
//!
//! | of Linux 5.18 | which |
//! |---|---|
//! | helpers of XDP programs | `xdp_func_proto()` of net/core/filter.c, `bpf_base_func_proto()` of kernel/bpf/helpers.c |
//! | opcodes | `do_check()`, `check_alu_op()`, `check_cond_jmp_op()`, `check_atomic()` of kernel/bpf/verifier.c |
//! | limits | `MAX_BPF_STACK` of <linux/filter.h>, `BPF_MAXINSNS` of <linux/bpf_common.h>, `BPF_COMPLEXITY_LIMIT_JMP_SEQ` of kernel/bpf/verifier.c |
//!
//! Rule: there is no jump back, so no verifier has to bound a loop, and each instruction runs once at most.

use wirecap_core::Geometry;
use wirecap_lab::require_root;
use wirecap_sys::{bpf::Insn, packed::PackedMemory};

use super::*;
use crate::filter::OriginInfo;

/// The helpers that the program may call, and the version of Linux that has them for XDP programs.
const HELPERS: [(Helper, &str); 6] = [
    (Helper::MapLookupElem, "4.8"),
    (Helper::KtimeGetNs, "4.8"),
    (Helper::TailCall, "4.8"),
    (Helper::RingbufOutput, "5.8"),
    (Helper::XdpGetBuffLen, "5.18"),
    (Helper::XdpLoadBytes, "5.18"),
];

/// `MAX_BPF_STACK`, in bytes.
const STACK_BYTES: i16 = 512;
/// `BPF_MAXINSNS`. Of processes with CAP_BPF the kernel takes a million.
const MAX_INSNS: usize = 4_096;
/// `BPF_COMPLEXITY_LIMIT_JMP_SEQ`: branches that wait to be verified. Without a jump back there are no more
/// than conditional jumps.
const MAX_BRANCHES: usize = 8_192;

// Parts of an opcode, as in <linux/bpf.h> and <linux/bpf_common.h>.
const CLASS: u8 = 0x07;
const LD: u8 = 0x00;
const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const ALU: u8 = 0x04;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
const ALU64: u8 = 0x07;
const MODE: u8 = 0xe0;
const MEM: u8 = 0x60;
const ATOMIC: u8 = 0xc0;
const OP: u8 = 0xf0;
const JA: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
const END: u8 = 0xd0;
const XCHG: i32 = 0xe1;
/// The first half of a constant of 64 bits, and what stands for it: a map, or a place in its only value.
const LD_IMM64: u8 = 0x18;
const MAP_FD: u8 = 1;
const MAP_VALUE: u8 = 2;
const FRAME_POINTER: u8 = Reg::R10 as u8;

/// Why Linux 5.18 would not know what is in a program, if it would not.
fn refusal(insns: &[Insn]) -> Option<String> {
    let mut branches = 0;
    let mut at = 0;
    while let Some(insn) = insns.get(at) {
        let (code, off, op) = (insn.code(), insn.off(), insn.code() & OP);
        let here = at;
        at += 1;
        let unknown = |what: &str| Some(format!("{what} at {here}: {insn:x?}"));
        match code & CLASS {
            // Its second half has no opcode.
            LD if code == LD_IMM64 && [MAP_FD, MAP_VALUE].contains(&insn.src()) => at += 1,
            LDX | ST if code & MODE == MEM => {}
            STX if code & MODE == MEM => {}
            STX if code & MODE == ATOMIC && insn.imm() == XCHG => {}
            // With an offset they are signed; a byte swap of class ALU64 asks for no byte order.
            ALU if off == 0 && op <= END => {}
            ALU64 if off == 0 && op < END => {}
            JMP if op == EXIT => {}
            // Other sources are functions of the program, and of the kernel.
            JMP if op == CALL && insn.src() == 0 => {
                if !HELPERS.iter().any(|&(helper, _)| helper as i32 == insn.imm()) {
                    return unknown("a helper");
                }
            }
            JMP if op == CALL => return unknown("a function"),
            JMP | JMP32 if op <= 0xd0 && (code & CLASS == JMP || op != JA) => {
                branches += usize::from(op != JA);
                if off < 0 || here + 1 + off as usize >= insns.len() {
                    return unknown("a jump back, or out");
                }
            }
            _ => return unknown("an opcode"),
        }
        let base = if code & CLASS == LDX { insn.src() } else { insn.dst() };
        if matches!(code & CLASS, LDX | ST | STX) && base == FRAME_POINTER && off < -STACK_BYTES {
            return unknown("a place beyond the stack");
        }
    }
    (insns.len() > MAX_INSNS || branches > MAX_BRANCHES)
        .then(|| format!("{} instructions, {branches} branches", insns.len()))
}

/// A program that packs as this memory says, into the blocks of one queue.
fn packing_program(memory: PackedMemory, plan: ProgramPlan, filter: &str, names_queue: bool) -> Vec<Insn> {
    let counters = Counters::new(plan.queues + 1).unwrap();
    let packing =
        Packing { memory: Arc::new(memory), interface: 0, names_queue, has_hashes: false, to_utc: true };
    let compile =
        |filter| PortFilter::compile(filter, 1, UnmatchedPolicy::Pass, OriginInfo::Nothing).unwrap();
    let filter = (!filter.is_empty()).then(|| compile(filter));
    assemble(&counters, &Outlet::Blocks(packing), plan, filter.as_ref()).unwrap().insns().to_vec()
}

fn memory() -> PackedMemory {
    PackedMemory::create([0], Geometry::new(64, 2, 2048).unwrap()).unwrap()
}

/// What a program does besides packing, without asking the driver.
fn plan(longest_frame: Option<u32>, share: Option<bool>, stamped: bool) -> ProgramPlan {
    let stamping = stamped.then_some(StampSource::Clock(Helper::KtimeGetNs));
    let length = FrameLength::by_helper();
    ProgramPlan { queues: 1, captured: 1, longest_frame, share, length, stamping, tags: None, hashing: None }
}

#[test]
fn linux_5_18_knows_all_that_a_packing_program_consists_of() {
    if !require_root("linux_5_18::linux_5_18_knows_all_that_a_packing_program_consists_of") {
        return;
    }
    for longest_frame in [None, Some(65_984)] {
        for (share, stamped) in [(None, false), (None, true), (Some(false), true), (Some(true), true)] {
            for filter in ["", "udp", "vlan 7 and tcp port 80 or ip6 and host 2001:db8::1"] {
                for names_queue in [false, true] {
                    let plan = plan(longest_frame, share, stamped);
                    let insns = packing_program(memory(), plan, filter, names_queue);
                    assert_eq!(refusal(&insns), None, "{plan:?}, {filter}");
                }
            }
        }
    }
}

/// It orders by atomics what stores alone order on x86-64.
#[test]
fn linux_5_18_knows_the_program_of_other_machines() {
    if !require_root("linux_5_18::linux_5_18_knows_the_program_of_other_machines") {
        return;
    }
    let exchanges = |insns: &[Insn]| {
        let is_one = |insn: &&Insn| insn.code() & (CLASS | MODE) == STX | ATOMIC && insn.imm() == XCHG;
        insns.iter().filter(is_one).count()
    };
    let by_atomics = packing_program(memory().ordered_by_atomics(), plan(None, None, true), "udp", false);
    assert_eq!(refusal(&by_atomics), None);
    // To lock, before the next block is chosen and before its first packet, to publish counters and position,
    // and at each unlocking.
    assert_eq!(exchanges(&by_atomics), 9);
    if cfg!(target_arch = "x86_64") {
        let by_stores = packing_program(memory(), plan(None, None, true), "udp", false);
        assert_eq!(exchanges(&by_stores), 1);
    }
}

#[test]
fn what_linux_5_18_does_not_know_is_refused() {
    let program = |insn| [insn, Insn::of_fields(JMP | EXIT, Reg::R0, 0, 0, 0)];
    let is_refused =
        |code, src, off, imm| refusal(&program(Insn::of_fields(code, Reg::R1, src, off, imm))).is_some();
    for (what, code, src, off, imm) in [
        ("bpf_ktime_get_tai_ns", JMP | CALL, 0, 0, 208),
        ("bpf_loop", JMP | CALL, 0, 0, 181),
        ("a function of the kernel", JMP | CALL, 2, 0, 5),
        ("a function of the program", JMP | CALL, 1, 0, 0),
        ("a loop", JMP, 0, -1, 0),
        ("a conditional loop", JMP | 0x50, 0, -1, 0),
        ("a jump out of the program", JMP, 0, 1, 0),
        ("a long jump", JMP32, 0, 0, 0),
        ("may_goto", JMP | 0xe0, 0, 0, 0),
        ("a load that extends the sign", LDX | 0x80, 0, 0, 0),
        ("a copy that extends the sign", ALU64 | 0xb8, 0, 8, 0),
        ("a signed division", ALU64 | 0x30, 0, 1, 3),
        ("a byte swap", ALU64 | END, 0, 0, 16),
        ("an atomic addition that fetches", STX | ATOMIC, 0, 0, 1),
        ("a store with release order", STX | ATOMIC, 0, 0, 0x110),
        ("a map by its index", LD_IMM64, 5, 0, 0),
        ("too deep a stack", LDX | MEM | 0x18, FRAME_POINTER, -520, 0),
    ] {
        assert!(is_refused(code, src, off, imm), "{what}");
    }
    assert!(!is_refused(ALU64 | 0xb0, 0, 0, 1) && !is_refused(JMP | CALL, 0, 0, 189));
    let long = vec![Insn::of_fields(ALU64 | 0xb0, Reg::R1, 0, 0, 1); MAX_INSNS + 1];
    assert!(refusal(&long).is_some());
}
