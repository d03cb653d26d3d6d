//! From lists of system calls to filters in the kernel: seccomp.
//!
//! ```text
//!   a call ─┬─ on the list of no thread ───────► SECCOMP_RET_KILL_PROCESS: SIGSYS ends the process
//!           ├─ asked in passing, or starting ──► SECCOMP_RET_ERRNO: EACCES
//!           ├─ on the list of this thread ─────► as ever
//!           └─ else, or with other arguments ──► SECCOMP_RET_TRAP: reported, and EPERM    wirecap-sys: confinement/
//! ```
//!
//! Three filters, of which the strictest answer counts. Since Linux 5.11 the kernel keeps a bitmap of calls
//! that a thread's filters allow whatever their arguments are, and runs no filter for these: the calls of the
//! packet path (`futex`, `ppoll`, `recvfrom`, `write`) cost a test of a bit. So the order within a filter
//! does not matter.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use crate::calls::{Argument, Call, Calls, never};

/// The filters of a thread.
#[derive(Debug)]
pub(crate) struct Filters(Vec<BpfProgram>);

impl Filters {
    /// Compiles them for this machine.
    ///
    /// # Errors
    /// There is no compiler for this machine.
    pub(crate) fn compile(calls: &Calls) -> Result<Self, BackendError> {
        let quietly = SeccompAction::Errno(libc::EACCES as u32);
        // What is denied is let through by the others: a trap would be the stricter answer.
        let known: Vec<_> = calls.allowed.iter().chain(&calls.denied).cloned().collect();
        let mut filters = vec![program(&never(), SeccompAction::KillProcess, SeccompAction::Allow)?];
        filters.push(program(&calls.denied, quietly, SeccompAction::Allow)?);
        filters.push(program(&known, SeccompAction::Allow, SeccompAction::Trap)?);
        Ok(Self(filters))
    }

    /// Applies them to the calling thread, for good.
    ///
    /// # Errors
    /// The kernel has no filters, or refuses them.
    pub(crate) fn apply(&self) -> Result<(), Error> {
        self.0.iter().try_for_each(|program| apply_filter(program))
    }
}

/// A filter: what becomes of calls that are listed, and of all others.
fn program(calls: &[Call], listed: SeccompAction, others: SeccompAction) -> Result<BpfProgram, BackendError> {
    let mut rules = BTreeMap::new();
    for call in calls {
        let only: Result<Vec<_>, _> = call.only.iter().map(|argument| rule(*argument)).collect();
        rules.insert(call.number, only?);
    }
    let machine: TargetArch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, others, listed, machine)?.try_into()
}

fn rule(argument: Argument) -> Result<SeccompRule, BackendError> {
    let (index, len, operator, value) = match argument {
        Argument::Is(index, value) => (index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value),
        Argument::IsNull(index) => (index, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0),
        Argument::Lacks(index, bits) => {
            (index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits.into()), 0)
        }
    };
    SeccompRule::new(vec![SeccompCondition::new(index, len, operator, value.into())?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        calls::calls,
        profile::{Profile, WritePaths},
    };

    /// The most instructions of a filter: `BPF_MAXINSNS`.
    const MAX_INSTRUCTIONS: usize = 4096;

    #[test]
    fn each_profile_compiles() {
        for profile in [
            Profile::Worker,
            Profile::Writer(WritePaths::default()),
            Profile::Main(Vec::new()),
            Profile::Neighbours,
            Profile::Server(Vec::new()),
            Profile::Server(vec![".".into()]),
        ] {
            let filters = Filters::compile(&calls(&profile).unwrap()).unwrap();
            for program in filters.0 {
                assert!((4..MAX_INSTRUCTIONS).contains(&program.len()), "{profile:?}: {}", program.len());
            }
        }
    }
}
