//! The operations of a packet filter: those of classic BPF, as types.
//!
//! ```text
//!   A, X: 32 bits, zero at the start      16 slots of scratch memory, zero at the start      the packet, read only
//! ```
//!
//! Anyone may build an [`Op`] with any numbers in it. What is not valid becomes no code.

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

/// How far something reaches into a packet, in bytes from its start and from X. A packet is at least as long if it has
/// `start` bytes, and `x` bytes behind its first X.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// Bytes from the start of the packet.
    pub start: u64,
    /// Bytes from X.
    pub x: u64,
}

impl Reach {
    /// As far as both reach.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), x: self.x.min(other.x) }
    }
}

impl Op {
    /// How far a load reaches into the packet; nothing for other operations.
    pub fn reach(&self) -> Reach {
        let end = |size: Size, offset: u32| u64::from(offset) + u64::from(size.bytes());
        match *self {
            Self::LoadAbsolute { size, offset } => Reach { start: end(size, offset), x: 0 },
            Self::LoadHeaderLength { offset } => Reach { start: end(Size::Byte, offset), x: 0 },
            Self::LoadIndirect { size, offset } => Reach { start: 0, x: end(size, offset) },
            _ => Reach::default(),
        }
    }

    /// Whether the operation at `index` of `len` can become code: it goes on inside of the program, back only by [`Op::Jump`], its
    /// slot exists, and its constant neither divides by zero nor shifts by more than 31 bits.
    pub(super) fn is_valid(&self, index: usize, len: usize) -> bool {
        match *self {
            Self::LoadMemory(_, slot) | Self::Store(_, slot) if slot >= MEMORY_SLOTS => false,
            Self::Alu(Alu::Div | Alu::Mod, Operand::K(0)) => false,
            Self::Alu(Alu::Lsh | Alu::Rsh, Operand::K(32..)) => false,
            Self::JumpIf { then, otherwise, .. } if then.min(otherwise) <= index => false,
            _ => self.successors(index).all(|next| next < len),
        }
    }

    /// The instructions that may come next, of which there are none after a return.
    pub fn successors(&self, index: usize) -> impl Iterator<Item = usize> {
        let (first, second) = match *self {
            Self::Return(_) | Self::ReturnA => (None, None),
            Self::Jump(target) => (Some(target), None),
            Self::JumpIf { then, otherwise, .. } => (Some(then), Some(otherwise)),
            _ => (Some(index + 1), None),
        };
        first.into_iter().chain(second)
    }

    /// Whether X may be another afterwards.
    pub fn writes_x(&self) -> bool {
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
