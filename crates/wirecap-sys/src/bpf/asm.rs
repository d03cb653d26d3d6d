//! A small eBPF assembler: calls append instructions, labels are resolved at the end.
//!
//! ```
//! use wirecap_sys::bpf::{Assembler, Cond, Reg, Size, XDP_DROP, XDP_PASS};
//!
//! // Drop what came in on queue 3, pass the rest to the host.
//! let mut asm = Assembler::new();
//! let pass = asm.label();
//! asm.load(Size::Word, Reg::R2, Reg::R1, 16) // ctx->rx_queue_index
//!     .jump_if(Cond::Ne, Reg::R2, 3, pass)
//!     .mov_imm(Reg::R0, XDP_DROP)
//!     .exit();
//! asm.bind(pass).mov_imm(Reg::R0, XDP_PASS).exit();
//! let code = asm.finish()?;
//! assert_eq!(code.len(), 6);
//! # Ok::<(), wirecap_sys::bpf::Error>(())
//! ```
//!
//! Rule: a program uses only maps that its author was given as a [`Map`]. An instruction names a map by the
//! number of its file descriptor, so instructions are appended by the calls below only, and code keeps the
//! descriptors of its maps open: a number that was freed may become that of another map.
//!
//! ```compile_fail
//! use wirecap_sys::bpf::{Assembler, Insn, Reg};
//!
//! let mut asm = Assembler::new();
//! asm.push(Insn::new(0x18, Reg::R1, 1, 0, 5)); // R1 = the map of file descriptor 5, whosever it is
//! ```
//!
//! ```compile_fail
//! # use wirecap_sys::bpf::{Assembler, Map, Reg};
//! fn descriptor(mut asm: Assembler, map: &Map) -> i32 {
//!     asm.load_map_fd(Reg::R1, map);
//!     asm.finish().unwrap()[0].imm()
//! }
//! ```

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::btf::KernelFunction;
use super::bytecode::Bytecode;
use super::error::Error;
use super::insn::{Alu, Cond, Helper, Insn, Operand, Reg, Size};
use super::map::Map;

// Instruction classes, the low three bits of the opcode.
const CLASS_LD: u8 = 0x00;
const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_ALU32: u8 = 0x04;
const CLASS_JMP: u8 = 0x05;
const CLASS_JMP32: u8 = 0x06;
const CLASS_ALU64: u8 = 0x07;

const MODE_IMM: u8 = 0x00;
const MODE_ABS: u8 = 0x20;
const MODE_IND: u8 = 0x40;
const MODE_MEM: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;

/// Bit of an ALU or jump opcode: the operand is a register. In a byte swap: to big endian.
const SOURCE_REG: u8 = 0x08;

/// `BPF_XCHG`, which fetches the old value.
const ATOMIC_EXCHANGE: i32 = 0xe1;

const OP_NEG: u8 = 0x80;
const OP_END: u8 = 0xd0;
const JUMP_ALWAYS: u8 = 0x00;
const JUMP_CALL: u8 = 0x80;
const JUMP_EXIT: u8 = 0x90;

/// Source-field values of a 16-byte load that make the kernel put a map's address in place of the constant.
const PSEUDO_MAP_FD: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;
/// Source-field value of a call: the constant is the number of a kernel function's type.
const PSEUDO_KFUNC_CALL: u8 = 2;

/// A place in the program that jumps can name before it is known. Good only for the [`Assembler`] that made
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Number of the assembler, so that no label of another one leads into code such as that of
    /// [`PackedMemory::emit_pack`](crate::packed::PackedMemory::emit_pack).
    assembler: u64,
    index: usize,
}

/// Collects instructions; see the module's example.
///
/// Mistakes with labels do not panic, [`Assembler::finish`] reports them.
#[derive(Debug)]
pub struct Assembler {
    /// No other assembler of this process has it.
    number: u64,
    insns: Vec<Insn>,
    /// The descriptors of the maps that `insns` name.
    maps: Vec<Arc<OwnedFd>>,
    /// Instruction each label stands for, once bound.
    labels: Vec<Option<usize>>,
    /// Jumps to resolve: (index of the jump, label).
    jumps: Vec<(usize, Label)>,
    /// First double binding, reported by `finish`.
    bound_twice: Option<usize>,
}

impl Default for Assembler {
    fn default() -> Self {
        // Counts; orders nothing.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (insns, maps, labels, jumps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { number, insns, maps, labels, jumps, bound_twice: None }
    }
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of instructions so far (a 64-bit constant or a map counts as two).
    pub fn len(&self) -> usize {
        self.insns.len()
    }

