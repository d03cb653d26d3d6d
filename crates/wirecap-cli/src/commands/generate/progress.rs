//! The line that shows how far generating is.

use std::time::Duration;

use wirecap_traffic::FrameTotals;

use super::report::bits_with_fcs;
use crate::{
    print::status_line::{Rates, Snapshot},
    text::{plural::counted, units::rate},
};

/// What was made after `elapsed`.
pub(super) fn snapshot(elapsed: Duration, totals: FrameTotals) -> Snapshot {
    Snapshot { seconds: elapsed.as_secs_f64(), packets: totals.frames, bits: bits_with_fcs(totals) }
}

/// The fields of the line, with rates since another snapshot.
pub(super) fn fields(now: Snapshot, Rates { pps, mbps }: Rates) -> Vec<String> {
    vec![
        format!("{:.1} s", now.seconds),
        counted(now.packets, "frame"),
        rate(pps),
        format!("{mbps:.1} Mbit/s"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::layout::fitted;

    #[test]
    fn the_line_has_the_rates_since_the_last_one() {
        let at = |ms, frames| snapshot(Duration::from_millis(ms), FrameTotals { frames, bytes: 60 * frames });
        let (mut before, now) = (at(1_500, 1_000), at(2_000, 501_000));
        let fields = fields(now, before.advance(now));
        assert_eq!(fitted(&fields, 79), "2.0 s  501000 frames  1.00 Mpps  512.0 Mbit/s");
        assert_eq!(fitted(&fields, 39), "2.0 s  501000 frames  1.00 Mpps");
        let long = at(123_456_700, 123_456_789_012_345);
        let fields = super::fields(long, Rates { pps: 1e3, mbps: 123_456.7 });
        let start = "123456.7 s  123456789012345 frames";
        assert_eq!(fitted(&fields, 79), format!("{start}  1.00 kpps  123456.7 Mbit/s"));
        assert_eq!(fitted(&fields, 39), start);
    }
}
