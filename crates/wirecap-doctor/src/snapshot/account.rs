//! What an earlier capture reported: the part of `wirecap capture --json` that the rules need.

use serde::{Deserialize, Serialize};
use wirecap_core::choices;

/// What can stand before the name of an interface that is captured.
const ACCESSES: [&str; 4] = ["", "xdp:", "tap:", "packet:"];

choices! {
    /// Whether workers help each other.
    pub enum CaptureMode {
        /// No worker helps another.
        Basic = "basic",
        /// A worker takes over packets of a queue whose pool is fuller than T.
        Advanced = "advanced",
    }
}

impl CaptureMode {
    /// The mode of a capture with this T, in percent.
    pub fn with_threshold(percent: Option<u8>) -> Self {
        if percent.is_some() { Self::Advanced } else { Self::Basic }
    }
}

/// The settings of an earlier capture; `None` what its account does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountSettings {
    /// Whether workers help each other.
    pub mode: Option<CaptureMode>,
    /// T, in percent; `None` in basic mode, too.
    pub threshold_percent: Option<u8>,
    /// R.
    pub chunks_per_pool: Option<u32>,
    /// How many workers there were.
    pub workers: Option<u32>,
}

/// A port of an earlier capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortAccount {
    /// Its name, as it was captured: `eth1`, `xdp:eth1`, `eth1@0-3`.
    pub name: String,
    /// Packets that the NIC or its driver dropped.
    pub dropped_before_xdp: u64,
    /// Whether it was captured beside the host: its queues are CPUs or sockets, not receive queues.
    pub is_passive: bool,
    /// Its queues.
    pub queues: Vec<QueueAccount>,
}

impl PortAccount {
    /// What all queues lost.
    pub fn lost(&self) -> LostPackets {
        self.queues.iter().fold(LostPackets::default(), |sum, QueueAccount { lost, .. }| LostPackets {
            no_free_cell: sum.no_free_cell + lost.no_free_cell,
            no_free_block: sum.no_free_block + lost.no_free_block,
            rx_ring_full: sum.rx_ring_full + lost.rx_ring_full,
            too_long: sum.too_long + lost.too_long,
        })
    }

    /// The interface; `None` for a trace file.
    ///
    /// ```
    /// # use wirecap_doctor::snapshot::PortAccount;
    /// let port = |name: &str| PortAccount { name: name.into(), ..PortAccount::default() };
    /// assert_eq!(port("eth1@0-3").interface(), Some("eth1"));
    /// assert_eq!(port("trace:eth1.pcap").interface(), None);
    /// ```
    pub fn interface(&self) -> Option<&str> {
        let (access, name) = self.name.split_at(self.name.find(':').map_or(0, |colon| colon + 1));
        let is_queue = |letter: char| letter.is_ascii_digit() || letter == ',' || letter == '-';
        let name = match name.rsplit_once('@') {
            Some((interface, queues)) if queues.chars().all(is_queue) => interface,
            _ => name,
        };
        ACCESSES.contains(&access).then_some(name)
    }

    /// Packets that came.
    pub fn seen(&self) -> u64 {
        self.queues.iter().map(|queue| queue.seen).sum()
    }
}

/// A receive queue of an earlier capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueAccount {
    /// Its number.
    pub queue: u32,
    /// Packets that came.
    pub seen: u64,
    /// Packets that were lost.
    pub lost: LostPackets,
}

/// Packets that were lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LostPackets {
    /// The pool was used up.
    pub no_free_cell: u64,
    /// The same where packets lie in blocks.
    pub no_free_block: u64,
    /// The kernel's ring was full.
    pub rx_ring_full: u64,
    /// Longer than a cell.
    pub too_long: u64,
}

impl LostPackets {
    /// Those for which a pool had no room.
    pub fn of_full_pools(&self) -> u64 {
        self.no_free_cell + self.no_free_block
    }

    /// All causes together.
    pub fn total(&self) -> u64 {
        self.no_free_cell + self.no_free_block + self.rx_ring_full + self.too_long
    }
}
