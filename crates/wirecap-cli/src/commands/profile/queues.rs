//! Which queue a packet counts for: the one it came in on, or the one that RSS chooses.

use std::collections::BTreeMap;

use serde::Serialize;
use wirecap::{Report, report::PortReport};
use wirecap_profile::{
    Rss,
    rss::{FirstHeader, HashFields},
};

use crate::text::report::RowKind;

/// Where the queues of a profile come from.
#[derive(Debug, Clone)]
pub(super) enum QueueSource {
    /// Those that packets came in on.
    Captured,
    /// Computed, as a NIC does.
    Computed(ComputedQueues),
}

/// The settings of RSS.
#[derive(Debug, Clone)]
pub(super) struct ComputedQueues {
    pub(super) rss: Rss,
    pub(super) key: String,
    pub(super) fields: HashFields,
    pub(super) entries: usize,
}

/// The settings with which queues were computed, and what they do not apply to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RssRecord {
    /// The key: `microsoft`, `symmetric`, or hexadecimal.
    pub(super) key: String,
    /// What is hashed: `ports`, `tcp-ports`, `addresses`.
    pub(super) fields: String,
    /// The number of entries of the indirection table.
    pub(super) entries: usize,
    /// Packets without a hash, since they are not IP or too much of them is cut off: queue 0 has them, with
    /// any key and table.
    pub(super) without_hash: u64,
}

impl QueueSource {
    pub(super) fn is_computed(&self) -> bool {
        matches!(self, Self::Computed(_))
    }

    /// The settings of RSS, if queues are computed, beside the number of packets without a hash.
    pub(super) fn record(&self, without_hash: u64) -> Option<RssRecord> {
        match self {
            Self::Captured => None,
            Self::Computed(ComputedQueues { key, fields, entries, .. }) => {
                let (key, fields, entries) = (key.clone(), fields.to_string(), *entries);
                Some(RssRecord { key, fields, entries, without_hash })
            }
        }
    }
}

/// A queue of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueName {
    pub(super) port: String,
    /// What the number counts.
    pub(super) kind: RowKind,
    pub(super) number: u64,
}

/// The queues of a profile, by position.
#[derive(Debug, Clone)]
pub(super) struct Queues {
    pub(super) names: Vec<QueueName>,
    pub(super) selector: QueueSelector,
}

/// Finds the position of a packet's queue.
#[derive(Debug, Clone)]
pub(super) enum QueueSelector {
    /// By port and queue of its batch.
    Captured(BTreeMap<(usize, u16), usize>),
    /// By its headers.
    Computed(Rss, FirstHeader),
}

impl Queues {
    /// # Errors
    /// NICs do not compute RSS for the link type.
    pub(super) fn new(source: &QueueSource, report: &Report) -> Result<Self, crate::exit::Usage> {
        match source {
            QueueSource::Captured => Ok(Self::captured(report)),
            QueueSource::Computed(ComputedQueues { rss, .. }) => {
                let PortReport { name: port, link_type, .. } = &report.ports[0];
                let first = FirstHeader::of_link_type(*link_type).ok_or_else(|| {
                    usage!(
                        "{port} has packets of link type {link_type}, to which RSS does not apply: name a trace of Ethernet or IP packets"
                    )
                })?;
                let name = |number| QueueName { port: port.clone(), kind: RowKind::Queue, number };
                let names = (0..rss.queues() as u64).map(name).collect();
                Ok(Self { names, selector: QueueSelector::Computed(rss.clone(), first) })
            }
        }
    }

    fn captured(report: &Report) -> Self {
        let (mut names, mut positions) = (Vec::new(), BTreeMap::new());
        for (number, port) in report.ports.iter().enumerate() {
            let kind = RowKind::of(port);
            for queue in &port.queues {
                positions.insert((number, queue.queue), names.len());
                names.push(QueueName { port: port.name.clone(), kind, number: queue.queue.into() });
            }
        }
        Self { names, selector: QueueSelector::Captured(positions) }
    }

    /// The ports, each once.
    pub(super) fn ports(&self) -> Vec<&str> {
        let mut ports: Vec<_> = self.names.iter().map(|name| name.port.as_str()).collect();
        ports.dedup();
        ports
    }

    /// Names for people: `queue 3`, or with several ports `eth1 queue 3`.
    pub(super) fn labels(&self) -> Vec<String> {
        let is_one = self.names.iter().all(|name| name.port == self.names[0].port);
        let label = |QueueName { port, kind, number }: &QueueName| match is_one {
            true => format!("{kind} {number}"),
            false => format!("{port} {kind} {number}"),
        };
        self.names.iter().map(label).collect()
    }
}

#[cfg(test)]
mod tests {
    use wirecap::report::{MemoryReport, QueueMode, QueueReport};

    use super::*;

    #[test]
    fn queues_of_several_ports_are_named_with_their_ports() {
        let port = |name: &str, mode, queues: &[u16]| PortReport {
            name: name.into(),
            queues: queues
                .iter()
                .map(|&queue| QueueReport { queue, mode, ..QueueReport::default() })
                .collect(),
            ..PortReport::default()
        };
        let ports = vec![port("a", QueueMode::Packed, &[2, 5]), port("b", QueueMode::Tap, &[0])];
        let (workers, memory) = (Vec::new(), MemoryReport::default());
        let report = Report { seconds: 0.0, threshold_percent: None, ports, workers, memory };
        let queues = Queues::new(&QueueSource::Captured, &report).unwrap();
        assert_eq!(queues.labels(), ["a queue 2", "a queue 5", "b core 0"]);
        let QueueSelector::Captured(positions) = queues.selector else { panic!("they are captured") };
        assert_eq!(positions, BTreeMap::from([((0, 2), 0), ((0, 5), 1), ((1, 0), 2)]));
    }
}
