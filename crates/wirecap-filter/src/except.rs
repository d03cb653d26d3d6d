//! Two programs as one: what the first matches and the second does not.
//!
//! ```text
//!   wanted ── return not 0 ──► excluded ── return not 0 ──► return 0
//!      │                          │ return 0, a load outside of the packet, a division by zero
//!      └─ return 0 …              └──────────────────────────────────────────────► return not 0
//! ```
//!
//! This is not `(wanted) and not (excluded)` of libpcap, for two reasons. A load outside of the packet ends a
//! program with 0, also behind `not`: a packet too short for `excluded` would be unwanted. And `vlan`, `mpls`
//! and others in `wanted` move the offsets of all that follows, so that `excluded` would look at the wrong
//! bytes.
//!
//! Rule: in front of whatever may end `excluded` is a check of its own, except for a loop that is cut off: a
//! packet made to have libpcap loop for ever is unwanted.

use wirecap_sys::machine_code::{Alu, Cond, MEMORY_SLOTS, Op, Operand, Register};

use crate::error::Error;
use crate::program::Program;

/// Where an instruction of the new program goes on.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// With the instruction behind it.
    Next,
    /// At the code of this instruction of `excluded`.
    Excluded(usize),
    /// The packet is wanted.
    Wanted,
    /// It is not.
    Unwanted,
}

/// An instruction before the places are numbers.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Goes on with the next one.
    Op(Op),
    Jump(Place),
    JumpIf(Cond, Operand, Place, Place),
}

impl Program {
    /// Matches the packets that this program matches and `excluded` does not, with `value` as its result. A
    /// packet that is too short for a load of `excluded` does not match that. Packets have to be there as a
    /// whole: of one that was cut, what is missing ends the program.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the two are too long together. [`Error::Divides`].
    pub fn except(&self, excluded: &Program, value: u32) -> Result<Self, Error> {
        let own = self.ops().len();
        let clears = clears(excluded);
        // The code of `excluded` behind this program and what clears the registers.
        let behind = own + clears.len();
        let (mut steps, mut starts) = (Vec::new(), Vec::new());
        for op in excluded.ops() {
            starts.push(behind + steps.len());
            append(&mut steps, *op, excluded)?;
        }
        let wanted = behind + steps.len();
        let unwanted = wanted + 1;
        let mut ops: Vec<_> = self.ops().iter().map(|op| goes_on(*op, own, unwanted)).collect();
        ops.extend(clears);
        for step in steps {
            let number = |place| match place {
                Place::Next => ops.len() + 1,
                Place::Excluded(index) => starts[index],
                Place::Wanted => wanted,
                Place::Unwanted => unwanted,
            };
            let op = match step {
                Step::Op(op) => op,
                Step::Jump(place) => Op::Jump(number(place)),
                Step::JumpIf(cond, operand, then, otherwise) => {
                    Op::JumpIf { cond, operand, then: number(then), otherwise: number(otherwise) }
                }
            };
            ops.push(op);
        }
        ops.extend([Op::Return(value), Op::Return(0)]);
        Self::of_valid(ops)
    }
}

/// An instruction of the first program, which ends with `excluded` at `end` instead of a match.
fn goes_on(op: Op, end: usize, unwanted: usize) -> Op {
    match op {
        Op::Return(0) => op,
        Op::Return(_) => Op::Jump(end),
        Op::ReturnA => Op::JumpIf { cond: Cond::Eq, operand: Operand::K(0), then: unwanted, otherwise: end },
        _ => op,
    }
}

/// What makes everything zero that `excluded` may read before it writes it.
fn clears(excluded: &Program) -> Vec<Op> {
    let is_read =
        |slot: &usize| excluded.ops().iter().any(|op| matches!(op, Op::LoadMemory(_, read) if read == slot));
    let registers = [Register::A, Register::X].map(|register| Op::LoadConstant(register, 0));
    let slots = (0..MEMORY_SLOTS).filter(is_read).map(|slot| Op::Store(Register::A, slot));
    registers.into_iter().chain(slots).collect()
}

/// The code of an instruction of `excluded`.
fn append(steps: &mut Vec<Step>, op: Op, excluded: &Program) -> Result<(), Error> {
    let is_zero = |then, otherwise| Step::JumpIf(Cond::Eq, Operand::K(0), then, otherwise);
    match op {
        Op::LoadAbsolute { .. } => {
            // A is to be loaded: it need not be kept.
            check_length(steps, op.reach().start);
            steps.push(Step::Op(op));
        }
        Op::LoadHeaderLength { .. } => {
            // X is to be loaded: it keeps A.
            steps.push(Step::Op(Op::Copy { from: Register::A }));
            check_length(steps, op.reach().start);
            steps.extend([Step::Op(Op::Copy { from: Register::X }), Step::Op(op)]);
        }
        Op::LoadIndirect { .. } => {
            let end = op.reach().x;
            check_length(steps, end);
            if let Ok(end) = u32::try_from(end) {
                steps.push(Step::Op(Op::Alu(Alu::Sub, Operand::K(end))));
                steps.push(Step::JumpIf(Cond::Ge, Operand::X, Place::Next, Place::Wanted));
            }
            steps.push(Step::Op(op));
        }
        Op::Alu(Alu::Div | Alu::Mod, Operand::X) => {
            let slot = free_slot(excluded).ok_or(Error::Divides)?;
            steps.push(Step::Op(Op::Store(Register::A, slot)));
            steps.push(Step::Op(Op::Copy { from: Register::X }));
            steps.push(is_zero(Place::Wanted, Place::Next));
            steps.extend([Step::Op(Op::LoadMemory(Register::A, slot)), Step::Op(op)]);
        }
        Op::Jump(target) => steps.push(Step::Jump(Place::Excluded(target))),
        Op::JumpIf { cond, operand, then, otherwise } => {
            steps.push(Step::JumpIf(cond, operand, Place::Excluded(then), Place::Excluded(otherwise)));
        }
        Op::Return(0) => steps.push(Step::Jump(Place::Wanted)),
        Op::Return(_) => steps.push(Step::Jump(Place::Unwanted)),
        Op::ReturnA => steps.push(is_zero(Place::Wanted, Place::Unwanted)),
        op => steps.push(Step::Op(op)),
    }
    Ok(())
}

/// Goes on behind it if the packet has `end` bytes. A is lost.
fn check_length(steps: &mut Vec<Step>, end: u64) {
    match u32::try_from(end) {
        Ok(end) => {
            steps.push(Step::Op(Op::LoadLength(Register::A)));
            steps.push(Step::JumpIf(Cond::Ge, Operand::K(end), Place::Next, Place::Wanted));
        }
        Err(_) => steps.push(Step::Jump(Place::Wanted)),
    }
}

/// A slot that the program does not use.
fn free_slot(program: &Program) -> Option<usize> {
    let is_used = |slot: usize| {
        let uses = |op: &Op| matches!(*op, Op::LoadMemory(_, used) | Op::Store(_, used) if used == slot);
        program.ops().iter().any(uses)
    };
    (0..MEMORY_SLOTS).find(|&slot| !is_used(slot))
}
