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
//! Rule: a failed check rejects, so it may be made early exactly where all paths on which it would fail
//! reject anyway. `ret #0` needs infinitely many bytes, since a path that rejects does not limit the check.
//! In turn, a path that needs more bytes than any packet has rejects.
//!
//! Where a failed check leaves the packet undecided instead, in XDP programs for packets of several buffers,
//! each load checks its own end: packets that a comparison in front of it rejects would be undecided, too.
//!
//! Native code treats guards as hints, and the kernel's verifier follows the checks: neither trusts what is
//! found here.

use wirecap_sys::machine_code::{Guard, Op, Reach};

use crate::program::Program;

/// Needed by what rejects anyhow.
const REJECTS: u64 = u64::MAX;

/// Who runs the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runner {
    /// No packet of it is longer, in bytes, so whatever needs more rejects, too.
    longest: u32,
    /// Whether it knows where packets come from. If not, it rejects packets when asked.
    knows_origin: bool,
    /// Whether a failed check rejects the packet. If not, user space decides on it.
    check_rejects: bool,
}

impl Runner {
    /// Interpreter and native code.
    pub(crate) const USER_SPACE: Self = Self { longest: u32::MAX, knows_origin: false, check_rejects: true };
    /// An XDP program that sees whole packets.
    pub(crate) const XDP: Self = Self { longest: KERNEL_LONGEST, ..Self::USER_SPACE };
    /// One that sees the first buffer of a packet.
    pub(crate) const XDP_FRAGS: Self = Self { check_rejects: false, ..Self::XDP };
    /// A socket filter.
    pub(crate) const SOCKET: Self = Self { knows_origin: true, ..Self::XDP };

    fn rejects(self, op: &Op) -> bool {
        matches!(op, Op::Return(0)) || (matches!(op, Op::LoadOrigin(_)) && !self.knows_origin)
    }
}

/// No buffer of the kernel is longer.
const KERNEL_LONGEST: u32 = 1 << 24;

/// Of what rejects anyhow.
const ENDLESS: Reach = Reach { start: REJECTS, x: REJECTS };

/// The guard of each instruction; none where the program jumps backward, and each load checks its own end.
pub(crate) fn guards(program: &Program, runner: Runner) -> Vec<Guard> {
    let ops = program.ops();
    if program.loops() {
        return Vec::new();
    }
    let needs = needs(ops, runner);
    // `None`: no path found that leads here.
    let mut have: Vec<Option<Reach>> = vec![None; ops.len()];
    have[0] = Some(Reach::default());
    let mut guards = Vec::with_capacity(ops.len());
    for (index, op) in ops.iter().enumerate() {
        let Some(known) = have[index] else {
            guards.push(Guard::Unreachable);
            continue;
        };
        let guard = guard(op, known, needs[index], runner);
        guards.push(guard);
        if guard == Guard::Reject {
            continue;
        }
        let after = after(op, guard, known);
        for next in op.successors(index) {
            have[next] = Some(have[next].map_or(after, |other| other.min(after)));
        }
    }
    guards
}

fn guard(op: &Op, known: Reach, need: Reach, runner: Runner) -> Guard {
    let reach = op.reach();
    let checked = if runner.check_rejects { need } else { reach };
    if need.start == REJECTS {
        Guard::Reject
    } else if reach.start > known.start {
        Guard::Length(checked.start as u32)
    } else if reach.x > known.x {
        Guard::LengthFromX(checked.x as u32)
    } else {
        Guard::Free
    }
}

/// What is known after an instruction whose guard let the packet through.
fn after(op: &Op, guard: Guard, mut known: Reach) -> Reach {
    match guard {
        Guard::Length(end) => known.start = end.into(),
        // The packet is then also that long without X, but the kernel's verifier cannot infer it.
        Guard::LengthFromX(end) => known.x = end.into(),
        _ => {}
    }
    if op.writes_x() {
        known.x = 0;
    }
    known
}

/// The packet length that each instruction and all after it need: at most the runner's longest packet, or
/// endless.
fn needs(ops: &[Op], runner: Runner) -> Vec<Reach> {
    let mut needs = vec![Reach::default(); ops.len()];
    for (index, op) in ops.iter().enumerate().rev() {
        let mut need = match op {
            _ if runner.rejects(op) => ENDLESS,
            Op::Return(_) | Op::ReturnA => Reach::default(),
            _ => op.successors(index).fold(ENDLESS, |least, next| least.min(needs[next])),
        };
        if need.start == REJECTS {
            needs[index] = ENDLESS;
            continue;
        }
        if op.writes_x() {
            need.x = 0;
        }
        let reach = op.reach();
        need = Reach { start: need.start.max(reach.start).max(reach.x), x: need.x.max(reach.x) };
        needs[index] = if need.start > runner.longest.into() { ENDLESS } else { need };
    }
    needs
}

#[cfg(test)]
mod tests;
