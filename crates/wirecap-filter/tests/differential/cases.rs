//! One rule per case, on all back ends: what the interpreter's documentation promises.
//!
//! The packets have at least 14 bytes, which the kernel's test run requires.

use wirecap_filter::{Insn, NativeFilter, Program};
use wirecap_lab::require_root;
use wirecap_sys::pcap;

use crate::sockets;
use crate::trial::{Verdict, trial, trial_for_socket};

const LD_W: u16 = 0x20;
const LD_H: u16 = 0x28;
const LD_B: u16 = 0x30;
const LD_W_IND: u16 = 0x40;
const LD_H_IND: u16 = 0x48;
const LD_B_IND: u16 = 0x50;
const LD_LEN: u16 = 0x80;
const LD_IMM: u16 = 0x00;
const LD_MEM: u16 = 0x60;
const LDX_IMM: u16 = 0x01;
const LDX_MEM: u16 = 0x61;
const LDX_LEN: u16 = 0x81;
const LDX_MSH: u16 = 0xb1;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const TAX: u16 = 0x07;
const TXA: u16 = 0x87;
const NEG: u16 = 0x84;
const JA: u16 = 0x05;
const JEQ: u16 = 0x15;
const JGT: u16 = 0x25;
const JSET_X: u16 = 0x4d;
const RET: u16 = 0x06;
const RET_A: u16 = 0x16;
const ADD: u16 = 0x04;
const SUB_X: u16 = 0x1c;
const MUL: u16 = 0x24;
const DIV_X: u16 = 0x3c;
const MOD_X: u16 = 0x9c;
const LSH_X: u16 = 0x6c;
const RSH_X: u16 = 0x7c;

/// Twenty bytes 0x40, 0x41, …: as an IPv4 header, the first one claims a length of zero.
fn packet() -> Vec<u8> {
    (0x40..0x54).collect()
}

struct Case {
    rule: &'static str,
    insns: Vec<Insn>,
    expected: u32,
}

fn case(rule: &'static str, insns: &[(u16, u32)], expected: u32) -> Case {
    let insns = insns.iter().map(|&(code, k)| Insn::new(code, 0, 0, k)).collect();
    Case { rule, insns, expected }
}

#[rustfmt::skip]
fn loads() -> Vec<Case> {
    vec![
        case("a word in network byte order", &[(LD_W, 0), (RET_A, 0)], 0x4041_4243),
        case("the last word", &[(LD_W, 16), (RET_A, 0)], 0x5051_5253),
        case("a word that ends behind the packet", &[(LD_W, 17), (RET, 1)], 0),
        case("the last half word", &[(LD_H, 18), (RET_A, 0)], 0x5253),
        case("a half word that ends behind the packet", &[(LD_H, 19), (RET, 1)], 0),
        case("the last byte", &[(LD_B, 19), (RET_A, 0)], 0x53),
        case("the byte behind the packet", &[(LD_B, 20), (RET, 1)], 0),
        case("the largest offset", &[(LD_W, u32::MAX), (RET, 1)], 0),
        case("a socket's VLAN tag", &[(LD_B, 0xffff_f02c), (RET, 1)], 0),
        case("in front of the packet", &[(LD_B, -5_i32 as u32), (RET, 1)], 0),
        case("the first offset that names a socket's data", &[(LD_H, 0xffff_f000), (RET, 1)], 0),
        case("the packet's type in another width", &[(LD_B, 0xffff_f004), (RET, 1)], 0),
        case("the interface in another width", &[(LD_H, 0xffff_f008), (RET, 1)], 0),
        case("in front of the link-level header, as sockets have it", &[(LD_B, 0xffe0_0000), (RET, 1)], 0),
        case("in front of the packet from X", &[(LDX_IMM, 10), (LD_B_IND, -5_i32 as u32), (RET, 1)], 0),
        case("a packet accepted before the load stays accepted", &[(LD_B, 0), (LDX_IMM, 3), (RET, 4), (LD_B, -1_i32 as u32), (RET, 1)], 4),
        case("X is zero at first", &[(LD_H_IND, 2), (RET_A, 0)], 0x4243),
        case("the last word after X", &[(LDX_IMM, 6), (LD_W_IND, 10), (RET_A, 0)], 0x5051_5253),
        case("behind the packet after X", &[(LDX_IMM, 7), (LD_W_IND, 10), (RET, 1)], 0),
        case("X behind the packet", &[(LDX_IMM, 20), (LD_B_IND, 0), (RET, 1)], 0),
        case("X and k do not wrap around", &[(LDX_IMM, 2), (LD_B_IND, u32::MAX), (RET, 1)], 0),
        case("k and X do not wrap around", &[(LDX_IMM, u32::MAX), (LD_B_IND, 2), (RET, 1)], 0),
        case("X of more than 16 bits", &[(LDX_IMM, 0x1_0000), (LD_B_IND, 2), (RET, 1)], 0),
        case("a header's length", &[(LDX_MSH, 5), (TXA, 0), (RET_A, 0)], 20),
        case("a header behind the packet", &[(LDX_MSH, 20), (RET, 1)], 0),
        case("X changes between two loads after it",
             &[(LDX_IMM, 18), (LD_H_IND, 0), (LDX_MSH, 1), (LD_B_IND, 15), (RET_A, 0)], 0x53),
        case("X changes, and the check for the old value does not hold",
             &[(LDX_IMM, 0), (LD_H_IND, 8), (LDX_IMM, 15), (LD_H_IND, 8), (RET, 1)], 0),
        case("the length on the wire", &[(LD_LEN, 0), (RET_A, 0)], 20),
        case("the length on the wire in X", &[(LDX_LEN, 0), (TXA, 0), (RET_A, 0)], 20),
        case("the last byte by the length", &[(LDX_LEN, 0), (LD_B_IND, 0), (RET, 1)], 0),
    ]
}

