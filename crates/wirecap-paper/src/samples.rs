//! The samples of all rounds, and their medians as cells of tables.

use wirecap_bench::stats::Summary;
use wirecap_lab::table::Table;

use crate::trial::Sample;

/// Marks a figure of which a sample was disturbed in every attempt.
const DISTURBED: &str = " *";
/// What the mark means.
const DISTURBED_NOTE: &str =
    "*: other work had the core of the sender or of a handler for more than 20 ms, in each of five attempts.";

/// Explains the mark below a table that has it.
pub fn explain_marks(table: &mut Table) {
    if table.rows().iter().flatten().any(|cell| cell.ends_with(DISTURBED)) {
        table.note(DISTURBED_NOTE);
    }
}

/// Samples of the same trial, one for each round.
#[derive(Debug)]
pub struct Samples<S>(Vec<S>);

impl<S> Default for Samples<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Sample> Samples<S> {
    /// Adds a sample.
    pub fn add(&mut self, sample: S) {
        self.0.push(sample);
    }

    /// The first one.
    pub fn first(&self) -> Option<&S> {
        self.0.first()
    }

    /// The median of a figure; not a number without samples.
    pub fn median(&self, figure: impl Fn(&S) -> f64) -> f64 {
        Summary::of(self.0.iter().map(figure)).map_or(f64::NAN, |summary| summary.median)
    }

    /// Packets lost of all queues together, in percent.
    pub fn lost_percent(&self) -> f64 {
        self.median(|sample| sample.trial().total().lost_percent())
    }

    /// A share as a cell of a table, marked if a sample was disturbed.
    pub fn share(&self, percent: f64) -> String {
        let is_disturbed = self.0.iter().any(|sample| sample.trial().is_disturbed());
        format!("{percent:.1} %{}", if is_disturbed { DISTURBED } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{QueueCounts, Trial};

    #[test]
    fn cells_have_medians_and_marks() {
        let trial = |lost, late_ms| Trial {
            queues: vec![QueueCounts { sent: 1000, received: 1000 - lost, counted_lost: lost }],
            cpu_ns: 0.0,
            buffer_bytes: 0,
            late_ms,
            json: serde_json::Value::Null,
        };
        let mut samples = Samples::default();
        assert!(samples.lost_percent().is_nan());
        for lost in [120, 100, 0] {
            samples.add(trial(lost, 1.0));
        }
        assert_eq!(samples.share(samples.lost_percent()), "10.0 %");
        samples.add(trial(100, 50.0));
        assert_eq!(samples.share(samples.lost_percent()), "10.0 % *");
        let mut table = Table::new("lost", &["engine", "6"]);
        table.row(["a".into(), "0.0 %".into()]);
        explain_marks(&mut table);
        assert!(!table.to_string().contains("other work"), "{table}");
        table.row(["b".into(), samples.share(10.0)]);
        explain_marks(&mut table);
        assert!(table.to_string().contains("*: other work"), "{table}");
    }
}
