//! Times: those that the program writes, and those that a part has.

use wirecap_core::ChunkRange;

use super::*;

/// Times that the receiver gives, without a store to any packet until they are asked for.
#[test]
fn packets_of_a_part_have_its_time_and_their_records_have_it_once_it_is_written() {
    if !wirecap_lab::require_root(
        "packets_of_a_part_have_its_time_and_their_records_have_it_once_it_is_written",
    ) {
        return;
    }
    const FIRST: u64 = u64::MAX - 1_000;
    let mut bench = Bench::new();
    bench.first_ns = FIRST;
    // Of two blocks, so that their rest is empty.
    let lengths: Vec<_> = (0..300).map(|number| 60 + 2 * number).collect();
    for &len in &lengths {
        assert!(bench.send(&vec![7; len], 5));
    }
    let mut seen = Vec::new();
    while let Some((handover, _)) = bench.receive() {
        for mut range in handover.into_ranges() {
            let packets = |range: &ChunkRange| {
                let packets = bench.reader.packets(range).map(|packet| (packet.len(), packet.timestamp_ns()));
                packets.collect::<Vec<_>>()
            };
            let before = packets(&range);
            let expected: Vec<_> = (FIRST..).take(before.len()).collect();
            assert_eq!(before.iter().map(|&(_, time_ns)| time_ns).collect::<Vec<_>>(), expected);
            assert!(bench.reader.records(&range).is_none(), "times are not in them");
            Bench::new().reader.write_times(&mut range);
            assert!(bench.reader.records(&range).is_none(), "a range of another pool");
            bench.reader.write_times(&mut range);
            assert_eq!(packets(&range), before);
            let records = bench.reader.records(&range).unwrap();
            assert_eq!(records.map(|record| record.timestamp_ns).collect::<Vec<_>>(), expected);
            seen.extend(before.into_iter().map(|(len, _)| len));
            bench.pool.recycle(range).unwrap();
        }
    }
    assert_eq!(seen, lengths);
    // The next packet of a block has no time that was there before.
    bench.first_ns = 0;
    assert!(bench.send(&[0; 60], 9_000));
    assert_eq!(bench.times().0, [9_000]);
}

#[test]
fn times_are_utc_and_each_is_later_than_the_one_before() {
    if !wirecap_lab::require_root("times_are_utc_and_each_is_later_than_the_one_before") {
        return;
    }
    const MS: u64 = 1_000_000;
    let mut bench = Bench::new();
    let mut times_of = |stamps: &[u64]| {
        stamps.iter().for_each(|&stamp| assert!(bench.send(&[0; 60], stamp)));
        bench.times()
    };
    let at = 1000 * MS as i64;
    assert_eq!(times_of(&[1000 * MS, 1000 * MS + 7]), (vec![at, at + 7], 0));
    assert_eq!(times_of(&[1000 * MS + 7, 1000 * MS + 7, 1000 * MS + 20]).0, [at + 8, at + 9, at + 20]);
    // Of the packets that were received together, one was raised by 2 ns.
    assert_eq!(times_of(&[1000 * MS + 20]), (vec![at + 21], 2));
    assert_eq!(times_of(&[1000 * MS + 22]), (vec![at + 22], 0));
    // What was raised before is known for a while, in case a run of the program has compared with it.
    assert_eq!(times_of(&[1000 * MS + 22]), (vec![at + 23], 2));
    assert_eq!(times_of(&[1000 * MS + 30]), (vec![at + 30], 0));
    assert_eq!(times_of(&[1000 * MS + 30]), (vec![at + 31], 1));
    // A step of the clock that is too small to count as one, and a large one.
    assert_eq!(times_of(&[991 * MS]), (vec![at + 32], 9 * MS + 32));
    assert_eq!(times_of(&[980 * MS, 980 * MS + 1]), (vec![at - 20 * MS as i64, at - 20 * MS as i64 + 1], 0));
}

#[test]
fn time_stands_still_in_a_leap_second() {
    if !wirecap_lab::require_root("time_stands_still_in_a_leap_second") {
        return;
    }
    const S: u64 = 1_000_000_000;
    let mut bench = Bench::new();
    bench.stream.set_shift(StampShift {
        add_ns: 100 * S as i64,
        leap_at: 10 * S,
        add_after_ns: 99 * S as i64,
        not_before_ns: 110 * S - 1,
    });
    let stamps = [10 * S - 2, 10 * S, 10 * S + S / 2, 11 * S - 1, 11 * S, 12 * S];
    stamps.iter().for_each(|&stamp| assert!(bench.send(&[0; 60], stamp)));
    let (times, _) = bench.times();
    let end = 110 * S as i64 - SHIFT.add_ns;
    assert_eq!(times, [end - 2, end - 1, end, end + 1, end + 2, end + S as i64]);
}
