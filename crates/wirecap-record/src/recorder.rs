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

use wirecap::{Capture, report::QueueMode};
use wirecap_file::Format;

use super::{
    appender::Appender,
    backlog::Backlog,
    buffers::Buffers,
    config::RecordConfig,
    description::{self, Trailer},
    encode::Encoding,
    error::{OutputError, RecordError},
    feed::Feed,
    in_place::Places,
    lane::Lane,
    limit::Limit,
    lookout::Lookout,
    merge::Merger,
    outcome::Outcome,
    output::{Output, Whereabouts},
    pace::Pace,
    progress::{Progress, WrittenCounts},
    queues::Queues,
    rotation::Series,
    rotator::{Requests, Rotator},
    writer::{Recording, Writer},
};

/// Messages that may wait for the writers, all together. With blocks of full chunks this is some 10 MiB:
/// enough to keep the disk busy, and little compared with the pools.
const WAITING_BLOCKS: usize = 64;
/// The fewest of them for each writer.
const WAITING_BLOCKS_OF_QUEUE: usize = 8;
/// The same if packets are dropped when the output is behind: then their memory is limited, see [`Backlog`].
const WAITING_BLOCKS_OF_BACKLOG: usize = 16 << 10;

/// How often to call back while waiting for the end.
const TICK: Duration = Duration::from_millis(10);
/// How long an output may accept nothing at the end, if packets are dropped when it is behind.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a writer that is given up may take to end. It cannot end while the kernel waits for a disk.
const GIVING_UP: Duration = Duration::from_secs(1);

