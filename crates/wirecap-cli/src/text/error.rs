//! The texts of errors: the library says what failed and why; the flag that helps is added here.
//!
//! Rule: the hint follows from the type of the error, never from its text.

use std::{
    env,
    io::{self, ErrorKind},
    path::Path,
};

use wirecap::{
    Error, PassiveReason, PortSpec, XdpTapRefusal,
    config::prefix::{PACKET, XDP},
    diagnostic::{NicDataRefusal, PackingRefusal, TapRefusal},
};
use wirecap_core::GeometryError;
use wirecap_send::SendError;
use wirecap_sys::{
    bpf,
    memory::{MemoryBound, MemoryError},
    netdev,
    packed::PackedError,
    packet::PacketError,
    xsk::XskError,
};

use super::{diagnostic, host_use, plural::counted, refusal, rss, units::exact_size};

/// The remedy for a lack of threads, ready to be appended.
pub(crate) const MORE_THREADS: &str =
    "; raise the limit on threads: pids.max of its control group (TasksMax= in a service), or ulimit -u";
/// What every command needs, filters in the kernel included, as in the book.
const CAPABILITIES: &str = "cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_ipc_lock";
/// What helps a process that has them.
const ELSEWHERE: &str = "; the process has all capabilities that wirecap needs, so something else refuses this: a filter of \
    system calls, as container engines have (--security-opt seccomp=unconfined), or a user namespace, whose capabilities do not reach \
    the machine's interfaces (rootless containers)";
/// Where a package installs the program, and what gives it capabilities for members of a group only.
const PACKAGED: &str = "/usr/bin/wirecap";
const SETCAP: &str = "/usr/sbin/wirecap-setcap";
/// The device of libpcap that stands for all interfaces.
const ANY: &str = "any";
const LESS_BLOCKS: &str = "; lower -R or --memory";
const LESS_MEMORY: &str = "lower -R, -M or the number of queues";

/// What to do where a file or a socket cannot be made because of its directory, ready to be appended.
pub(crate) fn directory_hint(path: &Path, cause: &io::Error) -> String {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match cause.kind() {
        ErrorKind::NotFound if directory.is_dir() && !path.is_symlink() => {
            format!("; {} takes no new files: choose another directory", directory.display())
        }
        ErrorKind::NotFound => format!("; make the directory first: mkdir -p {}", directory.display()),
        ErrorKind::PermissionDenied => {
            format!("; choose a directory you may write to, not {}", directory.display())
        }
        ErrorKind::ReadOnlyFilesystem => "; choose another disk".into(),
        _ => String::new(),
    }
}

/// The remedy for a trace that cannot be replayed.
fn trace(error: &wirecap_replay::Error) -> Option<String> {
    match error {
        wirecap_replay::Error::Trace { name, .. } if is_unexpanded(Path::new(name)) => {
            Some("; only the shell expands a pattern, and only an unquoted one".into())
        }
        _ => None,
    }
}

/// Whether a path is a pattern of names that nothing has expanded.
pub(crate) fn is_unexpanded(path: &Path) -> bool {
    let is_missing = path.metadata().is_err_and(|cause| cause.kind() == ErrorKind::NotFound);
    is_missing && path.to_string_lossy().contains(['*', '?', '['])
}

/// The remedy for a lack of privilege, ready to be appended. `more` are capabilities that few commands need.
fn privileges(more: &str) -> String {
    let has_all = bpf::capabilities().into_iter().all(|(_, has)| has);
    if has_all && more.is_empty() { ELSEWHERE.into() } else { capabilities(more) }
}

/// How the process gets the capabilities.
fn capabilities(more: &str) -> String {
    let program = env::current_exe().map_or_else(|_| "wirecap".into(), |path| path.display().to_string());
    if more.is_empty() && program == PACKAGED && Path::new(SETCAP).exists() {
        return "; run as root (sudo), or let members of the group wirecap capture: sudo wirecap-setcap enable, then \
                sudo adduser $USER wirecap, and log in again"
            .into();
    }
    format!(
        "; run as root (sudo), or give the program the capabilities: sudo setcap {CAPABILITIES}{more}+ep {program}"
    )
}

/// The text of an error, in one line.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    if let Some(error) = error.downcast_ref::<Error>() {
        return of_capture(error);
    }
    let hint = error.downcast_ref().and_then(geometry);
    let hint = hint.or_else(|| error.downcast_ref().and_then(interface));
    let hint = hint.or_else(|| error.downcast_ref().and_then(sending));
    let hint = hint.or_else(|| error.downcast_ref().and_then(trace));
    with_hint(error, hint.or_else(|| of_command(error)))
}

