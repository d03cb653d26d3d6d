//! The fields of a capture's reports that the screen shows.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::control::{protocol::Status, sample::Sample};

/// A report of the request `watch`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Report {
    pub(super) status: Status,
    pub(super) account: Account,
    #[serde(default)]
    pub(super) offloads: Vec<Offload>,
    #[serde(default)]
    pub(super) sample: Option<Sample>,
}

/// The account: see the record of `--json`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Account {
    /// Since the capture was opened.
    pub(super) seconds: f64,
    pub(super) ports: Vec<Port>,
    pub(super) workers: Vec<Worker>,
    #[serde(default)]
    pub(super) written: Option<Written>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Port {
    pub(super) name: String,
    #[serde(default)]
    pub(super) dropped_before_xdp: u64,
    pub(super) queues: Vec<Queue>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Queue {
    pub(super) queue: u64,
    pub(super) mode: String,
    pub(super) seen: u64,
    /// By cause.
    pub(super) lost: BTreeMap<String, u64>,
    pub(super) pool_used_percent: f64,
    pub(super) pool_peak_percent: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Worker {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) offloaded_in: u64,
    pub(super) offloaded_out: u64,
    pub(super) core: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Written {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) output_files: u64,
    /// Of these packets, those that are lost with files that another program deleted.
    #[serde(default)]
    pub(super) deleted: u64,
    /// Outputs that failed.
    #[serde(default)]
    pub(super) failed_outputs: u64,
}

/// Packets of the queues of `home` that `helper` took over.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Offload {
    pub(super) home: usize,
    pub(super) helper: usize,
    pub(super) packets: u64,
}

impl Queue {
    pub(super) fn packets_lost(&self) -> u64 {
        self.lost.values().sum()
    }
}

impl Report {
    /// Packets that were lost, by cause and place. Those that were lost after they were captured, as by
    /// forwarding, have one cause.
    pub(super) fn losses(&self) -> Vec<(Cause, u64)> {
        let mut losses = self.account.losses();
        let known: u64 = losses.iter().map(|&(_, packets)| packets).sum();
        let after = Cause { place: self.status.command.clone(), cause: AFTER_CAPTURE.into() };
        losses.push((after, self.status.lost.saturating_sub(known)));
        losses.retain(|&(_, packets)| packets > 0);
        losses
    }
}

impl Account {
    /// Packets that were lost before they were captured, by cause and place.
    fn losses(&self) -> Vec<(Cause, u64)> {
        let of_port = |port: &Port| {
            let early = Cause { place: port.name.clone(), cause: BEFORE_XDP.into() };
            let of_queue = |queue: &Queue| {
                let place = format!("{}, queue {}", port.name, queue.queue);
                let cause = |(cause, &packets): (&String, &u64)| {
                    (Cause { place: place.clone(), cause: cause.clone() }, packets)
                };
                queue.lost.iter().map(cause).collect::<Vec<_>>()
            };
            let of_queues: Vec<_> = port.queues.iter().flat_map(of_queue).collect();
            [(early, port.dropped_before_xdp)].into_iter().chain(of_queues)
        };
        self.ports.iter().flat_map(of_port).collect()
    }

    /// Packets and bytes that workers were given.
    pub(super) fn delivered(&self) -> (u64, u64) {
        let sum = |figure: fn(&Worker) -> u64| self.workers.iter().map(figure).sum();
        (sum(|worker| worker.packets), sum(|worker| worker.bytes))
    }
}

/// What the NIC or its driver dropped.
const BEFORE_XDP: &str = "dropped_before_xdp";
/// What was captured and did not reach its destination.
const AFTER_CAPTURE: &str = "after_capture";

/// Where and why packets were lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    pub(super) place: String,
    pub(super) cause: String,
}
