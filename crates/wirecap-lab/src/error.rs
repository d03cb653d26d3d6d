//! Errors of setting up the laboratory.

use std::io;

/// Failures of the harness.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A command could not be started.
    #[error("cannot run `{command}`: {cause}; install {package}")]
    NotFound {
        /// The command line.
        command: String,
        /// The package that contains the program.
        package: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed ({status}): {stderr}; the laboratory needs root")]
    Failed {
        /// The command line.
        command: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// Its output on standard error.
        stderr: String,
    },
    /// A setting inside a namespace could not be made.
    #[error("cannot {action}: {cause}")]
    Setting {
        /// The attempted action and its object.
        action: String,
        /// The system's error.
        cause: io::Error,
    },
    /// A label that cannot be part of a name.
    #[error("namespace label {label:?} is not valid: use 1 to 32 ASCII letters, digits or '_'")]
    BadLabel {
        /// The label.
        label: String,
    },
}
