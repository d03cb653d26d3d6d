//! From stamps of another clock to UTC.
//!
//! ```text
//!   stamp ── + shift ──► TAI ── leap seconds ──► UTC
//!              ▲
//!              └── how far the clock is from the system clock: looked at again every 100 ms
//! ```
//!
//! A stamp is older than the look: the packet has waited. So it is brought to TAI, which has no leap seconds, and from there to
//! UTC by the table: a packet of before a leap second keeps the offset of before it. Should the shift itself change (somebody
//! tells the kernel its TAI offset, 37 s, while packets wait), both shifts are tried for a while, and the one that makes the
//! packet come nearer to the present is right.

use std::{cmp::Reverse, sync::Arc};

use super::{
    ClockError, ClockSource, LOOK_INTERVAL_NS, LeapSeconds, NS_PER_S,
    leap::Stretch,
    reading::{Distance, PtpClock},
};

/// A clock that is so near to UTC or to TAI is meant to be it.
const NEAR_NS: u64 = 100_000_000;
/// A shift that changes by less is the same: two readings differ as well.
const SAME_NS: u64 = 10_000;
/// How long packets stamped before a change of the shift may be on their way.
const CHANGE_NS: u64 = 10 * NS_PER_S;
/// A stamp that is so far ahead of the present is wrong: the system clock is slewed, and readings differ.
const AHEAD_NS: u64 = 5_000_000;

/// What a clock shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// TAI, perhaps by a wrong number of seconds.
    WholeSeconds,
    /// TAI as it should be.
    Tai,
    Utc,
    /// Time since some moment.
    Other,
}

/// Brings stamps of one clock to UTC.
#[derive(Debug, Clone)]
pub struct StampClock {
    source: ClockSource,
    scale: Scale,
    leaps: Arc<LeapSeconds>,
    /// What makes TAI of a stamp, in nanoseconds.
    shift_ns: i64,
    /// The shift before, and until when it may still matter, by the system clock.
    earlier: Option<(i64, u64)>,
    /// Stamps in this range take the short way, and what is added to them.
    short: std::ops::Range<u64>,
    add_ns: i64,
    /// When to look again, by the system clock.
    next_look_ns: u64,
    /// At the start.
    first: Distance,
}

impl StampClock {
    /// Looks at a clock for the first time.
    ///
    /// # Errors
    /// [`ClockError::Read`].
    pub fn new(source: ClockSource, leaps: Arc<LeapSeconds>) -> Result<Self, ClockError> {
        let first = source.distance()?;
        Ok(Self::at(source, leaps, first))
    }

    fn at(source: ClockSource, leaps: Arc<LeapSeconds>, first: Distance) -> Self {
        let behind_ns = (leaps.behind_s(first.at_ns / NS_PER_S) * NS_PER_S) as i64;
        let scale = match source {
            ClockSource::Tai => Scale::WholeSeconds,
            ClockSource::Monotonic => Scale::Other,
            ClockSource::Ptp(_) if first.ahead_ns.abs_diff(behind_ns) < NEAR_NS => Scale::Tai,
            ClockSource::Ptp(_) if first.ahead_ns.unsigned_abs() < NEAR_NS => Scale::Utc,
            ClockSource::Ptp(_) => Scale::Other,
        };
        let (short, next_look_ns) = (0..0, first.at_ns + LOOK_INTERVAL_NS);
        let (shift_ns, add_ns, earlier) = (0, 0, None);
        let mut clock = Self { source, scale, leaps, shift_ns, earlier, short, add_ns, next_look_ns, first };
        clock.shift_ns = clock.shift(first);
        clock.shorten(first.at_ns);
        clock
    }

    /// What makes TAI of a stamp.
    fn shift(&self, seen: Distance) -> i64 {
        let behind_ns = (self.leaps.behind_s(seen.at_ns / NS_PER_S) * NS_PER_S) as i64;
        let exact = behind_ns - seen.ahead_ns;
        match self.scale {
            Scale::WholeSeconds => {
                let second = NS_PER_S as i64;
                (exact + second / 2).div_euclid(second) * second
            }
            Scale::Tai => 0,
            Scale::Utc => behind_ns,
            Scale::Other => exact,
        }
    }

    /// Looks at the clock again if it is time. `now_ns` is of the system clock. Nearly free but ten times a second.
    #[inline]
    pub fn look(&mut self, now_ns: u64) {
        // Also when the system clock was set back.
        let wait = self.next_look_ns.saturating_sub(now_ns);
        if wait == 0 || wait > LOOK_INTERVAL_NS {
            self.look_now(now_ns);
        }
    }

    #[cold]
    fn look_now(&mut self, now_ns: u64) {
        self.next_look_ns = now_ns + LOOK_INTERVAL_NS;
        // A clock that cannot be read any more, as its NIC is gone, goes on as it was.
        match self.source.distance() {
            Ok(seen) if !self.leaps.is_near(seen.at_ns / NS_PER_S) => self.learn(seen),
            _ => {}
        }
    }

