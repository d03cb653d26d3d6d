//! Tests of the code itself: what it costs, and where its bounds are. `tests/differential` runs it in the
//! kernel.

use super::*;
use wirecap_sys::bpf::Insn as EbpfInsn;
use wirecap_sys::pcap::Insn;

const LD_IMM: u16 = 0x00;
const LDB: u16 = 0x30;
const LDB_IND: u16 = 0x50;
const JEQ: u16 = 0x15;
const JSET: u16 = 0x45;
const JA: u16 = 0x05;
const RET: u16 = 0x06;

/// The registers A and X are cleared first.
const BEGINNING: usize = 2;
/// `BPF_JMP | BPF_JGT` with a constant.
const JUMP_IF_GREATER: u8 = 0x25;

fn program(insns: &[(u16, u8, u8, u32)]) -> Program {
    Program::new(insns.iter().map(|&(code, jt, jf, k)| Insn::new(code, jt, jf, k)).collect()).unwrap()
}

/// The filter's part of an XDP program, which has an exit of its own for `beyond` if it has `frags`.
fn translated(insns: &[(u16, u8, u8, u32)], frags: bool, stack_end: i16) -> Result<Vec<EbpfInsn>, Error> {
    let mut asm = Assembler::new();
    let (matches, rejects) = (asm.label(), asm.label());
    let beyond = if frags { asm.label() } else { rejects };
    let length = if frags { Length::Register(Reg::R7) } else { Length::FirstBuffer };
    translate(&mut asm, &program(insns), &Splice { matches, rejects, beyond, length, stack_end })?;
    let len = asm.len();
    asm.bind(matches).bind(rejects).exit();
    if frags {
        asm.bind(beyond).exit();
    }
    Ok(asm.finish()?.insns()[..len].to_vec())
}

/// Instructions behind the beginning.
fn cost(insns: &[(u16, u8, u8, u32)], frags: bool) -> usize {
    translated(insns, frags, 0).unwrap().len() - BEGINNING
}

#[test]
fn an_instruction_that_goes_on_with_the_next_one_takes_no_jump() {
    let comparison = |code, jt, jf| [(LD_IMM, 0, 0, 7), (code, jt, jf, 7), (RET, 0, 0, 1), (RET, 0, 0, 0)];
    assert_eq!(cost(&comparison(JEQ, 0, 1), false), 4, "the comparison is reversed");
    assert_eq!(cost(&comparison(JEQ, 1, 0), false), 4);
    assert_eq!(cost(&comparison(JSET, 1, 0), false), 4);
    assert_eq!(cost(&comparison(JSET, 0, 1), false), 5, "it has no reverse");
    let over_unreachable_code = [(LD_IMM, 0, 0, 7), (JA, 0, 0, 1), (RET, 0, 0, 1), (0x16, 0, 0, 0)];
    assert_eq!(cost(&over_unreachable_code, false), 3, "a load, and the two ways out");
}

/// The verifier refuses code that no jump leads to.
#[test]
fn an_exit_that_the_filter_does_not_take_gets_a_jump_and_no_other_does() {
    let accepts = [(RET, 0, 0, 1)];
    assert_eq!([false, true].map(|frags| cost(&accepts, frags)), [1 + 1, 1 + 2]);
    let rejects = [(RET, 0, 0, 0)];
    assert_eq!([false, true].map(|frags| cost(&rejects, frags)), [1 + 1, 1 + 2]);
    // A check of the length is three instructions, or six if there may be more buffers: then short packets
    // are rejected, and all others are beyond.
    let loads = [(LDB, 0, 0, 0), (RET, 0, 0, 1)];
    assert_eq!([false, true].map(|frags| cost(&loads, frags)), [3 + 2, 6 + 2]);
}

#[test]
fn loads_reach_as_far_as_an_offset_does() {
    for code in [LDB, LDB_IND] {
        assert!(translated(&[(code, 0, 0, MAX_OFFSET - 1), (RET, 0, 0, 1)], false, 0).is_ok());
        let refused = translated(&[(code, 0, 0, MAX_OFFSET), (RET, 0, 0, 1)], false, 0);
        assert!(matches!(refused, Err(Error::OffsetTooFar { index: 0, end: 0x8000, .. })), "{refused:?}");
    }
    let unreachable = [(JA, 0, 0, 1), (LDB, 0, 0, MAX_OFFSET), (RET, 0, 0, 1)];
    assert!(translated(&unreachable, false, 0).is_ok());
    let rejecting = [(LDB, 0, 0, MAX_OFFSET), (RET, 0, 0, 0)];
    assert!(translated(&rejecting, false, 0).is_ok());
}

/// The verifier follows packet pointers up to 65,535 bytes.
#[test]
fn a_load_from_x_reaches_to_the_end_of_the_longest_packet() {
    let code = translated(&[(LDB_IND, 0, 0, 99), (RET, 0, 0, 1)], false, 0).unwrap();
    let bound = code.iter().find(|insn| insn.code() == JUMP_IF_GREATER).map(EbpfInsn::imm);
    assert_eq!(bound, Some(65_535 - 100));
}

#[test]
fn sixteen_slots_of_four_bytes_may_end_where_the_stack_does() {
    assert!(translated(&[(RET, 0, 0, 1)], false, 64 - 512).is_ok());
}

#[test]
#[should_panic = "not an aligned part of the stack"]
fn slots_below_the_stack_are_a_mistake() {
    let _ = translated(&[(RET, 0, 0, 1)], false, 64 - 512 - 8);
}
