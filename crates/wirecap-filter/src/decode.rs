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

// What the offsets of loads ask a socket for: `SKF_AD_OFF` of <linux/filter.h> and `SKF_AD_…`.
const PACKET_TYPE: u32 = 0xffff_f004;
const INTERFACE: u32 = 0xffff_f008;

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

/// The instruction that means this operation at `index`; `None` if it jumps too far.
pub(crate) fn encode(op: &Op, index: usize) -> Option<Insn> {
    let plain = |code, k| Some(Insn::new(code, 0, 0, k));
    let of_register = |register, [a, x]: [u16; 2]| if register == Register::A { a } else { x };
    let with_operand = |code: u16, operand| match operand {
        Operand::K(k) => (code, k),
        Operand::X => (code | 0x08, 0),
    };
    match *op {
        Op::LoadAbsolute { size, offset } => plain(0x20 | size_bits(size), offset),
        Op::LoadIndirect { size, offset } => plain(0x40 | size_bits(size), offset),
        Op::LoadHeaderLength { offset } => plain(0xb1, offset),
        Op::LoadOrigin(Origin::PacketType) => plain(0x20 | size_bits(Size::Half), PACKET_TYPE),
        Op::LoadOrigin(Origin::Interface) => plain(0x20 | size_bits(Size::Word), INTERFACE),
        Op::LoadLength(register) => plain(of_register(register, [0x80, 0x81]), 0),
        Op::LoadConstant(register, k) => plain(of_register(register, [0x00, 0x01]), k),
        Op::LoadMemory(register, slot) => plain(of_register(register, [0x60, 0x61]), slot as u32),
        Op::Store(register, slot) => plain(of_register(register, [0x02, 0x03]), slot as u32),
        Op::Copy { from } => plain(of_register(from, [0x07, 0x87]), 0),
        Op::Negate => plain(0x84, 0),
        Op::Return(k) => plain(0x06, k),
        Op::ReturnA => plain(0x16, 0),
        Op::Jump(target) => plain(0x05, (target as i64 - index as i64 - 1) as u32),
        Op::Alu(alu, operand) => {
            let (code, k) = with_operand(alu_code(alu), operand);
            plain(code, k)
        }
        Op::JumpIf { cond, operand, then, otherwise } => {
            let (code, k) = with_operand(cond_code(cond), operand);
            let [jt, jf] = [then, otherwise].map(|target| u8::try_from(target - index - 1).ok());
            Some(Insn::new(code, jt?, jf?, k))
        }
    }
}

fn size_bits(size: Size) -> u16 {
    match size {
        Size::Word => 0x00,
        Size::Half => 0x08,
        Size::Byte => 0x10,
    }
}

fn alu_code(alu: Alu) -> u16 {
    match alu {
        Alu::Add => 0x04,
        Alu::Sub => 0x14,
        Alu::Mul => 0x24,
        Alu::Div => 0x34,
        Alu::Or => 0x44,
        Alu::And => 0x54,
        Alu::Lsh => 0x64,
        Alu::Rsh => 0x74,
        Alu::Mod => 0x94,
        Alu::Xor => 0xa4,
    }
}

fn cond_code(cond: Cond) -> u16 {
    match cond {
        Cond::Eq => 0x15,
        Cond::Gt => 0x25,
        Cond::Ge => 0x35,
        Cond::Set => 0x45,
    }
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
        (Size::Half, PACKET_TYPE) => Some(Origin::PacketType),
        (Size::Word, INTERFACE) => Some(Origin::Interface),
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
