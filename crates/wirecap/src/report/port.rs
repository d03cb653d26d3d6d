//! What a port did: how it was opened, what it counted, what happened to it.

use serde::Serialize;
use wirecap_core::{QueueAccount, choices};

use crate::TapHook;

use super::{
    HostUse, LengthLimit, QueueMode, QueueReport, RssReport, TimestampReport, TraceFailure, TransmitReport,
    as_text_or_null, diagnostic::Diagnostic,
};

/// One port.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortReport {
    /// Name of the interface, or `trace:` and the name of the file.
    pub name: String,
    /// Its driver; `None` where the kernel names none, as for loopback, and of what is no interface.
    pub driver: Option<String>,
    /// What is not as asked for, or not as good as it could be: a better mode than the one in use, for
    /// instance.
    pub fallbacks: Vec<Diagnostic>,
    /// How the host and others use the interface: why it is captured passively or, if it is taken,
    /// which users go without the packets that are, those that have begun since included. Empty where
    /// `packet:` asks to capture passively.
    pub host_use: Vec<HostUse>,
    /// Where the times of its packets come from.
    pub timestamp: TimestampReport,
    /// Packets that had a VLAN tag which the NIC had taken off, and which could not be put back: they were
    /// captured without, or left to the host. `None` where the XDP program puts no tags back: the NIC takes
    /// none off, or its driver does not hand them to programs; then that is among `fallbacks`.
    pub untagged: Option<u64>,
    /// Packets for which the driver had no hash, or that had no room for it: their
    /// [`Packet::rx_hash`](crate::Packet::rx_hash) is `None`. Only with
    /// [`Builder::rx_hash`](crate::Builder::rx_hash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhashed: Option<u64>,
    /// Packets that were longer than the port can capture: they were cut, and have their original length.
    /// `None` of ports that cut none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<u64>,
    /// What is wanted of its packets, if not all are.
    pub filter: Option<FilterReport>,
    /// Where a tap copies what comes in; `None` of other ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tap_hook: Option<TapHook>,
    /// Whether packets larger than a cell arrive in several parts.
    pub multi_buffer: bool,
    /// The longest packet that fits; `None` if every packet fits that the MTU allowed when the port was
    /// opened, and on a passive port every one that the host hands over or puts together (`gso_max_size`,
    /// `gro_max_size`).
    pub length_limit: Option<LengthLimit>,
    /// How the NIC brings both directions of a connection in by one queue; `None` if that was not asked for.
    pub rss: Option<RssReport>,
    /// What its packets begin with: a link type of the registry of pcap, 1 for Ethernet.
    pub link_type: u16,
    /// NUMA node of the NIC and of its pools, if there is one.
    pub numa_node: Option<u32>,
    /// Whether the interface is gone.
    pub removed: bool,
    /// How much of a trace file is read, in percent; `None` unless it is a file.
    pub read_percent: Option<f64>,
    /// Why a trace file was not read to its end: the damage, and where. What stood before it was captured.
    #[serde(serialize_with = "as_text_or_null")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub error: Option<TraceFailure>,
    /// Packets the NIC or driver dropped before they could be seen, as the kernel's link statistics say: of
    /// the whole interface. Where several ports are of one interface, it is in the first of them, and 0 in
    /// the others.
    pub dropped_before_xdp: u64,
    /// What happened that the user should know: receive queues that are not captured, for instance.
    pub warnings: Vec<Diagnostic>,
    /// Its receive queues: those that are captured, then those with packets that were added after the start
    /// ([`QueueMode::Host`]).
    pub queues: Vec<QueueReport>,
    /// Packets that were given to the interface and that it did not send, as the kernel's link statistics say
    /// (`tx_dropped`, `tx_errors`): of the whole interface, other senders included. `None` without
    /// [`Builder::transmit`](crate::Builder::transmit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// What was sent from it, by transmit queue; empty without
    /// [`Builder::transmit`](crate::Builder::transmit).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transmitted: Vec<TransmitReport>,
}

impl PortReport {
    /// The accounts of its queues added up.
    pub fn total(&self) -> QueueAccount {
        self.queues.iter().map(|queue| queue.account).sum()
    }

    /// Whether it is captured passively.
    pub fn is_passive(&self) -> bool {
        self.queues.iter().any(|queue| matches!(queue.mode, QueueMode::Packet | QueueMode::Tap))
    }

    /// Whether its packets name their receive queue in a file: if it captures another one than queue 0. A
    /// passive port has CPUs or sockets instead.
    pub fn names_queues(&self) -> bool {
        let captured = self.queues.iter().filter(|queue| queue.mode != QueueMode::Host);
        !self.is_passive() && has_numbers(captured.map(|queue| queue.queue))
    }
}

/// Whether there is another queue than queue 0, so that packets have to name theirs.
pub(crate) fn has_numbers(mut queues: impl Iterator<Item = u16>) -> bool {
    queues.next() != Some(0) || queues.next().is_some()
}

choices! {
    /// Where the filter of a port runs.
    pub enum FilterPlace {
        /// In the kernel: a packet that is not wanted costs no cell and no copy.
        Kernel = "kernel",
        /// In user space, as machine code.
        NativeCode = "native-code",
        /// In user space, instruction by instruction.
        Interpreter = "interpreter",
    }
}

/// The filter of a port, as it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilterReport {
    /// The expression.
    pub expression: String,
    /// Where it runs.
    pub runs: FilterPlace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_queue_0_alone_name_no_queue() {
        let port = |mode, queues: &[u16]| PortReport {
            queues: queues
                .iter()
                .map(|&queue| QueueReport { queue, mode, ..QueueReport::default() })
                .collect(),
            ..PortReport::default()
        };
        for (queues, names) in [(&[0][..], false), (&[0, 1], true), (&[5, 2], true), (&[64], true)] {
            assert_eq!(port(QueueMode::Packed, queues).names_queues(), names, "{queues:?}");
            assert!(!port(QueueMode::Tap, queues).names_queues(), "CPUs");
        }
        let mut grown = port(QueueMode::Packed, &[0]);
        grown.queues.extend(port(QueueMode::Host, &[1]).queues);
        assert!(!grown.names_queues(), "no packet of queue 1 is captured");
    }
}
