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
    appender::{Appender, Outcome, StopCallback},
    backlog::Backlog,
    buffers::Buffers,
    description::{self, Closing},
    encode::Encoding,
    error::RecordError,
    in_place::Places,
    lane::Lane,
    lookout::Lookout,
    merge::Merger,
    output::{Output, Whereabouts},
    pace::Pace,
    progress::Progress,
    queues::Queues,
    writer::{Recording, Writer},
};

/// Messages that may wait for the writer. With blocks of full chunks this is some 10 MiB: enough to keep the
/// disk busy, and little compared with the pools.
const WAITING_BLOCKS: usize = 64;
/// The same if packets are dropped when the output is behind: then their memory is limited, see [`Backlog`].
const WAITING_BLOCKS_OF_BACKLOG: usize = 16 << 10;

/// How often to call back while waiting for the end.
const TICK: Duration = Duration::from_millis(10);
/// How long an output may accept nothing at the end, if packets are dropped when it is behind.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a writer that is given up may take to end. It cannot end while the kernel waits for a disk.
const GIVING_UP: Duration = Duration::from_secs(1);

/// How to record a capture. By default, keeps all of every packet, and workers wait for a slow output.
#[derive(Debug, Default)]
pub struct RecordConfig {
    /// Bytes kept of each packet; 0 keeps all.
    pub snaplen: u32,
    /// Limit on written packets, after which [`Self::on_stop`] is called; `None` means no limit.
    pub max_packets: Option<u64>,
    /// The header before the packets: encoded by [`wirecap_file`], in the format of the output, and in pcapng
    /// with an interface for each port, in their order. `None` writes the name and the link type of each
    /// port.
    pub header: Option<Vec<u8>>,
    /// Drops packets that the output does not accept in time, and counts them as
    /// [`not_taken`](crate::WrittenCounts::not_taken), so that no worker waits. 64 MiB may wait for the
    /// output; once they do, no more are accepted until half of them are written. At the end, an output that
    /// accepts nothing for 5 s is given up.
    pub drop_when_behind: bool,
    /// Gives up writing when it is set, for instance by a signal handler: a write that waits for the reader
    /// of a pipe is given up at once. The recorder also sets it when it gives up a stalled output.
    pub give_up: Arc<AtomicBool>,
    /// Called at most once, by the thread that writes, when it writes nothing more although packets may still
    /// arrive.
    pub on_stop: Option<StopCallback>,
}

/// Records a capture: see the example at the [head of the crate](crate).
///
/// Dropping it leaves a file with all packets but without the account.
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
    /// Replaces the contents of the output by the header, and has `spawn` run the writer in a thread. The
    /// thread may already wait for its work, so that a lack of threads is an error before the capture is
    /// opened.
    ///
    /// # Errors
    /// [`RecordError::SeveralPorts`], or why the header cannot be written.
    pub fn start(
        mut output: Output,
        capture: &Capture,
        config: RecordConfig,
        spawn: impl FnOnce(Writer),
    ) -> Result<Self, RecordError> {
        let RecordConfig { snaplen, max_packets, header, drop_when_behind, give_up, on_stop } = config;
        let (report, format) = (capture.report(), output.format());
        if format == Format::Pcap && report.ports.len() > 1 {
            return Err(RecordError::SeveralPorts(report.ports.len()));
        }
        output.set_give_up(&give_up);
        output.begin(&header.unwrap_or_else(|| description::header(&report, format, snaplen)))?;

        let queues = Arc::new(Queues::of(&report));
        let encoding = Arc::new(Encoding::new(&report, &queues, format, snaplen));
        let places = Arc::new(Places::new(&report, queues.count(), format, snaplen));
        let backlog = drop_when_behind.then(Arc::<Backlog>::default);
        let waiting = if drop_when_behind { WAITING_BLOCKS_OF_BACKLOG } else { WAITING_BLOCKS };
        let (sender, messages) = sync_channel(waiting);
        let (mut returns, mut lanes) = (Vec::new(), Vec::new());
        for worker in 0..report.workers.len() {
            let (give_back, emptied) = sync_channel(WAITING_BLOCKS);
            returns.push(give_back);
            let (encoding, places) = (Arc::clone(&encoding), Arc::clone(&places));
            lanes.push(Lane {
                worker,
                encoding,
                places,
                messages: sender.clone(),
                emptied,
                backlog: backlog.clone(),
                gaps: Vec::new(),
            });
        }
        let progress = Progress::new(&output, backlog.clone());
        let (closing, closed) = channel();
        let (finished, outcome) = sync_channel(1);
        let recording = Recording {
            started: SystemTime::now(),
            merger: Merger::new(queues.count()),
            lookout: Lookout::new(capture.horizons(), queues),
            pace: Pace::default(),
            pending: VecDeque::new(),
            buffers: Buffers::new(returns),
            appender: Appender::new(output, max_packets.unwrap_or(u64::MAX), progress.clone(), on_stop),
            progress: progress.clone(),
            backlog,
        };
        spawn(Writer { messages, closing: closed, outcome: finished, recording });
        Ok(Self { lanes, progress, give_up, closing, outcome })
    }

    /// The lanes, one per worker of the capture, in the order of the workers. They can be taken once.
    pub fn take_lanes(&mut self) -> Vec<Lane> {
        std::mem::take(&mut self.lanes)
    }

    /// The progress of writing, for any thread.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Waits until everything is written, then writes what follows the packets: pass a [`wirecap::Report`] or
    /// a [`Closing`]. Call it when the workers have ended, as it waits for all lanes to be dropped.
    pub fn finish(self, closing: impl Into<Closing>) -> Outcome {
        self.finish_with(closing, || ())
    }

    /// Like [`Self::finish`], but calls `tick` a hundred times a second while it waits, to show the progress.
    pub fn finish_with(self, closing: impl Into<Closing>, mut tick: impl FnMut()) -> Outcome {
        let Self { lanes, progress, give_up, closing: sender, outcome } = self;
        drop(lanes);
        // Fails if the writer is gone, which is found below.
        let _ = sender.send(closing.into());
        let abandoned = |failure| {
            let (written, whereabouts) = (progress.written(), Whereabouts::InPlace);
            Outcome { written, failure: Some(failure), whereabouts }
        };
        let (mut bytes, mut since) = (progress.output_bytes(), Instant::now());
        loop {
            match outcome.recv_timeout(TICK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => return abandoned(RecordError::WriterGone),
                Err(RecvTimeoutError::Timeout) => tick(),
            }
            if progress.output_bytes() != bytes {
                (bytes, since) = (progress.output_bytes(), Instant::now());
            }
            if progress.drops() && since.elapsed() >= STALL_TIMEOUT {
                break;
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
