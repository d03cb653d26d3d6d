//! A series of files: when one is full, the next one begins.
//!
//! ```text
//!   packets   ··│·····│···│·······│···        by bytes, by packets, or by their times: from the start on, in
//!   files      1│  2  │ 3 │   4   │ 5         steps of the period
//!               ▲
//!               a packet that would be too much is the first of the next file
//! ```
//!
//! Rule: each packet is in one file, and each file is a whole trace. Only the last one has the account. Only
//! the first, the last and one that was ended on request may be without packets.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::Sender},
    time::Duration,
};

use super::{
    error::RecordError,
    output::Output,
    records::Room,
    rotator::{CompleteFile, Request, Requests},
};

/// When a file is full, and what comes after it:
/// [`RecordConfig::rotations`](crate::RecordConfig::rotations).
///
/// ```
/// use std::thread;
///
/// use wirecap::{Capture, port::null::NullPort};
/// use wirecap_file::Format;
/// use wirecap_record::{NextFile, Output, RecordConfig, Recorder, Rotation};
///
/// # let directory = tempfile::tempdir()?;
/// # let nic = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 1000 };
/// # let folder = directory.path().to_owned();
/// let path = move |number| folder.join(format!("trace.{number}.pcapng"));
/// let first = Output::open(path(1), Format::Pcapng)?;
/// let rotation = Rotation {
///     max_packets: Some(400),
///     max_bytes: None,
///     period: None,
///     max_files: None,
///     open: (move |next: NextFile| Output::open(path(next.number), Format::Pcapng)).into(),
///     on_complete: None,
/// };
/// let config = RecordConfig { rotations: vec![rotation], ..RecordConfig::default() };
/// let mut capture = Capture::builder().port(nic).chunks_per_pool(8).open()?;
/// let mut recorder = Recorder::start(first, &capture, config, |writer| _ = thread::spawn(|| writer.run()))?;
/// let (mut worker, mut lane) = (capture.take_workers().remove(0), recorder.take_lanes().remove(0));
/// # while capture.report().total().delivered < 1000 {
/// #     worker.next_batch().map(|batch| lane.record(batch)).transpose()?;
/// # }
/// # capture.stopper().stop();
/// while let Some(batch) = worker.next_batch() {
///     lane.record(batch)?;
/// }
/// drop((worker, lane));
/// let outcome = recorder.finish(capture.finish());
/// assert_eq!((outcome.written.packets, outcome.written.output_files), (1000, 3));
/// # assert_eq!(std::fs::read_dir(directory.path())?.count(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Rotation {
    /// The most bytes of a file, without the account at its end. A longer packet has a file of its own.
    pub max_bytes: Option<u64>,
    /// The most packets of a file.
    pub max_packets: Option<u64>,
    /// The span of time of a file, by the times of packets. A packet that comes after one of the next file is
    /// in that file. If the times of a trace go back by more than a period, and by more than 3 s, the second
    /// packet in a row with such a time begins the next file.
    pub period: Option<Duration>,
    /// The number of files after which nothing more is written; `None` means no limit.
    pub max_files: Option<u64>,
    /// Opens the next file.
    pub open: OpenNext,
    /// Called with each file that is complete and has its name, so not with one that another program moved,
    /// deleted or truncated.
    pub on_complete: Option<CompleteCallback>,
}

/// A file that follows others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextFile {
    /// Its number: 2 for the second.
    pub number: u64,
    /// When its period begins, in nanoseconds since 1970 (UTC); without a period, the time of its first
    /// packet; if it was requested, the time of the request.
    pub begins_ns: u64,
}

/// Opens the next file, in the thread that writes.
#[derive(Clone)]
pub struct OpenNext(Arc<dyn Fn(NextFile) -> Result<Output, RecordError> + Send + Sync>);

impl<F: Fn(NextFile) -> Result<Output, RecordError> + Send + Sync + 'static> From<F> for OpenNext {
    fn from(open: F) -> Self {
        Self(Arc::new(open))
    }
}

impl fmt::Debug for OpenNext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OpenNext")
    }
}

/// A callback for the path of a complete file, in the thread that writes.
#[derive(Clone)]
pub struct CompleteCallback(Arc<dyn Fn(&Path) + Send + Sync>);

impl<F: Fn(&Path) + Send + Sync + 'static> From<F> for CompleteCallback {
    fn from(callback: F) -> Self {
        Self(Arc::new(callback))
    }
}

impl fmt::Debug for CompleteCallback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CompleteCallback")
    }
}

/// How long after the end of a period packets of it may still be written: those that are held back until no
/// earlier one can arrive, and some time for a machine that stalls.
const LATE_NS: u64 = 3_000_000_000;

