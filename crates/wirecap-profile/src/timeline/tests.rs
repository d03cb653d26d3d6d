use std::time::{Duration, Instant};

use super::*;

const BIN_NS: u64 = 10_000_000;
const HOUR_MS: u64 = 3_600_000;

/// What becomes of packets with these times in milliseconds: bins and positions of the rows, packets in no
/// bin, and jumps.
fn line(times_ms: impl IntoIterator<Item = u64>) -> (Vec<(u64, u64)>, Outliers, Jumps) {
    let (mut timeline, mut rows) = (Timeline::new(1, BIN_NS), Vec::new());
    let mut each = |row: Row| rows.push((row.bin, row.position, row.packets[0]));
    let mut all = 0;
    for ms in times_ms {
        timeline.add(ms * 1_000_000 / BIN_NS, 0, 1, &mut each);
        all += 1;
    }
    timeline.close(&mut each);
    let outliers = timeline.outliers(0);
    let in_rows: u64 = rows.iter().map(|row| row.2).sum();
    assert_eq!((in_rows + outliers.late + outliers.ahead, timeline.open_packets(0)), (all, 0));
    (rows.into_iter().map(|(bin, position, _)| (bin, position)).collect(), outliers, timeline.jumps.clone())
}

/// A packet every 10 ms, from this time on.
fn steady(from_ms: u64, packets: u64) -> impl Iterator<Item = u64> {
    (0..packets).map(move |packet| from_ms + packet * 10)
}

#[test]
fn packets_within_a_second_are_in_their_bins() {
    let (rows, outliers, jumps) = line([5_000, 5_900, 4_900, 5_000]);
    assert_eq!(rows, [(490, 0), (500, 10), (590, 100)]);
    assert_eq!((outliers, jumps.number), (Outliers::default(), 0));
}

#[test]
fn two_bad_times_in_a_row_move_nothing() {
    const YEAR_MS: u64 = 365 * 24 * HOUR_MS;
    let bad = [80 * YEAR_MS, 81 * YEAR_MS];
    let times = steady(HOUR_MS, 500).chain(bad).chain(steady(HOUR_MS + 5_000, 500));
    let (rows, outliers, jumps) = line(times);
    assert_eq!((rows.len(), jumps.number), (1_000, 0));
    assert_eq!(outliers, Outliers { late: 0, ahead: 2 });
}

/// A worker delivers what came after a silence before another one delivers what came just before its end.
#[test]
fn a_silence_that_ends_between_the_batches_of_two_workers_costs_no_packet() {
    for lag in [&[998, 1_022, 1_022][..], &[1_022, 1_022]] {
        let start = std::iter::repeat_n(0, 50).chain(std::iter::repeat_n(1_012, 500));
        let bursts = (1..100).flat_map(|burst| std::iter::repeat_n(1_022 + burst * 2_000, 300));
        let (rows, outliers, jumps) = line(start.chain(lag.iter().copied()).chain(bursts));
        assert_eq!((outliers, jumps.number), (Outliers::default(), 0), "{lag:?}");
        assert_eq!((rows.first(), rows.last()), (Some(&(0, 0)), Some(&(19_902, 19_902))));
    }
}

#[test]
fn bad_times_keep_good_ones_out_for_a_while_only() {
    const BAD_MS: u64 = 80 * 365 * 24 * HOUR_MS;
    let rare = |from_ms: u64| (0..1_000).map(move |packet| from_ms + packet * 2_000);
    let (rows, outliers, jumps) = line(rare(HOUR_MS).chain([BAD_MS; 2]).chain(rare(HOUR_MS + 2_000_000)));
    assert!(rows.len() > 1_990 && outliers.ahead + outliers.late <= 4, "{} {outliers:?}", rows.len());
    assert_eq!(jumps.number, 0);
    // 4,000 packets by a clock that was set back, then bursts by the old one.
    let back = std::iter::repeat_n(HOUR_MS - 1_500, 4_000).chain(std::iter::repeat_n(HOUR_MS, 20));
    let bursts = (1..1_000).flat_map(|burst| std::iter::repeat_n(HOUR_MS + burst * 2_000, 300));
    let (_, outliers, _) = line([HOUR_MS].into_iter().chain(back).chain(bursts));
    assert!(outliers.late + outliers.ahead < 10_000, "{outliers:?}");
}

#[test]
fn lone_packets_after_a_jump_are_in_bins() {
    const NOW_MS: u64 = 50 * 365 * 24 * HOUR_MS;
    // The clock is set from 1970 on; and a packet every eleven minutes.
    for (before_ms, distance_ms, jumps) in [(60_000, 2_000, 1), (NOW_MS, 660_000, 998)] {
        let rare = (0..1_000).map(|packet| NOW_MS + packet * distance_ms);
        let (_, outliers, found) = line([before_ms].into_iter().chain(rare));
        assert!(outliers.late + outliers.ahead <= 2, "{distance_ms}: {outliers:?}");
        assert!(found.number.abs_diff(jumps) <= 2, "{distance_ms}: {}", found.number);
    }
}

#[test]
fn good_times_win_over_a_line_that_a_bad_time_began() {
    const BAD_MS: u64 = 80 * 365 * 24 * HOUR_MS;
    // A bad time first, and again and again.
    let good = steady(HOUR_MS, 1_000).enumerate();
    let times =
        good.flat_map(|(number, time)| (number % 90 == 0).then_some(BAD_MS).into_iter().chain([time]));
    let (rows, outliers, _) = line(times);
    assert!(rows.len() > 900, "{} rows, {outliers:?}", rows.len());
}

