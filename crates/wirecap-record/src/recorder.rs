//! A recorder: started on a capture, fed by its workers, finished with its account.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel},
    },
    time::{Duration, Instant, SystemTime},
};

use wirecap::Capture;
use wirecap_file::Format;

use super::{
    appender::{Appender, Outcome, Stop, StopCallback},
    backlog::Backlog,
    buffers::Buffers,
    description::{self, Closing},
    encode::Encoding,
    error::RecordError,
    lane::{Lane, Shared},
    lookout::Lookout,
    merge::Merger,
    output::{Output, Whereabouts},
    pace::Pace,
    progress::Progress,
    queues::Queues,
    writer::{Recording, Writer},
};

/// Messages that may wait for the writer. With blocks of full chunks this is some 10 MiB: enough to keep the disk busy, little
/// beside the pools.
const WAITING_BLOCKS: usize = 64;
/// The same, where packets are dropped when the output is behind: what bounds them is their memory, see [`Backlog`].
const WAITING_BLOCKS_OF_BACKLOG: usize = 16 << 10;

/// How often a caller that waits for the end is called back.
const TICK: Duration = Duration::from_millis(10);
/// How long an output may take nothing at the end, where packets are dropped when it is behind.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a writer that is given up may take to end. It does not where the kernel waits for a disk.
const GIVING_UP: Duration = Duration::from_secs(1);

/// How a capture is recorded.
#[derive(Debug)]
pub struct RecorderBuilder {
    output: Output,
    header: Option<Vec<u8>>,
    snaplen: u32,
    limit: u64,
    drops: bool,
    give_up: Arc<AtomicBool>,
    on_stop: Option<StopCallback>,
}

impl RecorderBuilder {
    /// Keeps this number of bytes of each packet; 0, the default, keeps all.
    pub fn snaplen(self, bytes: u32) -> Self {
        Self { snaplen: bytes, ..self }
    }

    /// Writes this number of packets at most, then calls [`Self::on_stop`]. Without it there is no limit.
    pub fn max_packets(self, packets: u64) -> Self {
        Self { limit: packets, ..self }
    }

    /// Writes this in front of the packets: encoded by [`wirecap_file`], in the format of the output, and in pcapng with an interface
    /// for each port, in their order. By default it has the name and the link type of each port.
    pub fn header(self, header: Vec<u8>) -> Self {
        Self { header: Some(header), ..self }
    }

    /// Drops packets that the output does not take in time, and counts them as [`not_taken`](crate::Written::not_taken), so that
    /// no worker waits: 64 MiB may wait for the output, and once they do, no more are taken until half of them are written. At the end an
    /// output that takes nothing for 5 s is given up. By default workers wait.
    pub fn drop_when_behind(self) -> Self {
        Self { drops: true, ..self }
    }

    /// Gives up writing once this flag is set, for instance by a signal handler: a write that waits for the reader of a pipe is
    /// given up at once. The recorder sets it, too, when it gives up a stalled output.
    pub fn give_up_flag(self, flag: Arc<AtomicBool>) -> Self {
        Self { give_up: flag, ..self }
    }

