//! Stamps and the times that they become, with clocks that this machine does not have.

use std::fs::File;

use super::*;
use crate::clock::{PtpClock, system_ns};

const SECOND: i64 = NS_PER_S as i64;
/// 2017-01-01T00:00:00Z, after the leap second, in nanoseconds.
const NEW_YEAR_NS: u64 = 1_483_228_800 * NS_PER_S;

/// A clock that cannot be read, in place of a NIC's.
fn unreadable() -> PtpClock {
    let path = "/dev/null".to_owned();
    let file = Arc::new(File::open(&path).expect("every Linux has this file"));
    PtpClock { file, path, name: "none".into() }
}

fn seen(at_ns: u64, ahead_ns: i64) -> Distance {
    Distance { ahead_ns, error_ns: 30, at_ns }
}

/// The kernel's monotonic clock, which shows `since_boot_ns` at the time `at_ns`.
fn kernel_clock(at_ns: u64, since_boot_ns: u64) -> StampClock {
    let ahead_ns = since_boot_ns as i64 - at_ns as i64;
    StampClock::at(ClockSource::Monotonic, Arc::new(LeapSeconds::built_in()), seen(at_ns, ahead_ns))
}

/// One packet is stamped before the leap second and read after it, another the other way round.
#[test]
fn stamps_keep_the_offset_of_their_own_time_across_a_leap_second() {
    let since_boot_ns = 5_000 * NS_PER_S;
    let mut clock = kernel_clock(NEW_YEAR_NS - 60 * NS_PER_S, since_boot_ns);
    // What the kernel's clock shows `ns` after the end of the leap second.
    let stamp = |ns: i64| (since_boot_ns as i64 + 61 * SECOND + ns) as u64;
    let check = |clock: &mut StampClock, when: &str| {
        let now_ns = NEW_YEAR_NS + 5 * NS_PER_S;
        let mut utc = |ns: i64| clock.utc_ns(stamp(ns), now_ns).unwrap() as i64 - NEW_YEAR_NS as i64;
        assert_eq!(utc(-3 * SECOND / 2), -SECOND / 2, "23:59:59.5, {when}");
        assert_eq!((utc(-SECOND), utc(-1)), (-1, -1), "23:59:60, {when}");
        assert_eq!((utc(0), utc(7)), (0, 7), "00:00:00, {when}");
    };
    check(&mut clock, "read before any look");
    // The system clock has repeated a second, so the kernel's clock is ahead by one more.
    let looked_ns = NEW_YEAR_NS + 3 * NS_PER_S;
    clock.learn(seen(looked_ns, stamp(3 * SECOND) as i64 - looked_ns as i64));
    assert_eq!(clock.error_bound_ns(), Some(30), "the table explains the change");
    check(&mut clock, "read after a look");
}

/// A program gets the same by three additions.
#[test]
fn what_a_program_adds_makes_the_same_times_across_a_leap_second() {
    let since_boot_ns = 5_000 * NS_PER_S;
    let start_ns = NEW_YEAR_NS - 60 * NS_PER_S;
    let mut clock = kernel_clock(start_ns, since_boot_ns);
    // A look just before, one after it, and one in between: the system clock repeats the second then.
    for now_ns in [start_ns, NEW_YEAR_NS - NS_PER_S / 2, NEW_YEAR_NS + 9 * NS_PER_S] {
        let shift = clock.program_shift(now_ns).expect("a clock that is never set");
        let by_program = |stamp: u64| match stamp >= shift.leap_at {
            true => stamp.wrapping_add_signed(shift.add_after_ns).max(shift.not_before_ns),
            false => stamp.wrapping_add_signed(shift.add_ns),
        };
        // Behind a leap second, stamps of before it are no more.
        let from_ms = if now_ns < NEW_YEAR_NS { 0 } else { 61_000 };
        for stamp in (from_ms..70_000).map(|ms| since_boot_ns + ms * 1_000_000 + 1) {
            assert_eq!(Some(by_program(stamp)), clock.utc_ns(stamp, now_ns + 70 * NS_PER_S), "{stamp}");
        }
    }
    let unset = StampClock::at(ClockSource::Ptp(unreadable()), clock.leaps.clone(), seen(start_ns, 0));
    assert_eq!(unset.program_shift(start_ns), None, "each stamp of a NIC has to be looked at");
}

