//! How the command ends: exit codes, and errors in words.
//!
//! Rule: an error is one or two lines on standard error that begin with `wirecap: ` and end with what
//! to do about it.

use std::process::ExitCode;

use wirecap_core::GeometryError;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As asked.
    Fine = 0,
    /// It failed, lost an interface or its file, or ended before it was asked to.
    Failed = 1,
    /// The command line makes no sense; nothing was done.
    Usage = 2,
    /// As asked, but packets were lost, and `--fail-on-loss` was given.
    Lost = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The command line makes no sense; the message says why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// [`Usage`] in these words.
macro_rules! usage {
    ($($words:tt)*) => {
        $crate::exit::Usage(format!($($words)*))
    };
}

/// The exit code an error calls for: values that no machine could take, or cores that this one does
/// not have, are wrong usage, all else is a failure.
pub(crate) fn code_of(error: &anyhow::Error) -> Exit {
    use wirecap::Error::{
        Filter, Geometry, IdleWorkers, Interface, LittleMemory, NoPort, NoWorker, PassiveQueues, PortTwice,
        QueueSet, TooMany,
    };
    use wirecap_filter::Error::{Expression, Invalid, NotLive};
    use wirecap_sys::netdev::Error::{NameInvalid, NameTooLong};
    let wrong_values = matches!(
        error.downcast_ref(),
        Some(
            Geometry(_)
                | IdleWorkers { .. }
                | LittleMemory { .. }
                | NoPort
                | NoWorker
                | PortTwice(_)
                | Interface(NameInvalid { .. } | NameTooLong(_))
                | QueueSet { .. }
                | PassiveQueues { reason: None, .. }
                | TooMany { what: "workers" | "ports", .. }
                | Filter(Expression { .. } | Invalid { .. } | NotLive(_))
        )
    );
    if wrong_values || error.is::<Usage>() || error.is::<GeometryError>() {
        Exit::Usage
    } else {
        Exit::Failed
    }
}
