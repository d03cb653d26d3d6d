//! The program as the interpreter runs it: one dispatch an instruction.
//!
//! ```text
//!   Op (says what is meant: nested, 32 bytes) ──► Instruction (says what to do: flat, 12 bytes)
//! ```
//!
//! An [`Op`] is written to be read: a load has a size, a jump a condition and an operand, and each of these
//! is one more branch while a packet waits. Here each combination that filters use often is an instruction of
//! its own, so that the interpreter branches once. Combinations that are rare keep their parts.
//!
//! Rule: an instruction has the index of its op, so jump targets are the same numbers.

use wirecap_sys::machine_code::{Alu, Cond, Op, Operand, Register, Size};

/// Index of an instruction. INVARIANT: inside the program, which `Program::new` has checked.
pub(crate) type Target = u16;

/// The longest program that is taken: 16 times what the kernel takes, so that what is too long for it still
/// runs in user space.
pub const MAX_INSNS: usize = 1 << 16;
const _: () = assert!(MAX_INSNS <= Target::MAX as usize + 1);

/// What the interpreter does at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// A = packet at an offset.
    Byte(u32),
    Half(u32),
    Word(u32),
    /// A = packet at X + an offset.
    ByteAtX(u32),
    HalfAtX(u32),
    WordAtX(u32),
    /// X = 4 × the low four bits of the packet's byte at an offset.
    HeaderLength(u32),
    LengthToA,
    LengthToX,
    ConstantToA(u32),
    ConstantToX(u32),
    SlotToA(u8),
    SlotToX(u8),
    AToSlot(u8),
    XToSlot(u8),
    AluK(Alu, u32),
    AluX(Alu),
    Negate,
    AToX,
    XToA,
    Jump(Target),
    /// The only jump that costs a round, see `rounds.rs`.
    JumpBack(Target),
    /// Nearly every comparison goes on with the next instruction one way or the other. An index that does not
    /// have to be loaded does not have to be waited for: a chain of these takes half the time.
    NextUnlessEqual {
        k: u32,
        then: Target,
    },
    NextIfEqual {
        k: u32,
        otherwise: Target,
    },
    JumpEqual {
        k: u32,
        then: Target,
        otherwise: Target,
    },
    JumpGreater {
        k: u32,
        then: Target,
        otherwise: Target,
    },
    JumpGreaterEqual {
        k: u32,
        then: Target,
        otherwise: Target,
    },
    JumpSet {
        k: u32,
        then: Target,
        otherwise: Target,
    },
    /// Compares with X.
    JumpIfX {
        cond: Cond,
        then: Target,
        otherwise: Target,
    },
    Return(u32),
    ReturnA,
}

const _: () = assert!(size_of::<Instruction>() == 12);

/// The instructions for these ops, each at the place of its op.
pub(crate) fn flatten(ops: &[Op]) -> Box<[Instruction]> {
    ops.iter().enumerate().map(|(index, op)| Instruction::of(op, index)).collect()
}

impl Instruction {
    fn of(op: &Op, index: usize) -> Self {
        match *op {
            Op::LoadAbsolute { size: Size::Byte, offset } => Self::Byte(offset),
            Op::LoadAbsolute { size: Size::Half, offset } => Self::Half(offset),
            Op::LoadAbsolute { size: Size::Word, offset } => Self::Word(offset),
            Op::LoadIndirect { size: Size::Byte, offset } => Self::ByteAtX(offset),
            Op::LoadIndirect { size: Size::Half, offset } => Self::HalfAtX(offset),
            Op::LoadIndirect { size: Size::Word, offset } => Self::WordAtX(offset),
            Op::LoadHeaderLength { offset } => Self::HeaderLength(offset),
            Op::LoadLength(Register::A) => Self::LengthToA,
            Op::LoadLength(Register::X) => Self::LengthToX,
            Op::LoadConstant(Register::A, k) => Self::ConstantToA(k),
            Op::LoadConstant(Register::X, k) => Self::ConstantToX(k),
            Op::LoadMemory(Register::A, slot) => Self::SlotToA(slot as u8),
            Op::LoadMemory(Register::X, slot) => Self::SlotToX(slot as u8),
            Op::Store(Register::A, slot) => Self::AToSlot(slot as u8),
            Op::Store(Register::X, slot) => Self::XToSlot(slot as u8),
            Op::Alu(alu, Operand::K(k)) => Self::AluK(alu, k),
            Op::Alu(alu, Operand::X) => Self::AluX(alu),
            Op::Negate => Self::Negate,
            Op::Copy { from: Register::A } => Self::AToX,
            Op::Copy { from: Register::X } => Self::XToA,
            Op::Jump(target) if target <= index => Self::JumpBack(target as Target),
            Op::Jump(target) => Self::Jump(target as Target),
            Op::JumpIf { cond, operand, then, otherwise } => {
                Self::branch(cond, operand, index as Target, [then as Target, otherwise as Target])
            }
            // Unknown in user space; `bpf_filter` takes it for an offset outside of the packet.
            Op::LoadOrigin(_) | Op::Return(0) => Self::Return(0),
            Op::Return(k) => Self::Return(k),
            Op::ReturnA => Self::ReturnA,
        }
    }

    fn branch(cond: Cond, operand: Operand, at: Target, [then, otherwise]: [Target; 2]) -> Self {
        match (cond, operand) {
            (Cond::Eq, Operand::K(k)) if otherwise == at + 1 => Self::NextUnlessEqual { k, then },
            (Cond::Eq, Operand::K(k)) if then == at + 1 => Self::NextIfEqual { k, otherwise },
            (Cond::Eq, Operand::K(k)) => Self::JumpEqual { k, then, otherwise },
            (Cond::Gt, Operand::K(k)) => Self::JumpGreater { k, then, otherwise },
            (Cond::Ge, Operand::K(k)) => Self::JumpGreaterEqual { k, then, otherwise },
            (Cond::Set, Operand::K(k)) => Self::JumpSet { k, then, otherwise },
            (cond, Operand::X) => Self::JumpIfX { cond, then, otherwise },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms mean the same as `JumpEqual`, and take half the time.
    #[test]
    fn a_comparison_that_may_fall_through_has_a_short_form() {
        let jump = |then, otherwise| Op::JumpIf { cond: Cond::Eq, operand: Operand::K(7), then, otherwise };
        let ops = [jump(3, 1), jump(2, 3), jump(3, 3), Op::Return(0)];
        let code = flatten(&ops);
        assert_eq!(code[0], Instruction::NextUnlessEqual { k: 7, then: 3 });
        assert_eq!(code[1], Instruction::NextIfEqual { k: 7, otherwise: 3 });
        assert_eq!(code[2], Instruction::NextUnlessEqual { k: 7, then: 3 });
        assert_eq!(flatten(&[jump(2, 3)])[0], Instruction::JumpEqual { k: 7, then: 2, otherwise: 3 });
    }
}
