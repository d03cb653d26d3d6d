//! What threads have given up, as data.

use std::{collections::BTreeMap, error::Error, io, iter};

use serde::Serialize;

use crate::{need::KeptCapability, profile::ThreadKind};

/// What the threads of the process have given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxReport {
    /// Whether it is complete.
    pub state: SandboxState,
    /// The user that the process has become (`-Z`); null if it has stayed what it was.
    pub user: Option<String>,
    /// Each kind of thread; empty if the sandbox is off.
    pub threads: Vec<ThreadReport>,
}

/// Whether the sandbox is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// Each thread has given up what it does not need.
    On,
    /// The kernel lacks a part, or refused one.
    Partial,
    /// The user switched it off.
    Off,
}

/// What threads of one kind have given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadReport {
    /// Which threads.
    pub kind: ThreadKind,
    /// How many have begun to work.
    pub threads: u32,
    /// Giving up capabilities.
    pub dropping: Measure,
    /// The capabilities that were kept, and why.
    pub capabilities: Vec<KeptCapability>,
    /// No new privileges, whatever programs are started.
    pub no_new_privileges: Measure,
    /// Rules for files (Landlock).
    pub files: Measure,
    /// A filter of system calls (seccomp).
    pub system_calls: Measure,
}

impl SandboxReport {
    /// The parts that were refused to some thread, by name, each with the error.
    pub fn refused(&self) -> BTreeMap<&'static str, &str> {
        let parts = self.threads.iter().flat_map(ThreadReport::parts);
        let refused = parts.filter(|(_, measure)| measure.reason == Some(Reason::Refused));
        refused.map(|(name, measure)| (name, measure.error.as_deref().unwrap_or_default())).collect()
    }
}

impl ThreadReport {
    /// The parts of the sandbox, by the names that messages have for them.
    fn parts(&self) -> [(&'static str, &Measure); 4] {
        [
            ("capabilities", &self.dropping),
            ("no new privileges", &self.no_new_privileges),
            ("files (Landlock)", &self.files),
            ("system calls (seccomp)", &self.system_calls),
        ]
    }

    /// Whether the kernel has applied everything that was meant for these threads.
    pub fn is_complete(&self) -> bool {
        self.parts().iter().all(|(_, measure)| measure.state != MeasureState::Unavailable)
    }
}

/// A part of the sandbox, for one kind of thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measure {
    /// Whether it is in force.
    pub state: MeasureState,
    /// Why not; null if it is.
    pub reason: Option<Reason>,
    /// The kernel's error, if it refused.
    pub error: Option<String>,
}

/// Whether a part of the sandbox is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MeasureState {
    /// It is.
    On,
    /// It is not meant for such threads.
    LeftOut,
    /// The kernel lacks it, or refused it.
    Unavailable,
}

/// Why a part of the sandbox is not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The thread starts programs, which may need it.
    RunsPrograms,
    /// The thread names processes, which such rules hide.
    NamesProcesses,
    /// This kernel, or its configuration, lacks it.
    NotInKernel,
    /// The kernel refused it, or a filter of system calls around this process, such as `SystemCallFilter=` of
    /// systemd.
    Refused,
}

impl Measure {
    pub(crate) const ON: Self = Self { state: MeasureState::On, reason: None, error: None };

    pub(crate) fn left_out(reason: Reason) -> Self {
        Self { state: MeasureState::LeftOut, reason: Some(reason), error: None }
    }

    pub(crate) fn missing() -> Self {
        Self { state: MeasureState::Unavailable, reason: Some(Reason::NotInKernel), error: None }
    }

    /// That of a step which failed: the kernel lacks the call, or the call was refused.
    pub(crate) fn failed(error: &(dyn Error + 'static)) -> Self {
        let mut causes = iter::successors(Some(error), |&cause| cause.source());
        let code = causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
        if matches!(code, Some(libc::ENOSYS | libc::EOPNOTSUPP)) {
            return Self::missing();
        }
        let (state, reason) = (MeasureState::Unavailable, Some(Reason::Refused));
        Self { state, reason, error: Some(error.to_string()) }
    }

    /// That of a step.
    pub(crate) fn of<T, E: Error + 'static>(result: &Result<T, E>) -> Self {
        result.as_ref().map_or_else(|error| Self::failed(error), |_| Self::ON)
    }
}

/// Adds a thread to those that have given up the same.
pub(crate) fn add(threads: &mut Vec<ThreadReport>, one: ThreadReport) {
    let same =
        threads.iter_mut().find(|known| ThreadReport { threads: one.threads, ..(*known).clone() } == one);
    match same {
        Some(known) => known.threads += one.threads,
        None => {
            threads.push(one);
            threads.sort_by_key(|thread| thread.kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(kind: ThreadKind, files: Measure) -> ThreadReport {
        ThreadReport {
            kind,
            threads: 1,
            dropping: Measure::ON,
            capabilities: Vec::new(),
            no_new_privileges: Measure::ON,
            files,
            system_calls: Measure::ON,
        }
    }

    #[test]
    fn threads_that_have_given_up_the_same_are_one_entry() {
        let mut threads = Vec::new();
        for (kind, files) in [
            (ThreadKind::Worker, Measure::ON),
            (ThreadKind::Worker, Measure::missing()),
            (ThreadKind::Main, Measure::left_out(Reason::NamesProcesses)),
            (ThreadKind::Worker, Measure::ON),
        ] {
            add(&mut threads, thread(kind, files));
        }
        let found: Vec<_> =
            threads.iter().map(|thread| (thread.kind, thread.threads, thread.is_complete())).collect();
        assert_eq!(
            found,
            [(ThreadKind::Main, 1, true), (ThreadKind::Worker, 2, true), (ThreadKind::Worker, 1, false)]
        );
    }

    #[test]
    fn what_the_kernel_lacks_is_no_refusal() {
        let of_code = |code| Measure::failed(&io::Error::from_raw_os_error(code));
        for code in [libc::ENOSYS, libc::EOPNOTSUPP] {
            assert_eq!(of_code(code), Measure::missing());
        }
        let refused = seccompiler::Error::Seccomp(io::Error::from_raw_os_error(libc::EPERM));
        let refused = Measure::failed(&refused);
        assert_eq!(refused.reason, Some(Reason::Refused));
        let report = |files| SandboxReport {
            state: SandboxState::Partial,
            user: None,
            threads: vec![thread(ThreadKind::Main, Measure::ON), thread(ThreadKind::Worker, files)],
        };
        assert_eq!(report(Measure::missing()).refused(), BTreeMap::new());
        let error = refused.error.clone().unwrap();
        assert_eq!(report(refused).refused(), BTreeMap::from([("files (Landlock)", error.as_str())]));
    }
}
