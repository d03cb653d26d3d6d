//! The progress of writing.

use std::{
    iter::Sum,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use serde::Serialize;

use super::{
    backlog::Backlog,
    copy::{CopyReader, OutputCopy},
    output::{DeletedFile, Output},
};

/// How often packets were written although another queue might have had an earlier one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForcedWrites {
    /// Because held packets had reached their limit on memory (64 MiB).
    pub memory: u64,
    /// Because all packets had been held back for too long (2 s).
    pub time: u64,
}

/// What is in an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenCounts {
    /// Packets in the output, also those in files that were [deleted](WrittenCounts::deleted).
    pub packets: u64,
    /// Length of the output, in bytes.
    pub bytes: u64,
    /// How many files were written: more than one if each is followed by another when it is full.
    pub output_files: u64,
    /// Of these packets, how many are lost: another program deleted their file while it was written. They
    /// count once the file is closed.
    pub deleted: u64,
    /// Outputs that take no more packets before the end: writing failed, or they have what was requested.
    pub ended_outputs: u64,
    /// How many of them failed.
    pub failed_outputs: u64,
    /// Packets that follow a later one.
    pub out_of_order: u64,
    /// How often packets were written although another queue might have had an earlier one.
    pub forced: ForcedWrites,
    /// Packets that are not in the output because it did not accept them in time; see
    /// [`RecordConfig::drop_when_behind`](crate::RecordConfig::drop_when_behind).
    pub not_taken: u64,
    /// Packets that are not in its copy, if there is one, because the reader was behind or had closed it, or
    /// because the copy was given up at the end. Packets that are still in the pipe at the end count as
    /// copied if a program has the pipe open for reading.
    pub not_copied: u64,
}

impl Sum for WrittenCounts {
    /// What is in several outputs together.
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, next| Self {
            packets: sum.packets + next.packets,
            bytes: sum.bytes + next.bytes,
            output_files: sum.output_files + next.output_files,
            deleted: sum.deleted + next.deleted,
            ended_outputs: sum.ended_outputs + next.ended_outputs,
            failed_outputs: sum.failed_outputs + next.failed_outputs,
            out_of_order: sum.out_of_order + next.out_of_order,
            forced: ForcedWrites {
                memory: sum.forced.memory + next.forced.memory,
                time: sum.forced.time + next.forced.time,
            },
            not_taken: sum.not_taken + next.not_taken,
            not_copied: sum.not_copied + next.not_copied,
        })
    }
}

/// Reads, from any thread, what a recorder has written so far.
#[derive(Debug, Clone)]
pub struct Progress {
    pub(crate) counters: Arc<Counters>,
    /// Bytes that the output accepted, whole records or not. Written by its sink.
    output_bytes: Arc<AtomicU64>,
    backlog: Option<Arc<Backlog>>,
    /// Files that were found to be deleted, and not yet taken. The writer locks it when it finds one, the
    /// thread that warns of them once a second.
    deleted: Arc<Mutex<Vec<DeletedFile>>>,
}

/// Written by the writer, after each write. They order nothing else.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) files: AtomicU64,
    pub(crate) deleted: AtomicU64,
    /// Whether nothing more is written, and whether that is because writing failed.
    pub(crate) has_stopped: AtomicBool,
    has_failed: AtomicBool,
    pub(crate) out_of_order: AtomicU64,
    pub(crate) forced_memory: AtomicU64,
    pub(crate) forced_time: AtomicU64,
    not_copied: AtomicU64,
    reader_was_behind: AtomicBool,
    reader_was_given_up: AtomicBool,
    reader_has_closed: AtomicBool,
    /// Packets and bytes that wait for the reader of the copy.
    uncopied_packets: AtomicU64,
    uncopied_bytes: AtomicU64,
    /// Whether the output is complete, so that only the copy is left.
    output_has_ended: AtomicBool,
}

