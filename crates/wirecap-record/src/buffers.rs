//! Buffers that are reused: from a worker to the file and back, and those of the merger.

use std::sync::mpsc::SyncSender;

use super::records::Records;

/// Empty buffers of the merger that are kept.
const SPARE: usize = 16;

/// Takes written buffers and returns each to its owner.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// The way back to each worker.
    returns: Vec<SyncSender<Records>>,
    spare: Vec<Records>,
}

impl Buffers {
    /// `returns` is the way back to each worker.
    pub(crate) fn new(returns: Vec<SyncSender<Records>>) -> Self {
        Self { returns, spare: Vec::new() }
    }

    /// An empty buffer for the merger.
    pub(crate) fn take(&mut self) -> Records {
        self.spare.pop().unwrap_or_else(|| Records::new(None))
    }

    /// Takes back a buffer whose records are written or copied: those in place go back to their pool.
    pub(crate) fn give_back(&mut self, mut records: Records) {
        records.clear();
        if let Some(worker) = records.owner {
            // Freed if the worker has enough buffers, or is gone.
            let _ = self.returns[worker].try_send(records);
        } else if self.spare.len() < SPARE {
            self.spare.push(records);
        }
    }
}
