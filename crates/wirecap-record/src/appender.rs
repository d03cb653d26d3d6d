//! Appends records to the output, in groups, and keeps the file whole.
//!
//! Rule: only whole records are kept. When a write fails, the file is cut after the last whole record, and
//! later records are accepted but not written.

use std::{
    collections::VecDeque,
    fmt,
    io::IoSlice,
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use super::{
    alignment,
    buffers::Buffers,
    description::{Trailer, trailer_bytes},
    error::RecordError,
    order::Order,
    output::{AppendError, Output, Whereabouts},
    progress::{Progress, WrittenCounts},
    queues::Place,
    records::Records,
};

/// The most bytes and blocks of one write.
pub(crate) const GROUP_BYTES: usize = 1 << 20;
pub(crate) const GROUP_BLOCKS: usize = 64;

/// Why nothing more is written, although packets may still arrive.
#[derive(Debug)]
pub enum StopReason<'a> {
    /// The file, or the files of all queues together, have the requested number of packets.
    LimitReached,
    /// An output accepts no more.
    Failed {
        /// Which one: 0, or the index of its queue.
        output: usize,
        /// Why.
        cause: &'a RecordError,
    },
}

/// A callback for the [`StopReason`].
#[derive(Clone)]
pub struct StopCallback(Arc<dyn Fn(StopReason<'_>) + Send + Sync>);

impl<F: Fn(StopReason<'_>) + Send + Sync + 'static> From<F> for StopCallback {
    fn from(callback: F) -> Self {
        Self(Arc::new(callback))
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

/// Packets that may still be written, to one output or to several together. It guards no other memory, so all
/// accesses are relaxed.
#[derive(Debug)]
pub(crate) struct Limit(AtomicU64);

impl Limit {
    pub(crate) fn new(packets: u64) -> Self {
        Self(packets.into())
    }

    fn is_reached(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Takes the right to write up to this many packets. Returns how many, and whether they are the last.
    fn take(&self, packets: u64) -> (u64, bool) {
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.0.fetch_update(set, read, |left| Some(left.saturating_sub(packets)));
        let before = before.expect("always a next value");
        (packets.min(before), before > 0 && packets >= before)
    }

    /// Gives back the right to packets that were not written.
    fn give_back(&self, packets: u64) {
        self.0.fetch_add(packets, Ordering::Relaxed);
    }
}

/// Writes records to an output, up to a number of packets.
#[derive(Debug)]
pub(crate) struct Appender {
    output: Output,
    /// The queue whose packets the output gets; `None` if it gets those of all.
    only: Option<Place>,
    /// The index of the output.
    number: usize,
    limit: Arc<Limit>,
    packets: u64,
    order: Order,
    progress: Progress,
    /// Why nothing more is written.
    failure: Option<RecordError>,
    on_stop: Option<StopCallback>,
}

impl Appender {
    /// For the output of this index, which gets the packets of all queues, or of only one.
    pub(crate) fn new(
        number: usize,
        only: Option<Place>,
        mut output: Output,
        limit: Arc<Limit>,
        progress: Progress,
        on_stop: Option<StopCallback>,
    ) -> Self {
        output.settle();
        let (order, packets) = (Order::default(), 0);
        Self { output, only, number, limit, packets, order, progress, failure: None, on_stop }
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
            if self.failure.is_none() && !self.limit.is_reached() {
                self.write(group);
            }
            for written in pending.drain(..blocks) {
                buffers.give_back(written);
            }
        }
    }

    /// Writes the packets of a group that may still be written.
    fn write(&mut self, group: &mut [Records]) {
        let (granted, are_last) = self.limit.take(group.iter().map(Records::packets).sum());
        cut(group, granted);
        let before = self.packets;
        let paddings = match self.output.direct_position() {
            Some(position) => alignment::paddings(group, position),
            None => Vec::new(),
        };
        let before_each = paddings.iter().map(Vec::as_slice).chain(iter::repeat(&[][..]));
        let bytes = before_each.zip(&*group).flat_map(|(padding, records)| [padding, records.bytes()]);
        let mut slices: Vec<_> = bytes.filter(|bytes| !bytes.is_empty()).map(IoSlice::new).collect();
        let appended = self.output.append(&mut slices);
        let written = appended.as_ref().map_or_else(|error| error.written, |()| usize::MAX);
        self.keep(group, &paddings, written);
        self.show();
        if let Err(AppendError { cause, .. }) = appended {
            // The first error helps the user, not that cutting failed as well.
            let _ = self.output.cut();
            self.limit.give_back(before + granted - self.packets);
            self.stop(StopReason::Failed { output: self.number, cause: &cause });
            self.failure = Some(cause);
        } else if are_last {
            self.stop(StopReason::LimitReached);
        }
    }

    /// Counts the whole records in the first `written` bytes of the group, which include padding, and checks
    /// their order.
    fn keep(&mut self, group: &[Records], paddings: &[Vec<u8>], mut written: usize) {
        for (index, records) in group.iter().enumerate() {
            let padding = paddings.get(index).map_or(0, Vec::len);
            if padding > written {
                break;
            }
            self.output.keep(padding);
            written -= padding;
            let is_whole = records.len() <= written;
            let end = if is_whole { records.end() } else { records.prefix(u64::MAX, written) };
            self.order.written(&records.entries[..end.entries], records.span);
            self.output.keep(end.bytes);
            self.packets += end.entries as u64;
            if end != records.end() {
                break;
            }
            written -= end.bytes;
        }
    }

    fn stop(&mut self, stop: StopReason<'_>) {
        if let Some(StopCallback(on_stop)) = self.on_stop.take() {
            on_stop(stop);
        }
    }

    /// Writes the account after the packets, even after a failure: there may be room where the last record
    /// was cut off.
    pub(crate) fn close(&mut self, trailer: &Trailer, started: SystemTime) {
        let bytes = trailer_bytes(trailer, self.only, self.output.format(), started, self.packets);
        if let Err(AppendError { cause, .. }) = self.output.append_last(&bytes, self.failure.is_some()) {
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

/// Cuts a group to its first packets.
fn cut(group: &mut [Records], mut packets: u64) {
    for records in group {
        if records.packets() > packets {
            records.truncate(records.prefix(packets, usize::MAX));
        }
        packets -= records.packets();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_shared_exactly_and_reached_once() {
        let limit = Limit::new(10);
        assert_eq!(limit.take(4), (4, false));
        assert_eq!(limit.take(4), (4, false));
        limit.give_back(1);
        assert_eq!(limit.take(7), (3, true));
        assert!(limit.is_reached());
        assert_eq!((limit.take(5), limit.take(0)), ((0, false), (0, false)));
    }
}
