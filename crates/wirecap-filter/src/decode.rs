//! From an instruction of libpcap's to the operation it means.
//!
//! ```text
//!   Insn { code, jt, jf, k } ──decode(index)──► Op, with jump targets as indices
//! ```
//!
//! Rule: the list of codes is that of libpcap's `bpf_filter.c`; nothing else is valid.

use wirecap_sys::machine_code::{Alu, Cond, MEMORY_SLOTS, Op, Operand, Origin, Register, Size};
use wirecap_sys::pcap::Insn;

use crate::error::InsnError;

/// What the instruction at `index` of a program of `len` instructions says.
pub(crate) fn decode(insn: &Insn, index: usize, len: usize) -> Result<Op, InsnError> {
    let Insn { code, k, .. } = *insn;
    let size = match code & 0x18 {
        0x00 => Size::Word,
        0x08 => Size::Half,
        _ => Size::Byte,
    };
    Ok(match code {
        0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 => decode_load(code, size, k),
        0xb1 => Op::LoadHeaderLength { offset: k },
        0x80 => Op::LoadLength(Register::A),
        0x81 => Op::LoadLength(Register::X),
        0x00 => Op::LoadConstant(Register::A, k),
        0x01 => Op::LoadConstant(Register::X, k),
        0x60 => Op::LoadMemory(Register::A, slot(k)?),
        0x61 => Op::LoadMemory(Register::X, slot(k)?),
        0x02 => Op::Store(Register::A, slot(k)?),
        0x03 => Op::Store(Register::X, slot(k)?),
        0x07 => Op::Copy { from: Register::A },
        0x87 => Op::Copy { from: Register::X },
        0x84 => Op::Negate,
        0x06 => Op::Return(k),
        0x16 => Op::ReturnA,
        0x05 => Op::Jump(target(index, k, len)?),
        _ if code & 0x07 == 0x05 => decode_condition(insn, index, len)?,
        _ => decode_alu(code, k)?,
    })
}

fn decode_load(code: u16, size: Size, offset: u32) -> Op {
    match origin(size, offset) {
        Some(origin) => Op::LoadOrigin(origin),
        None if code & 0x40 != 0 => Op::LoadIndirect { size, offset },
        None => Op::LoadAbsolute { size, offset },
    }
}

fn decode_condition(insn: &Insn, index: usize, len: usize) -> Result<Op, InsnError> {
    let cond = match insn.code & !0x08 {
        0x15 => Cond::Eq,
        0x25 => Cond::Gt,
        0x35 => Cond::Ge,
        0x45 => Cond::Set,
        _ => return Err(InsnError::Code(insn.code)),
    };
    let then = target(index, insn.jt.into(), len)?;
    let otherwise = target(index, insn.jf.into(), len)?;
    Ok(Op::JumpIf { cond, operand: operand(insn.code, insn.k), then, otherwise })
}

fn decode_alu(code: u16, k: u32) -> Result<Op, InsnError> {
    let operand = operand(code, k);
    let alu = match (code & !0x08, operand) {
        (0x34 | 0x94, Operand::K(0)) => return Err(InsnError::DivisionByZero),
        (0x64 | 0x74, Operand::K(bits @ 32..)) => return Err(InsnError::Shift(bits)),
        (0x04, _) => Alu::Add,
        (0x14, _) => Alu::Sub,
        (0x24, _) => Alu::Mul,
        (0x34, _) => Alu::Div,
        (0x44, _) => Alu::Or,
        (0x54, _) => Alu::And,
        (0x64, _) => Alu::Lsh,
        (0x74, _) => Alu::Rsh,
        (0x94, _) => Alu::Mod,
        (0xa4, _) => Alu::Xor,
        _ => return Err(InsnError::Code(code)),
    };
    Ok(Op::Alu(alu, operand))
}

/// What a load asks a socket for. Behind link-level headers of variable length, libpcap writes X + the same
/// number; as an offset it is beyond any packet either way.
fn origin(size: Size, offset: u32) -> Option<Origin> {
    match (size, offset) {
        (Size::Half, 0xffff_f004) => Some(Origin::PacketType),
        (Size::Word, 0xffff_f008) => Some(Origin::Interface),
        _ => None,
    }
}

fn operand(code: u16, k: u32) -> Operand {
    if code & 0x08 == 0 { Operand::K(k) } else { Operand::X }
}

fn slot(k: u32) -> Result<usize, InsnError> {
    if (k as usize) < MEMORY_SLOTS { Ok(k as usize) } else { Err(InsnError::Slot(k)) }
}

/// The instruction `distance` after the next one. libpcap takes the distance of an unconditional jump for
/// signed, and makes loops of it; those of conditional ones are too short to be negative.
fn target(index: usize, distance: u32, len: usize) -> Result<usize, InsnError> {
    let target = index as i64 + 1 + i64::from(distance as i32);
    usize::try_from(target).ok().filter(|&inside| inside < len).ok_or(InsnError::Jump(target))
}