/// Records a capture: see the example at the [head of the crate](crate).
///
/// Dropping it leaves a partial file, with all packets but without the account.
#[derive(Debug)]
pub struct Recorder {
    /// Until they are taken.
    lanes: Vec<Lane>,
    progress: Progress,
    /// Of a series of files.
    rotator: Option<Rotator>,
    give_up: Arc<AtomicBool>,
    trailer: Sender<Trailer>,
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
        output: Output,
        capture: &Capture,
        config: RecordConfig,
        spawn: impl FnOnce(Writer),
    ) -> Result<Self, RecordError> {
        let report = capture.report();
        if output.format() == Format::Pcap && report.ports.len() > 1 {
            return Err(RecordError::SeveralPorts(report.ports.len()));
        }
        let parts = vec![(output, Queues::of(&report))];
        let (mut started, lanes) = begin(parts, false, capture, config).map_err(|error| error.cause)?;
        let (recorder, writer) = started.remove(0);
        spawn(writer);
        Ok(Self { lanes, ..recorder })
    }

    /// Records each receive queue in an output of its own, so that no packets are merged: `outputs` has one
    /// for each of the [`Queues`] of the capture, in their order, and `spawn` gets the writer of each.
    /// Returns their recorders, in the same order, and the lanes, one per worker. Each output is a whole
    /// trace: it has all interfaces, so that their numbers are those of the capture, and the account of its
    /// queue. Finish the recorders one after the other, when the lanes are dropped.
    ///
    /// ```
    /// # use std::thread;
    /// use wirecap::{Capture, port::null::NullPort};
    /// use wirecap_file::Format;
    /// use wirecap_record::{Output, Queues, RecordConfig, Recorder};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let nic = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 1000 };
    /// let mut capture = Capture::builder().port(nic).chunks_per_pool(4).workers(1).open()?;
    /// let queues = 0..Queues::of(&capture.report()).count();
    /// let path = |queue| directory.path().join(format!("trace.{queue}.pcapng"));
    /// let outputs = queues.map(|queue| Output::open(path(queue), Format::Pcapng)).collect::<Result<_, _>>()?;
    /// let (recorders, mut lanes) =
    ///     Recorder::start_per_queue(outputs, &capture, RecordConfig::default(), |writer| {
    ///         thread::spawn(|| writer.run());
    ///     })?;
    ///
    /// let (mut worker, mut lane) = (capture.take_workers().remove(0), lanes.remove(0));
    /// for _ in 0..2 {
    ///     lane.record(worker.next_batch().expect("packets of the null port"))?;
    /// }
    /// # capture.stopper().stop();
    /// # while let Some(batch) = worker.next_batch() { lane.record(batch)?; }
    /// drop((worker, lane));
    /// let report = capture.finish();
    /// let outcomes = recorders.into_iter().map(|recorder| recorder.finish(report.clone()));
    /// let packets: u64 = outcomes.map(|outcome| outcome.written.packets).sum();
    /// assert_eq!(packets, report.total().delivered);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RecordError::OutputsForQueues`], or which header cannot be written, and why. New files are removed
    /// then.
    pub fn start_per_queue(
        outputs: Vec<Output>,
        capture: &Capture,
        config: RecordConfig,
        mut spawn: impl FnMut(Writer),
    ) -> Result<(Vec<Self>, Vec<Lane>), OutputError> {
        let queues = Queues::of(&capture.report());
        if outputs.len() != queues.count() {
            let cause = RecordError::OutputsForQueues(outputs.len(), queues.count());
            return Err(OutputError { output: outputs.len().min(queues.count()), cause });
        }
        let parts = outputs.into_iter().zip(queues.each()).collect();
        let (started, lanes) = begin(parts, true, capture, config)?;
        let start = |(recorder, writer)| {
            spawn(writer);
            recorder
        };
        Ok((started.into_iter().map(start).collect(), lanes))
    }

    /// The lanes, one per worker of the capture, in the order of the workers. They can be taken once.
    pub fn take_lanes(&mut self) -> Vec<Lane> {
        std::mem::take(&mut self.lanes)
    }

    /// The progress of writing, for any thread.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// What begins the next file on request, from any thread; `None` unless a series of files is written.
    pub fn rotator(&self) -> Option<Rotator> {
        self.rotator.clone()
    }

    /// Waits until everything is written, then writes what follows the packets: pass a [`wirecap::Report`] or
    /// a [`Trailer`]. Call it when the workers have ended, as it waits for all lanes to be dropped.
    pub fn finish(self, trailer: impl Into<Trailer>) -> Outcome {
        self.finish_with(trailer, || ())
    }

    /// Like [`Self::finish`], but calls `tick` a hundred times a second while it waits, to show the progress.
    pub fn finish_with(self, trailer: impl Into<Trailer>, mut tick: impl FnMut()) -> Outcome {
        let Self { lanes, progress, give_up, trailer: sender, outcome, .. } = self;
        drop(lanes);
        // Fails if the writer is gone, which is found below.
        let _ = sender.send(trailer.into());
        let abandoned = |failure| {
            let (written, copy_reader) = (failed(progress.written()), progress.copy_reader());
            let whereabouts = Whereabouts::InPlace;
            let (last_packets, failure, partial) = (written.packets, Some(failure), None);
            let (lost_files, moved_files) = (Vec::new(), Vec::new());
            Outcome {
                written,
                copy_reader,
                last_packets,
                failure,
                may_end_in_packet: true,
                whereabouts,
                partial,
                lost_files,
                moved_files,
            }
        };
        let (mut bytes, mut since) = (progress.output_bytes(), Instant::now());
        loop {
            match outcome.recv_timeout(TICK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => return abandoned(RecordError::WriterGone),
                Err(RecvTimeoutError::Timeout) => tick(),
            }
            // The reader of the copy, once only that is awaited, has a timeout of its own.
            if progress.output_bytes() != bytes || progress.uncopied().is_some() {
                (bytes, since) = (progress.output_bytes(), Instant::now());
            }
            if progress.drops() && since.elapsed() >= STALL_TIMEOUT {
                break;
            }
        }
        give_up.store(true, Ordering::Relaxed);
        let failure = RecordError::Stalled(STALL_TIMEOUT);
        match outcome.recv_timeout(GIVING_UP) {
            Ok(outcome) => Outcome { written: failed(outcome.written), failure: Some(failure), ..outcome },
            Err(_) => abandoned(failure),
        }
    }
}

/// What is in an output that has failed.
fn failed(written: WrittenCounts) -> WrittenCounts {
    WrittenCounts { ended_outputs: 1, failed_outputs: 1, ..written }
}

