//! Appends records to the output, in groups, and keeps the file whole.
//!
//! Rule: only whole records are kept. When a write fails, the file is cut after the last whole record, and
//! later records are accepted but not written.

use std::{collections::VecDeque, fmt, io::IoSlice, sync::atomic::Ordering, time::SystemTime};

use super::{
    buffers::Buffers,
    description::{Closing, trailer},
    error::RecordError,
    order::Order,
    output::{AppendError, Output, Whereabouts},
    progress::{Progress, WrittenCounts},
    records::Records,
};

/// The most bytes and blocks of one write.
pub(crate) const GROUP_BYTES: usize = 1 << 20;
pub(crate) const GROUP_BLOCKS: usize = 64;

/// Why nothing more is written, although packets may still arrive.
#[derive(Debug)]
pub enum Stop<'a> {
    /// The file has the requested number of packets.
    LimitReached,
    /// The output accepts no more.
    Failed(&'a RecordError),
}

/// A callback for the [`Stop`].
pub struct StopCallback(Box<dyn FnOnce(Stop<'_>) + Send>);

impl<F: FnOnce(Stop<'_>) + Send + 'static> From<F> for StopCallback {
    fn from(callback: F) -> Self {
        Self(Box::new(callback))
    }
}

impl fmt::Debug for StopCallback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StopCallback")
    }
}

/// The result of recording.
#[derive(Debug)]
pub struct Outcome {
    /// What is in the output.
    pub written: WrittenCounts,
    /// Why the output is incomplete.
    pub failure: Option<RecordError>,
    /// Where the file was at the end.
    pub whereabouts: Whereabouts,
}

/// Writes records to an output, up to a number of packets.
#[derive(Debug)]
pub(crate) struct Appender {
    output: Output,
    /// Packets that may still be written.
    left: u64,
    packets: u64,
    order: Order,
    progress: Progress,
    /// Why nothing more is written.
    failure: Option<RecordError>,
    /// `None` once it was called.
    on_stop: Option<StopCallback>,
}

impl Appender {
    pub(crate) fn new(output: Output, limit: u64, progress: Progress, on_stop: Option<StopCallback>) -> Self {
        Self { output, left: limit, packets: 0, order: Order::default(), progress, failure: None, on_stop }
    }

    /// Writes all pending records, and returns the buffers.
    pub(crate) fn write_all(&mut self, pending: &mut VecDeque<Records>, buffers: &mut Buffers) {
        while !pending.is_empty() {
            let (mut blocks, mut bytes) = (0, 0);
            while blocks < pending.len().min(GROUP_BLOCKS) && bytes < GROUP_BYTES {
                bytes += pending[blocks].len();
                blocks += 1;
            }
            let group = &mut pending.make_contiguous()[..blocks];
            if self.failure.is_none() && self.left > 0 {
                self.limit(group);
                self.write(group);
            }
            for written in pending.drain(..blocks) {
                buffers.give_back(written);
            }
        }
    }

    /// Cuts the group to the packets that may still be written.
    fn limit(&mut self, group: &mut [Records]) {
        let mut left = self.left;
        for records in group {
            if records.packets() > left {
                records.truncate(records.prefix(left, usize::MAX));
            }
            left -= records.packets();
        }
    }

    fn write(&mut self, group: &[Records]) {
        let mut slices: Vec<_> = group.iter().map(|records| IoSlice::new(records.bytes())).collect();
        let appended = self.output.append(&mut slices);
        self.keep(group, appended.as_ref().map_or_else(|error| error.written, |()| usize::MAX));
        self.show();
        if let Err(AppendError { cause, .. }) = appended {
            // The first error helps the user, not that cutting failed as well.
            let _ = self.output.cut();
            self.stop(Stop::Failed(&cause));
            self.failure = Some(cause);
        } else if self.left == 0 {
            self.stop(Stop::LimitReached);
        }
    }

    /// Counts the whole records in the first `written` bytes of the group, and checks their order.
    fn keep(&mut self, group: &[Records], mut written: usize) {
        for records in group {
            let is_whole = records.len() <= written;
            let end = if is_whole { records.end() } else { records.prefix(u64::MAX, written) };
            self.order.written(&records.entries[..end.entries], records.span);
            self.output.keep(end.bytes);
            self.packets += end.entries as u64;
            self.left -= end.entries as u64;
            if end != records.end() {
                break;
            }
            written -= end.bytes;
        }
    }

    fn stop(&mut self, stop: Stop<'_>) {
        if let Some(StopCallback(on_stop)) = self.on_stop.take() {
            on_stop(stop);
        }
    }

    /// Writes the account after the packets, even after a failure: there may be room where the last record
    /// was cut off.
    pub(crate) fn close(&mut self, closing: &Closing, started: SystemTime) {
        let trailer = trailer(closing, self.output.format(), started, self.packets);
        if let Err(AppendError { cause, .. }) = self.output.append_last(&trailer, self.failure.is_some()) {
            let cut = self.output.cut().err().map(RecordError::from);
            self.failure = self.failure.take().or(cut).or(Some(cause));
        }
    }

    /// Closes the output, and returns the result.
    pub(crate) fn finish(self) -> Outcome {
        self.show();
        let (written, whereabouts) = (self.progress.written(), self.output.whereabouts());
        Outcome { written, failure: self.failure, whereabouts }
    }

    /// Publishes what was written.
    fn show(&self) {
        let counters = &self.progress.counters;
        counters.packets.store(self.packets, Ordering::Relaxed);
        counters.bytes.store(self.output.len(), Ordering::Relaxed);
        counters.out_of_order.store(self.order.late, Ordering::Relaxed);
    }
}
