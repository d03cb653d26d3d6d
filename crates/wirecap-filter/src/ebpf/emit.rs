//! Classic BPF into eBPF, instruction by instruction.
//!
//! | classic | eBPF |
//! |---|---|
//! | A, X | R0, R1, of which the upper halves are always zero: all arithmetic is done on 32 bits |
//! | slot *n* | 4 bytes of the stack |
//! | `[k]` | R2 + k, below a check of R2 + n against R3 |
//! | `[x + k]` | R5 + k, where R5 = R2 + X is made and checked when the guard says so, and holds until X changes |

use wirecap_sys::bpf::{
    Alu as EbpfAlu, Assembler, Cond as EbpfCond, Label, Operand as EbpfOperand, Reg, Size as EbpfSize,
};

use super::{Length, MAX_OFFSET, STACK_BYTES, Splice};
use crate::error::Error;
use crate::guard::{Guard, guards};
use crate::op::{Alu, Cond, Op, Operand, Register, Size};
use crate::program::{MEMORY_SLOTS, Program};

const A: Reg = Reg::R0;
const X: Reg = Reg::R1;
const DATA: Reg = Reg::R2;
const DATA_END: Reg = Reg::R3;
const SCRATCH: Reg = Reg::R4;
/// `DATA + X`, where the guard of a load from X was passed.
const FROM_X: Reg = Reg::R5;

/// The farthest a packet pointer may be moved (the verifier's `MAX_PACKET_OFF`); packets are shorter.
const MAX_PACKET_OFFSET: u32 = 0xffff;
/// Bytes of stack of an eBPF program.
const STACK_SIZE: i16 = 512;

pub(super) fn program(asm: &mut Assembler, program: &Program, splice: &Splice) -> Result<(), Error> {
    assert!(
        splice.stack_end <= 0 && splice.stack_end % 8 == 0 && splice.stack_end >= STACK_BYTES - STACK_SIZE,
        "the slots below R10{:+} are not an aligned part of the stack",
        splice.stack_end
    );
    if let Length::Register(register) = splice.length {
        assert!((Reg::R6..=Reg::R9).contains(&register), "{register:?} does not survive the filter");
    }
    let guards = guards(program);
    check_offsets(program.ops(), &guards)?;
    let labels = program.ops().iter().map(|_| asm.label()).collect();
    let mut emitter = Emitter { asm, splice, labels };
    emitter.prologue(program.ops(), &guards);
    emitter.ops(program.ops(), &guards);
    Ok(())
}

/// Refuses what the 16-bit offsets of eBPF cannot express.
fn check_offsets(ops: &[Op], guards: &[Guard]) -> Result<(), Error> {
    for (index, (op, guard)) in ops.iter().zip(guards).enumerate() {
        let end = match (op, guard) {
            (_, Guard::Unreachable | Guard::Reject) => continue,
            (&Op::LoadAbsolute { size, offset } | &Op::LoadIndirect { size, offset }, _) => {
                u64::from(offset) + u64::from(size.bytes())
            }
            (&Op::LoadHeaderLength { offset }, _) => u64::from(offset) + 1,
            _ => continue,
        };
        if end > MAX_OFFSET.into() {
            return Err(Error::OffsetTooFar { index, end, limit: MAX_OFFSET });
        }
    }
    Ok(())
}

struct Emitter<'a> {
    asm: &'a mut Assembler,
    splice: &'a Splice,
    /// Label of each instruction.
    labels: Vec<Label>,
}

