//! One classic BPF instruction, understood: the words the three back ends are written in.
//!
//! ```text
//!   Insn { code, jt, jf, k } ──decode(index)──► Op, with jump targets as indices
//! ```
//!
//! The machine has an accumulator A, an index register X (both 32 bits, zero at the start), 16 slots of scratch
//! memory and the packet. The list of codes is that of libpcap's `bpf_filter.c`; nothing else is valid.

use wirecap_sys::pcap::Insn;

use crate::error::Invalid;

/// Slots of scratch memory (`BPF_MEMWORDS`).
pub const MEMORY_SLOTS: usize = 16;

/// Width of a load from the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 1 byte.
    Byte,
    /// 2 bytes, in network byte order.
    Half,
    /// 4 bytes, in network byte order.
    Word,
}

impl Size {
    /// Its bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }
}

/// One of the two registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// The accumulator.
    A,
    /// The index register.
    X,
}

/// Second operand of an operation or comparison; the first is A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A constant.
    K(u32),
    /// The index register.
    X,
}

/// An operation on A; all wrap at 32 bits.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alu {
    Add,
    Sub,
    Mul,
    /// By zero: the packet is rejected.
    Div,
    /// By zero: the packet is rejected.
    Mod,
    Or,
    And,
    Xor,
    /// By 32 or more: zero.
    Lsh,
    /// By 32 or more: zero.
    Rsh,
}

/// When a jump is taken; all comparisons are unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cond {
    /// A equals the operand.
    Eq,
    /// A is greater.
    Gt,
    /// A is greater or equal.
    Ge,
    /// A and the operand have a bit in common.
    Set,
}

/// What a socket of Linux knows of a packet beside its bytes, and libpcap asks it for: `inbound`, `outbound` and
/// `ifindex`. The kernel knows more (`SKF_AD_…` of <linux/filter.h>); libpcap writes no more than these two into a program
/// for a handle that is not live, each in one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Whom the packet is for, a `PACKET_…` of <linux/if_packet.h>; 4 is a packet that is sent.
    PacketType,
    /// The number of the interface that it was seen on.
    Interface,
}

impl Origin {
    /// Of a load. Behind link-level headers of variable length, libpcap writes X + the same number; as an offset it is
    /// beyond any packet either way.
    fn of(size: Size, offset: u32) -> Option<Self> {
        match (size, offset) {
            (Size::Half, 0xffff_f004) => Some(Self::PacketType),
            (Size::Word, 0xffff_f008) => Some(Self::Interface),
            _ => None,
        }
    }
}

/// An instruction. Jump targets are indices of instructions; only an unconditional jump goes backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A = packet at `offset`; outside the packet: rejected.
    LoadAbsolute {
        /// Width.
        size: Size,
        /// Where, from the start of the packet, in bytes.
        offset: u32,
    },
    /// A = packet at X + `offset`, not wrapping; outside the packet: rejected.
    LoadIndirect {
        /// Width.
        size: Size,
        /// Where, from X, in bytes.
        offset: u32,
    },
    /// X = 4 × the low four bits of the packet's byte at `offset`: the length of an IPv4 header.
    LoadHeaderLength {
        /// Where, from the start of the packet, in bytes.
        offset: u32,
    },
    /// Register = length of the packet on the wire.
    LoadLength(Register),
    /// Register = constant.
    LoadConstant(Register, u32),
    /// Register = slot; a slot that was not written is zero.
    LoadMemory(Register, usize),
    /// Slot = register.
    Store(Register, usize),
    /// A = A op operand.
    Alu(Alu, Operand),
    /// A = 0 - A.
    Negate,
    /// The other register = this one.
    Copy {
        /// The one that is read.
        from: Register,
    },
    /// Goes on there.
    Jump(usize),
    /// Goes on there or there.
    JumpIf {
        /// What is asked.
        cond: Cond,
        /// What A is compared with.
        operand: Operand,
        /// Next instruction if it holds.
        then: usize,
        /// Next instruction if not.
        otherwise: usize,
    },
    /// A = what a socket knows. Where nobody does: rejected, as by `bpf_filter`, which takes it for an offset.
    LoadOrigin(Origin),
    /// Ends with a constant: how many bytes of the packet are wanted, 0 being none.
    Return(u32),
    /// Ends with A.
    ReturnA,
}

