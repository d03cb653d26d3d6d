//! Spreads packets that are late, so that they do not leave in one burst.
//!
//! ```text
//!   due        │   │   │   │   │   │   │   │   │   │
//!   departs    │   │   │ stall  │  │  │  │  │  │   │      gaps are 4/5 of the planned ones until it has caught up
//! ```
//!
//! Rule: after a delay, a packet departs no sooner after the one before it than four fifths of the gap
//! between them, or less the later it is; later than [`MAX_LATE_NS`], it departs at once. So a stall
//! lengthens one gap by its duration and shortens the following ones by a fifth or somewhat more, while the
//! rate over the whole run holds.

/// Packets that are later than this, in nanoseconds, depart at once.
const MAX_LATE_NS: u64 = 10_000_000;
/// A shorter delay, in nanoseconds, comes from reading the clock and from the call for one packet, and is
/// made up for at once.
const DELAY_NS: u64 = 5_000;
/// The same for packets so dense that one call sends several.
const DENSE_DELAY_NS: u64 = 50_000;
/// Packets are dense if they are closer than this, in nanoseconds.
const DENSE_NS: u64 = 10_000;

/// Decides when packets may depart, from when they are due and when those before them departed.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    last_due_ns: u64,
    /// The planned departure of the last packet; the real one if that was much later.
    last_ns: u64,
}

impl CatchUp {
    /// The earliest departure of the next packet, due at `due_ns`. Never before it is due.
    #[inline]
    pub(crate) fn not_before(&self, due_ns: u64) -> u64 {
        let gap = due_ns.saturating_sub(self.last_due_ns);
        due_ns.max(self.last_ns.saturating_add(self.kept(gap)))
    }

    /// The part of a gap that is kept.
    #[inline]
    fn kept(&self, gap_ns: u64) -> u64 {
        let late_ns = self.last_ns.saturating_sub(self.last_due_ns);
        let full = gap_ns - gap_ns / 5;
        match MAX_LATE_NS.checked_sub(late_ns) {
            Some(MAX_LATE_NS) => full,
            Some(left_ns) => (u128::from(full) * u128::from(left_ns) / u128::from(MAX_LATE_NS)) as u64,
            None => 0,
        }
    }

    /// Notes that the next packet departs now.
    #[inline]
    pub(crate) fn departs(&mut self, due_ns: u64, now_ns: u64) {
        let wanted_ns = self.not_before(due_ns);
        let is_dense = due_ns.saturating_sub(self.last_due_ns) < DENSE_NS;
        let delay_ns = if is_dense { DENSE_DELAY_NS } else { DELAY_NS };
        self.last_ns = if now_ns.saturating_sub(wanted_ns) > delay_ns { now_ns } else { wanted_ns };
        self.last_due_ns = due_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Departures of packets that are due every `gap_ns`, with the clock read every 100 ns except during a
    /// stall.
    fn departures(gap_ns: u64, packets: u64, stall: std::ops::Range<u64>) -> Vec<u64> {
        let (mut catch_up, mut now) = (CatchUp::default(), 0);
        let departures = (0..packets).map(|number| {
            let due = number * gap_ns;
            while now < catch_up.not_before(due) || stall.contains(&now) {
                now += 100;
            }
            catch_up.departs(due, now);
            now
        });
        departures.collect()
    }

    #[test]
    fn a_stall_lengthens_one_gap_and_shortens_those_after_it() {
        let departures = departures(100_000, 200, 1_000_000..2_000_000);
        let gaps: Vec<_> = departures.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (stalled, others): (Vec<u64>, Vec<u64>) = gaps.iter().partition(|&&gap| gap > 100_000);
        assert_eq!(stalled, [1_100_000]);
        assert!(others.iter().all(|gap| (72_000..=100_000).contains(gap)), "{others:?}");
        assert!(
            others.windows(2).skip(10).all(|pair| pair[0] <= pair[1] + 100),
            "shortened less and less: {others:?}"
        );
        assert_eq!(departures[80], 80 * 100_000, "caught up");
    }

    #[test]
    fn very_late_packets_depart_at_once() {
        let departures = departures(100_000, 2_000, 1_000_000..101_000_000);
        let at_once = departures.iter().filter(|&&departed| departed == 101_000_000).count();
        // A thousand packets fell due during the stall; the last ones are spaced out.
        assert!((900..=910).contains(&at_once), "{at_once}");
        assert_eq!(departures[1_999], 1_999 * 100_000, "caught up");
    }

    #[test]
    fn nothing_departs_early_and_small_delays_do_not_add_up() {
        let departures = departures(1_050, 10_000, 0..0);
        for (number, departed) in departures.iter().enumerate() {
            let late = departed - number as u64 * 1_050;
            assert!(late < 100, "packet {number} is late by {late}");
        }
    }
}
