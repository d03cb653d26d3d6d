//! Classic BPF into eBPF, instruction by instruction.
//!
//! | classic | eBPF |
//! |---|---|
//! | A, X | R0, R1, of which the upper halves are always zero: all arithmetic is done on 32 bits |
//! | slot *n* | 4 bytes of the stack |
//! | `[k]` | R2 + k, below a check of R2 + n against R3 |
//! | `[x + k]` | R5 + k, where R5 = R2 + X is made and checked when the guard says so, and holds until X changes |

use wirecap_sys::bpf::{Alu as EbpfAlu, Assembler, Cond as EbpfCond, Label, Reg};
use wirecap_sys::machine_code::{Alu, Guard, Op, Operand, Reach, Register, Size};

use super::body::{A, Body, Exits, width};
use super::{Length, MAX_OFFSET, Splice};
use crate::error::Error;
use crate::guard::{Runner, guards};
use crate::program::Program;

const X: Reg = Reg::R1;
const DATA: Reg = Reg::R2;
const DATA_END: Reg = Reg::R3;
const SCRATCH: Reg = Reg::R4;
/// `DATA + X`, where the guard of a load from X was passed.
const FROM_X: Reg = Reg::R5;

/// The farthest a packet pointer may be moved (the verifier's `MAX_PACKET_OFF`); packets are shorter.
const MAX_PACKET_OFFSET: u32 = 0xffff;

pub(super) fn program(asm: &mut Assembler, program: &Program, splice: &Splice) -> Result<(), Error> {
    if let Length::Register(register) = splice.length {
        assert!((Reg::R6..=Reg::R9).contains(&register), "{register:?} does not survive the filter");
    }
    if program.loops() {
        return Err(Error::Loops);
    }
    let guards = guards(program, Runner::XDP);
    check_offsets(program.ops(), &guards)?;
    let exits = Exits { matches: splice.matches, rejects: splice.rejects };
    let body = Body::new(asm, X, exits, splice.stack_end, program.ops().len());
    let mut emitter = Emitter { body, splice };
    emitter.prologue(program.ops(), &guards);
    emitter.ops(program.ops(), &guards);
    Ok(())
}

/// Refuses what the 16-bit offsets of eBPF cannot express.
fn check_offsets(ops: &[Op], guards: &[Guard]) -> Result<(), Error> {
    for (index, (op, guard)) in ops.iter().zip(guards).enumerate() {
        let Reach { start, x } = op.reach();
        let end = start.max(x);
        if end > MAX_OFFSET.into() && !matches!(guard, Guard::Unreachable | Guard::Reject) {
            return Err(Error::OffsetTooFar { index, end, limit: MAX_OFFSET });
        }
    }
    Ok(())
}

struct Emitter<'a> {
    body: Body<'a>,
    splice: &'a Splice,
}

impl Emitter<'_> {
    fn prologue(&mut self, ops: &[Op], guards: &[Guard]) {
        self.body.clear(ops);
        // The verifier refuses code that no jump leads to, and the caller has code at each label. A jump that
        // is never taken makes it content; then it removes the jump.
        for label in self.unused_exits(ops, guards) {
            self.body.asm.jump_if32(EbpfCond::Ne, A, 0, label);
        }
    }

    /// The labels of the caller that nothing in the filter leads to.
    fn unused_exits(&self, ops: &[Op], guards: &[Guard]) -> impl Iterator<Item = Label> + use<> {
        let (mut matches, mut rejects, mut beyond) = (false, false, false);
        for (op, guard) in ops.iter().zip(guards) {
            match (guard, op) {
                (Guard::Unreachable, _) => {}
                (Guard::Reject, _) => rejects = true,
                (Guard::Length(_) | Guard::LengthFromX(_), _) => {
                    rejects |= matches!(self.splice.length, Length::Register(_));
                    beyond = true;
                }
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
            self.body.asm.bind(self.body.labels[index]);
            if guard == Guard::Reject {
                self.body.asm.jump(self.splice.rejects);
            } else {
                self.guard(guard);
                self.op(op, next);
            }
        }
    }

    fn guard(&mut self, guard: Guard) {
        match guard {
            Guard::Length(end) => {
                self.body.asm.mov(SCRATCH, DATA).alu64(EbpfAlu::Add, SCRATCH, end as i32);
                self.in_first_buffer(SCRATCH, None, end);
            }
            Guard::LengthFromX(end) => {
                // The bound of X is what lets the verifier follow the pointer; no packet is that long.
                let bound = MAX_PACKET_OFFSET - end;
                self.body.asm.jump_if(EbpfCond::Gt, X, bound as i32, self.splice.beyond);
                self.body.asm.mov(FROM_X, DATA).alu64(EbpfAlu::Add, FROM_X, X);
                self.body.asm.mov(SCRATCH, FROM_X).alu64(EbpfAlu::Add, SCRATCH, end as i32);
                self.in_first_buffer(SCRATCH, Some(X), end);
            }
            Guard::Unreachable | Guard::Reject | Guard::Free => {}
        }
    }

    /// Goes on if the packet's first buffer reaches to `pointer`, which is `end` bytes after its start or
    /// after X. If it does not, the packet is either too short, or longer than its first buffer.
    fn in_first_buffer(&mut self, pointer: Reg, from: Option<Reg>, end: u32) {
        let Length::Register(length) = self.splice.length else {
            self.body.asm.jump_if(EbpfCond::Gt, pointer, DATA_END, self.splice.beyond);
            return;
        };
        let reached = self.body.asm.label();
        self.body.asm.jump_if(EbpfCond::Le, pointer, DATA_END, reached);
        // Lengths are compared, not addresses: that takes no privilege.
        match from {
            Some(x) => self.body.asm.mov(SCRATCH, x).alu64(EbpfAlu::Add, SCRATCH, end as i32),
            None => self.body.asm.mov_imm(SCRATCH, end as i32),
        };
        self.body.asm.jump_if(EbpfCond::Gt, SCRATCH, length, self.splice.rejects);
        self.body.asm.jump(self.splice.beyond);
        self.body.asm.bind(reached);
    }

    /// One instruction. `next` is the one whose code comes directly after.
    fn op(&mut self, op: &Op, next: Option<usize>) {
        match self.body.op(op, next) {
            Some(&Op::LoadAbsolute { size, offset }) => self.load(size, A, DATA, offset),
            Some(&Op::LoadIndirect { size, offset }) => self.load(size, A, FROM_X, offset),
            Some(&Op::LoadHeaderLength { offset }) => {
                self.load(Size::Byte, X, DATA, offset);
                self.body.asm.alu32(EbpfAlu::And, X, 0xf).alu32(EbpfAlu::Lsh, X, 2);
            }
            Some(&Op::LoadLength(register)) => self.load_length(register),
            _ => {}
        }
    }

    /// Bytes at `base + offset`, in network byte order. A guard has been passed.
    fn load(&mut self, size: Size, into: Reg, base: Reg, offset: u32) {
        self.body.asm.load(width(size), into, base, offset as i16);
        match size {
            Size::Byte => {}
            Size::Half => _ = self.body.asm.be16(into),
            Size::Word => _ = self.body.asm.be32(into),
        }
    }

    fn load_length(&mut self, register: Register) {
        let into = self.body.register(register);
        match self.splice.length {
            Length::FirstBuffer => self.body.asm.mov(into, DATA_END).alu64(EbpfAlu::Sub, into, DATA),
            Length::Register(length) => self.body.asm.mov(into, length),
        };
        // The verifier knows nothing of the difference; now it knows that the upper half is zero.
        self.body.asm.alu32(EbpfAlu::Mov, into, into);
    }
}