/// The clock that stamps is never set, so the system clock was: waiting packets get its new time, too.
#[test]
fn packets_that_wait_while_the_system_clock_is_set_get_its_new_time() {
    let (start_ns, since_boot_ns) = (1_790_000_000 * NS_PER_S, 5_000 * NS_PER_S);
    for set_by in [-3_600 * SECOND, -SECOND / 2, SECOND / 2, 3_600 * SECOND] {
        let mut clock = kernel_clock(start_ns, since_boot_ns);
        // The clock is set ten seconds later; a packet came two seconds before that.
        let now_ns = (start_ns + 10 * NS_PER_S).wrapping_add_signed(set_by);
        let ahead_ns = (since_boot_ns + 10 * NS_PER_S) as i64 - now_ns as i64;
        clock.learn(seen(now_ns, ahead_ns));
        let (stamp, came_ns) = (since_boot_ns + 8 * NS_PER_S, now_ns - 2 * NS_PER_S);
        assert_eq!(clock.utc_ns(stamp, now_ns), Some(came_ns), "set by {set_by}");
        assert_eq!(clock.error_bound_ns(), Some(30), "set by {set_by}");
    }
}

#[test]
fn no_stamp_is_no_time() {
    let (now_ns, since_boot_ns) = (1_790_000_000 * NS_PER_S, 5_000 * NS_PER_S);
    let mut clock = kernel_clock(now_ns, since_boot_ns);
    assert_eq!(clock.utc_ns(0, now_ns), None);
    assert_eq!(clock.utc_ns(since_boot_ns, now_ns), Some(now_ns));
    assert_eq!(clock.utc_ns(since_boot_ns + 4_000_000, now_ns), Some(now_ns + 4_000_000), "readings differ");
    assert_eq!(clock.utc_ns(since_boot_ns + 6_000_000, now_ns), None, "the time has not come yet");
}

#[test]
fn a_clock_that_counts_from_boot_follows_the_system_clock() {
    let (start_ns, since_boot_ns) = (1_790_000_000 * NS_PER_S, 5_000 * NS_PER_S);
    let ahead_ns = since_boot_ns as i64 - start_ns as i64;
    let leaps = Arc::new(LeapSeconds::built_in());
    let mut clock = StampClock::at(ClockSource::Monotonic, leaps, seen(start_ns, ahead_ns));
    assert_eq!(clock.utc_ns(since_boot_ns + 9, start_ns + 10), Some(start_ns + 9));
    // Two looks that differ by no more than their errors show no change.
    clock.learn(seen(start_ns + NS_PER_S, ahead_ns + 30));
    assert_eq!(clock.utc_ns(since_boot_ns + NS_PER_S, start_ns + NS_PER_S), Some(start_ns + NS_PER_S));
    assert_eq!(clock.error_bound_ns(), Some(60));
    // A greater difference is a change, however small, and counts in the bound.
    clock.learn(seen(start_ns + NS_PER_S, ahead_ns + 9_000));
    assert_eq!(
        clock.utc_ns(since_boot_ns + NS_PER_S + 9_000, start_ns + NS_PER_S),
        Some(start_ns + NS_PER_S)
    );
    clock.learn(seen(start_ns + NS_PER_S, ahead_ns - 41_000));
    assert_eq!(clock.error_bound_ns(), Some(50_030));
    clock.learn(seen(start_ns + NS_PER_S, ahead_ns));
    // The system clock was set an hour ahead: waiting packets came before that.
    let hour = 3_600 * NS_PER_S;
    let now_ns = start_ns + hour + 2 * NS_PER_S;
    clock.learn(seen(now_ns, ahead_ns - hour as i64));
    assert_eq!(clock.utc_ns(since_boot_ns + 2 * NS_PER_S, now_ns), Some(now_ns));
}

