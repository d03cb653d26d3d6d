//! One eBPF instruction and the vocabulary it is written in.
//!
//! Encodings are those of the kernel's Documentation/bpf/standardization/instruction-set.rst.

/// One eBPF instruction, in the kernel's layout (`struct bpf_insn`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Insn {
    pub(super) code: u8,
    /// Destination and source register, four bits each; which half is which depends on the byte order of the
    /// machine.
    pub(super) regs: u8,
    pub(super) off: i16,
    pub(super) imm: i32,
}

const _: () = assert!(size_of::<Insn>() == 8 && align_of::<Insn>() == 4);
const _: () = assert!(core::mem::offset_of!(Insn, off) == 2 && core::mem::offset_of!(Insn, imm) == 4);

impl Insn {
    /// An instruction from its raw fields: opcode, destination, number in the source field, offset,
    /// immediate. Only for the assembler: the immediate may be a file descriptor.
    pub(super) const fn new(code: u8, dst: Reg, src: u8, off: i16, imm: i32) -> Self {
        let regs =
            if cfg!(target_endian = "little") { dst as u8 | (src << 4) } else { ((dst as u8) << 4) | src };
        Self { code, regs, off, imm }
    }

    /// From its raw fields, for tests of what reads instructions. It gets into no program: only the
    /// assembler makes those.
    #[cfg(feature = "testing")]
    pub const fn of_fields(code: u8, dst: Reg, src: u8, off: i16, imm: i32) -> Self {
        Self::new(code, dst, src, off, imm)
    }

    /// The operation code.
    #[cfg(feature = "testing")]
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// The number of the destination register.
    #[cfg(feature = "testing")]
    pub const fn dst(&self) -> u8 {
        if cfg!(target_endian = "little") { self.regs & 0x0f } else { self.regs >> 4 }
    }

    /// The number in the source field: a register, or what the constant means.
    #[cfg(feature = "testing")]
    pub const fn src(&self) -> u8 {
        if cfg!(target_endian = "little") { self.regs >> 4 } else { self.regs & 0x0f }
    }

    /// The offset field: distance of a jump in instructions, or of a memory access in bytes.
    #[cfg(feature = "testing")]
    pub const fn off(&self) -> i16 {
        self.off
    }

    /// The immediate field.
    #[cfg(feature = "testing")]
    pub const fn imm(&self) -> i32 {
        self.imm
    }
}

/// The registers. R0 carries results, R1 to R5 arguments (lost in a call), R6 to R9 survive calls, R10 is the
/// read-only frame pointer (512 bytes of stack below it). On entry of an XDP program R1 is the context.
#[allow(missing_docs)]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a memory access.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 1 byte.
    Byte = 0x10,
    /// 2 bytes.
    Half = 0x08,
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// An arithmetic or logic operation `dst = dst op operand`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alu {
    /// Addition, wrapping.
    Add = 0x00,
    /// Subtraction, wrapping.
    Sub = 0x10,
    /// Multiplication, wrapping.
    Mul = 0x20,
    /// Unsigned division; by zero gives zero.
    Div = 0x30,
    /// Bitwise or.
    Or = 0x40,
    /// Bitwise and.
    And = 0x50,
    /// Shift left.
    Lsh = 0x60,
    /// Logical shift right.
    Rsh = 0x70,
    /// Unsigned remainder; by zero leaves `dst` as it is.
    Mod = 0x90,
    /// Bitwise exclusive or.
    Xor = 0xa0,
    /// Copy.
    Mov = 0xb0,
    /// Arithmetic shift right.
    Arsh = 0xc0,
}

/// When a conditional jump is taken: `dst cond operand`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cond {
    /// Equal.
    Eq = 0x10,
    /// Greater, unsigned.
    Gt = 0x20,
    /// Greater or equal, unsigned.
    Ge = 0x30,
    /// `dst & operand` is not zero.
    Set = 0x40,
    /// Not equal.
    Ne = 0x50,
    /// Greater, signed.
    Sgt = 0x60,
    /// Greater or equal, signed.
    Sge = 0x70,
    /// Less, unsigned.
    Lt = 0xa0,
    /// Less or equal, unsigned.
    Le = 0xb0,
    /// Less, signed.
    Slt = 0xc0,
    /// Less or equal, signed.
    Sle = 0xd0,
}

/// Second operand of an operation or a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant; 64-bit operations extend its sign.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// Functions of the kernel a program may call (bpf-helpers(7)).
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// `bpf_map_lookup_elem(map, key) -> value or NULL`.
    MapLookupElem = 1,
    /// `bpf_map_update_elem(map, key, value, flags)`.
    MapUpdateElem = 2,
    /// `bpf_map_delete_elem(map, key)`.
    MapDeleteElem = 3,
    /// `bpf_ktime_get_ns()`: nanoseconds of CLOCK_MONOTONIC.
    KtimeGetNs = 5,
    /// `bpf_get_smp_processor_id()`: the CPU that the program runs on.
    GetSmpProcessorId = 8,
    /// `bpf_tail_call(ctx, programs, index)`: goes on as the program at `index` of a
    /// [`ProgArray`](super::MapKind::ProgArray); returns only if that entry is empty.
    TailCall = 12,
    /// `bpf_redirect(ifindex, flags)`.
    Redirect = 23,
    /// `bpf_skb_load_bytes(ctx, offset, to, len)`: copies bytes of the packet, in whichever buffers they lie.
    SkbLoadBytes = 26,
    /// `bpf_get_socket_cookie(ctx)`: the number of the socket that has sent the packet; 0 if none has.
    GetSocketCookie = 46,
    /// `bpf_xdp_adjust_head(ctx, delta)`.
    XdpAdjustHead = 44,
    /// `bpf_redirect_map(map, key, flags)`: to a socket of an XSKMAP or a device of a DEVMAP; the low two
    /// bits of `flags` are the action when there is no entry at `key`.
    RedirectMap = 51,
    /// `bpf_xdp_adjust_meta(ctx, delta)`: room for metadata in front of the packet.
    XdpAdjustMeta = 54,
    /// `bpf_ringbuf_output(ring, data, len, flags)`: adds an event, and wakes threads that wait for it if
    /// the flags say so ([`RING_FORCE_WAKEUP`](super::RING_FORCE_WAKEUP)).
    RingbufOutput = 130,
    /// `bpf_xdp_get_buff_len(ctx)`: length over all fragments, in bytes (Linux 5.18).
    XdpGetBuffLen = 188,
    /// `bpf_xdp_load_bytes(ctx, offset, to, len)`: copies bytes of the packet, in whichever buffers they lie
    /// (Linux 5.18).
    XdpLoadBytes = 189,
}
