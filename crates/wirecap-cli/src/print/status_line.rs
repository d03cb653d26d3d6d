//! The line on the terminal that says how it goes.
//!
//! Rule: there is one only on a terminal, and only if the user wants to see more than the end of it. It is
//! taken away before anything else is said, and never longer than the terminal is wide: what is on a second
//! row would stay.

use std::time::{Duration, Instant};

use super::stdio::{Stream, columns, show_over};

/// How often it is written.
const PERIOD: Duration = Duration::from_millis(500);

/// A line on standard error that is written over again and again.
#[derive(Debug)]
pub(crate) struct StatusLine {
    enabled: bool,
    /// Whether it is on the screen.
    shown: bool,
    /// When it was written last, or could have been for the first time.
    last: Instant,
}

impl StatusLine {
    /// The line of a command with these flags. Silent unless standard error is a terminal.
    pub(crate) fn new(quiet: bool, json: bool) -> Self {
        Self {
            enabled: columns(Stream::Stderr).is_some() && !quiet && !json,
            shown: false,
            last: Instant::now(),
        }
    }

    /// Whether there is such a line.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether it is time to write it: its words need not be known before. Costs a reading of the clock, and
    /// nothing where there is no such line.
    pub(crate) fn is_due(&self) -> bool {
        self.enabled && self.last.elapsed() >= PERIOD
    }

    /// Writes it, over what it said before.
    pub(crate) fn show(&mut self, line: &str) {
        let _ = show_over(line);
        self.shown = true;
        self.last = Instant::now();
    }

    /// Takes it away.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            let _ = show_over("");
            self.shown = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_after_its_period_if_there_is_one_at_all() {
        let long_ago = Instant::now().checked_sub(PERIOD).expect("the machine runs for longer");
        let line = |enabled, last| StatusLine { enabled, shown: false, last };
        assert!(line(true, long_ago).is_due());
        assert!(!line(true, Instant::now()).is_due());
        assert!(!line(false, long_ago).is_due());
        for (quiet, json) in [(true, false), (false, true)] {
            assert!(!StatusLine::new(quiet, json).enabled);
        }
    }
}
