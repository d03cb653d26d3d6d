//! How far the cache of the program's CPU is from that of the thread that receives.
//!
//! ```text
//!   program ── its position, for each packet ──► cache of its CPU ── the line ──► cache of the receiver's
//!                                                                └── takes 20 to 60 ns if both share a cache,
//!                                                                    100 ns and more if they do not
//! ```
//!
//! Why: if both share a cache, blocks that were filled recently are best filled again, because their lines
//! are in that cache. If they do not, some of these lines are still in the cache of the reader, and the
//! program waits longer for one of them than for one in memory. The topology that the kernel reports cannot
//! be relied on: a hypervisor moves virtual CPUs, and a thread that is not bound to a CPU moves, too.
//!
//! The thread that receives is measured, also where other threads read the packets. A machine whose clock is
//! slow or coarse is taken for one whose caches are shared.

use std::time::{Duration, Instant};

use super::entry::StreamEntry;

/// A load that takes longer was of a line in a cache that the CPUs do not share.
const FAR_NS: i64 = 80;
/// A load that takes longer was interrupted.
const LONGEST_NS: i64 = 1_000;
/// A clock that takes longer is a call of the kernel, and says nothing about a load.
const SLOW_CLOCK: Duration = Duration::from_nanos(100);
/// How much a long load counts against a short one. Even with the CPUs far apart, at most half of the loads
/// are long: before the others, another look has just fetched the line.
const LONG: u8 = 4;
/// The judgement changes once the loads of one kind outweigh those of the other by this much.
const MARGIN: u8 = 64;

/// Judged by many loads: interrupts and the first access to a page make some of them long.
#[derive(Debug, Default)]
pub(super) struct Distance {
    /// What was loaded last.
    position: u64,
    /// Long loads less short ones, by their weight, from 0 to [`MARGIN`].
    weight: u8,
    is_far: bool,
}

impl Distance {
    /// Loads the program's position, and measures how long that takes.
    pub(super) fn measure(&mut self, entry: &StreamEntry) -> u64 {
        // Fills the TLB, so that the page walk is not timed.
        entry.touch();
        let start = Instant::now();
        let position = entry.position();
        let end = Instant::now();
        let clock = end.elapsed();
        // A line that the program has not written since is in the cache of this CPU.
        if std::mem::replace(&mut self.position, position) != position && clock < SLOW_CLOCK {
            self.note((end - start).as_nanos() as i64 - clock.as_nanos() as i64);
        }
        position
    }

    /// Notes how long a load of what the program has changed took, in nanoseconds.
    fn note(&mut self, took_ns: i64) {
        match took_ns {
            ..FAR_NS => self.weight = self.weight.saturating_sub(1),
            FAR_NS..LONGEST_NS => self.weight = (self.weight + LONG).min(MARGIN),
            LONGEST_NS.. => {}
        }
        if self.weight == 0 || self.weight == MARGIN {
            self.is_far = self.weight == MARGIN;
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
        assert!(!after(&mut distance, &[110; 15]));
        assert!(after(&mut distance, &[110]));
        assert!(after(&mut distance, &[40; 63]), "the thread was moved");
        assert!(!after(&mut distance, &[-3]), "to the program's own CPU");
    }

    /// As measured on an AMD EPYC whose virtual CPUs were far apart, and close.
    #[test]
    fn a_third_of_long_loads_is_far_and_one_of_a_hundred_is_close() {
        let mut distance = Distance::default();
        (0..100).for_each(|_| _ = after(&mut distance, &[-10, 10, 110]));
        assert!(distance.is_far());
        (0..10).for_each(|_| _ = after(&mut distance, &[&[-10, 10, 30][..].repeat(33), &[110][..]].concat()));
        assert!(!distance.is_far());
    }

    #[test]
    fn some_long_loads_and_interrupts_change_nothing() {
        let mut distance = Distance::default();
        for _ in 0..100 {
            assert!(!after(&mut distance, &[40, 10, 250, 60, 20_000, 3, -5]));
        }
        after(&mut distance, &[250; 16]);
        for _ in 0..100 {
            assert!(after(&mut distance, &[250, 60, 1_000]));
        }
    }
}
