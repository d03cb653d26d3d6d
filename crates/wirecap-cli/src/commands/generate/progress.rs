//! The line on the terminal that says how it goes.

use std::time::Duration;

use wirecap_traffic::FrameTotals;

use super::{plan::Plan, report::bits_with_fcs};
use crate::{print::status_line::StatusLine, text::units::rate};

/// How generating goes.
pub(super) struct Progress {
    line: StatusLine,
    /// When the line was written last, and what had been made by then.
    before: (Duration, FrameTotals),
}

impl Progress {
    pub(super) fn new(plan: &Plan) -> Self {
        let before = (Duration::ZERO, FrameTotals::default());
        Self { line: StatusLine::new(plan.quiet, plan.json), before }
    }

    /// Writes the line, if it is time.
    pub(super) fn show(&mut self, elapsed: Duration, made: FrameTotals) {
        if self.line.is_due() {
            self.line.show(&line(self.before, (elapsed, made)));
            self.before = (elapsed, made);
        }
    }

    /// Says how far it is, with the rates since the start.
    pub(super) fn print(&mut self, elapsed: Duration, made: FrameTotals) {
        self.clear();
        note!("{}", line((Duration::ZERO, FrameTotals::default()), (elapsed, made)));
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }
}

fn line((last, before): (Duration, FrameTotals), (elapsed, made): (Duration, FrameTotals)) -> String {
    let seconds = elapsed.saturating_sub(last).as_secs_f64().max(1e-3);
    let since = FrameTotals { frames: made.frames - before.frames, bytes: made.bytes - before.bytes };
    format!(
        "{:.1} s  {} frames  {}  {:.1} Mbit/s",
        elapsed.as_secs_f64(),
        made.frames,
        rate(since.frames as f64 / seconds),
        bits_with_fcs(since) as f64 / seconds / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_rates_since_the_last_one() {
        let before = (Duration::from_millis(1_500), FrameTotals { frames: 1_000, bytes: 60_000 });
        let now = (Duration::from_secs(2), FrameTotals { frames: 501_000, bytes: 30_060_000 });
        assert_eq!(line(before, now), "2.0 s  501000 frames  1.00 Mpps  512.0 Mbit/s");
    }
}
