//! The line on the terminal that shows how far a command is.
//!
//! Rule: the line exists only on a terminal, and only if the user wants more than the result. It is cleared
//! before anything else is printed, and never longer than the terminal is wide: what is on a second row would
//! stay. Lines of a table may be above it, as many as the terminal has room for. It consists of fields, the
//! most important ones first: those that do not fit are omitted as a whole.

use std::time::{Duration, Instant};

use super::{
    layout::GAP,
    log,
    stdio::{Stream, columns, show_over},
};

/// How often the line is written.
const PERIOD: Duration = Duration::from_millis(500);

/// What was counted until a moment of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Snapshot {
    /// Seconds since the start of the run.
    pub(crate) seconds: f64,
    pub(crate) packets: u64,
    pub(crate) bits: u64,
}

/// Rates between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rates {
    /// Packets per second.
    pub(crate) pps: f64,
    /// Megabits per second.
    pub(crate) mbps: f64,
}

impl Snapshot {
    /// Moves on to a later snapshot, and returns the rates in between.
    pub(crate) fn advance(&mut self, now: Self) -> Rates {
        let before = std::mem::replace(self, now);
        let seconds = (now.seconds - before.seconds).max(1e-3);
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Rates { pps: per_second(now.packets, before.packets), mbps: per_second(now.bits, before.bits) / 1e6 }
    }
}

/// A line on standard error that is written over and over.
#[derive(Debug)]
pub(crate) struct StatusLine {
    enabled: bool,
    /// Whether it is on the screen.
    shown: bool,
    /// Lines of a table above it, on the screen.
    rows: usize,
    /// When it was last written, or created.
    last: Instant,
    /// As of the last line with rates.
    snapshot: Snapshot,
}

impl StatusLine {
    /// The line of a command with these flags. Never shown unless standard error is a terminal, and messages
    /// are text.
    pub(crate) fn new(quiet: bool, json: bool) -> Self {
        let is_wanted = !quiet && !json && !log::is_json();
        let enabled = is_wanted && columns(Stream::Stderr).is_some();
        Self { enabled, shown: false, rows: 0, last: Instant::now(), snapshot: Snapshot::default() }
    }

    /// Whether the line is ever shown.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether the line is to be written now, so that callers compute its text only then. Reads the clock,
    /// but not if the line is disabled.
    pub(crate) fn is_due(&self) -> bool {
        self.enabled && self.last.elapsed() >= PERIOD
    }

    /// Writes the line, as far as its fields fit, over the one before.
    pub(crate) fn show(&mut self, fields: &[String]) {
        self.show_below(&[], fields);
    }

    fn show_below(&mut self, table: &[String], fields: &[String]) {
        self.replace(table, fields);
        self.shown = true;
        self.last = Instant::now();
    }

    /// Overwrites what is on the screen, if standard error has room.
    fn replace(&mut self, table: &[String], fields: &[String]) {
        if let Ok(rows) = show_over(self.rows, table, fields) {
            self.rows = rows;
        }
    }

    /// Writes the line with the rates since the last one, and a table above it.
    pub(crate) fn show_rates_below(
        &mut self,
        table: &[String],
        now: Snapshot,
        fields: impl FnOnce(Rates) -> Vec<String>,
    ) {
        let rates = self.snapshot.advance(now);
        self.show_below(table, &fields(rates));
    }

    /// Writes the line with the rates since the last one.
    pub(crate) fn show_rates(&mut self, now: Snapshot, fields: impl FnOnce(Rates) -> Vec<String>) {
        let rates = self.snapshot.advance(now);
        self.show(&fields(rates));
    }

    /// Prints the line to stay, as SIGUSR1 asks for, with the rates since the start of the run.
    pub(crate) fn print_total(&mut self, now: Snapshot, fields: impl FnOnce(Rates) -> Vec<String>) {
        self.clear();
        note!("{}", fields(Snapshot::default().advance(now)).join(GAP));
    }

    /// Removes the line from the screen.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            self.replace(&[], &[]);
            self.shown = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_after_its_period_if_enabled() {
        let long_ago = Instant::now().checked_sub(PERIOD).expect("the machine has been up for longer");
        let line = |enabled, last| StatusLine { last, enabled, ..StatusLine::new(false, false) };
        assert!(line(true, long_ago).is_due());
        assert!(!line(true, Instant::now()).is_due());
        assert!(!line(false, long_ago).is_due());
        for (quiet, json) in [(true, false), (false, true)] {
            assert!(!StatusLine::new(quiet, json).enabled);
        }
    }

    #[test]
    fn rates_count_from_the_snapshot_before() {
        let mut snapshot = Snapshot { seconds: 2.5, packets: 1_000, bits: 480_000 };
        let now = Snapshot { seconds: 3.0, packets: 2_001_000, bits: 960_480_000 };
        assert_eq!(snapshot.advance(now), Rates { pps: 4e6, mbps: 1_920.0 });
        assert_eq!(snapshot, now);
    }
}