#[rustfmt::skip]
fn arithmetic() -> Vec<Case> {
    vec![
        case("A is zero at first", &[(RET_A, 0)], 0),
        case("sums wrap around", &[(LD_IMM, u32::MAX), (ADD, 3), (RET_A, 0)], 2),
        case("differences wrap around", &[(LD_IMM, 1), (LDX_IMM, 2), (SUB_X, 0), (RET_A, 0)], u32::MAX),
        case("products wrap around", &[(LD_IMM, 0x1_0001), (MUL, 0x1_0000), (RET_A, 0)], 0x1_0000),
        case("negation", &[(LD_IMM, 1), (NEG, 0), (RET_A, 0)], u32::MAX),
        case("division is unsigned", &[(LD_IMM, u32::MAX), (LDX_IMM, 2), (DIV_X, 0), (RET_A, 0)], 0x7fff_ffff),
        case("remainders are unsigned", &[(LD_IMM, u32::MAX), (LDX_IMM, 10), (MOD_X, 0), (RET_A, 0)], 5),
        case("division by zero rejects", &[(LD_IMM, 7), (DIV_X, 0), (RET, 1)], 0),
        case("remainder by zero rejects", &[(LD_IMM, 7), (MOD_X, 0), (RET, 1)], 0),
        case("a shift by 31", &[(LD_IMM, 3), (LDX_IMM, 31), (LSH_X, 0), (RET_A, 0)], 1 << 31),
        case("a shift by 32 leaves nothing", &[(LD_IMM, 3), (LDX_IMM, 32), (LSH_X, 0), (RET_A, 0)], 0),
        case("a shift by 33 to the right leaves nothing", &[(LD_IMM, 8), (LDX_IMM, 33), (RSH_X, 0), (RET_A, 0)], 0),
        case("registers are copied", &[(LD_IMM, 9), (TAX, 0), (LD_IMM, 0), (TXA, 0), (RET_A, 0)], 9),
        case("slots keep what they are given",
             &[(LD_IMM, 5), (ST, 15), (LDX_IMM, 6), (STX, 0), (LD_MEM, 15), (LDX_MEM, 0), (SUB_X, 0), (RET_A, 0)], u32::MAX),
    ]
}

