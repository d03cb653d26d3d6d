//! The time of a batch: the CPU's counter, calibrated against the system clock.
//!
//! ```text
//!   system clock   ┌─ reading ─┐                            UTC = base + (counter − base) × rate
//!   counter     before   …   after     the middle is the base, half the width is how wrong it may be
//! ```
//!
//! Rule: the counter is used only where the kernel itself trusts it: the CPU says that it never changes its
//! pace (invariant TSC), and the kernel has made it its clock. Otherwise the system clock is read each time,
//! and [`BatchClock::clock`] reports why.

use std::fs;
use std::thread;
use std::time::Duration;

use super::{
    Clock, CounterRefusal, LOOK_INTERVAL_NS, NS_PER_S, reading::monotonic_ns, resolution_ns, system_ns,
};
use crate::cpu;

const CLOCK_OF_KERNEL: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// How long the rate is measured for at the start. Each comparison later makes it better.
const FIRST_INTERVAL: Duration = Duration::from_millis(10);
/// How often the two are read to compare them. The narrowest reading counts.
const READINGS: u32 = 7;
/// The rate is a fraction of 2^32.
const RATE_BITS: u32 = 32;
/// A rate that differs by more than one part in this number does not count: the system clock was set. If it
/// is measured again, the counter has changed, as on a virtual machine that was moved.
const STEP: u64 = 1000;

/// Margin for each interval that the counter measures: the CPU may read the counter a little out of program
/// order, and another core's counter may be a little behind.
const ORDER_NS: u64 = 1_000;

/// A moment as a [`BatchClock`] reads it: by the system clock, and by a clock that is never set.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    utc_ns: u64,
    /// Cycles of the counter; else nanoseconds of CLOCK_MONOTONIC.
    ticks: u64,
}

impl Moment {
    /// In nanoseconds since 1970 (UTC).
    pub fn utc_ns(self) -> u64 {
        self.utc_ns
    }
}

/// Nanoseconds since 1970 (UTC), for batches. One for each thread or queue: it shares nothing.
#[derive(Debug, Clone)]
pub struct BatchClock {
    counter: Result<Counter, CounterRefusal>,
    /// When it was made.
    made: Moment,
}

/// A counter that was compared with the system clock.
#[derive(Debug, Clone)]
struct Counter {
    base: Reading,
    /// Nanoseconds of a cycle, times 2^32.
    rate: u64,
    /// Cycles after which it is compared again. INVARIANT: times `rate`, it is less than 2^64.
    interval: u64,
    /// The most by which the time was wrong, so far.
    error_ns: u64,
    /// The last comparison gave no rate.
    was_set: bool,
}

/// Both at one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    cycles: u64,
    system_ns: u64,
    /// Most cycles between the two readings.
    error: u64,
}

impl Reading {
    /// The narrowest of several. `None` without a counter.
    fn take() -> Option<Self> {
        let mut narrowest: Option<Reading> = None;
        for _ in 0..READINGS {
            let before = cpu::timestamp_counter()?;
            let system_ns = system_ns();
            // On another core the counter may be a little behind.
            let width = cpu::timestamp_counter()?.saturating_sub(before);
            let reading = Reading { cycles: before + width / 2, system_ns, error: width.div_ceil(2) };
            if narrowest.is_none_or(|best| reading.error < best.error) {
                narrowest = Some(reading);
            }
        }
        narrowest
    }

    /// Nanoseconds of a cycle since an earlier reading, times 2^32.
    fn rate_since(&self, earlier: &Reading) -> Option<u64> {
        let cycles = self.cycles.checked_sub(earlier.cycles).filter(|&cycles| cycles > 0)?;
        let ns = self.system_ns.checked_sub(earlier.system_ns)?;
        u64::try_from((u128::from(ns) << RATE_BITS) / u128::from(cycles)).ok()
    }
}

