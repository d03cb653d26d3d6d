//! What can go wrong between us and bpf(2), in words a user can act on.

use std::io;

use super::xdp_mode::XdpMode;

/// How many lines at the end of a verifier log an error message quotes; the reason is always among the last
/// ones.
const LOG_TAIL_LINES: usize = 8;

/// Failures of assembling, loading, attaching and of map access.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A jump goes to a label that was never bound: the index of the jump.
    #[error(
        "eBPF assembler: the jump at instruction {0} goes to a label that is never bound; call Assembler::bind for it"
    )]
    UnboundLabel(usize),
    /// The same label was bound to two places: the index of the instruction that the second binding names.
    #[error("eBPF assembler: a label is bound a second time at instruction {0}; use one label for one place")]
    LabelBoundTwice(usize),
    /// A jump's distance does not fit its 16-bit field.
    #[error(
        "eBPF assembler: the jump from instruction {from} to {to} is farther than 32,767 instructions; split the program"
    )]
    JumpTooFar {
        /// Index of the jump.
        from: usize,
        /// Index of the target.
        to: usize,
    },
    /// The name of a map or program is not one the kernel takes.
    #[error(
        "BPF object name {0:?} is not valid: use 1 to 15 ASCII letters, digits, '_' or '.', the kernel takes no others"
    )]
    BadName(String),
    /// A key or a value has the wrong length for its map.
    #[error("BPF map {map}: the {part} has {got} bytes, the map was made for {expected}")]
    WrongSize {
        /// Name of the map.
        map: String,
        /// `key` or `value`.
        part: &'static str,
        /// Length the map wants, in bytes.
        expected: usize,
        /// Length given, in bytes.
        got: usize,
    },
    /// A call that this kind of map does not have.
    #[error("BPF map {map}: {call} is not for a map of kind {kind}")]
    WrongKind {
        /// Name of the map.
        map: String,
        /// Kind of the map.
        kind: &'static str,
        /// The call.
        call: &'static str,
    },
    /// The number by which a kernel function is called cannot be found.
    #[error(
        "{path} cannot be used ({reason}): calling functions of the kernel takes a kernel built with \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypeInformation {
        /// The file that lists them.
        path: &'static str,
        /// Why not.
        reason: String,
    },
    /// The process lacks the capabilities.
    #[error(
        "no permission to {action} ({cause}): needs CAP_BPF and CAP_NET_ADMIN (and CAP_PERFMON for some programs; \
         CAP_SYS_ADMIN before Linux 5.8)"
    )]
    NotPermitted {
        /// What was attempted.
        action: String,
        /// The kernel's answer (`EPERM` or `EACCES`).
        cause: io::Error,
    },
    /// The kernel's verifier did not take a program.
    #[error("the kernel's verifier rejected the XDP program {name} ({cause}); the log ends: {}", tail(.log, .cause))]
    Rejected {
        /// Name of the program.
        name: String,
        /// The kernel's answer, usually `EINVAL`, `EACCES` or `E2BIG`.
        cause: io::Error,
        /// The whole log of the verifier.
        log: String,
        /// It refused an access, and the process lacks CAP_PERFMON, which allows arithmetic on packet
        /// addresses.
        lacks_perfmon: bool,
    },
    /// The kernel blinds constants, which makes it forget where a program lies that is bound to an interface.
    #[error(
        "the XDP program {name} was not loaded: it asks the driver about packets, and while this kernel blinds the \
         constants of programs (net.core.bpf_jit_harden=2), it would crash when the interface is deleted; \
         `sysctl net.core.bpf_jit_harden=1` blinds those of unprivileged users only"
    )]
    Blinded {
        /// Name of the program.
        name: String,
    },
    /// Another XDP program is on the interface.
    #[error(
        "another XDP program is already attached to {interface}{holder}; see it with `ip link show {interface}` and \
         `bpftool net`, and stop its owner"
    )]
    Busy {
        /// Name or, where it has none here, number of the interface.
        interface: String,
        /// Who seems to hold it: ` (…)`, or nothing if that could not be found out.
        holder: String,
    },
    /// The driver has no XDP, or none in this mode.
    #[error(
        "{interface} cannot run XDP in {mode} mode ({cause}): its driver does not support it, or a feature that is \
         switched on (such as LRO) forbids it; try generic mode, or `ethtool -K` to switch features off"
    )]
    Unsupported {
        /// Name or number of the interface.
        interface: String,
        /// The mode that was asked for.
        mode: XdpMode,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// Attaching failed for another reason.
    #[error("cannot attach an XDP program to {interface} in {mode} mode ({cause}): {hint}")]
    Attach {
        /// Name or number of the interface.
        interface: String,
        /// The mode that was asked for.
        mode: XdpMode,
        /// The kernel's answer.
        cause: io::Error,
        /// What usually mends it.
        hint: &'static str,
    },
    /// Any other refused call.
    #[error("cannot {action}: {cause}{}", exhausted(cause))]
    Call {
        /// What was attempted, to what.
        action: String,
        /// The kernel's answer.
        cause: io::Error,
    },
}

