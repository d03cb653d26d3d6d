//! Assertions that every test makes at its end.

use std::collections::BTreeMap;

use wirecap::{Modes, QueueAccount, Report, report::QueueMode};
use wirecap_traffic::{FrameSpec, Marks, Template};

use crate::{crew::Arrival, kernel_is_at_least};

/// Asserts that the account explains every packet of every queue, and that no recycled cell was refused.
/// Returns the sum of the accounts.
#[track_caller]
pub fn account_closed(report: &Report) -> QueueAccount {
    for queue in report.ports.iter().flat_map(|port| &port.queues) {
        assert_eq!(queue.unexplained, 0, "{queue:#?}");
        assert_eq!(queue.account.unexplained(), 0, "{queue:#?}");
        assert_eq!(queue.refused, 0, "{queue:#?}");
    }
    let taken: u64 = report.workers.iter().map(|worker| worker.packets).sum();
    assert_eq!(taken, report.total().delivered, "workers and queues disagree: {report:#?}");
    report.total()
}

/// Asserts that all cells are home.
#[track_caller]
pub fn pools_whole(report: &Report) {
    assert_eq!(report.pool_used_percent(), 0.0, "cells are missing: {report:#?}");
}

/// Asserts that every queue of a veth pair works as `modes` demands; the best way is packing, except on
/// kernels that do not say what a driver offers.
#[track_caller]
pub fn mode(report: &Report, modes: Modes) {
    let expected = match modes {
        Modes::Best | Modes::Packed if kernel_is_at_least(6, 3) => QueueMode::Packed,
        Modes::Best | Modes::Copy => QueueMode::Copy,
        Modes::Generic => QueueMode::Generic,
        other => panic!("a veth pair has no {other:?}"),
    };
    let queues = report.ports.iter().flat_map(|port| &port.queues);
    assert!(queues.clone().all(|queue| queue.mode == expected), "{modes:?}: {report:#?}");
}

/// Asserts the promised order: each worker gets the packets of a queue in order; the numbers of a queue are
/// consecutive from 0, without duplicates; times increase strictly with them. Returns the packets of each
/// (port, queue), in the order of their numbers.
#[track_caller]
pub fn in_order(arrivals: &[Arrival]) -> BTreeMap<(usize, u16), Vec<&Arrival>> {
    let mut last = BTreeMap::new();
    let mut queues: BTreeMap<_, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        let queue = (arrival.port, arrival.queue);
        if let Some(before) = last.insert((arrival.worker, queue), arrival.number) {
            assert!(before < arrival.number, "worker {} got {queue:?} out of order", arrival.worker);
        }
        queues.entry(queue).or_default().push(arrival);
    }
    for (queue, packets) in &mut queues {
        packets.sort_by_key(|packet| packet.number);
        for (expected, packet) in packets.iter().enumerate() {
            assert_eq!(packet.number, expected as u64, "numbers of queue {queue:?}");
        }
        let times = packets.windows(2).all(|pair| pair[0].timestamp_ns < pair[1].timestamp_ns);
        assert!(times, "times of queue {queue:?} do not increase");
    }
    queues
}

/// Asserts that each packet equals, byte for byte, the frame that its marks name. Returns the sequence
/// numbers in the order of the packets.
#[track_caller]
pub fn intact<'a>(arrivals: impl IntoIterator<Item = &'a Arrival>, spec: FrameSpec) -> Vec<u64> {
    let mut template = Template::new(spec).unwrap();
    let sequence = |arrival: &Arrival| {
        let marks = Marks::read(&arrival.bytes).expect("the generator made this frame");
        assert_eq!(arrival.bytes, template.stamp_at(marks.flow, marks.sequence, marks.sent_ns), "{marks:?}");
        marks.sequence
    };
    arrivals.into_iter().map(sequence).collect()
}

/// Asserts that `sequences` increase strictly.
#[track_caller]
pub fn increasing(sequences: &[u64]) {
    let wrong = sequences.windows(2).find(|pair| pair[0] >= pair[1]);
    assert!(wrong.is_none(), "sequence numbers {wrong:?} do not increase");
}

/// Asserts that `sequences` are the numbers below `sent` in any order, without duplicates, with `missing` of
/// them absent.
#[track_caller]
pub fn each_once(mut sequences: Vec<u64>, sent: u64, missing: u64) {
    let arrived = sequences.len() as u64;
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences.len() as u64, arrived, "no frame arrives twice");
    assert_eq!(arrived, sent - missing);
    assert!(sequences.last().is_none_or(|&last| last < sent));
}
