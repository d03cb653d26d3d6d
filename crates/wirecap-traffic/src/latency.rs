//! Latencies of packets, in nanoseconds.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest recorded time, 100 s: longer ones count as that.
const MAX_NS: u64 = 100_000_000_000;
/// Significant figures of each time: exact to 1 %.
const FIGURES: u8 = 2;

/// A histogram of times, in constant memory.
///
/// ```
/// use wirecap_traffic::Latency;
///
/// let mut latency = Latency::default();
/// latency.note(2_000, 3);
/// assert!(latency.percentiles().is_some_and(|latency| latency.p50_ns.abs_diff(2_000) <= 20));
/// ```
#[derive(Debug)]
pub struct Latency(Histogram<u64>);

/// Percentiles of a histogram, in nanoseconds, exact to 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// The shortest time.
    pub min_ns: u64,
    /// Half of the packets took no longer.
    pub p50_ns: u64,
    /// 99 % took no longer.
    pub p99_ns: u64,
    /// 99.9 % took no longer.
    pub p999_ns: u64,
    /// The longest time.
    pub max_ns: u64,
}

impl Default for Latency {
    /// A histogram without times.
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_NS, FIGURES).expect("valid bounds and figures"))
    }
}

impl Latency {
    /// Notes `packets` that took `time_ns`. 0 counts as 1 ns.
    #[inline]
    pub fn note(&mut self, time_ns: u64, packets: u64) {
        self.0.saturating_record_n(time_ns.max(1), packets);
    }

    /// Adds the times of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// `None` before the first packet.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let at = |quantile| self.0.value_at_quantile(quantile);
        (!self.0.is_empty()).then(|| Percentiles {
            min_ns: self.0.min(),
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
    fn percentiles_cover_all_noted_latencies() {
        let mut latency = Latency::default();
        assert_eq!(latency.percentiles(), None);
        latency.note(10_000, 989);
        latency.note(1_000_000, 10);
        let mut other = Latency::default();
        // A latency of zero, and one above the maximum.
        other.note(0, 1);
        other.note(u64::MAX, 1);
        latency.add(&other);
        let Percentiles { min_ns, p50_ns, p99_ns, p999_ns, max_ns } = latency.percentiles().unwrap();
        let near = |value: u64, expected: u64| value.abs_diff(expected) <= expected / 100;
        assert!(
            near(p50_ns, 10_000) && near(p99_ns, 1_000_000) && near(p999_ns, 1_000_000),
            "{p50_ns} {p99_ns}"
        );
        assert!(min_ns == 1 && near(max_ns, MAX_NS), "{min_ns} {max_ns}");
    }
}
