//! The instructions of a filter that touch no packet: the same in XDP programs and socket filters.

use wirecap_sys::bpf::{
    Alu as EbpfAlu, Assembler, Cond as EbpfCond, Label, Operand as EbpfOperand, Reg, Size as EbpfSize,
};
use wirecap_sys::machine_code::{Alu, Cond, Guard, MEMORY_SLOTS, Op, Operand, Register, Size};

use super::{STACK_BYTES, SocketSplice};
use crate::error::Error;
use crate::program::Program;

/// A of classic BPF. The upper half is always zero, as that of X: all arithmetic is done on 32 bits.
pub(super) const A: Reg = Reg::R0;

/// Bytes of stack of an eBPF program.
const STACK_SIZE: i16 = 512;

/// The width of a load of this size.
pub(super) fn width(size: Size) -> EbpfSize {
    match size {
        Size::Byte => EbpfSize::Byte,
        Size::Half => EbpfSize::Half,
        Size::Word => EbpfSize::Word,
    }
}

/// Where instructions go, and the names of places in them.
pub(super) struct Body<'a> {
    pub(super) asm: &'a mut Assembler,
    pub(super) exits: SocketSplice,
    x: Reg,
    ops: &'a [Op],
    /// Label of each instruction.
    labels: Vec<Label>,
}

impl<'a> Body<'a> {
    /// The beginning of a program: A, X and slots are zero. `x` is the register for X.
    ///
    /// # Errors
    /// [`Error::Loops`].
    ///
    /// # Panics
    /// If the slots are not on the stack or not aligned.
    pub(super) fn new(
        asm: &'a mut Assembler,
        x: Reg,
        program: &'a Program,
        exits: SocketSplice,
    ) -> Result<Self, Error> {
        if program.loops() {
            return Err(Error::Loops);
        }
        let (ops, stack_end) = (program.ops(), exits.stack_end);
        assert!(
            stack_end <= 0 && stack_end % 8 == 0 && stack_end >= STACK_BYTES - STACK_SIZE,
            "the slots below R10{stack_end:+} are not an aligned part of the stack"
        );
        let labels = ops.iter().map(|_| asm.label()).collect();
        let body = Self { asm, exits, x, ops, labels };
        body.asm.mov_imm(A, 0).mov_imm(x, 0);
        let used = |slot: usize| ops.iter().any(|op| matches!(op, Op::LoadMemory(_, read) if *read == slot));
        for slot in (0..MEMORY_SLOTS).filter(|&slot| used(slot)) {
            body.asm.store_imm(EbpfSize::Word, Reg::R10, body.slot(slot), 0);
        }
        Ok(body)
    }

    /// All instructions that a path leads to, since the verifier refuses others. `check` appends what a guard
    /// demands, `look` an instruction that asks something of the packet.
    pub(super) fn program(
        &mut self,
        guards: &[Guard],
        mut check: impl FnMut(&mut Self, Guard),
        mut look: impl FnMut(&mut Self, &Op),
    ) {
        let ops = self.ops;
        let is_reachable = |&index: &usize| guards[index] != Guard::Unreachable;
        for index in (0..ops.len()).filter(is_reachable) {
            self.asm.bind(self.labels[index]);
            if guards[index] == Guard::Reject {
                self.asm.jump(self.exits.rejects);
                continue;
            }
            check(self, guards[index]);
            let next = (index + 1..ops.len()).find(is_reachable);
            if let Some(op) = self.op(&ops[index], next) {
                look(self, op);
            }
        }
    }

    /// One instruction that asks nothing of the packet. `next` is the one whose code comes directly after.
    /// The others are returned.
    fn op(&mut self, op: &'a Op, next: Option<usize>) -> Option<&'a Op> {
        match *op {
            Op::LoadConstant(register, k) => {
                _ = self.asm.alu32(EbpfAlu::Mov, self.register(register), k as i32)
            }
            Op::LoadMemory(register, slot) => {
                _ = self.asm.load(EbpfSize::Word, self.register(register), Reg::R10, self.slot(slot))
            }
            Op::Store(register, slot) => {
                _ = self.asm.store(EbpfSize::Word, Reg::R10, self.slot(slot), self.register(register))
            }
            Op::Alu(alu, operand) => self.alu(alu, operand),
            Op::Negate => _ = self.asm.neg32(A),
            Op::Copy { from: Register::A } => _ = self.asm.alu32(EbpfAlu::Mov, self.x, A),
            Op::Copy { from: Register::X } => _ = self.asm.alu32(EbpfAlu::Mov, A, self.x),
            Op::Jump(target) => self.go(target, next),
            Op::JumpIf { cond, operand, then, otherwise } => {
                self.jump_if(cond, operand, then, otherwise, next)
            }
            Op::Return(k) => _ = self.asm.jump(if k == 0 { self.exits.rejects } else { self.exits.matches }),
            Op::ReturnA => {
                _ = self.asm.jump_if32(EbpfCond::Eq, A, 0, self.exits.rejects).jump(self.exits.matches)
            }
            Op::LoadAbsolute { .. }
            | Op::LoadIndirect { .. }
            | Op::LoadHeaderLength { .. }
            | Op::LoadOrigin(_)
            | Op::LoadLength(_) => return Some(op),
        }
        None
    }

    pub(super) fn register(&self, register: Register) -> Reg {
        match register {
            Register::A => A,
            Register::X => self.x,
        }
    }

    fn operand(&self, operand: Operand) -> EbpfOperand {
        match operand {
            Operand::K(k) => (k as i32).into(),
            Operand::X => self.x.into(),
        }
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
                _ = self
                    .asm
                    .jump_if32(EbpfCond::Eq, self.x, 0, self.exits.rejects)
                    .alu32(operation, A, self.x)
            }
            (Alu::Lsh | Alu::Rsh, Operand::X) => self.shift_by_x(operation),
            _ => _ = self.asm.alu32(operation, A, self.operand(operand)),
        }
    }

    /// eBPF takes the distance modulo 32; classic BPF shifts everything out.
    fn shift_by_x(&mut self, operation: EbpfAlu) {
        let (far, done) = (self.asm.label(), self.asm.label());
        self.asm.jump_if32(EbpfCond::Ge, self.x, 32, far).alu32(operation, A, self.x).jump(done);
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
        let operand = self.operand(operand);
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
        self.exits.stack_end - 4 * (slot as i16 + 1)
    }
}
