//! What came of a replay.

use serde::Serialize;
use wirecap_sys::netdev::LinkStatistics;

use wirecap_send::LaneReport;

use crate::{Cut, End, PacingReport, Tally};

/// What came of a replay.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The interface.
    pub interface: String,
    /// Why it was over.
    pub end: End,
    /// Packets that were sent: given to the kernel, and back from it.
    pub packets: u64,
    /// Bytes of packets that were given to the kernel.
    pub bytes: u64,
    /// From the first departure to the last; at top speed until all came back from the kernel.
    pub seconds: f64,
    /// Packets a second.
    pub pps: f64,
    /// Bits a second, of the packets as they are in the file.
    pub bps: f64,
    /// Passes over the files that were begun.
    pub passes: u64,
    /// Whether the trace lay in cells as a whole, or was read while it was sent.
    pub held: Held,
    /// How evenly it was sent; `None` at top speed.
    pub pacing: Option<PacingReport>,
    /// What was sent from each queue.
    pub queues: Vec<LaneReport>,
    /// What was found in the files, in one pass.
    pub trace: Tally,
    /// What was done with packets of which the file has only the beginning.
    pub truncated: Cut,
    /// What the interface counted meanwhile; `None` if it was gone.
    pub counters: Option<Counters>,
    /// What could not be had, and what was done instead, in words.
    pub fallbacks: Vec<String>,
    /// What was not read or sent to its end, and why, in words.
    pub failures: Vec<String>,
}

/// Where a trace was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Held {
    /// In cells as a whole: nothing was read or copied while it was sent.
    Preloaded {
        /// Memory of the cells, in bytes.
        cells_bytes: u64,
        /// How often it lay there.
        copies: u32,
    },
    /// It was read while it was sent.
    Streamed {
        /// Memory of the cells, in bytes.
        cells_bytes: u64,
        /// How often a packet was due, and the file was not read so far.
        starved: u64,
    },
}

/// What an interface counted, its own packets and the host's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent; drivers differ in whether they count the checksum (FCS).
    pub bytes: u64,
    /// Packets dropped on the way out.
    pub dropped: u64,
    /// Packets not sent because of an error.
    pub errors: u64,
}

impl Counters {
    pub(crate) fn between(before: &LinkStatistics, after: &LinkStatistics) -> Self {
        let since = after.since(before);
        Self {
            packets: since.tx_packets,
            bytes: since.tx_bytes,
            dropped: since.tx_dropped,
            errors: since.tx_errors,
        }
    }

    /// Packets of which the interface has said what became of them.
    pub(crate) fn total(&self) -> u64 {
        self.packets + self.dropped + self.errors
    }
}
