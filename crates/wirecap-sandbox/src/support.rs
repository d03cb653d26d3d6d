//! What the kernel offers, for `wirecap --version -v`.

use std::{fmt, fs, thread};

use wirecap_sys::{bpf, confinement::capabilities};

/// What a sandbox can do on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// Whether system calls can be filtered.
    pub system_calls: bool,
    /// Whether access to files can be restricted.
    pub files: bool,
}

/// The actions of filters that are used.
const ACTIONS: [&str; 4] = ["kill_process", "trap", "errno", "allow"];

impl Support {
    /// Whether all that is used can be restricted.
    pub fn is_complete(&self) -> bool {
        self.system_calls && self.files
    }

    /// Finds out.
    pub fn find() -> Self {
        let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
        let has = |action: &&str| actions.split_whitespace().any(|available| available == *action);
        let has_machine = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        Self { system_calls: has_machine && ACTIONS.iter().all(has), files: crate::files::are_restricted() }
    }
}

impl fmt::Display for Support {
    /// `capabilities, no new privileges, system calls (seccomp), files (Landlock)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let but = |has: bool, reason: &'static str| if has { "" } else { reason };
        write!(
            f,
            "capabilities, no new privileges, {}system calls (seccomp), {}files (Landlock)",
            but(self.system_calls, "no "),
            but(self.files, "no ")
        )
    }
}

/// Whether a thread without CAP_BPF may not even read the maps that it has open: before Linux 5.19, if
/// `kernel.unprivileged_bpf_disabled` is set.
pub(crate) fn reading_maps_takes_capability() -> bool {
    let ask = || {
        // If it cannot give them up, it has them anyway.
        let _ = capabilities::keep_only(Default::default());
        bpf::reading_is_refused()
    };
    thread::Builder::new()
        .name("wirecap-ask".into())
        .spawn(ask)
        .is_ok_and(|asking| asking.join().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let all = Support { system_calls: true, files: true };
        assert_eq!(
            all.to_string(),
            "capabilities, no new privileges, system calls (seccomp), files (Landlock)"
        );
        let some = Support { system_calls: true, files: false };
        assert!(some.to_string().ends_with("system calls (seccomp), no files (Landlock)"), "{some}");
    }
}
