//! Operations into Cranelift's intermediate representation.
//!
//! ```text
//!   entry(packet, captured, wirelen): A = X = slots = 0
//!   block of each jump target: [check: captured >= n, else rejected] load, compute, branch
//!   rejected: return 0
//! ```
//!
//! A, X and the slots are variables, which the generator keeps in machine registers. So is the number of rounds that are
//! left, where a program jumps backward.
//!
//! Rule: a load is emitted where `known` reaches as far as the load does. `known` grows in `require` alone, which emits
//! the check. Where paths join it is the lesser, and nothing where a jump backward leads.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, Function, InstBuilder, MemFlags, Signature, UserFuncName, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use super::op::{Alu, Cond, MEMORY_SLOTS, Op, Operand, Reach, Register, Size};
use super::rounds::{STEP_BYTES, jumps_back};

/// A hint: what to check in front of an operation, earlier than its own load needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// No path leads here.
    Unreachable,
    /// Whatever happens from here on, the packet is rejected.
    Reject,
    /// Nothing.
    Free,
    /// Reject packets shorter than this, in bytes.
    Length(u32),
    /// Reject packets shorter than X plus this, in bytes.
    LengthFromX(u32),
}

/// The function of valid operations: `(packet: *const u8, captured: u32, wirelen: u32) -> u32`.
pub(super) fn function(ops: &[Op], guards: &[Guard]) -> Function {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.extend([I64, I32, I32].map(AbiParam::new));
    signature.returns.push(AbiParam::new(I32));
    let mut function = Function::with_name_signature(UserFuncName::default(), signature);
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    Emitter::new(&mut builder, ops).program(ops, guards);
    builder.seal_all_blocks();
    builder.finalize();
    function
}

struct Emitter<'a, 'b> {
    builder: &'a mut FunctionBuilder<'b>,
    /// Block of each instruction that is a jump's target.
    blocks: Vec<Option<Block>>,
    rejected: Block,
    packet: Value,
    /// Bytes of the packet that are there, as 64 bits.
    captured: Value,
    wirelen: Value,
    /// INVARIANT: every packet that comes to where code is emitted now reaches this far.
    known: Reach,
    /// The last instruction ended its block.
    ended: bool,
}

impl<'a, 'b> Emitter<'a, 'b> {
    fn new(builder: &'a mut FunctionBuilder<'b>, ops: &[Op]) -> Self {
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let &[packet, captured, wirelen] = builder.block_params(entry) else {
            unreachable!("the signature has three parameters");
        };
        // The upper half of a register with a 32-bit argument may hold anything.
        let captured = builder.ins().uextend(I64, captured);
        let zero = builder.ins().iconst(I32, 0);
        for variable in 0..2 + MEMORY_SLOTS {
            let variable = Variable::from_u32(variable as u32);
            builder.declare_var(variable, I32);
            builder.def_var(variable, zero);
        }
        let jumps_back = jumps_back(ops);
        if jumps_back > 0 {
            let steps = builder.ins().udiv_imm(captured, i64::from(STEP_BYTES));
            let steps = builder.ins().iadd_imm(steps, 1);
            let rounds = builder.ins().imul_imm(steps, i64::from(jumps_back));
            builder.declare_var(rounds_variable(), I64);
            builder.def_var(rounds_variable(), rounds);
        }
        let blocks = targets(builder, ops);
        let rejected = builder.create_block();
        builder.set_cold_block(rejected);
        Self { builder, blocks, rejected, packet, captured, wirelen, known: Reach::default(), ended: false }
    }

    fn program(&mut self, ops: &[Op], guards: &[Guard]) {
        let mut known = known_at_first(ops);
        for (index, op) in ops.iter().enumerate() {
            let Some(known_here) = known[index] else { continue };
            if let Some(block) = self.blocks[index] {
                if !self.ended {
                    self.builder.ins().jump(block, &[]);
                }
                self.builder.switch_to_block(block);
            }
            self.ended = false;
            self.known = known_here;
            match guards.get(index) {
                // User space does not know where a packet comes from.
                _ if matches!(op, Op::LoadOrigin(_)) => self.reject(),
                Some(Guard::Reject) => self.reject(),
                Some(&Guard::Length(end)) => self.require(Reach { start: end.into(), x: 0 }),
                Some(&Guard::LengthFromX(end)) => self.require(Reach { start: 0, x: end.into() }),
                Some(Guard::Unreachable | Guard::Free) | None => {}
            }
            if self.ended {
                continue;
            }
            self.require(op.reach());
            self.op(index, op);
            if op.writes_x() {
                self.known.x = 0;
            }
            for next in op.successors(index) {
                known[next] = Some(known[next].map_or(self.known, |other| other.min(self.known)));
            }
        }
        self.builder.switch_to_block(self.rejected);
        let zero = self.constant(0);
        self.builder.ins().return_(&[zero]);
    }

