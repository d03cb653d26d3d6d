//! Failures of a replay that is under way, as data.

use serde::Serialize;
use wirecap_send::SendError;

use crate::Error;

/// Something that was not read or not sent to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// The kind of failure; stable.
    pub code: FailureCode,
    /// What happened and what to do about it, for people; the wording may change.
    pub text: String,
}

/// The kind of a [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureCode {
    /// A trace file is damaged, or reading it failed.
    TraceUnreadable,
    /// A trace file has packets that are not Ethernet frames.
    LinkType,
    /// The side file does not have a queue number for each packet.
    SideFile,
    /// The files had packets in an earlier pass, and none in this one.
    EmptyPass,
    /// The thread that reads ahead panicked.
    ReaderPanicked,
    /// The interface is down, has no carrier, or is gone.
    LinkLost,
    /// The kernel refused frames.
    Refused,
    /// The kernel stopped sending.
    Stalled,
    /// Another error, from opening files or queues.
    Other,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let code = match error {
            Error::Trace { .. } => FailureCode::TraceUnreadable,
            Error::LinkType { .. } | Error::OtherLinkType { .. } => FailureCode::LinkType,
            Error::Side { .. } | Error::SideLine { .. } | Error::SideShort { .. } => FailureCode::SideFile,
            Error::Emptied(_) => FailureCode::EmptyPass,
            Error::Reader => FailureCode::ReaderPanicked,
            Error::Send(SendError::Link { .. }) => FailureCode::LinkLost,
            Error::Send(SendError::Refused { .. }) => FailureCode::Refused,
            Error::Send(SendError::Stalled { .. }) => FailureCode::Stalled,
            _ => FailureCode::Other,
        };
        Self { code, text: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use wirecap_sys::netdev::LinkFault;

    use super::*;

    #[test]
    fn a_failure_has_a_code_and_a_text() {
        let interface = || "eth1".to_owned();
        let stalled = SendError::Stalled { interface: interface(), frames: 2, seconds: 2 };
        for (error, code) in [
            (
                SendError::Link { interface: interface(), fault: LinkFault::Down }.into(),
                FailureCode::LinkLost,
            ),
            (stalled.into(), FailureCode::Stalled),
            (Error::SideShort { path: "side".into(), lines: 2 }, FailureCode::SideFile),
            (Error::Emptied(2), FailureCode::EmptyPass),
            (Error::Reader, FailureCode::ReaderPanicked),
            (Error::StdinTwice, FailureCode::Other),
        ] {
            assert_eq!(Failure::from(&error), Failure { code, text: error.to_string() });
        }
    }
}