    /// Whether there is no instruction yet.
    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }

    fn push(&mut self, insn: Insn) -> &mut Self {
        self.insns.push(insn);
        self
    }

    /// `dst = src`, 64 bits.
    pub fn mov(&mut self, dst: Reg, src: Reg) -> &mut Self {
        self.alu64(Alu::Mov, dst, src)
    }

    /// `dst = imm`, its sign extended to 64 bits.
    pub fn mov_imm(&mut self, dst: Reg, imm: i32) -> &mut Self {
        self.alu64(Alu::Mov, dst, imm)
    }

    /// `dst = value`, any 64-bit constant; two instructions long.
    pub fn load_imm64(&mut self, dst: Reg, value: u64) -> &mut Self {
        self.wide(dst, 0, value as u32 as i32, (value >> 32) as u32 as i32)
    }

    /// `dst = map`, for a helper's first argument.
    ///
    /// The code keeps `map` alive, and the program from when it is loaded.
    pub fn load_map_fd(&mut self, dst: Reg, map: &Map) -> &mut Self {
        self.wide_of_map(dst, PSEUDO_MAP_FD, map, 0)
    }

    /// `dst = address of the only value of the map + offset (bytes)`: no lookup and no NULL check per packet.
    ///
    /// The kernel takes this for an [`Array`](super::MapKind::Array) with a single entry. `map` is kept alive
    /// as by [`Self::load_map_fd`].
    pub fn load_map_value(&mut self, dst: Reg, map: &Map, offset: u32) -> &mut Self {
        self.wide_of_map(dst, PSEUDO_MAP_VALUE, map, offset as i32)
    }

    /// `dst = *(size *)(src + off)`, zero-extended; `off` in bytes.
    pub fn load(&mut self, size: Size, dst: Reg, src: Reg, off: i16) -> &mut Self {
        self.push(Insn::new(CLASS_LDX | MODE_MEM | size as u8, dst, src as u8, off, 0))
    }

    /// `r0 = packet[offset]`, in network byte order made native: in socket filters, with the context in R6.
    /// R1 to R5 are lost, and outside of the packet the program ends with 0. Not for [`Size::Double`].
    pub fn load_packet(&mut self, size: Size, offset: i32) -> &mut Self {
        self.push(Insn::new(CLASS_LD | MODE_ABS | size as u8, Reg::R0, 0, 0, offset))
    }

    /// `r0 = packet[src + offset]`, as [`Assembler::load_packet`].
    pub fn load_packet_from(&mut self, size: Size, src: Reg, offset: i32) -> &mut Self {
        self.push(Insn::new(CLASS_LD | MODE_IND | size as u8, Reg::R0, src as u8, 0, offset))
    }

    /// `*(size *)(dst + off) = src`; `off` in bytes.
    pub fn store(&mut self, size: Size, dst: Reg, off: i16, src: Reg) -> &mut Self {
        self.push(Insn::new(CLASS_STX | MODE_MEM | size as u8, dst, src as u8, off, 0))
    }

    /// `*(size *)(dst + off) = imm`; `off` in bytes.
    pub fn store_imm(&mut self, size: Size, dst: Reg, off: i16, imm: i32) -> &mut Self {
        self.push(Insn::new(CLASS_ST | MODE_MEM | size as u8, dst, 0, off, imm))
    }

    /// `*(size *)(dst + off) += src`, atomically over all CPUs; the kernel takes `Word` and `Double`.
    pub fn atomic_add(&mut self, size: Size, dst: Reg, off: i16, src: Reg) -> &mut Self {
        self.push(Insn::new(CLASS_STX | MODE_ATOMIC | size as u8, dst, src as u8, off, Alu::Add as i32))
    }

    /// Exchanges `src` and `*(size *)(dst + off)`, atomically over all CPUs and with a full barrier; the
    /// kernel takes `Word` and `Double` (Linux 5.12).
    pub fn atomic_exchange(&mut self, size: Size, dst: Reg, off: i16, src: Reg) -> &mut Self {
        self.push(Insn::new(CLASS_STX | MODE_ATOMIC | size as u8, dst, src as u8, off, ATOMIC_EXCHANGE))
    }

    /// `dst = dst op operand` on 64 bits; a constant's sign is extended.
    pub fn alu64(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.with_operand(CLASS_ALU64 | op as u8, dst, operand.into())
    }

    /// `dst = dst op operand` on 32 bits; the upper half of `dst` becomes zero.
    pub fn alu32(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.with_operand(CLASS_ALU32 | op as u8, dst, operand.into())
    }

    /// `dst = -dst`, 32 bits; the upper half of `dst` becomes zero.
    pub fn neg32(&mut self, dst: Reg) -> &mut Self {
        self.push(Insn::new(CLASS_ALU32 | OP_NEG, dst, 0, 0, 0))
    }

    /// The low 16 bits of `dst` between host and network byte order; the rest of `dst` becomes zero.
    pub fn be16(&mut self, dst: Reg) -> &mut Self {
        self.big_endian(dst, 16)
    }

    /// The low 32 bits of `dst` between host and network byte order; the rest of `dst` becomes zero.
    pub fn be32(&mut self, dst: Reg) -> &mut Self {
        self.big_endian(dst, 32)
    }

    /// `dst` between host and network byte order.
    pub fn be64(&mut self, dst: Reg) -> &mut Self {
        self.big_endian(dst, 64)
    }

    /// Calls a helper: arguments in R1 to R5 (lost), result in R0.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(Insn::new(CLASS_JMP | JUMP_CALL, Reg::R0, 0, 0, helper as i32))
    }

    /// Calls a function of the kernel that is no helper: arguments in R1 to R5 (lost), result in R0.
    pub fn call_kernel(&mut self, function: KernelFunction) -> &mut Self {
        self.push(Insn::new(CLASS_JMP | JUMP_CALL, Reg::R0, PSEUDO_KFUNC_CALL, 0, function.id))
    }

    /// Ends the program; R0 is the action.
    pub fn exit(&mut self) -> &mut Self {
        self.push(Insn::new(CLASS_JMP | JUMP_EXIT, Reg::R0, 0, 0, 0))
    }

    /// A new label, to be bound once.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label { assembler: self.number, index: self.labels.len() - 1 }
    }

    /// Makes `label` stand for the next instruction.
    ///
    /// # Panics
    /// If `label` is another assembler's.
    pub fn bind(&mut self, label: Label) -> &mut Self {
        assert!(label.assembler == self.number, "a label of another assembler");
        let here = self.insns.len();
        if self.labels[label.index].replace(here).is_some() {
            self.bound_twice.get_or_insert(here);
        }
        self
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.insns.len(), label));
        self.push(Insn::new(CLASS_JMP | JUMP_ALWAYS, Reg::R0, 0, 0, 0))
    }

    /// Jumps to `label` if `dst cond operand` holds on 64 bits; a constant's sign is extended.
    pub fn jump_if(&mut self, cond: Cond, dst: Reg, operand: impl Into<Operand>, label: Label) -> &mut Self {
        self.jumps.push((self.insns.len(), label));
        self.with_operand(CLASS_JMP | cond as u8, dst, operand.into())
    }

    /// Jumps to `label` if `dst cond operand` holds on the low 32 bits.
    pub fn jump_if32(
        &mut self,
        cond: Cond,
        dst: Reg,
        operand: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        self.jumps.push((self.insns.len(), label));
        self.with_operand(CLASS_JMP32 | cond as u8, dst, operand.into())
    }

    /// Resolves the labels and gives the program.
    ///
    /// # Errors
    /// [`Error::UnboundLabel`], also for a jump to another assembler's label, [`Error::LabelBoundTwice`],
    /// [`Error::JumpTooFar`].
    pub fn finish(mut self) -> Result<Bytecode, Error> {
        if let Some(insn) = self.bound_twice {
            return Err(Error::LabelBoundTwice(insn));
        }
        for (from, label) in self.jumps {
            let own = Some(label).filter(|label| label.assembler == self.number);
            let to = own.and_then(|label| self.labels[label.index]).ok_or(Error::UnboundLabel(from))?;
            // Distances count from the instruction after the jump.
            let distance = to as i64 - (from as i64 + 1);
            self.insns[from].off = i16::try_from(distance).map_err(|_| Error::JumpTooFar { from, to })?;
        }
        Ok(Bytecode::new(self.insns, self.maps))
    }

    fn with_operand(&mut self, code: u8, dst: Reg, operand: Operand) -> &mut Self {
        self.push(match operand {
            Operand::Reg(src) => Insn::new(code | SOURCE_REG, dst, src as u8, 0, 0),
            Operand::Imm(imm) => Insn::new(code, dst, 0, 0, imm),
        })
    }

    fn big_endian(&mut self, dst: Reg, bits: i32) -> &mut Self {
        self.push(Insn::new(CLASS_ALU32 | OP_END | SOURCE_REG, dst, 0, 0, bits))
    }

    /// The 16-byte load of something of a map.
    fn wide_of_map(&mut self, dst: Reg, source: u8, map: &Map, high: i32) -> &mut Self {
        self.maps.push(map.keep_open());
        self.wide(dst, source, map.raw_fd(), high)
    }

    /// The 16-byte load: the constant's low half is in the first instruction, its high half in the second.
    fn wide(&mut self, dst: Reg, source: u8, low: i32, high: i32) -> &mut Self {
        self.push(Insn::new(CLASS_LD | MODE_IMM | Size::Double as u8, dst, source, 0, low));
        self.push(Insn::new(0, Reg::R0, 0, 0, high))
    }
}

#[cfg(test)]
mod tests;
