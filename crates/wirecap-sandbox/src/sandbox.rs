//! The sandbox of a process: its threads enter it one by one, each with its profile.

use std::{
    io,
    os::unix::process::CommandExt,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use nix::unistd::geteuid;
use wirecap_sys::confinement::{
    capabilities::{self, CapabilitySet},
    refused_calls,
    user::become_user,
};

use crate::{
    calls, files,
    filter::Filters,
    need::{self, Need},
    profile::Profile,
    report::{self, Measure, Reason, SandboxReport, SandboxState, ThreadReport},
    support::reading_maps_takes_capability,
    user::User,
};

/// The sandbox of a process. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Sandbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_on: bool,
    user: Option<User>,
    /// Whether files are opened as root.
    is_root: bool,
    reading_maps_takes_capability: bool,
    /// Written by threads that enter, read by who reports.
    threads: Mutex<Vec<ThreadReport>>,
}

impl Sandbox {
    /// A sandbox that is on, or only changes the user, if there is one. System calls that it refuses are
    /// reported on standard error from now on.
    ///
    /// ```
    /// use wirecap_sandbox::{Profile, Sandbox, SandboxState};
    ///
    /// let sandbox = Sandbox::new(true, None)?;
    /// let worker = sandbox.clone();
    /// std::thread::spawn(move || {
    ///     worker.enter(&Profile::Worker);
    ///     assert!(std::fs::read("/etc/passwd").is_err());
    /// })
    /// .join()
    /// .unwrap();
    /// let report = sandbox.report();
    /// assert_ne!(report.state, SandboxState::Off);
    /// assert_eq!((report.threads.len(), report.threads[0].threads), (1, 1));
    /// assert!(report.threads[0].capabilities.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The kernel's error: it refuses the user, or a signal handler.
    pub fn new(is_on: bool, user: Option<User>) -> io::Result<Self> {
        if is_on {
            refused_calls::report_and_fail()?;
        }
        if let Some(User { ids, .. }) = user.clone() {
            // By a thread that ends then: what fails there would fail in each.
            let trying =
                thread::Builder::new().name("wirecap-user".into()).spawn(move || become_user(&ids))?;
            trying.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?;
        }
        let is_root = user.is_none() && geteuid().is_root();
        let reading_maps_takes_capability = reading_maps_takes_capability();
        let threads = Mutex::default();
        Ok(Self(Arc::new(Inner { is_on, user, is_root, reading_maps_takes_capability, threads })))
    }

    /// A sandbox that changes nothing.
    pub fn off() -> Self {
        let (is_on, is_root, reading_maps_takes_capability) = (false, false, false);
        let threads = Mutex::default();
        Self(Arc::new(Inner { is_on, user: None, is_root, reading_maps_takes_capability, threads }))
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.0.is_on
    }

    /// Does `work`, which opens files, with the access that the user of the process has later.
    ///
    /// # Errors
    /// The kernel's error: the thread cannot have that access.
    pub fn with_files_of_user<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        match &self.0.user {
            Some(user) => user.with_its_files(work),
            None => Ok(work()),
        }
    }

    /// Has a program run as the user of the process.
    pub fn run_as_user(&self, program: &mut Command) {
        if let Some(User { ids, .. }) = &self.0.user {
            program.uid(ids.user).gid(ids.group);
        }
    }

    /// The calling thread gives up what its profile does not need, for good. What the kernel lacks or refuses
    /// is in the [report](Self::report).
    ///
    /// # Panics
    /// If the thread cannot become the user: [`Sandbox::new`] has found that it can.
    pub fn enter(&self, profile: &Profile) {
        let Inner { is_on, user, .. } = &*self.0;
        if !is_on && user.is_none() {
            return;
        }
        let needs = profile.needs(self.0.is_root, self.0.reading_maps_takes_capability);
        let (dropping, kept) = self.give_up_privileges(profile, &needs);
        if !is_on {
            return;
        }
        let mut one = ThreadReport {
            kind: profile.kind(),
            threads: 1,
            dropping,
            capabilities: need::reasons(&needs, kept),
            no_new_privileges: Measure::left_out(Reason::RunsPrograms),
            files: Measure::left_out(Reason::RunsPrograms),
            system_calls: Measure::left_out(Reason::RunsPrograms),
        };
        if let Some(calls) = calls::calls(profile) {
            // Compiled before files are out of reach, applied last: what comes before is on no list.
            let filters = Filters::compile(&calls);
            one.no_new_privileges = Measure::of(&capabilities::gain_none());
            one.files = if needs.contains(&Need::NamesOfProcesses) {
                Measure::left_out(Reason::NamesProcesses)
            } else {
                Measure::of(&files::restrict(profile))
            };
            one.system_calls = match filters {
                Ok(filters) => Measure::of(&filters.apply()),
                // There is no compiler for this machine.
                Err(_) => Measure::missing(),
            };
        }
        report::add(&mut self.0.threads.lock().unwrap_or_else(PoisonError::into_inner), one);
    }

    /// Becomes the user, and keeps only what the needs take.
    fn give_up_privileges(&self, profile: &Profile, needs: &[Need]) -> (Measure, CapabilitySet) {
        let wanted = need::wanted(needs);
        if let Some(User { name, ids }) = &self.0.user {
            let changed =
                capabilities::survive_user_change(!wanted.is_empty()).and_then(|()| become_user(ids));
            changed.unwrap_or_else(|cause| panic!("cannot become the user {name}: {cause}"));
        }
        // Programs of root have all capabilities again, so its thread keeps those that start them.
        let kept = if *profile == Profile::Commands && self.0.is_root {
            capabilities::pass_on_none().map(|()| None)
        } else {
            capabilities::keep_only(wanted).map(Some)
        };
        match kept {
            Ok(Some(kept)) => (Measure::ON, kept),
            Ok(None) => (Measure::left_out(Reason::RunsPrograms), CapabilitySet::default()),
            Err(cause) => (Measure::failed(&cause), wanted),
        }
    }

    /// What threads have given up so far.
    pub fn report(&self) -> SandboxReport {
        let threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let state = match self.0.is_on {
            false => SandboxState::Off,
            true if threads.iter().all(ThreadReport::is_complete) => SandboxState::On,
            true => SandboxState::Partial,
        };
        SandboxReport { state, user: self.0.user.as_ref().map(|user| user.name.clone()), threads }
    }
}