fn jumps() -> Vec<Case> {
    let jump = |code, jt, jf, k| Insn::new(code, jt, jf, k);
    let plain = |code, k| Insn::new(code, 0, 0, k);
    vec![
        Case {
            rule: "comparisons are unsigned",
            insns: vec![plain(LD_IMM, 1 << 31), jump(JGT, 0, 1, 1), plain(RET, 7), plain(RET, 0)],
            expected: 7,
        },
        Case {
            rule: "the highest bit in common",
            insns: vec![
                plain(LD_IMM, 1 << 31),
                plain(LDX_IMM, u32::MAX),
                jump(JSET_X, 0, 1, 0),
                plain(RET, 7),
                plain(RET, 0),
            ],
            expected: 7,
        },
        Case {
            rule: "both ways to the same place, and unreachable code",
            insns: vec![jump(JEQ, 1, 1, 0), plain(RET, 3), plain(JA, 1), plain(RET, 4), plain(RET, 5)],
            expected: 5,
        },
        Case {
            rule: "a load that is not reached rejects nothing",
            insns: vec![plain(LD_B, 0), jump(JEQ, 0, 1, 0x40), plain(RET, 6), plain(LD_B, 90), plain(RET, 8)],
            expected: 6,
        },
    ]
}

fn all() -> Vec<Case> {
    [loads(), arithmetic(), jumps()].into_iter().flatten().collect()
}

#[test]
fn each_rule_holds_in_user_space() {
    let (packet, libpcap) = (packet(), pcap::library().unwrap());
    for Case { rule, insns, expected } in all() {
        let program = Program::new(insns).unwrap();
        let len = packet.len() as u32;
        assert_eq!(
            libpcap.filter(&program.insns().unwrap()).unwrap().run(&packet, len),
            expected,
            "{rule}: bpf_filter"
        );
        assert_eq!(program.run(&packet, len), expected, "{rule}: interpreter");
        assert_eq!(
            NativeFilter::new(&program).unwrap().matches(&packet, len),
            expected,
            "{rule}: native code"
        );
    }
}

#[test]
fn each_rule_holds_in_the_kernel() {
    if !require_root("each_rule_holds_in_the_kernel") {
        return;
    }
    let packet = packet();
    let mut in_kernel = 0;
    for Case { rule, insns, expected } in all() {
        // The kernel only distinguishes zero from other results, so the result is compared before it is
        // returned.
        let program = Program::new(exactly(insns, expected)).unwrap();
        assert_eq!(sockets::verdict(&trial_for_socket(&program).unwrap(), &packet), expected != 0, "{rule}");
        for frags in [false, true] {
            let kernel = trial(&program, frags).unwrap_or_else(|error| panic!("{rule}: {error}"));
            let action = kernel.test_run(&packet, 1).unwrap().action;
            let matches = Verdict::from_action(action) == Some(Verdict::Matches);
            assert_eq!(matches, expected != 0, "{rule}");
            in_kernel += 1;
        }
    }
    assert_eq!(in_kernel, 2 * all().len());
}

/// The program with its last `return A` replaced by a comparison of A with the expected value.
fn exactly(mut insns: Vec<Insn>, expected: u32) -> Vec<Insn> {
    if insns.last().is_some_and(|last| last.code == RET_A) && expected != 0 {
        insns.pop();
        insns.extend([Insn::new(JEQ, 0, 1, expected), Insn::new(RET, 0, 0, 1), Insn::new(RET, 0, 0, 0)]);
    }
    insns
}

/// libpcap before 1.11 leaves slots uninitialised; ours are zero, on all back ends.
#[test]
fn an_unwritten_slot_is_zero() {
    let insns = vec![Insn::new(LD_MEM, 0, 0, 3), Insn::new(ADD, 0, 0, 1), Insn::new(RET_A, 0, 0, 0)];
    let program = Program::new(insns.clone()).unwrap();
    let native = NativeFilter::new(&program).unwrap();
    assert_eq!((program.run(&packet(), 20), native.matches(&packet(), 20)), (1, 1));
    if require_root("an_unwritten_slot_is_zero") {
        let program = Program::new(exactly(insns, 1)).unwrap();
        let action = trial(&program, false).unwrap().test_run(&packet(), 1).unwrap().action;
        assert_eq!(action, Verdict::Matches as u32);
    }
}
