//! Verdicts on streams whose faults are known.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use super::*;
use crate::{marks::SEQUENCE_END, random::Random};

fn marks(run: u16, flow: u32, sequence: u64) -> Option<Marks> {
    Some(Marks { run, flow, sequence, sent_ns: 0 })
}

fn only(verifier: &Verifier) -> RunVerdict {
    let verdict = verifier.verdict();
    assert_eq!((verdict.runs.len(), verdict.unmarked, verdict.of_further_runs), (1, 0, 0));
    verdict.runs[0]
}

#[test]
fn a_clean_stream_has_no_faults() {
    let mut verifier = Verifier::default();
    (100..300).for_each(|sequence| verifier.note(0, marks(5, sequence as u32 % 7, sequence), 1));
    let found = only(&verifier);
    assert_eq!((found.run, found.received, found.first, found.last, found.flows), (5, 200, 100, 299, 7));
    assert_eq!((found.lost, found.duplicated, found.reordered, found.too_late), (0, 0, 0, 0));
    assert_eq!(found.latency, None, "no frame has a send time");
}

#[test]
fn each_kind_of_fault_is_counted() {
    let mut verifier = Verifier::default();
    // 3 and 8 are lost, 5 is duplicated, 6 comes after 7. 2 comes after 9, but in another flow, so it is in
    // order.
    for (flow, sequence) in [(0, 0), (0, 1), (0, 4), (0, 5), (0, 7), (0, 6), (0, 5), (0, 9), (1, 2)] {
        verifier.note(0, marks(1, flow, sequence), 1);
    }
    let found = only(&verifier);
    assert_eq!((found.received, found.lost, found.duplicated, found.reordered), (9, 2, 1, 1));
    assert_eq!((found.first, found.last, found.flows), (0, 9, 2));
}

#[test]
fn frames_missing_at_either_end_of_a_known_length_are_lost() {
    let of = |expected, numbers: &mut dyn Iterator<Item = u64>| {
        let mut verifier = Verifier::new(Some(expected));
        numbers.for_each(|sequence| verifier.note(0, marks(1, 0, sequence), 1));
        let RunVerdict { lost, unexpected, duplicated, .. } = only(&verifier);
        (lost, unexpected, duplicated)
    };
    assert_eq!(of(100, &mut (0..100)), (0, 0, 0));
    assert_eq!(of(100, &mut (3..100)), (3, 0, 0), "the first three are lost");
    assert_eq!(of(100, &mut (0..90)), (10, 0, 0), "the last ten are lost");
    assert_eq!(of(100, &mut (40..42).chain(7..8)), (97, 0, 0));
    assert_eq!(of(100, &mut (0..103)), (0, 3, 0), "more than expected");
    assert_eq!(of(100, &mut (98..103).chain(101..102)), (98, 3, 1));
    assert_eq!(of(3 * WINDOW, &mut (0..3 * WINDOW - 1)), (1, 0, 0));
    assert_eq!(of(0, &mut (0..1)), (0, 1, 0));
}

#[test]
fn order_is_judged_within_each_queue() {
    let mut verifier = Verifier::default();
    // The flow moves to queue 1, which is read before the rest of queue 0.
    for (queue, sequence) in [(0, 0), (1, 3), (1, 4), (0, 1), (0, 2), (1, 6), (1, 5)] {
        verifier.note(queue, marks(1, 0, sequence), 1);
    }
    assert_eq!((only(&verifier).lost, only(&verifier).reordered), (0, 1));
}

#[test]
fn the_first_number_need_not_be_the_first_one_seen() {
    let mut verifier = Verifier::default();
    for sequence in [50, 51, 10, 12] {
        verifier.note(sequence as u16, marks(1, 0, sequence), 1);
    }
    let found = only(&verifier);
    assert_eq!((found.first, found.last, found.lost, found.too_late), (10, 51, 38, 0));
}

#[test]
fn jumps_far_ahead_and_far_behind_are_counted() {
    let mut verifier = Verifier::default();
    for sequence in [5, 6, WINDOW + 6, WINDOW + 6, 7, 6, 5 * WINDOW, 4 * WINDOW + 1, 4 * WINDOW] {
        verifier.note(0, marks(1, 0, sequence), 1);
    }
    let found = only(&verifier);
    // 6 and 4 × WINDOW are too old to judge; 7 is just recent enough.
    assert_eq!((found.received, found.duplicated, found.too_late), (9, 1, 2));
    assert_eq!(found.lost, 5 * WINDOW - 5 + 1 - 6);
}

