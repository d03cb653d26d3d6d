//! How errors of the engine reach a program: libpcap's codes, and texts with the setting or the name of a
//! device that helps. They fit into the 255 bytes that programs have room for, unless a reason is long.

use std::{ffi::c_int, process, slice};

use wirecap::{
    Diagnostic, Error, Process,
    config::prefix::{PACKET, TAP, XDP},
    diagnostic::NicDataRefusal,
};
use wirecap_reasons::{host_use, refusal, rss};
use wirecap_sys::{netdev, packet::PacketError};

use crate::abi::{ERROR, ERROR_IFACE_NOT_UP, ERROR_NO_SUCH_DEVICE, ERROR_PERM_DENIED};

/// A status of libpcap, and the text that goes with it; `None`: the status's own.
pub(super) type Failure = (c_int, Option<String>);

/// How libpcap names an error of the engine.
pub(super) fn failure(error: &Error) -> Failure {
    match error {
        Error::Down(_) => (ERROR_IFACE_NOT_UP, None),
        Error::Interface(netdev::Error::NoSuchInterface { .. } | netdev::Error::NoSuchIndex(_)) => {
            (ERROR_NO_SUCH_DEVICE, None)
        }
        Error::NotPermitted(_) | Error::Passive { source: PacketError::NotPermitted, .. } => {
            (ERROR_PERM_DENIED, Some(error.to_string()))
        }
        error => (ERROR, Some(describe(error))),
    }
}

/// The text of an error, in one line.
pub(crate) fn describe(error: &Error) -> String {
    if let Some(name) = held_by_this_process(error) {
        return format!(
            "{name} is captured by another handle of this program; several handles share it as {TAP}{name}, or by queues \
             ({name}@0, {name}@1)"
        );
    }
    match error {
        Error::NoMode { name, attempts } => {
            let attempts: Vec<_> = attempts.iter().filter_map(attempt).collect();
            format!("{name} cannot be captured over AF_XDP: {}", attempts.join("; "))
        }
        Error::PassiveQueues { name, queues, reason, .. } => {
            let since = reason.as_ref().map(|reason| format!(", since {}", host_use::reason(reason)));
            format!(
                "{name}@{queues}: receive queues are for captures over AF_XDP, and {name} is captured beside the host{}; \
                 {XDP}{name}@{queues} takes them",
                since.unwrap_or_default()
            )
        }
        Error::NotPacked { reason, .. } => format!("{error}: {}", refusal::packing(reason)),
        Error::NotTapped { name, reason } => {
            format!("{error}: {}; {PACKET}{name} works without a tap", refusal::tap(*reason))
        }
        Error::Rss { reason, .. } => format!("{error}: {}; leave rss out", rss::refusal(reason)),
        Error::NoHardwareTimestamps { name, reason } => {
            let take = match reason {
                NicDataRefusal::Passive => format!("; {XDP}{name} takes it, or set timestamp=kernel"),
                _ => "; set timestamp=kernel".into(),
            };
            format!("{error}: {}{take}", refusal::nic_data(*reason))
        }
        Error::LittleMemory { bytes, least } => {
            format!("memory={bytes} is too little: a chunk for each pool takes at least {least} bytes")
        }
        Error::MuchMemory { bytes, most } => {
            format!("memory={bytes} is too much: all pools together can have {most} bytes")
        }
        error => error.to_string(),
    }
}

/// What one way of attaching has come to.
fn attempt(diagnostic: &Diagnostic) -> Option<String> {
    let Diagnostic::ModeUnavailable { mode, reason, .. } = diagnostic else { return None };
    Some(format!("{} is not available: {}", mode.as_str(), refusal::mode(reason)))
}

/// The interface that another handle of this process has.
fn held_by_this_process(error: &Error) -> Option<&str> {
    let is_own = |holders: &[Process]| holders.iter().any(|holder| holder.pid == process::id());
    match error {
        Error::Held { name, holders, .. }
        | Error::TakenWhole { name, holders }
        | Error::Shared { name, holders, .. }
            if is_own(holders) =>
        {
            Some(name)
        }
        Error::QueueTaken { name, holder, .. } if is_own(slice::from_ref(holder)) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wirecap::{diagnostic::ModeRefusal, report::QueueMode};

    use super::*;

    #[test]
    fn a_text_has_the_cause_and_what_helps() {
        let (mode, reason) = (QueueMode::ZeroCopy, ModeRefusal::NotOffered);
        let refused = Diagnostic::ModeUnavailable { mode, several_cells: false, reason };
        let no_mode = Error::NoMode { name: "eth1".into(), attempts: vec![refused] };
        assert_eq!(
            describe(&no_mode),
            "eth1 cannot be captured over AF_XDP: zero-copy is not available: the driver does not offer it"
        );
        let own = Process { pid: process::id(), name: "ids".into() };
        let taken = |holder: Process| Error::TakenWhole { name: "eth1".into(), holders: vec![holder] };
        assert!(describe(&taken(own.clone())).contains("several handles share it as tap:eth1"));
        assert!(describe(&taken(Process { pid: 1, ..own })).contains("by ids (pid 1)"));
        let memory = Error::LittleMemory { bytes: 1, least: 2 };
        assert_eq!(describe(&memory), "memory=1 is too little: a chunk for each pool takes at least 2 bytes");
    }

    #[test]
    fn libpcap_has_codes_for_some() {
        assert_eq!(failure(&Error::Down("eth1".into())), (ERROR_IFACE_NOT_UP, None));
        assert_eq!(failure(&Error::GivenUp).0, ERROR);
    }
}