impl Emitter<'_> {
    /// Everything starts as zero; slots only if they are used.
    fn prologue(&mut self, ops: &[Op], guards: &[Guard]) {
        self.asm.mov_imm(A, 0).mov_imm(X, 0);
        // The verifier refuses code that no jump leads to, and the caller has code at each label. A jump that
        // is never taken makes it content; then it removes the jump.
        for label in self.unused_exits(ops, guards) {
            self.asm.jump_if32(EbpfCond::Ne, A, 0, label);
        }
        let used = |slot: usize| ops.iter().any(|op| matches!(op, Op::LoadMemory(_, read) if *read == slot));
        for slot in (0..MEMORY_SLOTS).filter(|&slot| used(slot)) {
            self.asm.store_imm(EbpfSize::Word, Reg::R10, self.slot(slot), 0);
        }
    }

    /// The labels of the caller that nothing in the filter leads to.
    fn unused_exits(&self, ops: &[Op], guards: &[Guard]) -> impl Iterator<Item = Label> + use<> {
        let (mut matches, mut rejects, mut beyond) = (false, false, false);
        for (op, guard) in ops.iter().zip(guards) {
            match (guard, op) {
                (Guard::Unreachable, _) => {}
                (Guard::Reject, _) => rejects = true,
                (Guard::Length(_) | Guard::LengthFromX(_), _) => beyond = true,
                (Guard::Free, Op::Return(_)) => matches = true,
                (Guard::Free, Op::ReturnA) => (matches, rejects) = (true, true),
                (Guard::Free, Op::Alu(Alu::Div | Alu::Mod, Operand::X)) => rejects = true,
                (Guard::Free, _) => {}
            }
        }
        let exits = [
            (matches, self.splice.matches),
            (rejects || (beyond && self.splice.beyond == self.splice.rejects), self.splice.rejects),
            (beyond || self.splice.beyond == self.splice.rejects, self.splice.beyond),
        ];
        exits.into_iter().filter(|(used, _)| !used).map(|(_, label)| label)
    }

    fn ops(&mut self, ops: &[Op], guards: &[Guard]) {
        for (index, (op, &guard)) in ops.iter().zip(guards).enumerate() {
            // The verifier does not take code that no path leads to.
            if guard == Guard::Unreachable {
                continue;
            }
            let next = (index + 1..ops.len()).find(|&next| guards[next] != Guard::Unreachable);
            self.asm.bind(self.labels[index]);
            if guard == Guard::Reject {
                self.asm.jump(self.splice.rejects);
            } else {
                self.guard(guard);
                self.op(op, next);
            }
        }
    }

    fn guard(&mut self, guard: Guard) {
        match guard {
            Guard::Length(end) => {
                self.asm.mov(SCRATCH, DATA).alu64(EbpfAlu::Add, SCRATCH, end as i32);
                self.asm.jump_if(EbpfCond::Gt, SCRATCH, DATA_END, self.splice.beyond);
            }
            Guard::LengthFromX(end) => {
                // The bound of X is what lets the verifier follow the pointer; no packet is that long.
                let bound = MAX_PACKET_OFFSET - end as u32;
                self.asm.jump_if(EbpfCond::Gt, X, bound as i32, self.splice.beyond);
                self.asm.mov(FROM_X, DATA).alu64(EbpfAlu::Add, FROM_X, X);
                self.asm.mov(SCRATCH, FROM_X).alu64(EbpfAlu::Add, SCRATCH, end as i32);
                self.asm.jump_if(EbpfCond::Gt, SCRATCH, DATA_END, self.splice.beyond);
            }
            Guard::Unreachable | Guard::Reject | Guard::Free => {}
        }
    }

    /// One instruction. `next` is the one whose code comes directly after.
    fn op(&mut self, op: &Op, next: Option<usize>) {
        match *op {
            Op::LoadAbsolute { size, offset } => self.load(size, A, DATA, offset),
            Op::LoadIndirect { size, offset } => self.load(size, A, FROM_X, offset),
            Op::LoadHeaderLength { offset } => {
                self.load(Size::Byte, X, DATA, offset);
                self.asm.alu32(EbpfAlu::And, X, 0xf).alu32(EbpfAlu::Lsh, X, 2);
            }
            Op::LoadLength(register) => self.load_length(register),
            Op::LoadConstant(register, k) => {
                self.asm.alu32(EbpfAlu::Mov, ebpf(register), k as i32);
            }
            Op::LoadMemory(register, slot) => {
                self.asm.load(EbpfSize::Word, ebpf(register), Reg::R10, self.slot(slot));
            }
            Op::Store(register, slot) => {
                self.asm.store(EbpfSize::Word, Reg::R10, self.slot(slot), ebpf(register));
            }
            Op::Alu(alu, operand) => self.alu(alu, operand),
            Op::Negate => {
                self.asm.neg32(A);
            }
            Op::Copy { from: Register::A } => {
                self.asm.alu32(EbpfAlu::Mov, X, A);
            }
            Op::Copy { from: Register::X } => {
                self.asm.alu32(EbpfAlu::Mov, A, X);
            }
            Op::Jump(target) => self.go(target, next),
            Op::JumpIf { cond, operand, then, otherwise } => {
                self.jump_if(cond, operand, then, otherwise, next)
            }
            Op::Return(k) => {
                self.asm.jump(if k == 0 { self.splice.rejects } else { self.splice.matches });
            }
            Op::ReturnA => {
                self.asm.jump_if32(EbpfCond::Eq, A, 0, self.splice.rejects).jump(self.splice.matches);
            }
        }
    }

    /// Bytes at `base + offset`, in network byte order. A guard has been passed.
    fn load(&mut self, size: Size, into: Reg, base: Reg, offset: u32) {
        let width = match size {
            Size::Byte => EbpfSize::Byte,
            Size::Half => EbpfSize::Half,
            Size::Word => EbpfSize::Word,
        };
        self.asm.load(width, into, base, offset as i16);
        match size {
            Size::Byte => {}
            Size::Half => _ = self.asm.be16(into),
            Size::Word => _ = self.asm.be32(into),
        }
    }

    fn load_length(&mut self, register: Register) {
        let into = ebpf(register);
        match self.splice.length {
            Length::FirstBuffer => self.asm.mov(into, DATA_END).alu64(EbpfAlu::Sub, into, DATA),
            Length::Register(length) => self.asm.mov(into, length),
        };
        // The verifier knows nothing of the difference; now it knows that the upper half is zero.
        self.asm.alu32(EbpfAlu::Mov, into, into);
    }

    fn alu(&mut self, alu: Alu, operand: Operand) {
        let operation = match alu {
            Alu::Add => EbpfAlu::Add,
            Alu::Sub => EbpfAlu::Sub,
            Alu::Mul => EbpfAlu::Mul,
            Alu::Div => EbpfAlu::Div,
            Alu::Mod => EbpfAlu::Mod,
            Alu::Or => EbpfAlu::Or,
            Alu::And => EbpfAlu::And,
            Alu::Xor => EbpfAlu::Xor,
            Alu::Lsh => EbpfAlu::Lsh,
            Alu::Rsh => EbpfAlu::Rsh,
        };
        match (alu, operand) {
            // eBPF's own answer to a division by zero is not classic BPF's.
            (Alu::Div | Alu::Mod, Operand::X) => {
                self.asm.jump_if32(EbpfCond::Eq, X, 0, self.splice.rejects).alu32(operation, A, X);
            }
            (Alu::Lsh | Alu::Rsh, Operand::X) => self.shift_by_x(operation),
            _ => {
                self.asm.alu32(operation, A, ebpf_operand(operand));
            }
        }
    }

    /// eBPF takes the distance modulo 32; classic BPF shifts everything out.
    fn shift_by_x(&mut self, operation: EbpfAlu) {
        let (far, done) = (self.asm.label(), self.asm.label());
        self.asm.jump_if32(EbpfCond::Ge, X, 32, far).alu32(operation, A, X).jump(done);
        self.asm.bind(far).mov_imm(A, 0).bind(done);
    }

    fn go(&mut self, target: usize, next: Option<usize>) {
        if next != Some(target) {
            self.asm.jump(self.labels[target]);
        }
    }

    fn jump_if(&mut self, cond: Cond, operand: Operand, then: usize, otherwise: usize, next: Option<usize>) {
        if then == otherwise {
            return self.go(then, next);
        }
        let (holds, fails) = match cond {
            Cond::Eq => (EbpfCond::Eq, Some(EbpfCond::Ne)),
            Cond::Gt => (EbpfCond::Gt, Some(EbpfCond::Le)),
            Cond::Ge => (EbpfCond::Ge, Some(EbpfCond::Lt)),
            Cond::Set => (EbpfCond::Set, None),
        };
        let operand = ebpf_operand(operand);
        match fails {
            Some(fails) if next == Some(then) => {
                self.asm.jump_if32(fails, A, operand, self.labels[otherwise]);
            }
            _ => {
                self.asm.jump_if32(holds, A, operand, self.labels[then]);
                self.go(otherwise, next);
            }
        }
    }

    /// Offset of a slot from the frame pointer.
    fn slot(&self, slot: usize) -> i16 {
        self.splice.stack_end - 4 * (slot as i16 + 1)
    }
}

fn ebpf(register: Register) -> Reg {
    match register {
        Register::A => A,
        Register::X => X,
    }
}

fn ebpf_operand(operand: Operand) -> EbpfOperand {
    match operand {
        Operand::K(k) => (k as i32).into(),
        Operand::X => X.into(),
    }
}
