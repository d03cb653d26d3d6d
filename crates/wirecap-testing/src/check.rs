//! What must hold after every test.

use std::collections::BTreeMap;

use wirecap::{QueueAccount, Report};
use wirecap_traffic::{FrameSpec, Marks, Template};

use crate::crew::Arrival;

/// Asserts that every packet of every queue is explained, and that nothing wrong was recycled. Gives the sum
/// of the accounts.
#[track_caller]
pub fn account_closed(report: &Report) -> QueueAccount {
    for queue in report.ports.iter().flat_map(|port| &port.queues) {
        assert_eq!(queue.unexplained, 0, "{queue:#?}");
        assert_eq!(queue.account.unexplained(), 0, "{queue:#?}");
        assert_eq!(queue.refused, 0, "{queue:#?}");
    }
    let given: u64 = report.workers.iter().map(|worker| worker.packets).sum();
    assert_eq!(given, report.total().delivered, "workers and queues disagree: {report:#?}");
    report.total()
}

/// Asserts that all cells are home.
#[track_caller]
pub fn pools_whole(report: &Report) {
    assert_eq!(report.pool_used_percent(), 0.0, "cells are missing: {report:#?}");
}

/// Asserts what is promised about order: each worker gets the packets of a queue in order; the numbers of a
/// queue are consecutive from 0, none twice; times increase strictly with them. Gives the packets of each
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
            assert_eq!(packet.number, expected as u64, "of queue {queue:?}");
        }
        let times = packets.windows(2).all(|pair| pair[0].timestamp_ns < pair[1].timestamp_ns);
        assert!(times, "times of queue {queue:?} do not increase");
    }
    queues
}

/// Asserts that each packet is, byte for byte, the frame its marks say it is. Gives the sequence numbers, as
/// the packets are ordered.
#[track_caller]
pub fn intact<'a>(arrivals: impl IntoIterator<Item = &'a Arrival>, spec: FrameSpec) -> Vec<u64> {
    let mut template = Template::new(spec).unwrap();
    let sequence = |arrival: &Arrival| {
        let marks = Marks::read(&arrival.bytes).expect("a frame of the generator");
        assert_eq!(arrival.bytes, template.stamp_at(marks.flow, marks.sequence, marks.sent_ns), "{marks:?}");
        marks.sequence
    };
    arrivals.into_iter().map(sequence).collect()
}

/// Asserts that `sequences` increase.
#[track_caller]
pub fn increasing(sequences: &[u64]) {
    let wrong = sequences.windows(2).find(|pair| pair[0] >= pair[1]);
    assert!(wrong.is_none(), "sequence number {wrong:?} not increasing");
}

/// Asserts that `sequences` are, in any order, the numbers from 0 on, each exactly once but `missing` of
/// them.
#[track_caller]
pub fn each_once(mut sequences: Vec<u64>, sent: u64, missing: u64) {
    let came = sequences.len() as u64;
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences.len() as u64, came, "some came twice");
    assert_eq!(came, sent - missing);
    assert!(sequences.last().is_none_or(|&last| last < sent));
}