    /// Goes on only with packets that reach this far, which is less than two packets of the greatest length.
    fn require(&mut self, reach: Reach) {
        if reach.start > self.known.start {
            self.reject_if_beyond(None, reach.start);
            self.known.start = reach.start;
        }
        if reach.x > self.known.x {
            self.reject_if_beyond(Some(Register::X), reach.x);
            self.known.x = reach.x;
        }
    }

    /// Goes on if `end` bytes from the start, or from X, are there. In 64 bits the sum does not wrap.
    fn reject_if_beyond(&mut self, from: Option<Register>, end: u64) {
        let end = match from {
            None => self.builder.ins().iconst(I64, end as i64),
            Some(register) => {
                let register = self.register(register);
                let from = self.builder.ins().uextend(I64, register);
                self.builder.ins().iadd_imm(from, end as i64)
            }
        };
        let holds = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, self.captured);
        self.reject_unless(holds);
    }

    fn op(&mut self, index: usize, op: &Op) {
        match *op {
            Op::LoadAbsolute { size, offset } => {
                let a = self.load(size, self.packet, offset);
                self.set(Register::A, a);
            }
            Op::LoadIndirect { size, offset } => {
                let x = self.register(Register::X);
                let x = self.builder.ins().uextend(I64, x);
                let base = self.builder.ins().iadd(self.packet, x);
                let a = self.load(size, base, offset);
                self.set(Register::A, a);
            }
            Op::LoadHeaderLength { offset } => {
                let byte = self.load(Size::Byte, self.packet, offset);
                let words = self.builder.ins().band_imm(byte, 0xf);
                let bytes = self.builder.ins().ishl_imm(words, 2);
                self.set(Register::X, bytes);
            }
            Op::LoadOrigin(_) => unreachable!("it rejects"),
            Op::LoadLength(register) => self.set(register, self.wirelen),
            Op::LoadConstant(register, k) => {
                let k = self.constant(k);
                self.set(register, k);
            }
            Op::LoadMemory(register, slot) => {
                let value = self.builder.use_var(slot_variable(slot));
                self.set(register, value);
            }
            Op::Store(register, slot) => {
                let value = self.register(register);
                self.builder.def_var(slot_variable(slot), value);
            }
            Op::Alu(alu, operand) => self.alu(alu, operand),
            Op::Negate => {
                let a = self.register(Register::A);
                let a = self.builder.ins().ineg(a);
                self.set(Register::A, a);
            }
            Op::Copy { from } => {
                let value = self.register(from);
                self.set(if from == Register::A { Register::X } else { Register::A }, value);
            }
            Op::Jump(target) => {
                if target <= index {
                    self.count_round();
                }
                self.jump(target);
            }
            Op::JumpIf { cond, operand, then, otherwise } => self.jump_if(cond, operand, then, otherwise),
            Op::Return(k) => {
                let k = self.constant(k);
                self.end(k);
            }
            Op::ReturnA => {
                let a = self.register(Register::A);
                self.end(a);
            }
        }
    }

    fn alu(&mut self, alu: Alu, operand: Operand) {
        let a = self.register(Register::A);
        let b = self.operand(operand);
        if matches!((alu, operand), (Alu::Div | Alu::Mod, Operand::X)) {
            self.reject_unless(b);
        }
        let ins = self.builder.ins();
        let result = match alu {
            Alu::Add => ins.iadd(a, b),
            Alu::Sub => ins.isub(a, b),
            Alu::Mul => ins.imul(a, b),
            Alu::Div => ins.udiv(a, b),
            Alu::Mod => ins.urem(a, b),
            Alu::Or => ins.bor(a, b),
            Alu::And => ins.band(a, b),
            Alu::Xor => ins.bxor(a, b),
            Alu::Lsh => ins.ishl(a, b),
            Alu::Rsh => ins.ushr(a, b),
        };
        let result = match (alu, operand) {
            // The machine's shifts take the distance modulo 32.
            (Alu::Lsh | Alu::Rsh, Operand::X) => {
                let zero = self.constant(0);
                let inside = self.builder.ins().icmp_imm(IntCC::UnsignedLessThan, b, 32);
                self.builder.ins().select(inside, result, zero)
            }
            _ => result,
        };
        self.set(Register::A, result);
    }

    fn jump(&mut self, target: usize) {
        let block = self.block(target);
        self.builder.ins().jump(block, &[]);
        self.ended = true;
    }

    /// One round less, if there is one.
    fn count_round(&mut self) {
        let left = self.builder.use_var(rounds_variable());
        self.reject_unless(left);
        let left = self.builder.ins().iadd_imm(left, -1);
        self.builder.def_var(rounds_variable(), left);
    }

    fn jump_if(&mut self, cond: Cond, operand: Operand, then: usize, otherwise: usize) {
        let a = self.register(Register::A);
        let b = self.operand(operand);
        let holds = match cond {
            Cond::Eq => self.builder.ins().icmp(IntCC::Equal, a, b),
            Cond::Gt => self.builder.ins().icmp(IntCC::UnsignedGreaterThan, a, b),
            Cond::Ge => self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, a, b),
            Cond::Set => self.builder.ins().band(a, b),
        };
        let (then, otherwise) = (self.block(then), self.block(otherwise));
        self.builder.ins().brif(holds, then, &[], otherwise, &[]);
        self.ended = true;
    }

    fn end(&mut self, value: Value) {
        self.builder.ins().return_(&[value]);
        self.ended = true;
    }

    fn reject(&mut self) {
        self.builder.ins().jump(self.rejected, &[]);
        self.ended = true;
    }

    /// Goes on in a new block if the value is not zero.
    fn reject_unless(&mut self, holds: Value) {
        let on = self.builder.create_block();
        self.builder.ins().brif(holds, on, &[], self.rejected, &[]);
        self.builder.switch_to_block(on);
    }

    /// Bytes at `base + offset`, as a number. `require` has seen to it that they are there.
    fn load(&mut self, size: Size, base: Value, offset: u32) -> Value {
        // Not `readonly`: loads without side effects could be moved in front of their check.
        let flags = MemFlags::new().with_notrap();
        let (base, offset) = match i32::try_from(offset) {
            Ok(offset) => (base, offset),
            Err(_) => (self.builder.ins().iadd_imm(base, i64::from(offset)), 0),
        };
        let ins = self.builder.ins();
        let (kind, raw) = match size {
            Size::Byte => (I8, ins.load(I8, flags, base, offset)),
            Size::Half => (I16, ins.load(I16, flags, base, offset)),
            Size::Word => (I32, ins.load(I32, flags, base, offset)),
        };
        let value = if kind == I8 { raw } else { self.builder.ins().bswap(raw) };
        if kind == I32 { value } else { self.builder.ins().uextend(I32, value) }
    }

    fn block(&self, index: usize) -> Block {
        self.blocks[index].expect("each jump target has a block")
    }

    fn operand(&mut self, operand: Operand) -> Value {
        match operand {
            Operand::K(k) => self.constant(k),
            Operand::X => self.register(Register::X),
        }
    }

    fn constant(&mut self, k: u32) -> Value {
        self.builder.ins().iconst(I32, i64::from(k))
    }

    fn register(&mut self, register: Register) -> Value {
        self.builder.use_var(variable(register))
    }

    fn set(&mut self, register: Register, value: Value) {
        self.builder.def_var(variable(register), value);
    }
}

fn variable(register: Register) -> Variable {
    Variable::from_u32(register as u32)
}

fn slot_variable(slot: usize) -> Variable {
    Variable::from_u32(2 + slot as u32)
}

fn rounds_variable() -> Variable {
    Variable::from_u32(2 + MEMORY_SLOTS as u32)
}

/// What is known in front of each operation before code is emitted: nothing at the start and where a jump backward leads,
/// and no path to the others yet.
fn known_at_first(ops: &[Op]) -> Vec<Option<Reach>> {
    let mut known = vec![None; ops.len()];
    known[0] = Some(Reach::default());
    for (index, op) in ops.iter().enumerate() {
        for target in op.successors(index).filter(|&next| next <= index) {
            known[target] = Some(Reach::default());
        }
    }
    known
}

/// A block for each instruction that is jumped to.
fn targets(builder: &mut FunctionBuilder<'_>, ops: &[Op]) -> Vec<Option<Block>> {
    let mut blocks = vec![None; ops.len()];
    for (index, op) in ops.iter().enumerate() {
        if matches!(op, Op::Jump(_) | Op::JumpIf { .. }) {
            for target in op.successors(index) {
                blocks[target].get_or_insert_with(|| builder.create_block());
            }
        }
    }
    blocks
}