impl Op {
    /// What the instruction at `index` of a program of `len` instructions says.
    pub(crate) fn decode(insn: &Insn, index: usize, len: usize) -> Result<Self, Invalid> {
        let Insn { code, k, .. } = *insn;
        let size = match code & 0x18 {
            0x00 => Size::Word,
            0x08 => Size::Half,
            _ => Size::Byte,
        };
        Ok(match code {
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 => Self::decode_load(code, size, k),
            0xb1 => Self::LoadHeaderLength { offset: k },
            0x80 => Self::LoadLength(Register::A),
            0x81 => Self::LoadLength(Register::X),
            0x00 => Self::LoadConstant(Register::A, k),
            0x01 => Self::LoadConstant(Register::X, k),
            0x60 => Self::LoadMemory(Register::A, slot(k)?),
            0x61 => Self::LoadMemory(Register::X, slot(k)?),
            0x02 => Self::Store(Register::A, slot(k)?),
            0x03 => Self::Store(Register::X, slot(k)?),
            0x07 => Self::Copy { from: Register::A },
            0x87 => Self::Copy { from: Register::X },
            0x84 => Self::Negate,
            0x06 => Self::Return(k),
            0x16 => Self::ReturnA,
            0x05 => Self::Jump(target(index, k, len)?),
            _ if code & 0x07 == 0x05 => Self::decode_condition(insn, index, len)?,
            _ if code & 0x07 == 0x04 => Self::decode_alu(code, k)?,
            _ => return Err(Invalid::Code { code }),
        })
    }

    fn decode_load(code: u16, size: Size, offset: u32) -> Self {
        match Origin::of(size, offset) {
            Some(origin) => Self::LoadOrigin(origin),
            None if code & 0x40 != 0 => Self::LoadIndirect { size, offset },
            None => Self::LoadAbsolute { size, offset },
        }
    }

    fn decode_condition(insn: &Insn, index: usize, len: usize) -> Result<Self, Invalid> {
        let cond = match insn.code & !0x08 {
            0x15 => Cond::Eq,
            0x25 => Cond::Gt,
            0x35 => Cond::Ge,
            0x45 => Cond::Set,
            _ => return Err(Invalid::Code { code: insn.code }),
        };
        let then = target(index, insn.jt.into(), len)?;
        let otherwise = target(index, insn.jf.into(), len)?;
        Ok(Self::JumpIf { cond, operand: operand(insn.code, insn.k), then, otherwise })
    }

    fn decode_alu(code: u16, k: u32) -> Result<Self, Invalid> {
        let operand = operand(code, k);
        let alu = match (code & !0x08, operand) {
            (0x34 | 0x94, Operand::K(0)) => return Err(Invalid::DivisionByZero),
            (0x64 | 0x74, Operand::K(bits @ 32..)) => return Err(Invalid::Shift { bits }),
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
            _ => return Err(Invalid::Code { code }),
        };
        Ok(Self::Alu(alu, operand))
    }

    /// The instructions that may come next, of which there are none after a return.
    pub(crate) fn successors(&self, index: usize) -> impl Iterator<Item = usize> {
        let (first, second) = match *self {
            Self::Return(_) | Self::ReturnA => (None, None),
            Self::Jump(target) => (Some(target), None),
            Self::JumpIf { then, otherwise, .. } => (Some(then), Some(otherwise)),
            _ => (Some(index + 1), None),
        };
        first.into_iter().chain(second)
    }

    /// Whether X may be another afterwards.
    pub(crate) fn writes_x(&self) -> bool {
        matches!(
            self,
            Self::LoadHeaderLength { .. }
                | Self::LoadLength(Register::X)
                | Self::LoadConstant(Register::X, _)
                | Self::LoadMemory(Register::X, _)
                | Self::Copy { from: Register::A }
        )
    }
}

fn operand(code: u16, k: u32) -> Operand {
    if code & 0x08 == 0 { Operand::K(k) } else { Operand::X }
}

fn slot(k: u32) -> Result<usize, Invalid> {
    if (k as usize) < MEMORY_SLOTS { Ok(k as usize) } else { Err(Invalid::Slot { slot: k }) }
}

/// The instruction `distance` after the next one. libpcap takes the distance of an unconditional jump for signed, and
/// makes loops of it; those of conditional ones are too short to be negative.
fn target(index: usize, distance: u32, len: usize) -> Result<usize, Invalid> {
    let target = index as i64 + 1 + i64::from(distance as i32);
    usize::try_from(target).ok().filter(|&inside| inside < len).ok_or(Invalid::Jump { target })
}
