//! What the writer has written, while it writes.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::output::Output;

/// What is in the output.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Written {
    /// The output as the user named it.
    pub(crate) file: String,
    /// Packets in it.
    pub(crate) packets: u64,
    /// Its length, in bytes.
    pub(crate) bytes: u64,
    /// Packets in it that stand behind a later one.
    pub(crate) out_of_order: u64,
    /// Its name in messages.
    #[serde(skip)]
    pub(crate) in_words: String,
}

/// What the output holds so far. Each figure alone is right; together they may be of two writes.
#[derive(Debug)]
pub(crate) struct Gauge {
    file: String,
    in_words: String,
    /// These are written by the writer, after each write. They order nothing else.
    packets: AtomicU64,
    bytes: AtomicU64,
    out_of_order: AtomicU64,
}

impl Gauge {
    pub(super) fn new(output: &Output) -> Self {
        let (packets, bytes, out_of_order) =
            (AtomicU64::new(0), AtomicU64::new(output.len()), AtomicU64::new(0));
        Self { file: output.name(), in_words: output.in_words(), packets, bytes, out_of_order }
    }

    pub(super) fn show(&self, packets: u64, bytes: u64, out_of_order: u64) {
        self.packets.store(packets, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.out_of_order.store(out_of_order, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Written {
        Written {
            file: self.file.clone(),
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            out_of_order: self.out_of_order.load(Ordering::Relaxed),
            in_words: self.in_words.clone(),
        }
    }
}
