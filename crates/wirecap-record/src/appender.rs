//! Appends records to the output, in groups, and keeps the file whole.
//!
//! Rule: only whole records are kept. When a write fails, the file is cut after the last whole record, and
//! later records are accepted but not written.

use std::{
    collections::VecDeque,
    io::IoSlice,
    iter,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

use wirecap_sys::clock::system_ns;

use super::{
    alignment,
    buffers::Buffers,
    copy::OutputCopy,
    description::{Trailer, trailer_bytes},
    error::RecordError,
    limit::Limit,
    order::Order,
    outcome::{LostFile, MovedFile, Outcome, StopCallback, StopReason},
    output::{AppendError, DeletedFile, Output, Whereabouts},
    pieces::{Piece, cut, split},
    progress::Progress,
    queues::Place,
    records::{Records, Room},
    rotation::{EndedFile, Series},
};

/// The most bytes and blocks of one write.
pub(crate) const GROUP_BYTES: usize = 1 << 20;
pub(crate) const GROUP_BLOCKS: usize = 64;
/// How often the file is looked for while it is written, of a live capture also in silence.
pub(crate) const LOOK_PERIOD: Duration = Duration::from_secs(1);

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
    /// If the output is a file of a series.
    series: Option<Series>,
    copy: Option<OutputCopy>,
    /// Bytes of the files before it.
    complete_bytes: u64,
    /// Whether the file is complete, and the next one of the series begins with the next packet.
    is_between: bool,
    /// The last complete file, if none can follow: it still gets the account.
    last: Option<EndedFile>,
    /// Whether the last file of a series is full.
    is_complete: bool,
    /// Whether everything is written that follows the packets.
    is_closed: bool,
    /// When the file was last looked for, while it is written; `None` once it was found to be deleted.
    looked_for: Option<Instant>,
    /// Those of them that another program has removed.
    lost_files: Vec<LostFile>,
    /// Those that another program has moved.
    moved_files: Vec<MovedFile>,
    /// Why nothing more is written.
    failure: Option<RecordError>,
    on_stop: Option<StopCallback>,
}