/// The text of an error of the library, in one line.
pub(crate) fn of_capture(error: &Error) -> String {
    match error {
        Error::NoMode { name, attempts } => {
            let attempts: Vec<_> = attempts.iter().map(diagnostic::describe).collect();
            format!("{name} cannot be captured over AF_XDP: {}", attempts.join("; "))
        }
        Error::LittleMemory { bytes, least } => format!(
            "packet memory of {} is too little: a chunk for each pool takes at least {}; raise it, or lower -M or the number of queues",
            exact_size(*bytes),
            exact_size(*least)
        ),
        Error::MuchMemory { bytes, most } => format!(
            "packet memory of {} is too much: all pools together can have {}; give that or less",
            exact_size(*bytes),
            exact_size(*most)
        ),
        error => with_hint(error.to_string() + &reason(error).unwrap_or_default(), hint(error)),
    }
}

/// Why, if the error has the reason as data; ready to be appended.
fn reason(error: &Error) -> Option<String> {
    let reason = match error {
        Error::NotPacked { reason, .. } => refusal::packing(reason),
        Error::NotTapped { reason, .. } => refusal::tap(*reason),
        Error::NoHardwareTimestamps { reason, .. } => refusal::nic_data(*reason).into(),
        Error::Rss { reason, .. } => rss::refusal(reason),
        _ => return None,
    };
    Some(format!(": {reason}"))
}

fn with_hint(error: impl ToString, hint: Option<String>) -> String {
    error.to_string() + &hint.unwrap_or_default()
}

/// The remedy, ready to be appended.
fn hint(error: &Error) -> Option<String> {
    Some(match error {
        Error::Geometry(error) => return geometry(error),
        Error::Interface(error) => return interface(error),
        Error::Memory(error) => return memory(error),
        Error::Socket { source, .. } => return socket(source),
        Error::Passive { source, .. } => return passive(source),
        Error::Packed { source, .. } => return packed(source),
        Error::NotPacked { reason: PackingRefusal::NotPermitted, .. } => privileges(""),
        Error::NotPacked { .. } => "; leave --xdp-mode out".into(),
        Error::NotTapped { reason: TapRefusal::NotPermitted, .. } => privileges(""),
        Error::NotTapped { name, reason } => match diagnostic::larger_chunks(*reason) {
            Some(remedy) => format!("; {remedy}, or give {PACKET}{name}"),
            None => format!("; give {PACKET}{name}"),
        },
        Error::NotTappedByXdp { reason, .. } => {
            let or = if matches!(reason, XdpTapRefusal::Failed(_)) { ", or" } else { ";" };
            format!("{or} leave --tap-hook out to tap it by traffic control")
        }
        Error::IdleWorkers { queues, .. } => {
            format!("; use at most {}, or advanced mode", counted(*queues, "worker"))
        }
        Error::OnlyPassive { name, reason } => {
            format!("{}; give {XDP}{name} to take it", since(reason.as_ref()))
        }
        Error::QueueTaken { .. } | Error::Shared { .. } => ": wirecap interfaces lists them".into(),
        Error::PassiveQueues { name, access, queues, reason } => {
            let whole = PortSpec::Interface { name: name.clone(), access: *access, queues: None };
            format!(
                "{}; give {whole} to capture all of it passively, or {XDP}{name}@{queues} to take these queues from the host",
                since(reason.as_ref())
            )
        }
        Error::NotPermitted(_) => privileges(""),
        // Without privileges, the owner of that program cannot be seen, either.
        Error::Held { .. } if !may_attach() => {
            format!("; capturing takes privileges, too{}", privileges(""))
        }
        Error::JoinNotPermitted { .. } => privileges(",cap_sys_admin"),
        Error::Rss { .. } => "; omit --rss symmetric to capture without it".into(),
        Error::PassiveRss(name) => format!(
            ", where --fanout hash keeps both directions of a connection together; omit --rss, or give {XDP}{name}"
        ),
        Error::NoHardwareTimestamps { name, reason } => {
            let take = match reason {
                NicDataRefusal::Passive => format!("; give {XDP}{name} to take it, or"),
                _ => ";".into(),
            };
            format!(
                "{take} use kernel timestamps (of each packet in the kernel) or batch timestamps \
                 (--timestamp kernel, --timestamp batch)"
            )
        }
        Error::OnlyBatchTimestamps { .. } => " (--timestamp batch)".into(),
        Error::Thread { .. } => MORE_THREADS.into(),
        _ => return None,
    })
}

