//! Memory for programs that are bound to an interface.
//!
//! ```text
//!   r0 = 0, if r0 == 0 goto ─┐   r0 = 0, r0 = 0, …   ┌─► the program
//!                            └───────────────────────┘
//!        the verifier removes what is never reached; its memory stays with the program
//! ```
//!
//! The kernel keeps the address of a bound program beside its interface (`offload->prog`,
//! kernel/bpf/offload.c), and does not correct it when the program moves. When the interface is deleted, the
//! kernel releases whatever lies at the old address. Up to Linux 6.18 at least, that is a page fault under
//! the lock of all network configuration: until the machine restarts, `ip` and every other user of that lock
//! hang. A program moves when the verifier, which replaces some instructions by longer sequences, makes it
//! longer than its pages, and when the kernel blinds constants.
//!
//! Rule: a bound program is loaded with memory for all that the verifier may add.

use super::{
    bytecode::Bytecode,
    insn::{Insn, Reg},
};

/// `r0 = 0`.
const CLEAR: Insn = mov_r0(0);

/// Instructions that are reserved for each of the program. The most that Linux 6.18 adds, 8 for a lookup in
/// an array, comes with at least three instructions that stay as they are: arguments, and the check of the
/// result.
const RESERVED_FOR_EACH: usize = 4;
/// As far as a jump reaches, in instructions.
const FARTHEST: usize = i16::MAX as usize;

/// The instructions of a program behind a jump over reserved memory, or several that reach farther.
pub(super) fn with_room(code: &Bytecode) -> Vec<Insn> {
    let mut insns = Vec::new();
    let mut reserved = RESERVED_FOR_EACH * code.len();
    while reserved > 0 {
        let part = reserved.min(FARTHEST);
        insns.extend([CLEAR, skip_if_clear(part as i16)]);
        insns.extend(std::iter::repeat_n(CLEAR, part));
        reserved -= part;
    }
    insns.extend_from_slice(&code.insns);
    insns
}

/// An XDP program with a constant, which gets longer where the kernel blinds constants.
pub(super) fn canary() -> Bytecode {
    const EXIT: Insn = Insn::new(0x95, Reg::R0, 0, 0, 0);
    Bytecode::new(vec![mov_r0(0x1234_5678), EXIT], Vec::new())
}

/// `r0 = imm`.
const fn mov_r0(imm: i32) -> Insn {
    Insn::new(0xb7, Reg::R0, 0, 0, imm)
}

/// `if r0 == 0 goto +distance`.
const fn skip_if_clear(distance: i16) -> Insn {
    Insn::new(0x15, Reg::R0, 0, distance, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{Assembler, Cond, XDP_PASS};

    fn program(len: usize) -> Bytecode {
        let mut asm = Assembler::new();
        while asm.len() + 1 < len {
            asm.mov_imm(Reg::R0, XDP_PASS);
        }
        asm.exit();
        asm.finish().unwrap()
    }

    /// Follows the jumps over reserved memory, and returns where the program begins.
    fn start(insns: &[Insn], code: &Bytecode) -> usize {
        let mut at = 0;
        while insns[at..] != code.insns[..] {
            let jump = insns[at + 1];
            assert!(jump.off > 0 && insns[at].imm == 0 && jump.imm == 0, "{at}: {jump:?}");
            at += 2 + jump.off as usize;
        }
        at
    }

    #[test]
    fn instructions_are_those_of_the_assembler() {
        let mut asm = Assembler::new();
        let behind = asm.label();
        asm.mov_imm(Reg::R0, 0).jump_if(Cond::Eq, Reg::R0, 0, behind);
        asm.mov_imm(Reg::R0, 0x1234_5678).bind(behind).exit();
        let insns = asm.finish().unwrap().insns;
        assert_eq!(insns[..2], [CLEAR, skip_if_clear(1)]);
        assert_eq!(insns[2..], canary().insns[..]);
    }

    #[test]
    fn the_program_follows_memory_for_four_times_its_length() {
        for len in [2, 500, 8_191, 8_192, 20_000] {
            let code = program(len);
            let insns = with_room(&code);
            let jumps = (4 * len).div_ceil(FARTHEST);
            assert_eq!(insns.len(), 5 * len + 2 * jumps, "{len}");
            assert_eq!(start(&insns, &code), insns.len() - len, "{len}");
        }
    }
}