impl Default for BatchClock {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchClock {
    /// Compares the counter with the system clock for 10 ms, if it can be used.
    pub fn new() -> Self {
        Self::over(Counter::trusted().and_then(|()| Counter::new().ok_or(CounterRefusal::Stopped)))
    }

    /// The system clock, without a counter.
    pub fn system() -> Self {
        Self::over(Err(CounterRefusal::NotNeeded))
    }

    fn over(counter: Result<Counter, CounterRefusal>) -> Self {
        let mut clock = Self { counter, made: Moment { utc_ns: 0, ticks: 0 } };
        clock.made = clock.moment();
        clock
    }

    /// When it was made, or the clock that it is a copy of.
    pub fn made(&self) -> Moment {
        self.made
    }

    /// What time it is. Cost: some ten nanoseconds; ten times a second, a microsecond. Goes back when the
    /// system clock is set back.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        match &mut self.counter {
            Ok(counter) => counter.now().utc_ns,
            Err(_) => system_ns(),
        }
    }

    /// What time it is, also by a clock that is never set. Costs as much as [`Self::now_ns`]; without the
    /// counter twice as much.
    #[inline]
    pub fn moment(&mut self) -> Moment {
        match &mut self.counter {
            Ok(counter) => counter.now(),
            Err(_) => Moment { utc_ns: system_ns(), ticks: monotonic_ns() },
        }
    }

    /// The time from `earlier` to `later`, in nanoseconds: at least what really passed, and at least what the
    /// system clock advanced, which is more if it was set.
    pub fn passed_ns(&self, earlier: Moment, later: Moment) -> u64 {
        let ticks = later.ticks.saturating_sub(earlier.ticks);
        let really_ns = match &self.counter {
            Ok(counter) => {
                let ns = (u128::from(ticks) * u128::from(counter.rate)) >> RATE_BITS;
                let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                // The rate may be off by a step.
                ns.saturating_add(ns / STEP + ORDER_NS)
            }
            Err(_) => ticks,
        };
        really_ns.max(later.utc_ns.saturating_sub(earlier.utc_ns))
    }

    /// By how much a time may differ from the system clock at that moment, in nanoseconds, as far as
    /// comparisons have shown: half the width of the reading it counts from, and the drift since. 0 without
    /// the counter.
    pub fn error_bound_ns(&self) -> u64 {
        self.counter.as_ref().map_or(0, |counter| counter.error_ns)
    }

    /// Its resolution in nanoseconds.
    pub fn resolution_ns(&self) -> u64 {
        self.counter
            .as_ref()
            .map_or_else(|_| resolution_ns(), |counter| counter.rate.div_ceil(1 << RATE_BITS))
    }

    /// Which clock it is.
    pub fn clock(&self) -> Clock {
        match self.counter {
            Ok(_) => Clock::CpuCounter,
            Err(reason) => Clock::System { no_counter: Some(reason) },
        }
    }

    /// Whether the CPU's counter is used.
    pub fn is_counter(&self) -> bool {
        self.counter.is_ok()
    }
}

impl Counter {
    /// Whether it may be used here.
    fn trusted() -> Result<(), CounterRefusal> {
        if cpu::timestamp_counter().is_none() {
            return Err(CounterRefusal::Absent);
        }
        if !cpu::counter_is_invariant() {
            return Err(CounterRefusal::Variable);
        }
        match fs::read_to_string(CLOCK_OF_KERNEL) {
            Ok(clock) if clock.trim() == "tsc" => Ok(()),
            Ok(_) => Err(CounterRefusal::NotTheKernels),
            Err(_) => Err(CounterRefusal::Unknown),
        }
    }

    fn new() -> Option<Self> {
        let first = Reading::take()?;
        thread::sleep(FIRST_INTERVAL);
        let base = Reading::take()?;
        let rate = base.rate_since(&first).filter(|&rate| rate > 0)?;
        let interval = cycles(LOOK_INTERVAL_NS, rate);
        let mut counter = Self { base, rate, interval, error_ns: 0, was_set: false };
        // As far as the rate may be wrong, it is wrong by the more the longer it is used.
        let times = (base.cycles - first.cycles).max(1);
        let drift = u128::from(first.error + base.error) * u128::from(interval) / u128::from(times);
        counter.error_ns = counter.ns(base.error) + counter.ns(drift as u64) + 1;
        Some(counter)
    }

