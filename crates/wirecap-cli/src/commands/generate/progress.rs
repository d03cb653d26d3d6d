//! The line on the terminal that says how it goes.

use std::time::Duration;

use wirecap_traffic::FrameTotals;

use super::{plan::Plan, report::bits_with_fcs};
use crate::{print::status_line::StatusLine, text::units::rate};

/// How generating goes.
pub(super) struct Progress {
    line: StatusLine,
    /// When the line was written last.
    before: Snapshot,
}

/// What was made at some time since the start.
type Snapshot = (Duration, FrameTotals);

impl Progress {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            line: StatusLine::new(plan.flags.send.quiet, plan.flags.send.json),
            before: Snapshot::default(),
        }
    }

    /// Writes the line, if it is time.
    pub(super) fn show(&mut self, elapsed: Duration, totals: FrameTotals) {
        if self.line.is_due() {
            let now = (elapsed, totals);
            self.line.show(&line(self.before, now));
            self.before = now;
        }
    }

    /// Says how far it is, with the rates since the start.
    pub(super) fn print(&mut self, elapsed: Duration, totals: FrameTotals) {
        self.clear();
        note!("{}", line(Snapshot::default(), (elapsed, totals)));
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }
}

fn line(before: Snapshot, now: Snapshot) -> String {
    let seconds = now.0.saturating_sub(before.0).as_secs_f64().max(1e-3);
    let since = FrameTotals { frames: now.1.frames - before.1.frames, bytes: now.1.bytes - before.1.bytes };
    format!(
        "{:.1} s  {} frames  {}  {:.1} Mbit/s",
        now.0.as_secs_f64(),
        now.1.frames,
        rate(since.frames as f64 / seconds),
        bits_with_fcs(since) as f64 / seconds / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_rates_since_the_last_one() {
        let at = |ms, frames| (Duration::from_millis(ms), FrameTotals { frames, bytes: 60 * frames });
        let (before, now) = (at(1_500, 1_000), at(2_000, 501_000));
        assert_eq!(line(before, now), "2.0 s  501000 frames  1.00 Mpps  512.0 Mbit/s");
    }
}
