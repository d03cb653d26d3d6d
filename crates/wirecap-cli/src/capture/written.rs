//! What the writer has written, while it writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::Serialize;

use super::{
    backlog::{Backlog, LAST_PATIENCE},
    output::Output,
};

/// How often packets were written although another queue might still have had an earlier one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Forced {
    /// Because as much was held back as memory allows.
    pub(crate) memory: u64,
    /// Because all packets were held back for too long.
    pub(crate) time: u64,
}

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
    pub(crate) forced: Forced,
    /// Packets that are not in it since it did not take them in time; only of a job that does not wait for it.
    pub(crate) not_taken: u64,
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
    forced_memory: AtomicU64,
    forced_time: AtomicU64,
    /// Bytes that the output has taken, whole records or not. Written by its sink.
    taken_bytes: Arc<AtomicU64>,
    /// Of a job that does not wait for the output.
    backlog: Option<Arc<Backlog>>,
}

impl Gauge {
    pub(super) fn new(output: &Output, backlog: Option<Arc<Backlog>>) -> Self {
        Self {
            file: output.name(),
            in_words: output.in_words(),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(output.len()),
            out_of_order: AtomicU64::new(0),
            forced_memory: AtomicU64::new(0),
            forced_time: AtomicU64::new(0),
            taken_bytes: output.taken_bytes(),
            backlog,
        }
    }

    pub(super) fn show(&self, packets: u64, bytes: u64, out_of_order: u64, forced: Forced) {
        self.packets.store(packets, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.out_of_order.store(out_of_order, Ordering::Relaxed);
        self.forced_memory.store(forced.memory, Ordering::Relaxed);
        self.forced_time.store(forced.time, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Written {
        Written {
            file: self.file.clone(),
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            out_of_order: self.out_of_order.load(Ordering::Relaxed),
            forced: Forced {
                memory: self.forced_memory.load(Ordering::Relaxed),
                time: self.forced_time.load(Ordering::Relaxed),
            },
            not_taken: self.backlog.as_ref().map_or(0, |backlog| backlog.not_taken()),
            in_words: self.in_words.clone(),
        }
    }

    /// Bytes that the output has taken so far: as long as they grow, it is slow and not stalled.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// How long the output may take nothing at the end; `None` if it is waited for as long as it takes.
    pub(super) fn last_patience(&self) -> Option<Duration> {
        self.backlog.as_ref().map(|_| LAST_PATIENCE)
    }
}