#[test]
fn a_number_far_ahead_costs_no_more_than_the_next_one() {
    let (mut verifier, started) = (Verifier::default(), Instant::now());
    for step in 0..2_000 {
        verifier.note(0, marks(1, 0, step * (WINDOW - 1)), 1);
    }
    let found = only(&verifier);
    assert_eq!((found.received, found.lost), (2_000, 1_999 * (WINDOW - 2)));
    // Takes less than a millisecond; one step for each skipped number would take 20 s.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn order_is_judged_up_to_the_highest_number() {
    let mut verifier = Verifier::default();
    for (queue, back) in [(0, 3), (0, 1), (0, 2), (1, 4)] {
        verifier.note(queue, marks(1, 0, SEQUENCE_END - back), 1);
    }
    assert_eq!((only(&verifier).reordered, only(&verifier).last), (1, SEQUENCE_END - 1));
}

#[test]
fn runs_are_counted_apart_up_to_a_limit() {
    let mut verifier = Verifier::default();
    for run in 0..MAX_RUNS as u16 + 2 {
        (0..10).for_each(|sequence| verifier.note(0, marks(run, 0, sequence), 1));
    }
    verifier.note(0, None, 1);
    let verdict = verifier.verdict();
    assert_eq!((verdict.runs.len(), verdict.of_further_runs, verdict.unmarked), (MAX_RUNS, 20, 1));
    assert!(verdict.runs.iter().all(|run| (run.received, run.lost) == (10, 0)));
    let mut far = Verifier::default();
    far.note(0, marks(1, MAX_FLOWS, 0), 1);
    assert_eq!((only(&far).flows, only(&far).received), (0, 1), "its order is not checked");
}

#[test]
fn latency_is_measured_on_frames_with_a_send_time() {
    let mut verifier = Verifier::default();
    let early = 1_000 + CLOCK_TOLERANCE_NS;
    for (sequence, sent_ns, arrived_ns) in
        [(0, 1_000, 3_000), (1, 1_000, 1_001_000), (2, early + 1, 1_000), (3, 0, 5), (4, early, 1_000)]
    {
        verifier.note(0, Some(Marks { run: 1, flow: 0, sequence, sent_ns }), arrived_ns);
    }
    let found = only(&verifier);
    let latency = found.latency.unwrap();
    let near = |value: u64, expected: u64| value.abs_diff(expected) <= expected / 100;
    assert!(latency.min_ns == 1 && near(latency.p50_ns, 2_000), "{latency:?}");
    assert!(near(latency.p99_ns, 1_000_000) && near(latency.max_ns, 1_000_000), "{latency:?}");
    assert_eq!(found.before_sent, 1);
}

/// Checks verdicts on jumps across windows, to their edges and across edges of words against a set.
#[test]
fn random_jumps_match_a_model() {
    let mut random = Random::new(7);
    let (mut verifier, mut seen, mut highest) = (Verifier::default(), HashSet::new(), 0_u64);
    let (mut duplicated, mut too_late) = (0, 0);
    for _ in 0..200_000 {
        let near = u64::from(random.below(130));
        let number = match random.below(4) {
            0 => highest + near,
            1 => (highest + near).saturating_sub(WINDOW + 65),
            2 => highest.saturating_sub(near),
            _ => highest + u64::from(random.below(100)) / 99 * (WINDOW - 65 + near),
        };
        verifier.note(0, marks(1, 0, number), 1);
        highest = highest.max(number);
        if highest - number >= WINDOW {
            too_late += 1;
        } else {
            duplicated += u64::from(!seen.insert(number));
        }
    }
    let found = only(&verifier);
    assert_eq!((found.duplicated, found.too_late, found.last), (duplicated, too_late, highest));
    assert!(duplicated > 1_000 && too_late > 1_000 && highest > 100 * WINDOW);
}

/// Checks verdicts on streams with random loss, duplication and displacement against sets.
#[test]
fn random_streams_match_a_model() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut stream: Vec<u64> = (1_000..6_000).collect();
        stream.retain(|_| random.below(10) > 0);
        for _ in 0..200 {
            let (from, to) = (random.below(stream.len() as u32), random.below(stream.len() as u32));
            let moved = stream[from as usize];
            stream.insert(to as usize, moved);
        }
        let mut verifier = Verifier::default();
        let (mut seen, mut newest, mut duplicated, mut reordered) = (HashSet::new(), 0, 0, 0);
        for &sequence in &stream {
            verifier.note(3, marks(9, 2, sequence), 1);
            if !seen.insert(sequence) {
                duplicated += 1;
            } else if sequence < newest {
                reordered += 1;
            } else {
                newest = sequence;
            }
        }
        let found = only(&verifier);
        let (first, last) = (*seen.iter().min().unwrap(), *seen.iter().max().unwrap());
        assert_eq!((found.first, found.last), (first, last));
        assert_eq!((found.duplicated, found.reordered), (duplicated, reordered), "seed {seed}");
        assert_eq!(found.lost, last - first + 1 - seen.len() as u64);
    }
}