    fn learn(&mut self, seen: Distance) {
        let shift_ns = self.shift(seen);
        let change_ns = shift_ns.abs_diff(self.shift_ns);
        if self.earlier.is_some_and(|(_, until_ns)| until_ns <= seen.at_ns) {
            self.earlier = None;
        }
        if change_ns > NEAR_NS {
            self.earlier = Some((self.shift_ns, seen.at_ns + CHANGE_NS));
        }
        if self.scale != Scale::Other || change_ns > SAME_NS.max(seen.error_ns) {
            self.shift_ns = shift_ns;
        }
        self.shorten(seen.at_ns);
    }

    /// Finds the range of stamps around a time of the system clock that takes the short way.
    fn shorten(&mut self, now_ns: u64) {
        let tai_ns = now_ns + self.leaps.behind_s(now_ns / NS_PER_S) * NS_PER_S;
        let Stretch { from_tai_ns, until_tai_ns, behind_ns } = self.leaps.stretch(tai_ns);
        let stamp = |tai_ns: u64| tai_ns.saturating_add_signed(self.shift_ns.saturating_neg());
        self.short = if self.earlier.is_some() { 0..0 } else { stamp(from_tai_ns)..stamp(until_tai_ns) };
        self.add_ns = self.shift_ns - behind_ns as i64;
    }

    /// UTC of a stamp, in nanoseconds since 1970. `None` for a stamp of 0, "none was taken", and for one that is ahead of
    /// `now_ns` by more than 5 ms, and what the clock of a NIC may be off: it may have been set since the last look, and is
    /// looked at again at once.
    #[inline]
    pub fn utc_ns(&mut self, stamp: u64, now_ns: u64) -> Option<u64> {
        let utc_ns = if self.short.contains(&stamp) {
            stamp.wrapping_add_signed(self.add_ns)
        } else if stamp == 0 {
            return None;
        } else {
            self.long_way(stamp, now_ns)
        };
        if utc_ns > now_ns.saturating_add(self.ahead_ns()) {
            self.next_look_ns = 0;
            return None;
        }
        Some(utc_ns)
    }

    /// So far ahead of the present a stamp may be.
    #[inline]
    fn ahead_ns(&self) -> u64 {
        match self.scale {
            Scale::Tai | Scale::Utc => NEAR_NS + AHEAD_NS,
            Scale::WholeSeconds | Scale::Other => AHEAD_NS,
        }
    }

    #[cold]
    fn long_way(&self, stamp: u64, now_ns: u64) -> u64 {
        let utc = |shift_ns: i64| self.leaps.utc_of_tai_ns(stamp.saturating_add_signed(shift_ns));
        let candidates = [Some(self.shift_ns), self.earlier.map(|(shift_ns, _)| shift_ns)];
        let nearest = candidates.into_iter().flatten().map(utc);
        nearest.max_by_key(|utc_ns| Reverse(utc_ns.abs_diff(now_ns))).expect("there is one")
    }

    /// Which clock it is, how it is brought to UTC, and how sure that is, in words.
    pub fn in_words(&self) -> String {
        let name = self.source.in_words();
        let error_ns = self.first.error_ns;
        match self.scale {
            Scale::WholeSeconds => {
                let behind_s =
                    self.first.ahead_ns.saturating_add(NS_PER_S as i64 / 2).div_euclid(NS_PER_S as i64);
                format!("{name}, {behind_s} s ahead of UTC as this machine has it")
            }
            Scale::Tai => format!("{name}, which shows TAI ({})", self.off(self.shift_of_tai())),
            Scale::Utc => format!("{name}, which shows UTC ({})", self.off(0)),
            Scale::Other => format!(
                "{name}, brought to UTC by the system clock, ten times a second, within {error_ns} ns"
            ),
        }
    }

    fn shift_of_tai(&self) -> i64 {
        (self.leaps.behind_s(self.first.at_ns / NS_PER_S) * NS_PER_S) as i64
    }

    /// How far the clock was from where it should be at the start.
    fn off(&self, right_ns: i64) -> String {
        format!("{} ns from the system clock at the start", self.first.ahead_ns.abs_diff(right_ns))
    }

    /// When the table of leap seconds it uses expired, as a date, if it has.
    pub fn expired_on(&self) -> Option<String> {
        let expired = self.leaps.expires_s() < self.first.at_ns / NS_PER_S;
        expired.then(|| self.leaps.expires_on())
    }

    /// The resolution of the clock in nanoseconds.
    ///
    /// # Errors
    /// [`ClockError::Read`].
    pub fn resolution_ns(&self) -> Result<u64, ClockError> {
        self.source.resolution_ns()
    }
}

impl From<PtpClock> for ClockSource {
    fn from(clock: PtpClock) -> Self {
        ClockSource::Ptp(clock)
    }
}

#[cfg(test)]
#[path = "stamps_tests.rs"]
mod tests;