#[test]
fn a_packet_far_ahead_or_behind_changes_nothing_for_the_others() {
    for (outlier, expected) in
        [(80 * 365 * 24 * HOUR_MS, Outliers { late: 0, ahead: 1 }), (0, Outliers { late: 1, ahead: 0 })]
    {
        let times = steady(HOUR_MS, 500).chain([outlier]).chain(steady(HOUR_MS + 5_000, 500));
        let (rows, outliers, jumps) = line(times);
        assert_eq!((rows.len(), rows.last(), outliers), (1_000, Some(&(HOUR_MS / 10 + 999, 999)), expected));
        assert_eq!(jumps.number, 0);
        // With nothing after it, it is an outlier as well.
        let (rows, outliers, jumps) = line(steady(HOUR_MS, 500).chain([outlier]));
        assert_eq!((rows.len(), outliers, jumps.number), (500, expected, 0));
    }
}

#[test]
fn a_clock_that_is_set_back_for_ever_is_a_jump_and_all_packets_stay() {
    let (rows, outliers, jumps) = line(steady(2 * HOUR_MS, 500).chain(steady(HOUR_MS, 500)));
    assert_eq!((rows.len(), outliers), (1_000, Outliers::default()));
    assert_eq!(rows[499..501], [(2 * HOUR_MS / 10 + 499, 499), (HOUR_MS / 10, 500)]);
    let jump = Jump { seconds: 5.0, from_ns: (2 * HOUR_MS + 4_990) * 1_000_000, to_ns: HOUR_MS * 1_000_000 };
    assert_eq!(jumps, Jumps { number: 1, first: vec![jump] });
}

#[test]
fn a_clock_that_is_set_back_and_ahead_again_is_two_jumps() {
    let day = 24 * HOUR_MS;
    let times = steady(day, 300).chain(steady(day - HOUR_MS, 300)).chain(steady(day + 6_000, 300));
    let (rows, outliers, jumps) = line(times);
    assert_eq!((rows.len(), rows.last().unwrap().1, outliers), (900, 899, Outliers::default()));
    assert_eq!((jumps.number, jumps.first.len()), (2, 2));
}

#[test]
fn a_silence_counts_as_time_and_a_longer_gap_does_not() {
    let (rows, _, jumps) = line(steady(0, 10).chain(steady(500_000, 10)));
    assert_eq!((rows.last(), jumps.number), (Some(&(50_009, 50_009)), 0));
    let (rows, _, jumps) = line(steady(0, 10).chain(steady(HOUR_MS, 10)));
    assert_eq!((rows.last(), jumps.number), (Some(&(360_009, 19)), 1));
    // Rare packets, minutes apart.
    let (rows, outliers, jumps) = line((0..5).map(|minute| minute * 60_000));
    assert_eq!((rows.last(), outliers, jumps.number), (Some(&(24_000, 24_000)), Outliers::default(), 0));
}

#[test]
fn a_first_packet_with_an_absurd_time_does_not_rule() {
    let (rows, outliers, jumps) = line([80 * 365 * 24 * HOUR_MS].into_iter().chain(steady(HOUR_MS, 500)));
    assert_eq!((rows.len(), outliers, jumps.number), (501, Outliers::default(), 1));
}

#[test]
fn two_clocks_do_not_make_a_jump_of_each_batch() {
    let times = (0..10_000).map(|packet| packet + if packet / 10 % 2 == 0 { 0 } else { 37_000 });
    let (rows, outliers, jumps) = line(times);
    assert_eq!((outliers.ahead, jumps.number), (5_000 - 10, 0), "the last batch has none after it");
    assert_eq!(rows.len(), 501);
}

#[test]
fn narrow_bins_are_open_for_as_long_as_wide_ones() {
    for bin_ns in [1_000, 10_000_000, 5_000_000_000] {
        let mut timeline = Timeline::new(1, bin_ns);
        for ms in [10_000, 10_900, 9_950] {
            timeline.add(ms * 1_000_000 / bin_ns, 0, 1, &mut |_| {});
        }
        timeline.close(&mut |_| {});
        assert_eq!(timeline.outliers(0), Outliers::default(), "{bin_ns}");
    }
}

#[test]
fn absurd_times_cost_nothing_and_are_all_counted() {
    line([0, u64::MAX / 1_000_000, 1, u64::MAX / 1_000_000 - 1]);
    let (mut timeline, mut packets) = (Timeline::new(1, 1), 0);
    for bin in [0, u64::MAX, 1, u64::MAX - 1, u64::MAX / 2] {
        timeline.add(bin, 0, 1, &mut |row| packets += row.packets[0]);
    }
    timeline.close(&mut |row| packets += row.packets[0]);
    let Outliers { late, ahead } = timeline.outliers(0);
    assert_eq!(packets + late + ahead, 5);
}

/// Two clocks, of which the one that is ahead has three packets for each of the other: a sum over the
/// bins aside for each packet would take minutes.
#[test]
fn packets_of_two_clocks_cost_no_more_than_those_of_one() {
    let (mut timeline, mut rows) = (Timeline::new(1, 1_000), 0_u64);
    let began = Instant::now();
    for number in 0..100_000 {
        timeline.add(number, 0, 1, &mut |row| rows += row.packets[0]);
        for ahead in 0..3 {
            timeline.add(10_000_000_000 + 3 * number + ahead, 0, 1, &mut |row| rows += row.packets[0]);
        }
    }
    timeline.close(&mut |row| rows += row.packets[0]);
    let Outliers { late, ahead } = timeline.outliers(0);
    assert_eq!(rows + late + ahead, 400_000);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
