//! The report of a replay.

use serde::Serialize;
use wirecap_send::{LaneReport, SendDiagnostic, TxDelta};

use crate::{CutPolicy, End, Failure, PacingReport, Tally};

/// The result of a replay.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The interface.
    pub interface: String,
    /// Why the replay ended.
    pub end: End,
    /// Packets that were sent: given to the kernel and returned by it.
    pub packets: u64,
    /// Bytes of packets that were given to the kernel.
    pub bytes: u64,
    /// Seconds from the first departure to the last; at top speed, to the last completion.
    pub seconds: f64,
    /// Packets per second.
    pub pps: f64,
    /// Bits per second, of the packets as they are in the file.
    pub bps: f64,
    /// Passes over the files that were started.
    pub passes: u64,
    /// Whether the trace was in cells as a whole, or was read while it was sent.
    pub held: Storage,
    /// How evenly packets were sent; `None` at top speed.
    pub pacing: Option<PacingReport>,
    /// What was sent from each queue.
    pub queues: Vec<LaneReport>,
    /// What one pass found in the files.
    pub trace: Tally,
    /// What was done with packets of which the file has only the beginning.
    pub truncated: CutPolicy,
    /// What the interface counted during the replay, including the host's own packets; `None` if it was gone.
    pub counters: Option<TxDelta>,
    /// Requests that were not met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<SendDiagnostic>,
    /// What was not read or not sent to its end, and why.
    pub failures: Vec<Failure>,
}

/// Where a trace was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Storage {
    /// In cells as a whole: nothing was read or copied during sending.
    Preloaded {
        /// Memory of the cells, in bytes.
        cells_bytes: u64,
        /// Copies of the trace in the cells.
        copies: u32,
    },
    /// It was read while it was sent.
    Streamed {
        /// Memory of the cells, in bytes.
        cells_bytes: u64,
        /// How often a packet was due that was not read yet.
        starved: u64,
    },
}
