//! The texts of the command: of diagnostics, events and errors, and numbers in sentences.
//!
//! ```text
//!   Diagnostic ── diagnostic.rs ──┐
//!   PortEvent ─── event.rs ───────┼──► sentence with the flag that helps ──► wrapped ──► terminal, log, JSON
//!   anyhow::Error ── error.rs ────┘
//! ```
//!
//! Rule: what happened is a value until it comes here, and each value has its text in one place. What other
//! front ends word as well is in `wirecap-reasons`.

pub(crate) mod control;
pub(crate) mod diagnostic;
pub(crate) mod doctor;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod forward;
pub(crate) mod loss;
pub(crate) mod plural;
pub(crate) mod report;
pub(crate) mod sending;
pub(crate) mod units;

pub(crate) use wirecap_reasons::{host_use, refusal, rss};

use serde::Serialize;

/// A diagnostic in a JSON record: its code, its data, and its text.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DiagnosticWithText<D> {
    #[serde(flatten)]
    diagnostic: D,
    /// The same as text, for people; the wording may change.
    text: String,
}

impl<D> DiagnosticWithText<D> {
    pub(crate) fn new(diagnostic: D, describe: impl Fn(&D) -> String) -> Self {
        Self { text: describe(&diagnostic), diagnostic }
    }
}

/// Numbers in increasing order as ranges: `0-3,5`.
pub(crate) fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let numbers: Vec<_> = numbers.into_iter().collect();
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Numbered things: `queue 3`, `queues 0-2,5`.
pub(crate) fn numbered(one: &str, numbers: impl IntoIterator<Item: Into<u64>>) -> String {
    let numbers: Vec<u64> = numbers.into_iter().map(Into::into).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{one}{plural} {}", ranges(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges([0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges([]), "");
        assert_eq!(
            (numbered("queue", [3_u16]), numbered("queue", [0_u16, 1])),
            ("queue 3".into(), "queues 0-1".into())
        );
    }
}
