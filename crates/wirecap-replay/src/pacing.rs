//! How evenly packets were sent: the gaps between departures compared with the planned ones.
//!
//! Rule: a departure is the call that gives the packet to the kernel. Delays of the kernel, the NIC and the
//! wire are not included; a capture at the other end shows them.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Largest recorded error, in nanoseconds: a minute.
const MAX_NS: u64 = 60_000_000_000;
/// Significant decimal digits.
const DIGITS: u8 = 3;

/// Quantiles of times, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// Half of the values are at most this.
    pub p50: u64,
    /// 99 % of the values are at most this.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
}

/// How evenly packets were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacingReport {
    /// Measured gaps: one less than packets.
    pub gaps: u64,
    /// By how much gaps between departures were too long or too short.
    pub gap_error_ns: Quantiles,
    /// How long after their due times packets departed.
    pub late_ns: Quantiles,
}

/// Measures departures.
#[derive(Debug)]
pub(crate) struct Pacing {
    error: Histogram<u64>,
    late: Histogram<u64>,
    /// Due time and departure of the last packet.
    last: Option<(u64, u64)>,
}

impl Pacing {
    pub(crate) fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, MAX_NS, DIGITS).expect("valid bounds");
        Self { error: histogram(), late: histogram(), last: None }
    }

    /// Notes a departure, in their order. Both times are in nanoseconds since the start.
    pub(crate) fn departed(&mut self, due_ns: u64, departed_ns: u64) {
        self.late.saturating_record(departed_ns.saturating_sub(due_ns));
        if let Some((last_due, last_departed)) = self.last {
            let (wanted, was) = (due_ns.saturating_sub(last_due), departed_ns.saturating_sub(last_departed));
            self.error.saturating_record(wanted.abs_diff(was));
        }
        self.last = Some((due_ns, departed_ns));
    }

    pub(crate) fn report(&self) -> PacingReport {
        PacingReport {
            gaps: self.error.len(),
            gap_error_ns: quantiles(&self.error),
            late_ns: quantiles(&self.late),
        }
    }
}

fn quantiles(values: &Histogram<u64>) -> Quantiles {
    Quantiles { p50: values.value_at_quantile(0.5), p99: values.value_at_quantile(0.99), max: values.max() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_measured_on_gaps_not_on_times() {
        let mut pacing = Pacing::new();
        // All are 500 ns late, except one that is 800 ns late.
        for (due, departed) in [(0, 500), (1_000, 1_500), (2_000, 2_800), (3_000, 3_500), (3_000, 3_500)] {
            pacing.departed(due, departed);
        }
        let report = pacing.report();
        assert_eq!((report.gaps, report.late_ns.max, report.late_ns.p50), (4, 800, 500));
        assert_eq!((report.gap_error_ns.p50, report.gap_error_ns.max), (0, 300));
    }

    #[test]
    fn without_gaps_nothing_is_measured() {
        assert_eq!(Pacing::new().report(), PacingReport::default());
        let mut pacing = Pacing::new();
        pacing.departed(0, u64::MAX);
        assert_eq!((pacing.report().gaps, pacing.report().gap_error_ns), (0, Quantiles::default()));
    }
}
