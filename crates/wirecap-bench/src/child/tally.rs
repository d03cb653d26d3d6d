//! The counts of one worker, and their times.
//!
//! Rule: a run starts with the first packet and ends with the last one; it excludes waiting before and after.

use std::time::{Duration, Instant};

use wirecap_testing::cpu_time::process_cpu_seconds;

/// The figures of one worker.
#[derive(Debug, Default)]
pub struct Tally {
    /// Packets that it took.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The longest delay of a wake-up, caused by the machine.
    pub latest_wake: Duration,
    span: Option<Span>,
}

/// The time from the first packet to the last one.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: Instant,
    last: Instant,
    /// CPU time of the process at both ends.
    cpu_first: f64,
    cpu_last: f64,
    /// INVARIANT: `cpu_last` belongs to the current `last`.
    sampled: bool,
}

impl Tally {
    /// Notes that the worker got a batch at `now`.
    pub fn begin(&mut self, now: Instant) {
        self.span.get_or_insert_with(|| {
            let cpu = process_cpu_seconds();
            Span { first: now, last: now, cpu_first: cpu, cpu_last: cpu, sampled: true }
        });
    }

    /// Notes that the worker finished the batch at `now`.
    pub fn add(&mut self, packets: usize, bytes: u64, now: Instant) {
        self.packets += packets as u64;
        self.bytes += bytes;
        if let Some(span) = &mut self.span {
            (span.last, span.sampled) = (now, false);
        }
    }

    /// Notes a pause. Reading the CPU time is a system call, so it happens once per pause, not per batch.
    pub fn pause(&mut self) {
        if let Some(span) = self.span.as_mut().filter(|span| !span.sampled) {
            (span.cpu_last, span.sampled) = (process_cpu_seconds(), true);
        }
    }

    /// The sum over all workers.
    pub fn merge(tallies: impl IntoIterator<Item = Tally>) -> Tally {
        tallies.into_iter().fold(Tally::default(), |mut sum, mut tally| {
            tally.pause();
            sum.packets += tally.packets;
            sum.bytes += tally.bytes;
            sum.latest_wake = sum.latest_wake.max(tally.latest_wake);
            sum.span = match (sum.span, tally.span) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            sum
        })
    }

    /// From the first packet to the last, in seconds.
    pub fn seconds(&self) -> f64 {
        self.span.map_or(0.0, |span| span.last.duration_since(span.first).as_secs_f64())
    }

    /// CPU time of the process in that span, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.span.map_or(0.0, |span| span.cpu_last - span.cpu_first)
    }
}

impl Span {
    fn union(self, other: Self) -> Self {
        let (begin, end) = (
            if self.first <= other.first { self } else { other },
            if self.last >= other.last { self } else { other },
        );
        Self { first: begin.first, cpu_first: begin.cpu_first, ..end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_sums_counts_and_joins_spans() {
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        let worker = |first, last, packets| {
            let mut tally = Tally::default();
            tally.begin(ms(first));
            tally.add(packets, 60 * packets as u64, ms(last));
            tally
        };
        let sum = Tally::merge([worker(10, 40, 5), Tally::default(), worker(20, 110, 7)]);
        assert_eq!((sum.packets, sum.bytes), (12, 720));
        assert_eq!(sum.seconds(), 0.1);
        assert!(sum.cpu_seconds() >= 0.0);
        assert_eq!(Tally::merge([]).seconds(), 0.0);
    }
}