impl Error {
    /// The error for a failed call: lack of privilege gets its own variant.
    pub(super) fn call(action: impl Into<String>, cause: io::Error) -> Self {
        let action = action.into();
        match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { action, cause },
            _ => Self::Call { action, cause },
        }
    }

    /// Whether a call failed because something is used up, whatever the call was.
    pub(super) fn is_exhaustion(cause: &io::Error) -> bool {
        !exhausted(cause).is_empty()
    }

    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::NotPermitted { cause, .. }
            | Self::Rejected { cause, .. }
            | Self::Unsupported { cause, .. }
            | Self::Attach { cause, .. }
            | Self::Call { cause, .. } => cause.raw_os_error(),
            Self::Busy { .. } => Some(libc::EBUSY),
            _ => None,
        }
    }
}

/// What can be done when a limit is reached, ready to be appended; empty for other errors.
fn exhausted(cause: &io::Error) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::EMFILE) => "; raise the limit of open files (ulimit -n)",
        Some(libc::ENFILE) => "; the whole machine is out of open files (sysctl fs.file-max)",
        Some(libc::ENOMEM) => "; the kernel is short of memory, or the control group may not have more",
        _ => "",
    }
}

fn tail(log: &str, cause: &io::Error) -> String {
    let log = log.trim_end();
    if log.is_empty() {
        return match cause.raw_os_error() {
            Some(libc::ENOSPC) => "(none: the program makes more than the 1,024 tail calls it may)",
            _ => "(none: the call itself was refused, an option in it is not known to this kernel)",
        }
        .into();
    }
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_permission_names_the_capabilities() {
        let error = Error::call("create BPF map counts", io::Error::from_raw_os_error(libc::EPERM));
        assert!(matches!(error, Error::NotPermitted { .. }));
        let text = error.to_string();
        assert!(
            text.contains("CAP_BPF") && text.contains("CAP_NET_ADMIN") && text.contains("map counts"),
            "{text}"
        );
        assert_eq!(error.errno(), Some(libc::EPERM));
    }

    #[test]
    fn an_exhausted_limit_is_named() {
        let error = Error::call("load the BPF program p", io::Error::from_raw_os_error(libc::EMFILE));
        assert!(error.to_string().ends_with("(ulimit -n)"), "{error}");
    }

    #[test]
    fn a_long_log_is_cut_to_its_end() {
        let log = (0..100).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n") + "\n";
        let of = |errno| io::Error::from_raw_os_error(errno);
        let text = tail(&log, &of(libc::EACCES));
        assert!(text.starts_with("line 92 | line 93 ") && text.ends_with("line 99"), "{text}");
        assert!(tail("  \n", &of(libc::EINVAL)).contains("refused"));
        assert!(tail("", &of(libc::ENOSPC)).contains("1,024 tail calls"));
    }
}