/// Long after the system clock was set back, a packet that waits longer than half the step is not taken for
/// one that came before it.
#[test]
fn an_earlier_shift_is_given_up_even_by_a_clock_with_its_own_time() {
    let (start_ns, since_boot_ns) = (1_790_000_000 * NS_PER_S, 5_000 * NS_PER_S);
    let ahead_ns = since_boot_ns as i64 - start_ns as i64;
    let leaps = Arc::new(LeapSeconds::built_in());
    let mut clock = StampClock::at(ClockSource::Ptp(unreadable()), leaps, seen(start_ns, ahead_ns));
    // Half a second back.
    let ahead_ns = ahead_ns + SECOND / 2;
    clock.learn(seen(start_ns + NS_PER_S, ahead_ns));
    assert!(clock.earlier.is_some(), "waiting packets may be older");
    let now_ns = start_ns + 3_600 * NS_PER_S;
    clock.learn(seen(now_ns, ahead_ns));
    let came_ns = now_ns - 300_000_000;
    let stamp = came_ns.wrapping_add_signed(ahead_ns);
    assert_eq!(clock.utc_ns(stamp, now_ns), Some(came_ns));
    assert!(clock.short.contains(&stamp));
}

/// The driver sets the clock to UTC, as some do when the link is reset; then another program sets it to an
/// arbitrary time.
#[test]
fn a_nic_clock_that_is_set_is_read_on_its_new_scale() {
    let start_ns = 1_790_000_000 * NS_PER_S;
    let leaps = Arc::new(LeapSeconds::built_in());
    let source = ClockSource::Ptp(unreadable());
    let mut clock = StampClock::at(source, leaps, seen(start_ns, 37 * SECOND + 900));
    let shows = |clock: &StampClock| match clock.clock() {
        Clock::Nic { shows, off_ns, showed, .. } => (shows, off_ns, showed),
        other => panic!("{other:?}"),
    };
    assert_eq!(shows(&clock), (ClockScale::Tai, 900, None));
    assert_eq!(clock.utc_ns(start_ns + 37 * NS_PER_S, start_ns), Some(start_ns));
    assert_eq!((clock.was_set(), clock.error_bound_ns()), (false, None));

    let set_ns = start_ns + 5 * NS_PER_S;
    clock.learn(seen(set_ns, 700));
    for (stamp, came_ns) in [(set_ns - 1_000 + 37 * NS_PER_S, set_ns - 1_000), (set_ns - 500, set_ns - 500)] {
        assert_eq!(clock.utc_ns(stamp, set_ns), Some(came_ns));
    }
    assert!(clock.was_set());
    assert_eq!(shows(&clock), (ClockScale::Utc, 700, Some(ClockScale::Tai)));
    // The clock is off by less than the deviation that is still taken for UTC.
    clock.learn(seen(set_ns + NS_PER_S, 99_000_000));
    assert_eq!(clock.scale, ClockScale::Utc);

    let set_ns = set_ns + 20 * NS_PER_S;
    clock.learn(seen(set_ns, -SECOND / 2));
    assert_eq!(clock.utc_ns(set_ns - NS_PER_S / 2, set_ns), Some(set_ns));
    assert_eq!(clock.error_bound_ns(), Some(30 + DRIFT_NS));
    assert_eq!(shows(&clock), (ClockScale::Other, 0, Some(ClockScale::Utc)));
}

#[test]
fn the_clock_is_read_ten_times_a_second() {
    let mut clock = StampClock::new(ClockSource::Monotonic, Arc::new(LeapSeconds::built_in()))
        .expect("the kernel's own clock");
    let now_ns = system_ns();
    clock.look(now_ns);
    let next = clock.next_look_ns;
    clock.look(next - 1);
    assert_eq!(clock.next_look_ns, next, "too early");
    clock.look(next);
    assert_eq!(clock.next_look_ns, next + LOOK_INTERVAL_NS);
    clock.look(now_ns - NS_PER_S);
    assert_eq!(clock.next_look_ns, now_ns - NS_PER_S + LOOK_INTERVAL_NS, "the system clock was set back");
}
