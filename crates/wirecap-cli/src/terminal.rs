//! The line on the terminal that says how it goes, and what all such lines say alike.
//!
//! Rule: there is one only on a terminal, and only if the user wants to see more than the end of it. It is taken away before
//! anything else is said, and never longer than the terminal is wide: what is on a second row would stay.

use std::time::{Duration, Instant};

use crate::stdio::{Stream, columns, show_over};

use crate::text::plural::counted;

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

    /// Whether it is time to write it: what stands in it need not be known before. Costs a reading of the clock, and nothing where
    /// there is no such line.
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

/// Packets per second, in the unit that fits.
pub(crate) fn rate(pps: f64) -> String {
    match pps {
        1e6.. => format!("{:.2} Mpps", pps / 1e6),
        1e3.. => format!("{:.2} kpps", pps / 1e3),
        _ => counted(pps.round() as u64, "packet") + "/s",
    }
}

/// An upper bound of a time, in the unit that fits, rounded up so that what is printed is a bound as well.
pub(crate) fn at_most(ns: u64) -> String {
    let tenths = |unit_ns: u64| ns.div_ceil(unit_ns / 10) as f64 / 10.0;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_901 => format!("{:.1} µs", tenths(1_000)),
        999_901..999_900_001 => format!("{:.1} ms", tenths(1_000_000)),
        _ => format!("{:.1} s", tenths(1_000_000_000)),
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

    #[test]
    fn bounds_are_rounded_up_in_the_unit_that_fits() {
        for (ns, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (1_001, "1.1 µs"),
            (999_900, "999.9 µs"),
            (999_901, "1.0 ms"),
            (999_900_000, "999.9 ms"),
            (999_900_001, "1.0 s"),
            (3_900_000_001, "4.0 s"),
        ] {
            assert_eq!(at_most(ns), expected);
        }
    }

    #[test]
    fn rates_are_in_the_unit_that_fits() {
        assert_eq!(
            (rate(4e6), rate(1_500.0), rate(3.2)),
            ("4.00 Mpps".into(), "1.50 kpps".into(), "3 packets/s".into())
        );
        assert_eq!(rate(0.9), "1 packet/s");
    }
}
