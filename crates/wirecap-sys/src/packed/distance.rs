//! How far the cache of the program's CPU is from that of the thread that receives.
//!
//! ```text
//!   program ── its position, for each packet ──► cache of its CPU ── the line ──► cache of the receiver's
//!                                                                └── takes 30 to 80 ns if both share a cache,
//!                                                                    150 to 300 ns if they do not
//! ```
//!
//! Why: if both share a cache, blocks that were filled recently are best filled again, for their lines are in
//! that cache. If they do not, some of these lines are still in the cache of the reader, and the program
//! waits longer for one of them than for one in memory. The topology that the kernel shows does not tell: a
//! hypervisor moves virtual CPUs, and a thread that is not bound to a CPU moves, too.

use std::time::Instant;

/// A load that takes less was of a line that this thread had already.
const HIT_NS: i64 = 15;
/// A load that takes longer was of a line in a cache that the CPUs do not share.
const FAR_NS: i64 = 120;
/// Loads that have a vote.
const VOTES: u8 = 16;

/// Judged by the last loads: interrupts make some of them long.
#[derive(Debug, Default)]
pub(super) struct Distance {
    /// Long loads less short ones, from 0 to [`VOTES`].
    votes: u8,
    is_far: bool,
}

impl Distance {
    /// Measures a load of what the program stores for each packet. Returns what was loaded.
    pub(super) fn measure<T>(&mut self, load: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let loaded = load();
        let end = Instant::now();
        // What a clock itself takes.
        let clock = end.elapsed();
        self.note((end - start).as_nanos() as i64 - clock.as_nanos() as i64);
        loaded
    }

    /// Notes how long a load took, in nanoseconds.
    fn note(&mut self, took_ns: i64) {
        match took_ns {
            ..HIT_NS => return,
            HIT_NS..FAR_NS => self.votes = self.votes.saturating_sub(1),
            FAR_NS.. => self.votes = (self.votes + 1).min(VOTES),
        }
        if self.votes == 0 || self.votes == VOTES {
            self.is_far = self.votes == VOTES;
        }
    }

    /// Whether the CPUs do not share a cache, as far as is known.
    pub(super) fn is_far(&self) -> bool {
        self.is_far
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(distance: &mut Distance, loads: &[i64]) -> bool {
        loads.iter().for_each(|&took_ns| distance.note(took_ns));
        distance.is_far()
    }

    #[test]
    fn many_loads_agree_before_the_judgement_changes() {
        let mut distance = Distance::default();
        assert!(!after(&mut distance, &[250; 15]));
        assert!(after(&mut distance, &[250]));
        assert!(after(&mut distance, &[40; 15]), "the thread was moved");
        assert!(!after(&mut distance, &[40]));
    }

    #[test]
    fn hits_and_interrupts_change_nothing() {
        let mut distance = Distance::default();
        for _ in 0..100 {
            assert!(!after(&mut distance, &[40, 60, 20_000, -3, 0, 14]));
        }
        after(&mut distance, &[250; 16]);
        for _ in 0..100 {
            assert!(after(&mut distance, &[14, 250, 300, 0, 60, -5]));
        }
    }

    #[test]
    fn what_this_thread_has_loaded_is_not_far() {
        let mut distance = Distance::default();
        let value = 7;
        for _ in 0..1000 {
            assert_eq!(distance.measure(|| std::hint::black_box(value)), 7);
        }
        assert!(!distance.is_far());
    }
}
