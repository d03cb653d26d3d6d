//! Why a request is refused: a code for programs, and a text for people.

use serde::{Deserialize, Serialize};
use wirecap_core::{GeometryError, choices};

use super::version::{PROTOCOL, REQUESTS};

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this is no request: {0}")]
    Malformed(String),
    #[error("this wirecap has \"protocol\": {PROTOCOL}; use a client of that version")]
    WrongProtocol,
    #[error("there is no request {name:?}; there are {}", REQUESTS.join(", "))]
    UnknownRequest { name: String },
    #[error(
        "user {uid} may not change this capture: only root, its own user and members of the group of its socket may"
    )]
    NotPermitted { uid: u32 },
    #[error("the capture has not begun yet; try again in a moment")]
    Starting,
    #[error("the capture is ending")]
    Ending,
    #[error("the capture writes no series of files: start it with -C SIZE or -G TIME, and -w FILE.pcapng")]
    NoSeries,
    #[error("nothing more is written, so no file follows")]
    NotWritten,
    #[error(
        "there is no setting {0:?}; threshold_percent and duration_ms can be changed while a capture runs"
    )]
    UnknownSetting(String),
    #[error("{setting} cannot be changed while a capture runs: {}; stop it, and start it with the new value", .reason.describe())]
    Fixed { setting: String, reason: FixedReason },
    #[error(
        "there is no T in basic mode, in which forward always runs; a capture has one with --mode advanced"
    )]
    BasicMode,
    #[error("{0}")]
    Threshold(GeometryError),
    #[error("{setting} must be a whole number, 0 or more: {value}")]
    NoNumber { setting: String, value: String },
    #[error("the capture does not answer; kill -INT ends it")]
    Stuck,
}

/// Why a setting is fixed while a capture runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixedReason {
    /// The memory is laid out at the start.
    Memory,
    /// The threads and their queues are.
    Threads,
    /// It is how ports are opened, and part of the programs in the kernel.
    Ports,
    /// It is what the outputs are opened with.
    Output,
    /// Its threads have given it up.
    Privileges,
}

/// The settings that are fixed, by reason.
const FIXED: [(FixedReason, &[&str]); 5] = [
    (
        FixedReason::Memory,
        &["cells_per_chunk", "pool_size", "cell_bytes", "ring_entries", "transmit_entries"],
    ),
    (
        FixedReason::Threads,
        &[
            "mode",
            "dispatch",
            "workers",
            "worker_cores",
            "capture_threads",
            "capture_cores",
            "wait",
            "grouping",
            "homes",
        ],
    ),
    (
        FixedReason::Ports,
        &[
            "ports",
            "filter",
            "unmatched",
            "xdp_mode",
            "timestamp",
            "promiscuous",
            "rss",
            "fanout",
            "tap_hook",
        ],
    ),
    (
        FixedReason::Output,
        &[
            "write",
            "snaplen",
            "direct_io",
            "file_mode",
            "in_place",
            "print",
            "copy_to",
            "file_per_queue",
            "rotate_size",
            "rotate_packets",
            "rotate_time",
            "rotate_files",
            "keep_files",
            "stop_files",
            "stop_size",
            "rotate_command",
            "count",
        ],
    ),
    (FixedReason::Privileges, &["sandbox", "user"]),
];

impl FixedReason {
    fn describe(self) -> &'static str {
        match self {
            FixedReason::Memory => "the packet memory and the rings are laid out when it starts",
            FixedReason::Threads => "its threads and their queues are made when it starts",
            FixedReason::Ports => "it is part of how the ports are opened, and of the programs in the kernel",
            FixedReason::Output => "the outputs are opened with it",
            FixedReason::Privileges => "what its threads may do is decided when they begin to work",
        }
    }
}

impl Refusal {
    /// The refusal of a setting that cannot be changed.
    pub(super) fn of_setting(setting: &str) -> Self {
        let fixed = FIXED.iter().find(|(_, settings)| settings.contains(&setting));
        match fixed {
            Some((reason, _)) => Refusal::Fixed { setting: setting.into(), reason: *reason },
            None => Refusal::UnknownSetting(setting.into()),
        }
    }

    /// Its code, which is stable.
    pub(crate) fn code(&self) -> RefusalCode {
        match self {
            Refusal::Malformed(_) => RefusalCode::Malformed,
            Refusal::WrongProtocol => RefusalCode::WrongProtocol,
            Refusal::UnknownRequest { .. } => RefusalCode::UnknownRequest,
            Refusal::NotPermitted { .. } => RefusalCode::NotPermitted,
            Refusal::Starting => RefusalCode::Starting,
            Refusal::Ending => RefusalCode::Ending,
            Refusal::NoSeries => RefusalCode::NoSeries,
            Refusal::NotWritten => RefusalCode::NotWritten,
            Refusal::UnknownSetting(_) => RefusalCode::UnknownSetting,
            Refusal::Fixed { .. } => RefusalCode::FixedSetting,
            Refusal::BasicMode => RefusalCode::BasicMode,
            Refusal::Threshold(_) | Refusal::NoNumber { .. } => RefusalCode::WrongValue,
            Refusal::Stuck => RefusalCode::Stuck,
        }
    }
}

choices! {
    /// Why a request is refused.
    pub(crate) enum RefusalCode {
        /// It is no JSON, or lacks a field.
        Malformed = "malformed",
        /// The client speaks another version of the protocol.
        WrongProtocol = "wrong_protocol",
        /// There is no such request.
        UnknownRequest = "unknown_request",
        /// The user may not change the capture.
        NotPermitted = "not_permitted",
        /// The capture has not begun.
        Starting = "starting",
        /// The capture is ending.
        Ending = "ending",
        /// There is no series of files.
        NoSeries = "no_series",
        /// Nothing more is written, so no file follows.
        NotWritten = "not_written",
        /// There is no such setting.
        UnknownSetting = "unknown_setting",
        /// The setting cannot be changed while the capture runs.
        FixedSetting = "fixed_setting",
        /// There is no threshold in basic mode.
        BasicMode = "basic_mode",
        /// The setting cannot have this value.
        WrongValue = "wrong_value",
        /// The capture does not answer.
        Stuck = "stuck",
    }
}

/// A refusal as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusalRecord {
    pub(crate) code: RefusalCode,
    /// For people: what, why, and what to do.
    pub(crate) text: String,
}

impl From<Refusal> for RefusalRecord {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code(), text: refusal.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commands::forward::settings::ForwardSettings, settings::file};

    /// Fails for a new key until it is listed as fixed, changeable or internal.
    #[test]
    fn every_setting_of_the_capture_is_fixed_or_can_be_changed() {
        let changed_or_printed =
            ["duration", "json", "stats", "log", "fail_on_loss", "quiet", "verify", "expect"];
        let internal =
            ["stamp_packets", "rx_hash", "keep_packets", "readable_in_children", "allocators", "reach"];
        for table in file::tables::<ForwardSettings>() {
            if !["capture", "output", "process"].contains(&table.name.as_str()) {
                continue;
            }
            for key in table.keys.iter().map(String::as_str) {
                let refusal = Refusal::of_setting(key);
                let is_fixed = matches!(refusal, Refusal::Fixed { .. });
                assert!(is_fixed || changed_or_printed.contains(&key) || internal.contains(&key), "{key}");
            }
        }
        let text = Refusal::of_setting("pool_size").to_string();
        assert!(
            text.starts_with("pool_size cannot be changed while a capture runs: the packet memory"),
            "{text}"
        );
        assert_eq!(Refusal::of_setting("colour").code(), RefusalCode::UnknownSetting);
    }
}
