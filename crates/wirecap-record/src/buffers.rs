//! Buffers that go round: from a worker to the file and back, and those the merger copies into.

use std::sync::mpsc::SyncSender;

use super::block::Records;

/// Buffers of the merger that are kept when they are empty.
const SPARE: usize = 16;

/// Takes emptied buffers, and knows where they belong.
#[derive(Debug)]
pub struct Buffers {
    /// Where emptied ones go, by worker.
    returns: Vec<SyncSender<Vec<u8>>>,
    spare: Vec<Vec<u8>>,
}

impl Buffers {
    /// With the way back to each worker.
    pub fn new(returns: Vec<SyncSender<Vec<u8>>>) -> Self {
        Self { returns, spare: Vec::new() }
    }

    /// An empty one for the merger.
    pub fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// These are written, or copied.
    pub fn give_back(&mut self, records: Records) {
        let Records { mut bytes, owner, .. } = records;
        if let Some(worker) = owner {
            // One that has enough of them, or is gone, does not take it; then it is freed.
            let _ = self.returns[worker].try_send(bytes);
        } else if self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
