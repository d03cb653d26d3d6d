//! What came of a replay.

use serde::Serialize;
use wirecap_send::{LaneReport, SendDiagnostic, TxDelta};

use crate::{Cut, End, Failure, PacingReport, Tally};

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
    pub held: Storage,
    /// How evenly it was sent; `None` at top speed.
    pub pacing: Option<PacingReport>,
    /// What was sent from each queue.
    pub queues: Vec<LaneReport>,
    /// What was found in the files, in one pass.
    pub trace: Tally,
    /// What was done with packets of which the file has only the beginning.
    pub truncated: Cut,
    /// What the interface counted during the replay, the host's own packets included; `None` if it was gone.
    pub counters: Option<TxDelta>,
    /// What was not as it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<SendDiagnostic>,
    /// What was not read or not sent to its end, and why.
    pub failures: Vec<Failure>,
}

/// Where a trace was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Storage {
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
