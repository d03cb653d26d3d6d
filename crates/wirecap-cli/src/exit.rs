//! How the command ends: exit codes, and errors in words.
//!
//! Rule: an error is one or two lines on standard error that begin with `wirecap: ` and end with what
//! to do about it.

use std::{fmt::Display, io::Write, process::ExitCode};

use clap::error::ErrorKind;
use wirecap_core::GeometryError;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As asked.
    Fine = 0,
    /// It failed, or ended before it was asked to.
    Failed = 1,
    /// The command line makes no sense; nothing was done.
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The command line makes no sense, for a reason the message tells.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The exit code an error calls for: values that no machine could take are wrong usage, all else is
/// a failure.
pub(crate) fn code_of(error: &anyhow::Error) -> Exit {
    use wirecap::Error::{Geometry, IdleWorkers, NoPort, NoWorker, PortTwice};
    let wrong_values = matches!(
        error.downcast_ref(),
        Some(Geometry(_) | IdleWorkers { .. } | NoPort | NoWorker | PortTwice(_))
    );
    if wrong_values || error.is::<Usage>() || error.is::<GeometryError>() {
        Exit::Usage
    } else {
        Exit::Failed
    }
}

/// Prints what clap has to say: help and version as they are, errors in the form of all our errors.
pub(crate) fn refuse(refused: &clap::Error) -> Exit {
    if matches!(refused.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed standard output is no reason to fail.
        let _ = refused.print();
        return Exit::Fine;
    }
    if refused.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = refused.print();
        return Exit::Usage;
    }
    tell(format_args!("wirecap: {}; try wirecap --help", condense(&refused.to_string())));
    Exit::Usage
}

/// One line of what clap spreads over several: the error and its tips, without the usage.
fn condense(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let said = text.split("\nUsage:").next().unwrap_or(text).split("\nFor more information").next();
    let lines = said.unwrap_or(text).lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Writes a line to standard error. If that is closed, there is nobody to tell.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::Flags;

    #[test]
    fn a_refusal_is_one_line() {
        let refused = Flags::try_parse_from(["wirecap", "capture", "eth0", "--mod", "basic"]).unwrap_err();
        let line = condense(&refused.to_string());
        assert!(line.starts_with("unexpected argument '--mod' found") && line.contains("'--mode'"), "{line}");
        assert!(!line.contains('\n') && !line.contains("Usage"), "{line}");
    }
}