/// A recorder, and what its thread runs.
type StartedRecorder = (Recorder, Writer);

/// Replaces the contents of all outputs by headers, and connects the workers with the writers.
fn begin(
    mut parts: Vec<(Output, Queues)>,
    per_queue: bool,
    capture: &Capture,
    config: RecordConfig,
) -> Result<(Vec<StartedRecorder>, Vec<Lane>), OutputError> {
    let (report, snaplen) = (capture.report(), config.snaplen);
    for (number, (output, queues)) in parts.iter_mut().enumerate() {
        if !config.rotations.is_empty() && !output.is_file() {
            return Err(OutputError { output: number, cause: RecordError::NoFileToRotate });
        }
        let header = config.header.clone();
        let port = queues.first_port();
        let header =
            header.unwrap_or_else(|| description::header_bytes(&report, port, output.format(), snaplen));
        output.set_give_up(&config.give_up);
        output.begin(&header).map_err(|cause| OutputError { output: number, cause })?;
    }
    let queues = Arc::new(Queues::of(&report));
    let format = parts.first().map_or(Format::Pcapng, |(output, _)| output.format());
    let encoding = Arc::new(Encoding::new(&report, &queues, format, snaplen));
    let places = Arc::new(Places::new(&report, queues.count(), format, snaplen));
    let (mut returns, mut lanes) = (Vec::new(), Vec::new());
    for worker in 0..report.workers.len() {
        let (give_back, emptied) = sync_channel(WAITING_BLOCKS);
        returns.push(give_back);
        let (encoding, places) = (Arc::clone(&encoding), Arc::clone(&places));
        lanes.push(Lane { worker, encoding, places, feeds: Vec::new(), emptied });
    }
    let waiting = match config.drop_when_behind {
        true => WAITING_BLOCKS_OF_BACKLOG,
        false => (WAITING_BLOCKS / parts.len().max(1)).max(WAITING_BLOCKS_OF_QUEUE),
    };
    let modes = report.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.mode);
    let is_live = !modes.into_iter().any(|mode| mode == QueueMode::Trace);
    let limit = Arc::new(Limit::new(config.max_packets.unwrap_or(u64::MAX)));
    let mut rotations = config.rotations.into_iter();
    let mut copy = config.copy;
    let mut started = Vec::new();
    for (number, (output, queues)) in parts.into_iter().enumerate() {
        let backlog = config.drop_when_behind.then(Arc::<Backlog>::default);
        let (sender, messages) = sync_channel(waiting);
        for lane in &mut lanes {
            lane.feeds.push(Feed::new(sender.clone(), backlog.clone()));
        }
        let progress = Progress::new(&output, backlog.clone());
        let (trailer, closed) = channel();
        let (finished, outcome) = sync_channel(1);
        let only = per_queue.then(|| queues.place(0));
        let (limit, on_stop) = (Arc::clone(&limit), config.on_stop.clone());
        let started_at = SystemTime::now();
        let begun_ns = is_live.then(|| description::nanoseconds(started_at));
        let requests = Arc::<Requests>::default();
        let series = rotations.next().map(|rotation| Series::new(rotation, begun_ns, Arc::clone(&requests)));
        let rotator = series.is_some().then_some(Rotator(requests));
        let recording = Recording {
            started: started_at,
            is_live,
            merger: Merger::new(queues.count()),
            lookout: Lookout::new(capture.horizons(), Arc::new(queues)),
            pace: Pace::default(),
            pending: VecDeque::new(),
            buffers: Buffers::new(returns.clone()),
            appender: Appender::new(
                number,
                only,
                output,
                (series, copy.take()),
                limit,
                progress.clone(),
                on_stop,
            ),
            progress: progress.clone(),
            backlog,
            is_idle: false,
        };
        let give_up = Arc::clone(&config.give_up);
        let recorder = Recorder { lanes: Vec::new(), progress, rotator, give_up, trailer, outcome };
        started.push((recorder, Writer { messages, trailer: closed, outcome: finished, recording }));
    }
    Ok((started, lanes))
}