/// Whether the process could attach a program of its own.
fn may_attach() -> bool {
    bpf::capabilities().iter().all(|(name, has)| *has || !["CAP_NET_ADMIN", "CAP_BPF"].contains(name))
}

/// Why an interface is left to the host; empty if the user asked for that.
fn since(reason: Option<&PassiveReason>) -> String {
    reason.map(|reason| format!(", since {}", host_use::reason(reason))).unwrap_or_default()
}

fn interface(error: &netdev::Error) -> Option<String> {
    use netdev::Error::{NameInvalid, NameTooLong, NoSuchIndex, NoSuchInterface};
    match error {
        NoSuchInterface { name, nearest } if name == ANY && nearest.is_empty() => Some(
            "; it is libpcap's device for all interfaces: name those that matter (`wirecap interfaces` lists them), or \
             use wirecap run -- tcpdump -i any"
                .into(),
        ),
        // The message ends with a question mark.
        NoSuchInterface { nearest, .. } if !nearest.is_empty() => {
            Some(" `wirecap interfaces` lists them".into())
        }
        NoSuchInterface { .. } | NoSuchIndex(_) | NameInvalid { .. } | NameTooLong(_) => {
            Some("; `wirecap interfaces` lists them all".into())
        }
        _ => None,
    }
}

/// For the errors of `wirecap replay`, `wirecap generate` and the router of `wirecap forward`.
fn of_command(error: &anyhow::Error) -> Option<String> {
    use wirecap_replay::Error as Replay;
    use wirecap_router::Error as Router;
    use wirecap_traffic::Error as Traffic;
    match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(Replay::Interface(error)), ..)
        | (_, Some(Traffic::Interface(error)), _)
        | (.., Some(Router::Kernel(error))) => interface(error),
        (Some(Replay::Send(error)), ..) | (_, Some(Traffic::Send(error)), _) => sending(error),
        (_, Some(Traffic::Bpf(bpf::Error::NotPermitted { .. })), _) => Some(privileges(",cap_sys_admin")),
        (Some(Replay::OnePass { .. }), ..) => Some("; raise --memory, or write it to a file first".into()),
        (Some(Replay::Thread(_)), ..)
        | (_, Some(Traffic::Thread(_)), _)
        | (.., Some(Router::Thread { .. })) => Some(MORE_THREADS.into()),
        _ => None,
    }
}

fn sending(error: &SendError) -> Option<String> {
    match error {
        SendError::Open { source: XskError::NotPermitted, .. } => Some(privileges("")),
        SendError::Open { source, .. } if source.is_unsupported() => {
            Some("; omit --tx-mode, or write --tx-mode copy".into())
        }
        _ => None,
    }
}

fn geometry(error: &GeometryError) -> Option<String> {
    matches!(error, GeometryError::CellsPerPool { .. }).then(|| "; lower -R or -M".into())
}

fn memory(error: &MemoryError) -> Option<String> {
    match error {
        MemoryError::TooLarge { bound: MemoryBound::Machine, .. } => Some(format!("; {LESS_MEMORY}")),
        MemoryError::TooLarge { bound: MemoryBound::Group { .. }, .. } => Some(format!(", or {LESS_MEMORY}")),
        error => error.is_lack().then(|| format!(", or {LESS_MEMORY}")),
    }
}

fn socket(error: &XskError) -> Option<String> {
    match error {
        XskError::MemoryLockLimit(_) => Some(", or lower -R or -M".into()),
        XskError::RingMemory { .. } => Some("; lower -R, or set the size of the ring with --ring".into()),
        _ => None,
    }
}

/// What helps if the kernel does not make an array.
fn array(error: &bpf::Error) -> Option<String> {
    let bpf::Error::Call { cause, .. } = error else { return None };
    let remedy = match cause.kind() {
        ErrorKind::OutOfMemory => LESS_BLOCKS,
        ErrorKind::ArgumentListTooLong => {
            "; Linux before 6.0 allows 4 MiB for a chunk, and 4 MiB for the tables of all queues: lower -M or -R"
        }
        _ => return None,
    };
    Some(remedy.into())
}

