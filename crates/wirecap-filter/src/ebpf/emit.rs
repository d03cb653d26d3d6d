//! Classic BPF into eBPF, instruction by instruction.
//!
//! | classic | eBPF |
//! |---|---|
//! | A, X | R0, R1, of which the upper halves are always zero: all arithmetic is done on 32 bits |
//! | slot *n* | 4 bytes of the stack |
//! | `[k]` | R2 + k, below a check of R2 + n against R3 |
//! | `[x + k]` | R5 + k, where R5 = R2 + X is made and checked when the guard says so, and holds until X changes |

use wirecap_sys::bpf::{Alu as EbpfAlu, Assembler, Cond as EbpfCond, Label, Reg};
use wirecap_sys::machine_code::{Alu, Guard, Op, Operand, Reach, Size};

use super::body::{A, Body, width};
use super::{Length, MAX_OFFSET, SocketSplice, Splice};
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
    let runner = match splice.length {
        Length::FirstBuffer => Runner::XDP,
        Length::Register(_) => Runner::XDP_FRAGS,
    };
    let (ops, guards) = (program.ops(), guards(program, runner));
    check_offsets(ops, &guards)?;
    let Splice { matches, rejects, stack_end, .. } = *splice;
    let mut body = Body::new(asm, X, program, SocketSplice { matches, rejects, stack_end })?;
    // The verifier refuses code that no jump leads to, and the caller has code at each label. A jump that is
    // never taken makes it content; then it removes the jump.
    for label in unused_exits(splice, ops, &guards) {
        body.asm.jump_if32(EbpfCond::Ne, A, 0, label);
    }
    body.program(
        &guards,
        |body, guard| check(body.asm, splice, guard),
        |body, op| look(body, splice.length, op),
    );
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

/// The labels of the caller that nothing in the filter leads to.
fn unused_exits(splice: &Splice, ops: &[Op], guards: &[Guard]) -> impl Iterator<Item = Label> + use<> {
    let (mut matches, mut rejects, mut beyond) = (false, false, false);
    for (op, guard) in ops.iter().zip(guards) {
        match (guard, op) {
            (Guard::Unreachable, _) => {}
            (Guard::Reject, _) => rejects = true,
            (Guard::Length(_) | Guard::LengthFromX(_), _) => {
                rejects |= matches!(splice.length, Length::Register(_));
                beyond = true;
            }
            (Guard::Free, Op::Return(_)) => matches = true,
            (Guard::Free, Op::ReturnA) => (matches, rejects) = (true, true),
            (Guard::Free, Op::Alu(Alu::Div | Alu::Mod, Operand::X)) => rejects = true,
            (Guard::Free, _) => {}
        }
    }
    let is_same = splice.beyond == splice.rejects;
    let exits = [
        (matches, splice.matches),
        (rejects || (beyond && is_same), splice.rejects),
        (beyond || is_same, splice.beyond),
    ];
    exits.into_iter().filter(|(used, _)| !used).map(|(_, label)| label)
}

/// The check that a guard demands.
fn check(asm: &mut Assembler, splice: &Splice, guard: Guard) {
    match guard {
        Guard::Length(end) => {
            asm.mov(SCRATCH, DATA).alu64(EbpfAlu::Add, SCRATCH, end as i32);
            check_first_buffer(asm, splice, end);
        }
        Guard::LengthFromX(end) => {
            if let Length::Register(length) = splice.length {
                // Without this check, a packet with an X beyond its end would stay undecided.
                asm.mov(SCRATCH, X).alu64(EbpfAlu::Add, SCRATCH, end as i32);
                asm.jump_if(EbpfCond::Gt, SCRATCH, length, splice.rejects);
            }
            // The bound of X is what lets the verifier follow the pointer; few packets are that long.
            let bound = MAX_PACKET_OFFSET - end;
            asm.jump_if(EbpfCond::Gt, X, bound as i32, splice.beyond);
            asm.mov(FROM_X, DATA).alu64(EbpfAlu::Add, FROM_X, X);
            asm.mov(SCRATCH, FROM_X).alu64(EbpfAlu::Add, SCRATCH, end as i32);
            asm.jump_if(EbpfCond::Gt, SCRATCH, DATA_END, splice.beyond);
        }
        Guard::Unreachable | Guard::Reject | Guard::Free => {}
    }
}

/// Goes on if the packet's first buffer reaches to the pointer in [`SCRATCH`], which is `end` bytes after its
/// start. If it does not, the packet is either too short, or longer than its first buffer.
fn check_first_buffer(asm: &mut Assembler, splice: &Splice, end: u32) {
    let Length::Register(length) = splice.length else {
        asm.jump_if(EbpfCond::Gt, SCRATCH, DATA_END, splice.beyond);
        return;
    };
    let reached = asm.label();
    asm.jump_if(EbpfCond::Le, SCRATCH, DATA_END, reached);
    // Lengths are compared, not addresses: that takes no privilege.
    asm.mov_imm(SCRATCH, end as i32);
    asm.jump_if(EbpfCond::Gt, SCRATCH, length, splice.rejects).jump(splice.beyond).bind(reached);
}

/// A look at the packet, behind its guard.
fn look(body: &mut Body<'_>, length: Length, op: &Op) {
    match *op {
        Op::LoadAbsolute { size, offset } => load(body.asm, size, A, DATA, offset),
        Op::LoadIndirect { size, offset } => load(body.asm, size, A, FROM_X, offset),
        Op::LoadHeaderLength { offset } => {
            load(body.asm, Size::Byte, X, DATA, offset);
            body.asm.alu32(EbpfAlu::And, X, 0xf).alu32(EbpfAlu::Lsh, X, 2);
        }
        Op::LoadLength(register) => {
            let into = body.register(register);
            match length {
                Length::FirstBuffer => body.asm.mov(into, DATA_END).alu64(EbpfAlu::Sub, into, DATA),
                Length::Register(length) => body.asm.mov(into, length),
            };
            // The verifier knows nothing of the difference; now it knows that the upper half is zero.
            body.asm.alu32(EbpfAlu::Mov, into, into);
        }
        _ => {}
    }
}

/// Bytes at `base + offset`, in network byte order.
fn load(asm: &mut Assembler, size: Size, into: Reg, base: Reg, offset: u32) {
    asm.load(width(size), into, base, offset as i16);
    match size {
        Size::Byte => {}
        Size::Half => _ = asm.be16(into),
        Size::Word => _ = asm.be32(into),
    }
}
