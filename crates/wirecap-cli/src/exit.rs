//! How the command ends: exit codes.
//!
//! Rule: an error is one or two lines on standard error that begin with `wirecap: ` and end with the remedy.

use std::process::ExitCode;

use wirecap_core::GeometryError;

use crate::sources::RefusedSettings;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As asked.
    Fine = 0,
    /// It failed, lost an interface or its file, or ended too early.
    Failed = 1,
    /// The command line, or a file of settings or routes, is wrong; nothing was done.
    Usage = 2,
    /// As asked, but packets were lost, and `--fail-on-loss` was given.
    Lost = 3,
    /// As asked, but `wirecap doctor` found a problem or a warning, and `--fail-on-findings` was given.
    Found = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The command line is wrong; the message says why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// A file of settings is wrong; the message begins with the place.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongFile(pub(crate) String);

/// Settings are refused; the message names each as its user wrote it, with its place.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongSettings(pub(crate) String);

/// A [`Usage`] with this message, which takes what `format!` takes.
macro_rules! usage {
    ($($words:tt)*) => {
        $crate::exit::Usage(format!($($words)*))
    };
}

/// The exit code for an error. Wrong usage are values that no machine accepts, settings that exclude each
/// other, and cores that this machine does not have; everything else is a failure.
pub(crate) fn code_of(error: &anyhow::Error) -> Exit {
    use wirecap::{
        Error::{
            Filter, Geometry, IdleWorkers, Interface, LittleMemory, MuchMemory, NoPort, NoWorker, NotPacked,
            NotTapped, OnlyPassive, Packed, PassiveQueues, PortTwice, QueueSet, TooMany,
        },
        diagnostic::{
            PackingRefusal::{Rings, Sending},
            TapRefusal::{FewChunks, SeveralWorkers, SmallChunks},
        },
    };
    use wirecap_filter::Error::{Expression, Invalid, NotLive};
    use wirecap_sys::{
        netdev::Error::{NameInvalid, NameTooLong},
        packed::PackedError::{FewBlocks, SmallBlock},
    };
    let wrong_values = matches!(
        error.downcast_ref(),
        Some(
            Geometry(_)
                | IdleWorkers { .. }
                | LittleMemory { .. }
                | MuchMemory { .. }
                | NoPort
                | NoWorker
                | NotPacked { reason: Rings | Sending, .. }
                | NotTapped { reason: FewChunks | SeveralWorkers { .. } | SmallChunks { .. }, .. }
                | PortTwice(_)
                | Interface(NameInvalid { .. } | NameTooLong(_))
                | QueueSet { .. }
                | OnlyPassive { reason: None, .. }
                | Packed { source: FewBlocks { .. } | SmallBlock { .. }, .. }
                | PassiveQueues { reason: None, .. }
                | TooMany { what: "workers" | "ports", .. }
                | Filter(Expression { .. } | Invalid { .. } | NotLive(_))
        )
    );
    let wrong_settings =
        error.is::<WrongFile>() || error.is::<RefusedSettings>() || error.is::<WrongSettings>();
    if wrong_values || wrong_settings || error.is::<Usage>() || error.is::<GeometryError>() {
        Exit::Usage
    } else {
        Exit::Failed
    }
}
