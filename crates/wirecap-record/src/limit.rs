//! How many packets may still be written.

use std::sync::atomic::{AtomicU64, Ordering};

/// Packets that may still be written, to one output or to several together. It guards no other memory, so all
/// accesses are relaxed.
#[derive(Debug)]
pub(crate) struct Limit(AtomicU64);

impl Limit {
    pub(crate) fn new(packets: u64) -> Self {
        Self(packets.into())
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Takes the right to write up to this many packets. Returns how many, and whether they are the last.
    pub(crate) fn take(&self, packets: u64) -> (u64, bool) {
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.0.fetch_update(set, read, |left| Some(left.saturating_sub(packets)));
        let before = before.expect("always a next value");
        (packets.min(before), before > 0 && packets >= before)
    }

    /// Gives back the right to packets that were not written.
    pub(crate) fn give_back(&self, packets: u64) {
        self.0.fetch_add(packets, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_shared_exactly_and_reached_once() {
        let limit = Limit::new(10);
        assert_eq!(limit.take(4), (4, false));
        assert_eq!(limit.take(4), (4, false));
        limit.give_back(1);
        assert_eq!(limit.take(7), (3, true));
        assert!(limit.is_reached());
        assert_eq!((limit.take(5), limit.take(0)), ((0, false), (0, false)));
    }
}