    /// Is called, once at most, by the thread that writes when it writes nothing more although packets may still come.
    pub fn on_stop(self, callback: impl FnOnce(Stop<'_>) + Send + 'static) -> Self {
        Self { on_stop: Some(StopCallback(Box::new(callback))), ..self }
    }

    /// Replaces the contents of the output by the header, and has `spawn` run the writer in a thread. The thread may be there
    /// already and wait for its work, so that a lack of threads is found before the capture is opened.
    ///
    /// # Errors
    /// Why the header cannot be written.
    pub fn start(mut self, capture: &Capture, spawn: impl FnOnce(Writer)) -> Result<Recorder, RecordError> {
        let report = capture.report();
        let format = self.output.format();
        if format == Format::Pcap && report.ports.len() > 1 {
            return Err(RecordError::SeveralPorts(report.ports.len()));
        }
        let header = self.header.take();
        let header = header.unwrap_or_else(|| description::header(&report, format, self.snaplen));
        self.output.set_give_up(&self.give_up);
        self.output.begin(&header)?;

        let queues = Arc::new(Queues::of(&report));
        let backlog = self.drops.then(Arc::<Backlog>::default);
        let waiting = if self.drops { WAITING_BLOCKS_OF_BACKLOG } else { WAITING_BLOCKS };
        let (sender, messages) = sync_channel(waiting);
        let encoding = Arc::new(Encoding::new(&report, &queues, format, self.snaplen));
        let shared = Shared { encoding, messages: sender, backlog: backlog.clone() };
        let (mut returns, mut lanes) = (Vec::new(), Vec::new());
        for worker in 0..report.workers.len() {
            let (give_back, emptied) = sync_channel(WAITING_BLOCKS);
            returns.push(give_back);
            lanes.push(shared.lane(worker, emptied));
        }
        let progress = Progress::new(&self.output, backlog.clone());
        let (closing, closed) = channel();
        let (finished, outcome) = sync_channel(1);
        let recording = Recording {
            started: SystemTime::now(),
            merger: Merger::new(queues.count()),
            lookout: Lookout::new(capture.horizons(), queues),
            pace: Pace::default(),
            pending: VecDeque::new(),
            buffers: Buffers::new(returns),
            appender: Appender::new(self.output, self.limit, progress.clone(), self.on_stop),
            progress: progress.clone(),
            backlog,
        };
        spawn(Writer { messages, closing: closed, outcome: finished, recording });
        Ok(Recorder { lanes, progress, give_up: self.give_up, closing, outcome })
    }
}

/// Records a capture: see the example at the [head of the crate](crate).
///
/// Dropping it leaves a file with all packets and without the account.
#[derive(Debug)]
pub struct Recorder {
    /// Until they are taken.
    lanes: Vec<Lane>,
    progress: Progress,
    give_up: Arc<AtomicBool>,
    closing: Sender<Closing>,
    outcome: Receiver<Outcome>,
}

impl Recorder {
    /// How a capture is recorded to this output.
    pub fn builder(output: Output) -> RecorderBuilder {
        RecorderBuilder {
            output,
            header: None,
            snaplen: 0,
            limit: u64::MAX,
            drops: false,
            give_up: Arc::default(),
            on_stop: None,
        }
    }

    /// The lanes, one for each worker of the capture, in the order of the workers. They can be taken once.
    pub fn take_lanes(&mut self) -> Vec<Lane> {
        std::mem::take(&mut self.lanes)
    }

    /// What has been written, for any thread to read.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Waits until all is written, then writes what stands behind the packets: a [`wirecap::Report`] will do. Call it when the workers have
    /// ended, as it waits for all lanes to be dropped.
    pub fn finish(self, closing: impl Into<Closing>) -> Outcome {
        self.finish_with(closing, || ())
    }

    /// Like [`Self::finish`], and calls `tick` a hundred times a second while it waits: to show how far it is.
    pub fn finish_with(self, closing: impl Into<Closing>, mut tick: impl FnMut()) -> Outcome {
        let Self { lanes, progress, give_up, closing: sender, outcome } = self;
        drop(lanes);
        // A writer that is gone takes nothing, which is found out below.
        let _ = sender.send(closing.into());
        let abandoned = |failure| {
            let (written, whereabouts) = (progress.written(), Whereabouts::InPlace);
            Outcome { written, failure: Some(failure), whereabouts }
        };
        let mut stall = Stall::new(&progress);
        loop {
            match outcome.recv_timeout(TICK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => return abandoned(RecordError::WriterGone),
                Err(RecvTimeoutError::Timeout) if progress.drops() && stall.has_come(&progress) => break,
                Err(RecvTimeoutError::Timeout) => tick(),
            }
        }
        give_up.store(true, Ordering::Relaxed);
        let failure = RecordError::Stalled(STALL_TIMEOUT);
        match outcome.recv_timeout(GIVING_UP) {
            Ok(outcome) => Outcome { failure: Some(failure), ..outcome },
            Err(_) => abandoned(failure),
        }
    }
}

/// Whether an output takes nothing for too long.
struct Stall {
    /// Bytes that it had taken when it last took something, and when that was.
    bytes: u64,
    since: Instant,
}

impl Stall {
    fn new(progress: &Progress) -> Self {
        Self { bytes: progress.output_bytes(), since: Instant::now() }
    }

    fn has_come(&mut self, progress: &Progress) -> bool {
        if progress.output_bytes() != self.bytes {
            *self = Self::new(progress);
        }
        self.since.elapsed() >= STALL_TIMEOUT
    }
}