    #[inline]
    fn now(&mut self) -> Moment {
        let ticks = cpu::timestamp_counter().unwrap_or(0);
        let since = ticks.wrapping_sub(self.base.cycles);
        if since > self.interval {
            return self.compare();
        }
        Moment { utc_ns: self.base.system_ns + self.ns(since), ticks }
    }

    /// Cycles, at most an interval, in nanoseconds.
    #[inline]
    fn ns(&self, cycles: u64) -> u64 {
        cycles.wrapping_mul(self.rate) >> RATE_BITS
    }

    /// Begins anew from a reading of both, and learns from it how wrong the last interval was.
    #[cold]
    fn compare(&mut self) -> Moment {
        if let Some(reading) = Reading::take() {
            self.learn(reading);
        }
        Moment { utc_ns: self.base.system_ns, ticks: self.base.cycles }
    }

    fn learn(&mut self, reading: Reading) {
        let earlier = std::mem::replace(&mut self.base, reading);
        let half_width_ns = self.ns(reading.error.min(self.interval));
        let is_again = std::mem::replace(&mut self.was_set, false);
        let likely = |rate: &u64| *rate > 0 && (is_again || rate.abs_diff(self.rate) <= self.rate / STEP);
        let Some(rate) = reading.rate_since(&earlier).filter(likely) else {
            self.was_set = true;
            self.error_ns = self.error_ns.max(half_width_ns);
            return;
        };
        // It gave times for an interval at most, however long ago it was.
        let drift_ns = (u128::from(self.interval) * u128::from(rate.abs_diff(self.rate))) >> RATE_BITS;
        self.error_ns = self.error_ns.max(drift_ns as u64 + half_width_ns + 1);
        if reading.cycles - earlier.cycles >= self.interval {
            self.rate = rate;
            self.interval = cycles(LOOK_INTERVAL_NS, rate);
        }
    }
}