/// A file of a series that is complete.
#[derive(Debug)]
pub(crate) struct EndedFile {
    pub(crate) path: PathBuf,
    pub(crate) packets: u64,
    /// Whether the file has this path: another program may have moved or deleted it.
    pub(crate) has_path: bool,
}

/// The current file of a series.
#[derive(Debug)]
pub(crate) struct Series {
    rotation: Rotation,
    /// When the first period began; `None` until the first packet if that decides.
    origin_ns: Option<u64>,
    /// Whether packets have the time at which they come.
    is_live: bool,
    /// The beginning of the period, and its end, if there is one.
    begins_ns: u64,
    until_ns: Option<u64>,
    /// The number of the file, from 1 on.
    pub(crate) number: u64,
    /// Its packets.
    packets: u64,
    /// The time of the last packet of the series.
    last_ns: u64,
    /// The file before it, or the last one between two files.
    last_complete: Option<CompleteFile>,
    requests: Arc<Requests>,
    /// Packets from this time on are for the next file, as was requested; 0 means all.
    cut_ns: Option<u64>,
    /// Receives the file that ends there.
    replies: Vec<Sender<CompleteFile>>,
}

impl Series {
    /// Of which the first file is open. `origin_ns` is when the first period begins; `None` means with the
    /// first packet, as in traces.
    pub(crate) fn new(rotation: Rotation, origin_ns: Option<u64>, requests: Arc<Requests>) -> Self {
        let (begins_ns, until_ns, is_live, number, packets) = (0, None, origin_ns.is_some(), 1, 0);
        let (cut_ns, replies) = (None, Vec::new());
        let mut series = Self {
            rotation,
            origin_ns,
            is_live,
            begins_ns,
            until_ns,
            number,
            packets,
            last_ns: 0,
            last_complete: None,
            requests,
            cut_ns,
            replies,
        };
        if let Some(origin_ns) = origin_ns {
            series.begin_period(origin_ns);
        }
        series
    }

    /// Notes that this many more packets are in the file, and the time of the last one.
    pub(crate) fn add(&mut self, packets: u64, last_ns: u64) {
        self.packets += packets;
        self.last_ns = last_ns;
    }

    /// Takes requests for the next file, which begins at the earliest time requested. Unless `is_live`, when
    /// packets are stamped as they come, it begins with the next packet.
    pub(crate) fn take_requests(&mut self, is_live: bool) {
        for Request { from_ns, reply } in self.requests.take() {
            let from_ns = if is_live { from_ns } else { 0 };
            self.cut_ns = Some(self.cut_ns.map_or(from_ns, |cut_ns| cut_ns.min(from_ns)));
            self.replies.push(reply);
        }
    }

    /// Where the file ends, if the next one was requested.
    pub(crate) fn cut_ns(&self) -> Option<u64> {
        self.cut_ns
    }

    /// Nothing more is written: requests are dropped.
    pub(crate) fn close(&mut self) {
        self.requests.close();
        self.replies.clear();
    }

    /// How much more may be written to the file, which has this many bytes, from a packet with this time on.
    pub(crate) fn room(&mut self, file_bytes: u64, first_ns: u64) -> Room {
        if self.origin_ns.is_none() {
            self.origin_ns = Some(first_ns);
            self.begin_period(first_ns);
        }
        if self.is_live && self.is_set_back(first_ns) {
            // The last file goes on in the new period: its end would be that of the capture.
            if !self.is_empty() && !self.is_last() {
                return Room { until_ns: Some(0), ..Room::UNLIMITED };
            }
            self.begin_period(first_ns);
        }
        // A trace may have a packet with an absurd time, from which its clock comes back.
        let goes_on = self.is_live || self.is_last();
        let from_ns = if goes_on { 0 } else { self.earliest_ns() };
        let (max_packets, max_bytes) = (self.rotation.max_packets, self.rotation.max_bytes);
        Room {
            packets: max_packets.map_or(u64::MAX, |most| most.max(1).saturating_sub(self.packets)),
            bytes: max_bytes.map_or(u64::MAX, |most| most.saturating_sub(file_bytes)),
            until_ns: [self.cut_ns, self.until_ns].into_iter().flatten().min(),
            from_ns,
            follows_early: self.last_ns < from_ns,
        }
    }

    /// Packets in the file.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Whether the file has no packet yet, and so has to take the next one.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The last file goes on in the period of a clock that was set back in silence.
    pub(crate) fn follow_clock(&mut self, now_ns: u64) {
        if self.is_last() && self.is_set_back(now_ns) {
            self.begin_period(now_ns);
        }
    }

