//! From stamps of another clock to UTC.
//!
//! ```text
//!   stamp ── + shift ──► TAI ── leap seconds ──► UTC
//!              ▲
//!              └── how far the clock is from the system clock: looked at again every 100 ms
//! ```
//!
//! A stamp is older than the look: the packet has waited. So it is brought to TAI, which has no leap seconds,
//! and from there to UTC by the table: a packet of before a leap second keeps the offset of before it. When
//! the shift itself changes, it matters which clock was set. With the kernel's clock, which is never set, it
//! was the system clock, and the new shift holds for waiting packets, too, unless a program has brought their
//! stamps to UTC already. With the clock of a NIC both shifts are tried for a while, and the one that puts
//! the packet nearer to the present is right.

use std::{cmp::Reverse, sync::Arc};

use super::{
    Clock, ClockError, ClockScale, ClockSource, LOOK_INTERVAL_NS, LeapSeconds, NS_PER_S, leap::Stretch,
    reading::Distance,
};

/// A clock within this distance of UTC or TAI is taken to show it.
const NEAR_NS: u64 = 100_000_000;
/// Assumed drift between two looks until it is measured: one part in 10,000, which is more than quartz clocks
/// differ by.
const DRIFT_NS: u64 = LOOK_INTERVAL_NS / 10_000;
/// How long packets stamped before a change of the shift may be on their way.
const CHANGE_NS: u64 = 10 * NS_PER_S;
/// A stamp may be ahead of the present by this much, since the system clock is slewed and readings differ;
/// one that is further ahead is wrong.
const AHEAD_NS: u64 = 5_000_000;

/// What makes UTC of a stamp by three additions, for a program that stamps packets: see
/// [`StampClock::program_shift`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampShift {
    /// What is added to a stamp, in nanoseconds.
    pub add_ns: i64,
    /// From this stamp on, it is [`Self::add_after_ns`] that is added: the next leap second begins.
    pub leap_at: u64,
    /// What is added from then on.
    pub add_after_ns: i64,
    /// No time after that is before this one, in nanoseconds since 1970 (UTC): in the leap second, time
    /// stands still.
    pub not_before_ns: u64,
}

/// Brings stamps of one clock to UTC.
#[derive(Debug, Clone)]
pub struct StampClock {
    source: ClockSource,
    scale: ClockScale,
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
    /// When the scale was found: at the start, or when the clock was seen to show something else.
    found: Distance,
    /// What it showed before, if it was set to something else.
    was: Option<ClockScale>,
    /// The most by which two looks differed that were not of a clock that was set, and how wrong a look was.
    error_ns: u64,
}

impl ClockScale {
    /// What a clock shows at this distance from the system clock.
    fn of(source: &ClockSource, leaps: &LeapSeconds, seen: Distance) -> Self {
        match source {
            ClockSource::Monotonic => ClockScale::Other,
            ClockSource::Ptp(_) => [ClockScale::Tai, ClockScale::Utc]
                .into_iter()
                .find(|scale| {
                    scale.demands_ns(leaps, seen).is_some_and(|ns| seen.ahead_ns.abs_diff(ns) < NEAR_NS)
                })
                .unwrap_or(ClockScale::Other),
        }
    }

