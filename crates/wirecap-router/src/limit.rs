//! How many ICMP errors may be sent: a number each second, and some more at once; and to each source some of
//! these, so that one does not use them all up.
//!
//! Rule: errors about packets that are too long are limited for each source only, as in the kernel
//! (`icmpv4_mask_allow`, `icmpv6_mask_allow`). A connection whose path MTU is not found stalls.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::{IcmpProblem, shares::Shares, source::Source};

/// ICMP errors a second, all workers together, as the kernel's `icmp_msgs_per_sec`.
const ERRORS_PER_SECOND: u64 = 1000;
/// ICMP errors at once after a while without any, as the kernel's `icmp_msgs_burst`.
const BURST: u64 = 50;

/// Errors that all workers together may send to one source in a period; each worker one at least.
const ERRORS_PER_PERIOD: usize = 10;
const PERIOD: Duration = Duration::from_millis(100);

const INTERVAL_NS: u64 = 1_000_000_000 / ERRORS_PER_SECOND;

/// What each source may have of one worker's errors.
#[derive(Debug)]
pub(crate) struct ErrorShares {
    about_too_long: Shares,
    /// Of the errors that [`Limit`] allows.
    about_others: Shares,
}

impl ErrorShares {
    /// Those of one of this number of workers.
    pub(crate) fn new(workers: usize) -> Self {
        let share = (ERRORS_PER_PERIOD / workers.max(1)).max(1) as u8;
        let shares = || Shares::new(PERIOD, share);
        Self { about_too_long: shares(), about_others: shares() }
    }

    /// Whether one more error may be sent to a source.
    pub(crate) fn allows(
        &mut self,
        problem: IcmpProblem,
        source: Source,
        limit: &Limit,
        now: Instant,
    ) -> bool {
        match problem {
            IcmpProblem::TooLong { .. } => self.about_too_long.take(source, now),
            // The share is looked at first: a source that has used it up takes no token. It is charged last:
            // if there is no token, the source keeps it.
            _ => {
                let others = &mut self.about_others;
                others.is_left(source, now) && limit.allows(now) && others.take(source, now)
            }
        }
    }
}

/// A bucket of tokens, kept as the time at which it is full again. All workers have the same.
#[derive(Debug)]
pub(crate) struct Limit {
    begun: Instant,
    /// When all that was taken has flowed back, in nanoseconds since `begun`. Written by all workers; pairs
    /// with nothing, since it guards no other memory.
    full_ns: AtomicU64,
}

impl Limit {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, full_ns: AtomicU64::new(0) }
    }

    /// Takes a token, if there is one at this time.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        let now_ns = now.saturating_duration_since(self.begun).as_nanos() as u64;
        let take = |full_ns: u64| {
            let full_ns = full_ns.max(now_ns);
            (full_ns - now_ns <= (BURST - 1) * INTERVAL_NS).then_some(full_ns + INTERVAL_NS)
        };
        self.full_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn taken(limit: &Limit, now_ms: u64, tries: u64) -> u64 {
        (0..tries).filter(|_| limit.allows(limit.begun + Duration::from_millis(now_ms))).count() as u64
    }

    #[test]
    fn a_burst_and_then_a_steady_rate_is_allowed() {
        let limit = Limit::new(Instant::now());
        assert_eq!(taken(&limit, 0, 1000), BURST);
        assert_eq!(taken(&limit, 0, 1), 0);
        assert_eq!(taken(&limit, 1, 10), 1);
        assert_eq!(taken(&limit, 11, 100), 10);
        // Unused errors add up to one burst at most, however long the pause.
        assert_eq!(taken(&limit, 31, 1000), 20);
        assert_eq!(taken(&limit, 86_400_000, 1000), BURST);
        // During one second of a flood.
        let in_a_second: u64 = (1..=1000).map(|ms| taken(&limit, 86_400_000 + ms, 1000)).sum();
        assert_eq!(in_a_second, ERRORS_PER_SECOND);
        // A worker with an older time takes nothing in advance.
        assert_eq!(taken(&limit, 86_400_000, 1000), 0);
    }
}
