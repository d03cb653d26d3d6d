//! What a source says of the frame that comes next, and how often it begins anew.

use crate::schedule::mean_gap_ns;

/// A frame that lies in cells of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextFrame {
    /// Since the start.
    pub(crate) due_ns: u64,
    /// The first of its cells.
    pub(crate) cell: u32,
    pub(crate) len: u32,
    pub(crate) lane: u16,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Frame(NextFrame),
    /// Nothing yet.
    Wait(WaitReason),
    End,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// Cells that the kernel has.
    Cells,
    /// What is read of the file.
    File,
}

/// How often the files are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passes {
    /// `None` goes on until it is stopped.
    pub(crate) count: Option<u64>,
    /// Between passes, in the recorded time; `None` is the mean gap of the trace.
    pub(crate) gap_ns: Option<u64>,
}

impl Passes {
    /// Whether this pass, counted from 0, is the last one.
    pub(crate) fn is_last(&self, pass: u64) -> bool {
        self.count.is_some_and(|count| pass + 1 >= count)
    }

    pub(crate) fn gap_ns(&self, span_ns: u64, frames: u64) -> u64 {
        self.gap_ns.unwrap_or_else(|| mean_gap_ns(span_ns, frames))
    }
}
