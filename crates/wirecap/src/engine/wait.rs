//! Waiting for packets.
//!
//! | strategy | while nothing comes | what it costs |
//! |---|---|---|
//! | busy | asks again at once | a core |
//! | sleep | sleeps 50 µs, then longer, up to a bound | latency up to the bound; little CPU |
//! | block | sleeps in the kernel until it is woken | on veth, the sender's core pays for the wake-up |
//!
//! Rule of the bound: a sleep must be short enough that a quarter of the cells the kernel has lasts for it
//! at the line rate of 10 Gigabit Ethernet.

use std::{hint, os::fd::OwnedFd, thread, time::Duration};

use wirecap_sys::xsk::PollSet;

/// 64-byte frames per second on 10 Gigabit Ethernet.
const LINE_RATE_PPS: f64 = 14_880_952.0;
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
/// How long to block before looking again, for what no wake-up announces: the end of the capture,
/// and buddies in need.
const BLOCK: Duration = Duration::from_millis(10);

/// How workers and capture threads wait for packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// Ask again at once. Costs a core per thread.
    Busy,
    /// Sleep, up to a bound that follows from the size of the pool. Frugal; the default.
    #[default]
    Sleep,
    /// Sleep in the kernel until a packet comes (`poll(2)`).
    Block,
}

/// The longest sleep that is safe when the kernel has this many cells.
pub(crate) fn longest_sleep(ring_cells: u32) -> Duration {
    let quarter = f64::from(ring_cells) / 4.0;
    Duration::from_secs_f64(quarter / LINE_RATE_PPS).clamp(Duration::from_micros(5), LONGEST_SLEEP)
}

/// The state of one waiting thread.
#[derive(Debug)]
pub(crate) struct Waiter {
    wait: Wait,
    longest: Duration,
    next: Duration,
    wakers: PollSet,
    /// The last wake-up came early, and nothing was there: a link that is down, or a block that somebody holds, makes
    /// a socket readable for ever.
    in_vain: bool,
}

impl Waiter {
    /// A waiter that blocks, if that is the strategy, until one of `wakers` is readable.
    pub(crate) fn new(wait: Wait, ring_cells: u32, wakers: Vec<OwnedFd>) -> Self {
        let longest = longest_sleep(ring_cells);
        Self {
            wait,
            longest,
            next: SHORTEST_SLEEP.min(longest),
            wakers: PollSet::new(wakers),
            in_vain: false,
        }
    }

    /// There were packets: the next wait is short again.
    pub(crate) fn reset(&mut self) {
        self.next = SHORTEST_SLEEP.min(self.longest);
        self.in_vain = false;
    }

    /// Waits once, at most `limit`. `doze` is how to block where there is no waker.
    pub(crate) fn pause(&mut self, limit: Duration, doze: impl FnOnce(Duration)) {
        match self.wait {
            Wait::Busy => hint::spin_loop(),
            Wait::Sleep => self.sleep(limit),
            Wait::Block if self.wakers.is_empty() => doze(BLOCK.min(limit)),
            Wait::Block if self.in_vain => self.sleep(limit),
            Wait::Block => self.in_vain = self.wakers.wait(BLOCK.min(limit)),
        }
    }

    fn sleep(&mut self, limit: Duration) {
        thread::sleep(self.next.min(limit));
        self.next = (self.next * 2).min(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_pool_is_looked_after_more_often() {
        let sleep = |chunks: u32| longest_sleep(256 * chunks);
        assert_eq!(sleep(500), LONGEST_SLEEP);
        assert!(sleep(4) < Duration::from_micros(20));
        assert!(sleep(1) >= Duration::from_micros(4));
    }
}