impl Appender {
    /// For the output of this index, which gets the packets of all queues, or of only one, and may be the
    /// first file of a series, or have a copy.
    pub(crate) fn new(
        number: usize,
        only: Option<Place>,
        mut output: Output,
        (series, mut copy): (Option<Series>, Option<OutputCopy>),
        limit: Arc<Limit>,
        progress: Progress,
        on_stop: Option<StopCallback>,
    ) -> Self {
        output.settle();
        if let Some(copy) = &mut copy {
            copy.add([output.header()].into_iter(), iter::empty());
        }
        Self {
            output,
            only,
            number,
            limit,
            packets: 0,
            order: Order::default(),
            progress,
            series,
            copy,
            complete_bytes: 0,
            is_between: false,
            last: None,
            is_complete: false,
            is_closed: false,
            looked_for: Some(Instant::now()),
            lost_files: Vec::new(),
            moved_files: Vec::new(),
            failure: None,
            on_stop,
        }
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
            if self.failure.is_none() && !self.is_complete && !self.limit.is_reached() {
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
        let written = self.write_to_files(group);
        self.limit.give_back(before + granted - self.packets);
        self.show();
        match written {
            Err(cause) => self.fail(cause),
            Ok(()) if self.is_complete => self.stop(StopReason::FilesComplete),
            Ok(()) if are_last => self.stop(StopReason::LimitReached),
            Ok(()) => {}
        }
    }

    /// Writes a group to the current file, and what it has no room for to the next ones.
    fn write_to_files(&mut self, group: &[Records]) -> Result<(), RecordError> {
        let mut rest: Vec<_> = group.iter().map(Piece::whole).collect();
        // Whether the file was opened for the next packet.
        let mut is_new = false;
        loop {
            let first_ns = rest.iter().find_map(Piece::first_ns);
            if let (true, Some(first_ns)) = (self.is_between, first_ns) {
                self.series.iter_mut().for_each(|series| series.reply_before(first_ns));
                self.open_next(first_ns)?;
                is_new = true;
            }
            let mut room_bytes = u64::MAX;
            let pieces = match (&mut self.series, first_ns) {
                (Some(series), Some(first_ns)) => {
                    let mut room = series.room(self.output.len(), first_ns);
                    if series.is_empty() {
                        // It may be longer than a file.
                        room.bytes = room.bytes.max(rest.iter().find_map(Piece::first_len).unwrap_or(0));
                    }
                    room_bytes = room.bytes;
                    let pieces = split(&mut rest, room);
                    match is_new && pieces.iter().all(|piece| piece.entries().is_empty()) {
                        // A packet that no file takes would have files opened for ever.
                        true => split(&mut rest, Room { packets: 1, ..Room::UNLIMITED }),
                        false => pieces,
                    }
                }
                _ => std::mem::take(&mut rest),
            };
            self.write_to_file(&pieces, room_bytes)?;
            let Some(first_ns) = rest.iter().find_map(Piece::first_ns) else { return Ok(()) };
            self.next_file(first_ns)?;
            if self.is_complete {
                return Ok(());
            }
            is_new = true;
        }
    }

    /// Writes to the current file, which has room for this many bytes.
    fn write_to_file(&mut self, pieces: &[Piece<'_>], room_bytes: u64) -> Result<(), RecordError> {
        let paddings = match self.output.direct_position() {
            Some(position) => {
                let parts: Vec<_> = pieces.iter().map(Piece::part).collect();
                alignment::paddings(&parts, position, room_bytes)
            }
            None => Vec::new(),
        };
        let before_each = paddings.iter().map(Vec::as_slice).chain(iter::repeat(&[][..]));
        let bytes = before_each.zip(pieces).flat_map(|(padding, piece)| [padding, piece.bytes()]);
        let mut slices: Vec<_> = bytes.filter(|bytes| !bytes.is_empty()).map(IoSlice::new).collect();
        let appended = self.output.append(&mut slices);
        let written = appended.as_ref().map_or_else(|error| error.written, |()| usize::MAX);
        self.keep(pieces, &paddings, written);
        if let (Some(copy), Ok(())) = (&mut self.copy, &appended) {
            let lengths = pieces.iter().flat_map(Piece::entries).map(|entry| entry.len);
            copy.add(pieces.iter().map(Piece::bytes), lengths);
        }
        appended.map_err(|AppendError { cause, .. }| {
            // The first error helps the user, not that cutting failed as well.
            let _ = self.output.cut();
            cause
        })
    }

    /// Counts the whole records in the first `written` bytes of the pieces, which include padding, and checks
    /// their order.
    fn keep(&mut self, pieces: &[Piece<'_>], paddings: &[Vec<u8>], mut written: usize) {
        let (before, mut last_ns) = (self.packets, None);
        for (index, Piece { records, run }) in pieces.iter().enumerate() {
            let padding = paddings.get(index).map_or(0, Vec::len);
            if padding > written {
                break;
            }
            self.output.keep(padding);
            written -= padding;
            let len = run.end.bytes - run.start.bytes;
            let end = match len <= written {
                true => run.end,
                false => records.run_within(run.start, Room { bytes: written as u64, ..Room::UNLIMITED }),
            };
            let entries = &records.entries[run.start.entries..end.entries];
            self.order.written(entries, records.span);
            last_ns = entries.last().map(|entry| entry.time_ns).or(last_ns);
            self.output.keep(end.bytes - run.start.bytes);
            self.packets += (end.entries - run.start.entries) as u64;
            if end != run.end {
                break;
            }
            written -= len;
        }
        if let (Some(series), Some(last_ns)) = (&mut self.series, last_ns) {
            series.add(self.packets - before, last_ns);
        }
    }

    /// Begins the next file of a series, for a packet with this time; without one, recording is complete.
    fn next_file(&mut self, first_ns: u64) -> Result<(), RecordError> {
        let Some(series) = &mut self.series else { return Ok(()) };
        if series.is_last() {
            self.is_complete = true;
            return Ok(());
        }
        let full = self.complete_file()?;
        if let Err(cause) = self.open_next(first_ns) {
            self.last = Some(full);
            return Err(cause);
        }
        if let Some(series) = &mut self.series {
            series.complete(full, Some((self.output.name(), first_ns)));
        }
        Ok(())
    }

    /// Ends the file.
    fn complete_file(&mut self) -> Result<EndedFile, RecordError> {
        let whereabouts = self.output.whereabouts();
        if whereabouts == Whereabouts::Deleted {
            match self.looked_for.take() {
                Some(_) => self
                    .progress
                    .note_deleted(DeletedFile { path: self.output.name().into(), descriptor: None }),
                None => self.progress.close_deleted(self.output.name()),
            }
        }
        self.output.end().map_err(|error| error.cause)?;
        let has_path = whereabouts != Whereabouts::Cut && self.output.complete()?;
        let (path, packets) = (self.output.name().to_owned(), self.packets_of_file());
        self.is_between = true;
        self.complete_bytes += self.output.len();
        match whereabouts {
            Whereabouts::InPlace => {}
            Whereabouts::Moved(moved_to) => {
                self.moved_files.push(MovedFile { path: path.clone(), moved_to });
            }
            whereabouts => {
                self.count_deleted(&whereabouts);
                self.lost_files.push(LostFile { path: path.clone(), packets, whereabouts });
            }
        }
        Ok(EndedFile { path, packets, has_path })
    }

    /// Counts the packets of the current file if it is deleted.
    fn count_deleted(&self, whereabouts: &Whereabouts) {
        if *whereabouts == Whereabouts::Deleted {
            self.progress.counters.deleted.fetch_add(self.packets_of_file(), Ordering::Relaxed);
        }
    }

    /// Packets in the current file.
    fn packets_of_file(&self) -> u64 {
        self.series.as_ref().map_or(self.packets, Series::packets)
    }

    /// Opens the file that follows a complete one, for a packet with this time.
    fn open_next(&mut self, first_ns: u64) -> Result<(), RecordError> {
        let Some(series) = &mut self.series else { return Ok(()) };
        self.output.go_on_in(series.open_next(first_ns)?)?;
        series.went_on();
        self.is_between = false;
        self.looked_for = Some(Instant::now());
        Ok(())
    }

    /// Ends the file of a period that is over. The next one begins with the next packet: a period without
    /// packets has no file. But the last one begins, and ends, also in silence.
    fn end_period(&mut self, now_ns: u64) -> Result<(), RecordError> {
        let Some(series) = &self.series else { return Ok(()) };
        if series.is_last() || series.is_next_last() {
            return self.next_file(now_ns);
        }
        let full = self.complete_file()?;
        if let Some(series) = &mut self.series {
            series.complete(full, None);
        }
        Ok(())
    }

    /// Whether the copy waits for its reader.
    pub(crate) fn copy_waits(&self) -> bool {
        self.copy.as_ref().is_some_and(OutputCopy::has_waiting)
    }

    /// Goes on with the copy, while no packets come.
    pub(crate) fn go_on_copying(&mut self) {
        if let Some(copy) = self.copy.as_mut().filter(|copy| copy.has_waiting()) {
            copy.write_waiting();
            self.show();
        }
    }

    /// Whether another file may begin, also if no packets come.
    pub(crate) fn has_series(&self) -> bool {
        self.series.is_some() && !self.is_complete && self.failure.is_none()
    }

    /// Takes requests for the next file of a series.
    pub(crate) fn take_requests(&mut self, is_live: bool) {
        if let Some(series) = &mut self.series {
            series.take_requests(is_live);
        }
    }

    /// Where the file ends, if the next one was requested.
    pub(crate) fn cut_ns(&self) -> Option<u64> {
        self.series.as_ref().and_then(Series::cut_ns)
    }

    /// Begins the next file if no packets of the current one will come any more: `is_certain` says that of
    /// one whose end was requested. `is_idle`: everything that came is written, and for a while nothing came.
    pub(crate) fn end_file(&mut self, now_ns: u64, is_certain: bool, is_idle: bool) {
        if !self.has_series() {
            return;
        }
        self.series.iter_mut().filter(|_| is_idle).for_each(|series| series.follow_clock(now_ns));
        let is_over = is_idle && self.series.as_ref().is_some_and(|series| series.is_over(now_ns));
        let ended = match self.cut_ns() {
            Some(cut_ns) if is_certain || is_over => self.end_on_request(now_ns.max(cut_ns)),
            None if is_over && !self.is_between => self.end_period(now_ns),
            _ => return,
        };
        match ended {
            Err(cause) => self.fail(cause),
            Ok(()) if self.is_complete => self.stop(StopReason::FilesComplete),
            Ok(()) => {}
        }
        self.show();
    }

    /// Begins the next file, because it was requested. Between two files it begins with the next packet.
    fn end_on_request(&mut self, first_ns: u64) -> Result<(), RecordError> {
        match &mut self.series {
            Some(series) if self.is_between => {
                series.reply_between();
                Ok(())
            }
            _ => self.next_file(first_ns),
        }
    }

    /// Nothing more is written.
    fn fail(&mut self, cause: RecordError) {
        self.progress.counters.note_failure();
        self.stop(StopReason::Failed { output: self.number, cause: &cause });
        self.failure = Some(cause);
    }

    fn stop(&mut self, stop: StopReason<'_>) {
        self.progress.counters.has_stopped.store(true, Ordering::Relaxed);
        if let Some(series) = &mut self.series {
            series.close();
        }
        if let Some(StopCallback(on_stop)) = self.on_stop.take() {
            on_stop(stop);
        }
    }

    /// Writes the account after the packets, even after a failure: there may be room where the last record
    /// was cut off.
    pub(crate) fn close(&mut self, trailer: &Trailer, started: SystemTime) {
        if self.is_between && self.failure.is_none() {
            // For the account, which is in the last file.
            self.failure = self.open_next(system_ns()).err();
        }
        // Others may already use a file that is complete, or have removed it: nothing more is written to it.
        if self.is_between && self.last.is_none() {
            return;
        }
        let written = (self.packets, self.series.as_ref().map_or(1, |series| series.number));
        let bytes = trailer_bytes(trailer, self.only, self.output.format(), started, written);
        if let Err(AppendError { cause, .. }) = self.output.append_last(&bytes, self.failure.is_some()) {
            let cut = self.output.cut().err().map(RecordError::from);
            self.failure = self.failure.take().or(cut).or(Some(cause));
        }
        self.is_closed = true;
    }

    /// Completes the output, then the copy, and returns the result.
    pub(crate) fn finish(mut self) -> Outcome {
        self.show();
        let found = self.output.whereabouts();
        let is_there = matches!(found, Whereabouts::InPlace | Whereabouts::Cut);
        // Of a file that has ended, all is said.
        let whereabouts = if self.is_between { Whereabouts::InPlace } else { found };
        self.count_deleted(&whereabouts);
        let last_packets = self.packets_of_file();
        let is_whole = self.is_closed && self.failure.is_none();
        let mut has_path = false;
        if is_whole && whereabouts != Whereabouts::Cut {
            match self.output.complete() {
                Ok(has) => has_path = has,
                Err(cause) => self.failure = Some(cause),
            }
        }
        if let Some(series) = &mut self.series {
            if let Some(last) = self.last.take() {
                series.complete(last, None);
            } else if is_whole && self.failure.is_none() {
                let path = self.output.name().to_owned();
                series.complete(EndedFile { path, packets: last_packets, has_path }, None);
            }
            series.close();
        }
        self.progress.counters.note_end(self.failure.is_some());
        if let Some(copy) = &mut self.copy {
            copy.finish(self.output.give_up(), |copy| self.progress.counters.show_copy(copy));
        }
        let (written, copy_reader) = (self.progress.written(), self.progress.copy_reader());
        let partial = self.output.partial().filter(|_| is_there).map(Into::into);
        let Self { failure, lost_files, moved_files, .. } = self;
        Outcome {
            written,
            copy_reader,
            last_packets,
            failure,
            may_end_in_packet: self.output.may_end_in_packet(),
            whereabouts,
            partial,
            lost_files,
            moved_files,
        }
    }

    /// Whether the output is a file that has to be looked for: it was not found to be deleted.
    pub(crate) fn looks_for_file(&self) -> bool {
        self.looked_for.is_some() && self.output.is_file()
    }

    /// Once in a period: notes, once, that another program has deleted the file.
    pub(crate) fn look_for_file(&mut self) {
        if self.is_between || self.looked_for.is_none_or(|last| last.elapsed() < LOOK_PERIOD) {
            return;
        }
        let deleted = self.output.deleted();
        self.looked_for = deleted.is_none().then(Instant::now);
        deleted.into_iter().for_each(|file| self.progress.note_deleted(file));
    }

    /// Publishes what was written.
    fn show(&self) {
        let counters = &self.progress.counters;
        counters.packets.store(self.packets, Ordering::Relaxed);
        let current = if self.is_between { 0 } else { self.output.len() };
        counters.bytes.store(self.complete_bytes + current, Ordering::Relaxed);
        counters.files.store(self.series.as_ref().map_or(1, |series| series.number), Ordering::Relaxed);
        counters.out_of_order.store(self.order.late, Ordering::Relaxed);
        self.copy.iter().for_each(|copy| counters.show_copy(copy));
    }
}
