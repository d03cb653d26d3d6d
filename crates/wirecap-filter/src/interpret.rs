//! The interpreter: what a program means, said plainly. The other back ends are measured by it.
//!
//! ```text
//!   A, X, memory[16] = 0        packet: what was captured        wirelen: what was on the wire
//!   op ──► op ──► … ──► return: bytes wanted, 0 = rejected
//! ```
//!
//! The rules, which are those of libpcap's `bpf_filter`:
//!
//! - A load that is not wholly inside the captured bytes ends with 0. Offsets do not wrap: X + k beyond 32 bits
//!   is outside. So are the extensions of Linux sockets (`SKF_AD_OFF` = 0xfffff000 and more), which
//!   `bpf_filter` does not have either: see [`Program::bound_to`].
//! - Division and remainder by X = 0 end with 0.
//! - Shifts by X ≥ 32 leave 0, as in libpcap 1.10; eBPF and x86-64 by themselves would take them modulo 32.
//! - A run that jumps backward too often ends with 0: `rounds.rs` has the bound, and why `bpf_filter` would then
//!   never end.
//! - A slot that was not written reads as 0, as in libpcap 1.11; it is undefined before and refused by
//!   the kernel.

use crate::op::{Alu, Cond, Op, Operand, Register, Size};
use crate::program::{MEMORY_SLOTS, Program};
use crate::rounds::rounds;

impl Program {
    /// Runs the program on a packet of which `packet` was captured and which was `wirelen` bytes long.
    ///
    /// Returns how many bytes of it are wanted; 0 means that it does not match. About 1.5 ns an instruction.
    pub fn run(&self, packet: &[u8], wirelen: u32) -> u32 {
        self.decide(packet, wirelen).unwrap_or(0)
    }

    /// The same; `None` for packets that lead it round so often that it was cut off. With a filter of libpcap's
    /// (`protochain`), `bpf_filter` would never end on these.
    pub fn decide(&self, packet: &[u8], wirelen: u32) -> Option<u32> {
        let mut machine = Machine { a: 0, x: 0, memory: [0; MEMORY_SLOTS], packet, wirelen };
        let mut rounds = rounds(self, packet.len());
        let ops = self.ops();
        let mut at = 0;
        loop {
            match machine.step(&ops[at], at) {
                Step::Next(next) => {
                    if next <= at {
                        rounds = rounds.checked_sub(1)?;
                    }
                    at = next;
                }
                Step::End(wanted) => return Some(wanted),
            }
        }
    }
}

enum Step {
    /// Go on with this instruction.
    Next(usize),
    /// The result.
    End(u32),
}

struct Machine<'a> {
    a: u32,
    x: u32,
    memory: [u32; MEMORY_SLOTS],
    packet: &'a [u8],
    wirelen: u32,
}

impl Machine<'_> {
    #[inline(always)]
    fn step(&mut self, op: &Op, index: usize) -> Step {
        match self.try_step(op, index) {
            Some(step) => step,
            None => Step::End(0),
        }
    }

    /// One instruction; `None` for what rejects the packet by itself.
    #[inline(always)]
    fn try_step(&mut self, op: &Op, index: usize) -> Option<Step> {
        match *op {
            Op::LoadAbsolute { size, offset } => self.a = self.load(size, offset.into())?,
            Op::LoadIndirect { size, offset } => {
                self.a = self.load(size, u64::from(self.x) + u64::from(offset))?;
            }
            Op::LoadHeaderLength { offset } => self.x = (self.load(Size::Byte, offset.into())? & 0xf) << 2,
            Op::LoadOrigin(_) => return None,
            Op::LoadLength(register) => *self.register(register) = self.wirelen,
            Op::LoadConstant(register, k) => *self.register(register) = k,
            Op::LoadMemory(register, slot) => *self.register(register) = self.memory[slot],
            Op::Store(register, slot) => self.memory[slot] = *self.register(register),
            Op::Alu(alu, operand) => self.a = compute(alu, self.a, self.operand(operand))?,
            Op::Negate => self.a = self.a.wrapping_neg(),
            Op::Copy { from: Register::A } => self.x = self.a,
            Op::Copy { from: Register::X } => self.a = self.x,
            Op::Jump(target) => return Some(Step::Next(target)),
            Op::JumpIf { cond, operand, then, otherwise } => {
                let holds = holds(cond, self.a, self.operand(operand));
                return Some(Step::Next(if holds { then } else { otherwise }));
            }
            Op::Return(k) => return Some(Step::End(k)),
            Op::ReturnA => return Some(Step::End(self.a)),
        }
        Some(Step::Next(index + 1))
    }

    #[inline(always)]
    fn load(&self, size: Size, offset: u64) -> Option<u32> {
        let rest = self.packet.get(usize::try_from(offset).ok()?..)?;
        Some(match size {
            Size::Byte => (*rest.first()?).into(),
            Size::Half => u16::from_be_bytes(*rest.first_chunk()?).into(),
            Size::Word => u32::from_be_bytes(*rest.first_chunk()?),
        })
    }

    #[inline(always)]
    fn register(&mut self, register: Register) -> &mut u32 {
        match register {
            Register::A => &mut self.a,
            Register::X => &mut self.x,
        }
    }

    #[inline(always)]
    fn operand(&self, operand: Operand) -> u32 {
        match operand {
            Operand::K(k) => k,
            Operand::X => self.x,
        }
    }
}

/// `a op b`; `None` for a division by zero.
#[inline(always)]
fn compute(alu: Alu, a: u32, b: u32) -> Option<u32> {
    Some(match alu {
        Alu::Add => a.wrapping_add(b),
        Alu::Sub => a.wrapping_sub(b),
        Alu::Mul => a.wrapping_mul(b),
        Alu::Div => a.checked_div(b)?,
        Alu::Mod => a.checked_rem(b)?,
        Alu::Or => a | b,
        Alu::And => a & b,
        Alu::Xor => a ^ b,
        Alu::Lsh => a.checked_shl(b).unwrap_or(0),
        Alu::Rsh => a.checked_shr(b).unwrap_or(0),
    })
}

#[inline(always)]
fn holds(cond: Cond, a: u32, b: u32) -> bool {
    match cond {
        Cond::Eq => a == b,
        Cond::Gt => a > b,
        Cond::Ge => a >= b,
        Cond::Set => a & b != 0,
    }
}