/// Nanoseconds in cycles.
fn cycles(ns: u64, rate: u64) -> u64 {
    // A counter slower than 1 Hz, or faster than any, would break the invariant on `interval`.
    let cycles = (u128::from(ns) << RATE_BITS) / u128::from(rate.max(1));
    cycles.min(u128::from(u64::MAX / rate.max(1))).min(u128::from(ns * NS_PER_S)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// 2.5 cycles a nanosecond.
    const RATE: u64 = (1 << RATE_BITS) * 2 / 5;

    fn reading(cycles: u64, system_ns: u64) -> Reading {
        Reading { cycles, system_ns, error: 50 }
    }

    fn counter() -> Counter {
        Counter {
            base: reading(0, 1_000),
            rate: RATE,
            interval: cycles(LOOK_INTERVAL_NS, RATE),
            error_ns: 0,
            was_set: false,
        }
    }

    #[test]
    fn the_rate_follows_the_system_clock_and_the_error_is_measured() {
        let mut counter = counter();
        // The system clock gained 10 µs in a second: 1 µs in an interval of 100 ms.
        counter.learn(reading(2_500_000_000, 1_000 + 1_000_010_000));
        let expected = 1_000 + 20;
        assert!(counter.error_ns.abs_diff(expected) <= 2, "{counter:?}");
        assert!(counter.ns(2_500_000).abs_diff(1_000_010) <= 1, "{counter:?}");
        // At the new rate only the reading adds to the error.
        let before = counter.error_ns;
        counter.learn(reading(5_000_000_000, 1_000 + 2_000_020_000));
        assert!(counter.error_ns <= before + 1 && counter.base.cycles == 5_000_000_000, "{counter:?}");
    }

    #[test]
    fn setting_the_system_clock_moves_the_time_but_not_the_rate() {
        for system_ns in [0, 1_000_000_000_000] {
            let mut counter = counter();
            counter.learn(reading(250_000_000, system_ns));
            assert_eq!((counter.rate, counter.base.system_ns), (RATE, system_ns));
            assert_eq!(counter.error_ns.div_ceil(10), 2, "20 ns: the error of the reading alone");
        }
    }

    #[test]
    fn a_counter_that_changes_its_pace_is_followed() {
        let mut counter = counter();
        let half = |cycles: u64| reading(cycles, 1_000 + cycles / 5);
        counter.learn(half(1_000_000_000));
        assert_eq!(counter.rate, RATE, "the system clock may have jumped instead");
        counter.learn(half(2_000_000_000));
        assert_eq!(counter.rate.div_ceil(10), (RATE / 2).div_ceil(10));
        let ns = counter.base.system_ns + counter.ns(250_000_000);
        assert!(ns.abs_diff(half(2_250_000_000).system_ns) <= 1, "{counter:?}");
    }

    #[test]
    fn a_whole_interval_does_not_overflow_at_any_rate() {
        for rate in [RATE, 1 << RATE_BITS, 1 << (RATE_BITS + 9), 1 << 28] {
            let counter = Counter { rate, interval: cycles(LOOK_INTERVAL_NS, rate), ..counter() };
            let ns = counter.ns(counter.interval);
            assert!(ns <= LOOK_INTERVAL_NS && ns > LOOK_INTERVAL_NS / 2, "{rate}: {ns}");
        }
    }

    /// A duration is not too short by either clock, even when the system clock is set.
    #[test]
    fn a_duration_is_no_shorter_than_by_either_clock() {
        let clock = BatchClock { counter: Ok(counter()), made: Moment { utc_ns: 0, ticks: 0 } };
        let moment = |utc_ns, ticks| Moment { utc_ns, ticks };
        let begun = moment(1_000_000_000, 2_500);
        for (later_utc_ns, expected_ns) in
            [(1_000_040_000, 41_040), (500_000_000, 41_040), (9_000_000_000, 8_000_000_000)]
        {
            let passed_ns = clock.passed_ns(begun, moment(later_utc_ns, 102_500));
            assert!(passed_ns.abs_diff(expected_ns) <= 2, "{passed_ns} for {expected_ns}");
        }
        assert!(clock.passed_ns(moment(0, 0), moment(0, u64::MAX)) > u64::MAX / 3, "no overflow");
        // On another core the counter may be a little behind.
        assert_eq!(clock.passed_ns(moment(7, 100), moment(7, 99)), ORDER_NS);
        for mut clock in [BatchClock::new(), BatchClock::system()] {
            let (outside, earlier) = (Instant::now(), clock.moment());
            thread::sleep(Duration::from_millis(120));
            let (later, outside) = (clock.moment(), outside.elapsed());
            let passed = Duration::from_nanos(clock.passed_ns(earlier, later));
            let most = outside + outside / 500 + Duration::from_nanos(ORDER_NS);
            assert!(passed >= Duration::from_millis(120) && passed <= most, "{passed:?} of {outside:?}");
        }
    }

    /// The bound is a promise: no time is farther from what the system clock shows before and after it.
    #[test]
    fn the_time_is_within_its_bound_of_the_system_clock() {
        for mut clock in [BatchClock::new(), BatchClock::system()] {
            let (begun, mut furthest_ns) = (Instant::now(), 0);
            while begun.elapsed() < Duration::from_millis(350) {
                let (before, now, after) = (system_ns(), clock.now_ns(), system_ns());
                furthest_ns = furthest_ns.max(before.saturating_sub(now)).max(now.saturating_sub(after));
            }
            let bound_ns = clock.error_bound_ns();
            assert!(furthest_ns <= bound_ns, "{:?}: {furthest_ns} > {bound_ns}", clock.clock());
            assert!(bound_ns < 100_000, "the bound is uselessly wide: {bound_ns}");
        }
    }
}
