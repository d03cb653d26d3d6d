//! Prints a report to the stream and in the format that the user asked for.

use super::stdio::{Stream, print};

/// Where and how a report is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportFormat {
    pub(crate) stream: Stream,
    pub(crate) json: bool,
    /// Without JSON, nothing is printed.
    pub(crate) quiet: bool,
}

impl ReportFormat {
    /// Prints `name` as JSON or as text. Returns whether that succeeded; if not, standard error says why.
    pub(crate) fn print(
        self,
        name: &str,
        json: impl FnOnce() -> String,
        text: impl FnOnce() -> String,
    ) -> bool {
        let printed = match self {
            Self { stream, json: true, .. } => print(stream, &json()),
            Self { quiet: true, .. } => Ok(()),
            Self { stream, .. } => print(stream, &text()),
        };
        if let Err(cause) = &printed {
            fail!("cannot print {name}: {cause}");
        }
        printed.is_ok()
    }
}