    /// Whether no packet will be written to the file any more, since its period is over, or the place of a
    /// request. For a writer that has written everything.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        let late_ns = now_ns.saturating_sub(LATE_NS);
        let is_past = self.until_ns.is_some_and(|until_ns| late_ns >= until_ns) || self.is_set_back(now_ns);
        let period_is_over = (self.packets > 0 || self.is_last()) && is_past;
        period_is_over || self.cut_ns.is_some_and(|cut_ns| late_ns >= cut_ns)
    }

    /// Whether a time is so far before the period that the system clock was set back: otherwise the file
    /// would end only when the clock has come to its end again.
    fn is_set_back(&self, time_ns: u64) -> bool {
        time_ns < self.earliest_ns()
    }

    /// The earliest time that is only late: how late packets are in a trace depends on what wrote it.
    fn earliest_ns(&self) -> u64 {
        let Some(period_ns) = self.period_ns() else { return 0 };
        let late_ns = if self.is_live { LATE_NS } else { LATE_NS.max(period_ns) };
        self.begins_ns.saturating_sub(late_ns)
    }

    fn period_ns(&self) -> Option<u64> {
        let period = self.rotation.period?;
        Some(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1))
    }

    /// Whether no file follows.
    pub(crate) fn is_last(&self) -> bool {
        self.rotation.max_files.is_some_and(|most| self.number >= most)
    }

    /// Whether one more file follows.
    pub(crate) fn is_next_last(&self) -> bool {
        self.rotation.max_files.is_some_and(|most| self.number + 1 >= most)
    }

    /// Opens the next file, for a packet with this time.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(crate) fn open_next(&mut self, first_ns: u64) -> Result<Output, RecordError> {
        let begins_ns = self.begin_period(first_ns);
        let number = self.number + 1;
        let begins_ns = self.reached_cut_ns(first_ns).map_or(begins_ns, |cut_ns| cut_ns.max(begins_ns));
        (self.rotation.open.0)(NextFile { number, begins_ns })
    }

    /// The next file is the current one.
    pub(crate) fn went_on(&mut self) {
        self.number += 1;
        self.packets = 0;
    }

    /// The requested end of the file, if a packet with this time is not before it.
    fn reached_cut_ns(&self, first_ns: u64) -> Option<u64> {
        self.cut_ns.filter(|&cut_ns| first_ns >= cut_ns)
    }

    /// A file is complete. `next` is the file that follows, and the time of its first packet.
    pub(crate) fn complete(&mut self, ended: EndedFile, next: Option<(&Path, u64)>) {
        let EndedFile { path, packets, has_path } = ended;
        if let (true, Some(CompleteCallback(on_complete))) = (has_path, &self.rotation.on_complete) {
            on_complete(&path);
        }
        self.last_complete = Some(CompleteFile { path: path.clone(), packets, next: None });
        if next.is_some_and(|(_, first_ns)| self.reached_cut_ns(first_ns).is_none()) {
            return;
        }
        let next = next.map(|(next, _)| next.to_owned());
        self.reply(&CompleteFile { path, packets, next });
    }

    /// Answers requests for the next file, between two files: the one before is complete.
    pub(crate) fn reply_between(&mut self) {
        if let Some(last) = self.last_complete.clone() {
            self.reply(&last);
        }
    }

    /// Does the same if the requested place is reached by a next packet with this time.
    pub(crate) fn reply_before(&mut self, first_ns: u64) {
        if self.reached_cut_ns(first_ns).is_some() {
            self.reply_between();
        }
    }

    fn reply(&mut self, complete: &CompleteFile) {
        self.cut_ns = None;
        for reply in self.replies.drain(..) {
            // Fails if the requester has stopped waiting.
            let _ = reply.send(complete.clone());
        }
    }

    /// Begins the period of a time. Returns its beginning.
    fn begin_period(&mut self, time_ns: u64) -> u64 {
        let (Some(period_ns), Some(mut origin_ns)) = (self.period_ns(), self.origin_ns) else {
            return time_ns;
        };
        if self.is_set_back(time_ns) {
            // Periods begin at the same times as before.
            let periods = origin_ns.saturating_sub(time_ns).div_ceil(period_ns);
            origin_ns = origin_ns.saturating_sub(periods.saturating_mul(period_ns));
            self.origin_ns = Some(origin_ns);
        }
        let begins_ns = origin_ns + time_ns.saturating_sub(origin_ns) / period_ns * period_ns;
        (self.begins_ns, self.until_ns) = (begins_ns, begins_ns.checked_add(period_ns));
        begins_ns
    }
}

#[cfg(test)]
mod tests;
