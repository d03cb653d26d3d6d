//! Which checks of the packet's length are needed, and where.
//!
//! ```text
//!   need, backward: a packet shorter than this is rejected from here on, whatever happens
//!       ret #0: ∞      ret: 0      ldh [12]: max(14, need after)      jump: the lesser of both sides
//!   have, forward:  the packet is known to be at least this long here
//!       after a check: what was checked      joined paths: the lesser
//!   A load that needs more than there is known checks the *need*, not its own end:
//!       ldh [12] ─ jeq ip ─ ldb [23] ─ … ─ ldh [16 + x]    one check of 24 bytes in front of all
//! ```
//!
//! The same is done for bytes after X, as long as X stays what it is.
//!
//! **The rule that holds here:** a failed check rejects, so it may be made early exactly where all paths on
//! which it would fail reject anyhow. `ret #0` needs infinitely much: a path that rejects has no wishes. And
//! the other way round: what needs more than any packet has rejects.
//!
//! Where a program jumps backward, that is not asked: each load checks its own end.

use crate::op::Op;
use crate::program::Program;

/// Needed by what rejects anyhow.
const REJECTS: u64 = u64::MAX;

/// Who runs the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runner {
    /// No packet of it is longer, in bytes, so whatever needs more rejects, too.
    longest: u64,
    /// Whether it knows where packets come from. Who does not rejects when asked.
    knows_origin: bool,
}

impl Runner {
    /// Interpreter and native code.
    pub(crate) const USER_SPACE: Self = Self { longest: u32::MAX as u64, knows_origin: false };
    /// An XDP program.
    pub(crate) const XDP: Self = Self { longest: KERNEL_LONGEST, knows_origin: false };
    /// A socket filter.
    pub(crate) const SOCKET: Self = Self { longest: KERNEL_LONGEST, knows_origin: true };

    fn rejects(self, op: &Op) -> bool {
        matches!(op, Op::Return(0)) || (matches!(op, Op::LoadOrigin(_)) && !self.knows_origin)
    }
}

/// No buffer of the kernel is longer.
const KERNEL_LONGEST: u64 = 1 << 24;

/// Lengths in bytes: from the start of the packet, and from X (`packet + x`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lengths {
    start: u64,
    x: u64,
}

impl Lengths {
    const MAX: Self = Self { start: u64::MAX, x: u64::MAX };

    fn least(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), x: self.x.min(other.x) }
    }
}

/// What has to be done before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// No path leads here: leave the instruction out.
    Unreachable,
    /// Whatever happens from here on, the packet is rejected.
    Reject,
    /// Nothing.
    Free,
    /// Reject packets shorter than this, in bytes; at most what the runner's longest packet has.
    Length(u64),
    /// Reject packets shorter than X plus this, in bytes; at most what the runner's longest packet has.
    LengthFromX(u64),
}

/// The guard of each instruction.
pub(crate) fn guards(program: &Program, runner: Runner) -> Vec<Guard> {
    let ops = program.ops();
    if program.loops() {
        return guards_of_loop(ops, runner);
    }
    let needs = needs(ops, runner);
    // `None`: no path found that leads here.
    let mut have: Vec<Option<Lengths>> = vec![None; ops.len()];
    have[0] = Some(Lengths::default());
    let mut guards = Vec::with_capacity(ops.len());
    for (index, op) in ops.iter().enumerate() {
        let Some(known) = have[index] else {
            guards.push(Guard::Unreachable);
            continue;
        };
        let guard = guard(op, known, needs[index]);
        guards.push(guard);
        if guard == Guard::Reject {
            continue;
        }
        let after = after(op, guard, known);
        for next in op.successors(index) {
            have[next] = Some(have[next].map_or(after, |other| other.least(after)));
        }
    }
    guards
}

/// Of a program that jumps backward: what each instruction needs by itself.
fn guards_of_loop(ops: &[Op], runner: Runner) -> Vec<Guard> {
    let mut guards = vec![Guard::Unreachable; ops.len()];
    let mut found = vec![0];
    while let Some(index) = found.pop() {
        let op = &ops[index];
        if guards[index] != Guard::Unreachable {
            continue;
        }
        guards[index] = match read_end(op) {
            Some(Guard::Length(end) | Guard::LengthFromX(end)) if end > runner.longest => Guard::Reject,
            _ if runner.rejects(op) => Guard::Reject,
            end => end.unwrap_or(Guard::Free),
        };
        if guards[index] != Guard::Reject {
            found.extend(op.successors(index));
        }
    }
    guards
}

/// Where the bytes that a load reads end.
fn read_end(op: &Op) -> Option<Guard> {
    match *op {
        Op::LoadAbsolute { size, offset } => Some(Guard::Length(u64::from(offset) + u64::from(size.bytes()))),
        Op::LoadHeaderLength { offset } => Some(Guard::Length(u64::from(offset) + 1)),
        Op::LoadIndirect { size, offset } => {
            Some(Guard::LengthFromX(u64::from(offset) + u64::from(size.bytes())))
        }
        _ => None,
    }
}

fn guard(op: &Op, known: Lengths, need: Lengths) -> Guard {
    if need.start == REJECTS {
        return Guard::Reject;
    }
    match read_end(op) {
        Some(Guard::Length(end)) if known.start < end => Guard::Length(need.start),
        Some(Guard::LengthFromX(end)) if known.x < end => Guard::LengthFromX(need.x),
        _ => Guard::Free,
    }
}

/// What is known after an instruction whose guard let the packet through.
fn after(op: &Op, guard: Guard, mut known: Lengths) -> Lengths {
    match guard {
        Guard::Length(end) => known.start = end,
        // That the packet is then as long without X, too, is true, but the kernel's verifier does not see it.
        Guard::LengthFromX(end) => known.x = end,
        _ => {}
    }
    if op.writes_x() {
        known.x = 0;
    }
    known
}

/// What each instruction needs, itself and all after it.
fn needs(ops: &[Op], runner: Runner) -> Vec<Lengths> {
    let mut needs = vec![Lengths::default(); ops.len()];
    for (index, op) in ops.iter().enumerate().rev() {
        let mut need = match op {
            _ if runner.rejects(op) => Lengths::MAX,
            Op::Return(_) | Op::ReturnA => Lengths::default(),
            _ => op.successors(index).fold(Lengths::MAX, |least, next| least.least(needs[next])),
        };
        if need.start == REJECTS {
            needs[index] = Lengths::MAX;
            continue;
        }
        if op.writes_x() {
            need.x = 0;
        }
        match read_end(op) {
            Some(Guard::Length(end)) => need.start = need.start.max(end),
            Some(Guard::LengthFromX(end)) => {
                need = Lengths { start: need.start.max(end), x: need.x.max(end) };
            }
            _ => {}
        }
        needs[index] = if need.start > runner.longest { Lengths::MAX } else { need };
    }
    needs
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