fn packed(error: &PackedError) -> Option<String> {
    match error {
        PackedError::SmallBlock { .. } => Some("; raise -M".into()),
        PackedError::FewBlocks { .. } => Some("; raise -R or --memory".into()),
        PackedError::ManyStreams { .. } => Some("; lower -R".into()),
        PackedError::Mapping { .. } => Some(LESS_BLOCKS.into()),
        PackedError::Map(source) => array(source),
        _ => None,
    }
}

fn passive(error: &PacketError) -> Option<String> {
    match error {
        PacketError::RingMemory { .. } => Some("; lower -R or -M".into()),
        PacketError::SmallBlock { .. } => Some("; raise -M".into()),
        PacketError::NotPermitted => Some(privileges("")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wirecap::{
        Access, Diagnostic,
        diagnostic::{Cause, ModeRefusal, RssRefusal},
        report::QueueMode,
    };

    use super::*;

    fn loopback() -> Option<PassiveReason> {
        Some(PassiveReason::NotEthernet { kind: "loopback".into() })
    }

    #[test]
    fn an_error_of_the_library_gets_the_flag_that_helps() {
        let name = || "in0".to_owned();
        let lock = XskError::MemoryLockLimit(1 << 20);
        let [refused, no_memory, large_value] = [12, 12, 7].map(io::Error::from_raw_os_error);
        let batch = Error::OnlyBatchTimestamps { name: name(), source_name: "kernel" };
        let group = MemoryBound::Group { directory: "/g".into(), setting: "memory.max", limit: 1 << 30 };
        let not_tapped = |reason| Error::NotTapped { name: name(), reason };
        let too_large = |bound| {
            Error::from(MemoryError::TooLarge { needed: 2 << 30, available: 1 << 30, rest: 1 << 20, bound })
        };
        for (error, end) in [
            (Error::IdleWorkers { workers: 2, queues: 1 }, "; use at most 1 worker, or advanced mode"),
            (Error::OnlyPassive { name: name(), reason: loopback() }, "; give xdp:in0 to take it"),
            (
                Error::PassiveQueues {
                    name: name(),
                    access: Access::Auto,
                    queues: 2.into(),
                    reason: loopback(),
                },
                "; give in0 to capture all of it passively, or xdp:in0@2 to take these queues from the host",
            ),
            (
                Error::PassiveQueues { name: name(), access: Access::Tap, queues: 2.into(), reason: None },
                "; give tap:in0 to capture all of it passively, or xdp:in0@2 to take these queues from the host",
            ),
            (
                Error::NotTappedByXdp { name: name(), reason: XdpTapRefusal::NotNative },
                "its driver does not offer it; leave --tap-hook out to tap it by traffic control",
            ),
            (
                Error::Shared { name: name(), holders: Vec::new(), free: Some(2) },
                "free, as in in0@2: wirecap interfaces lists them",
            ),
            (
                Error::Rss {
                    name: name(),
                    reason: RssRefusal::NotReadable(Cause { errno: None, text: "none".into() }),
                },
                "symmetric: none; omit --rss symmetric to capture without it",
            ),
            (Error::PassiveRss(name()), "omit --rss, or give xdp:in0"),
            (Error::LittleMemory { bytes: 1, least: 2 }, "raise it, or lower -M or the number of queues"),
            (Error::MuchMemory { bytes: 2, most: 1 }, "together can have 1 KiB; give that or less"),
            (not_tapped(TapRefusal::FewChunks), "for each core; raise -R or --memory, or give packet:in0"),
            (not_tapped(TapRefusal::NoTcx), "(Linux 6.6); give packet:in0"),
            (batch, "use batch timestamps (--timestamp batch)"),
            (GeometryError::CellsPerPool { given: 1 << 30 }.into(), "; lower -R or -M"),
            (too_large(MemoryBound::Machine), "are available; lower -R, -M or the number of queues"),
            (too_large(group), "raise that limit, or lower -R, -M or the number of queues"),
            (
                Error::from(MemoryError::Map { needed: 1 << 30, source: refused }),
                "container), or lower -R, -M or the number of queues",
            ),
            (Error::Socket { name: name(), source: lock }, "grant CAP_IPC_LOCK, or lower -R or -M"),
            (
                Error::Passive {
                    name: name(),
                    source: PacketError::SmallBlock { block_bytes: 1, min: 4096 },
                },
                "it takes 4096; raise -M",
            ),
            (
                Error::Packed { name: name(), source: PackedError::SmallBlock { block_bytes: 65_536 } },
                "it takes 131072; raise -M",
            ),
            (
                Error::Packed { name: name(), source: PackedError::FewBlocks { blocks: 1 } },
                "it takes 2; raise -R or --memory",
            ),
            (
                Error::Packed {
                    name: name(),
                    source: bpf::Error::Call { action: "create a map".into(), cause: no_memory }.into(),
                },
                "the control group may not have more; lower -R or --memory",
            ),
            (
                Error::Packed {
                    name: name(),
                    source: bpf::Error::Call { action: "create a map".into(), cause: large_value }.into(),
                },
                "for the tables of all queues: lower -M or -R",
            ),
            (
                Error::NotPacked { name: name(), reason: PackingRefusal::Sending },
                "packets in blocks cannot be sent; leave --xdp-mode out",
            ),
        ] {
            let text = describe(&error.into());
            assert!(text.ends_with(end), "{text:?} does not end with {end:?}");
        }
    }

    #[test]
    fn every_lack_of_privilege_has_the_same_remedy_once() {
        let (name, reason) = ("in0".to_owned(), XskError::NotPermitted.to_string());
        let joining = Error::JoinNotPermitted { name: name.clone(), reason: reason.clone() };
        let passive = Error::Passive { name: name.clone(), source: PacketError::NotPermitted };
        let sending =
            || SendError::Open { interface: name.clone(), queue: 0, source: XskError::NotPermitted };
        let errors: [(anyhow::Error, &str); 5] = [
            (Error::NotPermitted(reason).into(), ""),
            (joining.into(), ",cap_sys_admin"),
            (passive.into(), ""),
            (wirecap_traffic::Error::Send(sending()).into(), ""),
            (wirecap_replay::Error::Send(sending()).into(), ""),
        ];
        let program = env::current_exe().unwrap().display().to_string();
        for (error, more) in errors {
            let (text, remedy) = (describe(&error), privileges(more));
            assert!(text.ends_with(&remedy) && text.matches(&remedy).count() == 1, "{text}");
            assert!(text.len() < 500 + program.len(), "{text}");
        }
        let setcap = capabilities(",cap_sys_admin");
        assert!(setcap.ends_with(&format!("setcap {CAPABILITIES},cap_sys_admin+ep {program}")), "{setcap}");
        assert!(include_str!("../../../../docs/book/privileges.md").contains(CAPABILITIES));
    }

    #[test]
    fn an_unknown_interface_name_leads_to_the_list() {
        let missing = |nearest: &[&str]| netdev::Error::NoSuchInterface {
            name: "et0".into(),
            nearest: nearest.iter().map(|&name| name.into()).collect(),
        };
        let near = "did you mean \"eth0\"? `wirecap interfaces` lists them";
        for error in [missing(&["eth0"]).into(), Error::from(missing(&["eth0"])).into()] {
            assert!(describe(&error).ends_with(near), "{error}");
        }
        let replayed = wirecap_replay::Error::from(missing(&[]));
        assert!(describe(&replayed.into()).ends_with("; `wirecap interfaces` lists them all"));
        let any = netdev::Error::NoSuchInterface { name: "any".into(), nearest: Vec::new() };
        assert!(describe(&any.into()).ends_with("use wirecap run -- tcpdump -i any"));
    }

    #[test]
    fn the_way_to_hardware_timestamps_is_named_if_it_exists() {
        let words = |reason| of_capture(&Error::NoHardwareTimestamps { name: "in0".into(), reason });
        assert!(words(NicDataRefusal::Passive).contains("give xdp:in0 to take it, or use kernel timestamps"));
        let software = words(NicDataRefusal::SoftwareOnly);
        assert!(software.contains("software only; use kernel") && !software.contains("xdp:"), "{software}");
    }

    #[test]
    fn each_mode_that_was_tried_has_the_text_of_a_fallback() {
        let reason = ModeRefusal::NotOffered;
        let attempt = Diagnostic::ModeUnavailable { mode: QueueMode::ZeroCopy, several_cells: false, reason };
        let text = of_capture(&Error::NoMode { name: "in0".into(), attempts: vec![attempt] });
        let expected =
            "in0 cannot be captured over AF_XDP: zero-copy is not available: the driver does not offer it";
        assert_eq!(text, expected);
    }
}