    /// How far a clock that shows this is ahead of the system clock, if that is known.
    fn demands_ns(self, leaps: &LeapSeconds, seen: Distance) -> Option<i64> {
        match self {
            ClockScale::Tai => Some((leaps.behind_s(seen.at_ns / NS_PER_S) * NS_PER_S) as i64),
            ClockScale::Utc => Some(0),
            ClockScale::Other => None,
        }
    }
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
        let scale = ClockScale::of(&source, &leaps, first);
        let drift_ns = if source.may_be_set() { DRIFT_NS } else { 0 };
        let mut clock = Self {
            source,
            scale,
            leaps,
            shift_ns: 0,
            earlier: None,
            short: 0..0,
            add_ns: 0,
            next_look_ns: first.at_ns + LOOK_INTERVAL_NS,
            found: first,
            was: None,
            error_ns: first.error_ns + drift_ns,
        };
        clock.shift_ns = clock.shift(first);
        clock.shorten(first.at_ns);
        clock
    }

    /// What makes TAI of a stamp.
    fn shift(&self, seen: Distance) -> i64 {
        let behind_ns = (self.leaps.behind_s(seen.at_ns / NS_PER_S) * NS_PER_S) as i64;
        let exact = behind_ns - seen.ahead_ns;
        match self.scale {
            ClockScale::Tai => 0,
            ClockScale::Utc => behind_ns,
            ClockScale::Other => exact,
        }
    }

    /// Looks at the clock again if it is time, and returns whether it did. `now_ns` is of the system clock.
    /// Nearly free but ten times a second.
    #[inline]
    pub fn look(&mut self, now_ns: u64) -> bool {
        // Also when the system clock was set back.
        let wait = self.next_look_ns.saturating_sub(now_ns);
        let is_time = wait == 0 || wait > LOOK_INTERVAL_NS;
        if is_time {
            self.look_now(now_ns);
        }
        is_time
    }

    #[cold]
    fn look_now(&mut self, now_ns: u64) {
        self.next_look_ns = now_ns + LOOK_INTERVAL_NS;
        // When the clock can no longer be read, because its NIC is gone, the last shift stays in force.
        match self.source.distance() {
            Ok(seen) if !self.leaps.is_near(seen.at_ns / NS_PER_S) => self.learn(seen),
            _ => {}
        }
    }

    fn learn(&mut self, seen: Distance) {
        let demanded_ns = self.scale.demands_ns(&self.leaps, seen);
        if demanded_ns.is_some_and(|ns| seen.ahead_ns.abs_diff(ns) >= NEAR_NS + seen.error_ns) {
            self.was = Some(self.scale);
            self.scale = ClockScale::of(&self.source, &self.leaps, seen);
            self.found = seen;
        }
        let shift_ns = self.shift(seen);
        let change_ns = shift_ns.abs_diff(self.shift_ns);
        if self.earlier.is_some_and(|(_, until_ns)| until_ns <= seen.at_ns) {
            self.earlier = None;
        }
        if change_ns > NEAR_NS {
            self.earlier = self.source.may_be_set().then(|| (self.shift_ns, seen.at_ns + CHANGE_NS));
        } else {
            self.error_ns = self.error_ns.max(change_ns + seen.error_ns);
        }
        // Two looks differ by how wrong they are: what is no more than that is no change.
        if self.scale != ClockScale::Other || change_ns > seen.error_ns {
            self.shift_ns = shift_ns;
        }
        self.shorten(seen.at_ns);
    }

    /// The stretch without a leap second around a time of the system clock.
    fn stretch_at(&self, now_ns: u64) -> Stretch {
        let tai_ns = now_ns + self.leaps.behind_s(now_ns / NS_PER_S) * NS_PER_S;
        self.leaps.stretch(tai_ns)
    }

    /// Finds the range of stamps around a time of the system clock that takes the short way.
    fn shorten(&mut self, now_ns: u64) {
        let Stretch { from_tai_ns, until_tai_ns, behind_ns } = self.stretch_at(now_ns);
        let stamp = |tai_ns: u64| tai_ns.saturating_add_signed(self.shift_ns.saturating_neg());
        // Not 0: that is no stamp.
        self.short =
            if self.earlier.is_some() { 0..0 } else { stamp(from_tai_ns).max(1)..stamp(until_tai_ns) };
        self.add_ns = self.shift_ns - behind_ns as i64;
    }

    /// What makes UTC of the stamps from now on, `now_ns` by the system clock. `None` for a clock that may be
    /// set: each of its stamps has to be looked at.
    pub fn program_shift(&self, now_ns: u64) -> Option<StampShift> {
        if self.source.may_be_set() {
            return None;
        }
        let Stretch { until_tai_ns, behind_ns, .. } = self.stretch_at(now_ns);
        let add_ns = |behind_ns: u64| self.shift_ns - behind_ns as i64;
        let next = self.leaps.stretch_behind(until_tai_ns);
        Some(StampShift {
            add_ns: add_ns(behind_ns),
            leap_at: match next {
                Some(_) => until_tai_ns.saturating_add_signed(self.shift_ns.saturating_neg()),
                None => u64::MAX,
            },
            add_after_ns: add_ns(next.map_or(behind_ns, |next| next.behind_ns)),
            not_before_ns: next.map_or(0, |_| self.leaps.utc_of_tai_ns(until_tai_ns)),
        })
    }

    /// UTC of a stamp, in nanoseconds since 1970. `None` for a stamp of 0, "none was taken", and for one that
    /// is ahead of `now_ns` by more than 5 ms, and what the clock of a NIC may be off: it may have been set
    /// since the last look, and is looked at again at once.
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

    /// How far ahead of the present a stamp may be.
    #[inline]
    fn ahead_ns(&self) -> u64 {
        match self.scale {
            ClockScale::Tai | ClockScale::Utc => NEAR_NS + AHEAD_NS,
            ClockScale::Other => AHEAD_NS,
        }
    }

    #[cold]
    fn long_way(&self, stamp: u64, now_ns: u64) -> u64 {
        let utc = |shift_ns: i64| self.leaps.utc_of_tai_ns(stamp.saturating_add_signed(shift_ns));
        let candidates = [Some(self.shift_ns), self.earlier.map(|(shift_ns, _)| shift_ns)];
        let nearest = candidates.into_iter().flatten().map(utc);
        nearest.max_by_key(|utc_ns| Reverse(utc_ns.abs_diff(now_ns))).expect("there is one")
    }

    /// Which clock it is, and what it shows.
    pub fn clock(&self) -> Clock {
        let ClockSource::Ptp(clock) = &self.source else { return Clock::Monotonic };
        let demanded_ns = self.scale.demands_ns(&self.leaps, self.found);
        Clock::Nic {
            device: clock.path.clone(),
            name: clock.name.clone(),
            shows: self.scale,
            off_ns: demanded_ns.map_or(0, |ns| self.found.ahead_ns.abs_diff(ns)),
            showed: self.was,
        }
    }

    /// Whether it was seen to be set to something else than it showed at first. [`Self::clock`] says so.
    pub fn was_set(&self) -> bool {
        self.was.is_some()
    }

    /// By how much times may differ from the system clock, in nanoseconds, as far as looks have shown: by how
    /// much one may be wrong, and the drift to the next. `None` for a clock that is taken at its word.
    pub fn error_bound_ns(&self) -> Option<u64> {
        (self.scale == ClockScale::Other).then_some(self.error_ns)
    }

    /// When the table of leap seconds it uses expired, as a date, if it has.
    pub fn expired_on(&self) -> Option<String> {
        let expired = self.leaps.expires_s() < self.found.at_ns / NS_PER_S;
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

#[cfg(test)]
mod tests;
