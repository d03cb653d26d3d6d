//! How long packets are on their way through, in nanoseconds.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest time that is told apart: 60 s.
const LONGEST_NS: u64 = 60_000_000_000;
/// Figures of which each value is exact: within 1 %.
const FIGURES: u8 = 2;

/// Times from the packets' timestamps to when the kernel was told to send them.
#[derive(Debug)]
pub(super) struct Latency(Histogram<u64>);

/// What is said of them, in nanoseconds. Each is exact to 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Percentiles {
    /// Half of the packets took no longer.
    pub(super) p50_ns: u64,
    /// 99 % took no longer.
    pub(super) p99_ns: u64,
    /// 99.9 % took no longer.
    pub(super) p999_ns: u64,
    /// The longest.
    pub(super) max_ns: u64,
}

impl Latency {
    pub(super) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, FIGURES).expect("bounds and figures that can be had"))
    }

    /// Notes `packets` that took as long. One that came later than now took no time: clocks are set.
    pub(super) fn note(&mut self, came_ns: u64, now_ns: u64, packets: u64) {
        self.0.saturating_record_n(now_ns.saturating_sub(came_ns).max(1), packets);
    }

    /// Adds another's.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// `None` before the first packet.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let at = |quantile| self.0.value_at_quantile(quantile);
        (!self.0.is_empty()).then(|| Percentiles {
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.0.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_that_was_noted() {
        let mut latency = Latency::new();
        assert_eq!(latency.percentiles(), None);
        latency.note(1_000, 11_000, 989);
        latency.note(1_000, 1_001_000, 10);
        let mut other = Latency::new();
        // A clock was set back; and one is beyond all bounds.
        other.note(5_000, 4_000, 1);
        other.note(0, u64::MAX, 1);
        latency.add(&other);
        let Percentiles { p50_ns, p99_ns, p999_ns, max_ns } = latency.percentiles().unwrap();
        let near = |value: u64, expected: u64| value.abs_diff(expected) <= expected / 100;
        assert!(
            near(p50_ns, 10_000) && near(p99_ns, 1_000_000) && near(p999_ns, 1_000_000),
            "{p50_ns} {p99_ns}"
        );
        assert!(near(max_ns, LONGEST_NS), "{max_ns}");
    }
}
