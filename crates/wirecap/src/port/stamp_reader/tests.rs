//! Reading stamps of a kernel clock.

use wirecap_sys::netdev;

use super::*;

/// Stamps of a kernel clock from `now_ns` on, and a function that makes a stamp of a time.
fn stamps(now_ns: u64) -> (Stamps, impl Fn(u64) -> u64) {
    let interface = netdev::interface("lo").unwrap();
    let stamping = Stamping::prepare(&interface, Some(Timestamp::Kernel), false).unwrap().unwrap();
    let mut clock = stamping.clock.clone();
    let shift_ns = clock.utc_ns(now_ns, u64::MAX).unwrap() - now_ns;
    (Stamps::new(&stamping, now_ns), move |utc_ns| utc_ns - shift_ns)
}

/// A cell that was not written holds its previous contents.
#[test]
fn implausible_stamps_count_as_missing() {
    const MS: u64 = 1_000_000;
    let start_ns = system_ns();
    let (mut stamps, stamp) = stamps(start_ns);
    let now_ns = start_ns + 1_000 * MS;
    let mut time_of = |stamp| stamps.time_of(stamp, now_ns, || now_ns);
    assert_eq!(time_of(stamp(start_ns - 20 * MS)), CellTime::Unknown, "from before the start");
    assert_eq!(time_of(7), CellTime::Unknown, "from another program");
    let came_ns = now_ns - 500 * MS;
    assert_eq!(time_of(stamp(came_ns)), CellTime::At(came_ns));
    assert_eq!(
        time_of(stamp(came_ns - 9 * MS)),
        CellTime::At(came_ns - 9 * MS),
        "the packet was under way for 9 ms"
    );
    assert_eq!(time_of(stamp(came_ns - 11 * MS)), CellTime::Unknown, "from an earlier packet");
    assert_eq!(time_of(stamp(now_ns + 20 * MS)), CellTime::Unknown, "the time has not come yet");
    assert_eq!(time_of(0), CellTime::Unknown);
    assert_eq!(stamps.unknown, 5);
}

#[test]
fn stamps_count_after_a_stall_and_after_the_clock_was_set_back() {
    const MS: u64 = 1_000_000;
    let start_ns = system_ns();
    let (mut stamps, stamp) = stamps(start_ns);
    let now_ns = start_ns + 60_000 * MS;
    let came_ns = now_ns + 30 * MS;
    assert_eq!(stamps.time_of(stamp(came_ns), now_ns, || came_ns + 1), CellTime::At(came_ns));
    // The clock is set back by half a minute.
    let (now_ns, came_ns) = (now_ns - 30_000 * MS, came_ns - 30_000 * MS);
    stamps.look(now_ns + 40 * MS);
    assert_eq!(stamps.time_of(stamp(came_ns), now_ns + 40 * MS, || now_ns + 40 * MS), CellTime::At(came_ns));
    assert_eq!(stamps.unknown, 0);
}