impl Counters {
    /// Nothing more is written: writing failed.
    pub(crate) fn note_failure(&self) {
        self.has_stopped.store(true, Ordering::Relaxed);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// The output is complete, as far as it could be written.
    pub(crate) fn note_end(&self, has_failed: bool) {
        if has_failed {
            self.note_failure();
        }
        self.output_has_ended.store(true, Ordering::Relaxed);
    }

    /// Publishes the state of the copy.
    pub(crate) fn show_copy(&self, copy: &OutputCopy) {
        let CopyReader { was_behind, was_given_up, has_closed } = copy.reader();
        self.not_copied.store(copy.not_copied(), Ordering::Relaxed);
        self.reader_was_behind.store(was_behind, Ordering::Relaxed);
        self.reader_was_given_up.store(was_given_up, Ordering::Relaxed);
        self.reader_has_closed.store(has_closed, Ordering::Relaxed);
        self.uncopied_packets.store(copy.waiting_packets(), Ordering::Relaxed);
        self.uncopied_bytes.store(copy.waiting_bytes() as u64, Ordering::Relaxed);
    }
}

/// What the reader of a copy has still to take, now that the output has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncopied {
    /// Packets, including one of which it has only a part.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Progress {
    pub(crate) fn new(output: &Output, backlog: Option<Arc<Backlog>>) -> Self {
        let counters =
            Arc::new(Counters { bytes: output.len().into(), files: 1.into(), ..Counters::default() });
        Self { counters, output_bytes: output.taken_bytes(), backlog, deleted: Arc::default() }
    }

    /// The files that were found to be deleted while they were being written, each once. They are looked for
    /// once a second, of a live capture also in silence.
    pub fn take_deleted(&self) -> Vec<DeletedFile> {
        std::mem::take(&mut self.deleted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those with this path are closed now.
    pub(crate) fn close_deleted(&self, path: &Path) {
        let mut deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        deleted.iter_mut().filter(|file| file.path == path).for_each(|file| file.descriptor = None);
    }

    pub(crate) fn note_deleted(&self, file: DeletedFile) {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }

    /// What is in the output. Each figure is right; together they may be from two writes.
    pub fn written(&self) -> WrittenCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        WrittenCounts {
            packets: read(&counters.packets),
            bytes: read(&counters.bytes),
            output_files: read(&counters.files),
            deleted: read(&counters.deleted),
            ended_outputs: counters.has_stopped.load(Ordering::Relaxed).into(),
            failed_outputs: counters.has_failed.load(Ordering::Relaxed).into(),
            out_of_order: read(&counters.out_of_order),
            forced: ForcedWrites { memory: read(&counters.forced_memory), time: read(&counters.forced_time) },
            not_taken: self.backlog.as_ref().map_or(0, |backlog| backlog.not_taken()),
            not_copied: read(&counters.not_copied),
        }
    }

    /// What the program that reads the copy, if there is one, has done so far.
    pub fn copy_reader(&self) -> CopyReader {
        let read = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        CopyReader {
            was_behind: read(&self.counters.reader_was_behind),
            was_given_up: read(&self.counters.reader_was_given_up),
            has_closed: read(&self.counters.reader_has_closed),
        }
    }

    /// What the end of recording waits for, if only the reader of the copy keeps it waiting.
    pub fn uncopied(&self) -> Option<Uncopied> {
        let counters = &self.counters;
        let bytes = counters.uncopied_bytes.load(Ordering::Relaxed);
        let packets = counters.uncopied_packets.load(Ordering::Relaxed);
        let is_last = counters.output_has_ended.load(Ordering::Relaxed) && bytes > 0;
        is_last.then_some(Uncopied { packets, bytes })
    }

    /// Bytes that the output accepted so far: while they grow, it is slow but not stalled.
    pub fn output_bytes(&self) -> u64 {
        self.output_bytes.load(Ordering::Relaxed)
    }

    /// Whether packets that the output does not accept in time are dropped.
    pub(crate) fn drops(&self) -> bool {
        self.backlog.is_some()
    }
}
