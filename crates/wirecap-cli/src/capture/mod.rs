//! `wirecap capture`: from interfaces to a file.
//!
//! ```text
//!   plan ─► ports opened ─► worker threads ─► Lane of a Recorder, or counted ─► the job: dropped, sent on, …
//!                               ▲                    └─► writer thread ─► file, pipe     (wirecap-record)
//!             watch: signals, limits, events ─► end ─► account
//! ```
//!
//! Rule: all threads are made before the ports are opened, and wait for their work.
//!
//! | to read about | open |
//! |---|---|
//! | what a worker thread does | [`worker`] |
//! | the output, and what is wrong with it in words | [`output`] |
//! | the blocks around the packets | [`describe`] |
//! | interfaces and trace files, looked at and opened | [`place`] |
//! | what the process may have, and whether flags have an effect | [`limits`], [`effect`] |
//! | what other commands do with captured packets | [`job`] |
//! | what ends a capture, and what is done then | [`watch`], [`end`], [`drain`], [`failure`] |
//! | what is wrong with times, and with their order | [`times`], [`disorder`] |
//! | what the user is told | [`announce`], [`progress`], [`alarm`], [`statistics`], [`summary`], [`accounts`] |

mod accounts;
mod alarm;
mod announce;
mod describe;
mod disorder;
mod drain;
mod effect;
mod end;
mod failure;
pub(crate) mod job;
mod limits;
mod output;
mod place;
mod progress;
mod statistics;
mod summary;
mod times;
pub(crate) mod watch;
mod worker;

use std::{
    sync::mpsc::{Sender, channel},
    thread::JoinHandle,
    time::SystemTime,
};

use anyhow::Result;
use wirecap::{Capture, Worker};
use wirecap_record::{Output, Progress, RecordError, Recorder, Stop};

use self::{
    job::{Job, Onward},
    place::Place,
    statistics::Statistics,
    watch::{Notice, Watch},
    worker::{Count, Sink},
};
use crate::{
    cores::check_cores, exit::Exit, head::Head, idle_thread::IdleThread, plan::Plan, signals::Signals,
};

/// Captures as planned, to the end, and does its job with the packets.
///
/// # Errors
/// Whatever keeps the capture from starting. What happens later is told, and is in the exit code.
pub(crate) fn run<J: Job>(plan: Plan, mut job: J, signals: Signals) -> Result<Exit> {
    check_cores(&plan.cores)?;
    let places = place::look_up(&plan)?;
    let output = plan.destination.as_ref();
    let output = output.map(|destination| output::open(destination, &signals)).transpose()?;
    let looked_up = place::prepare(&plan, &places, &signals)?;
    limits::check(&plan, &looked_up)?;
    let idle = IdleThreads::start(looked_up.workers(), output)?;
    let mut capture = place::open(&plan, looked_up, &signals)?;
    effect::check(&plan, &capture.report())?;
    let started = SystemTime::now();
    let (notices, noticed) = channel();
    let recording = Recording { plan: &plan, places: &places, signals: &signals, notices: &notices };
    let waits = job.without_output().is_none();
    let recorder = idle.writer.map(|writer| recording.start(writer, &capture, waits)).transpose()?;
    if !plan.quiet {
        announce::start(&plan, &capture.report(), &job);
    }
    announce::warn(&capture.report());

    let workers = capture.take_workers();
    let progress = recorder.as_ref().map(Recorder::progress);
    let onward = job.begin(&mut capture, workers.len(), progress.clone())?;
    let count = Count::new(plan.count, &notices);
    drop(notices);
    let work = workers.into_iter().zip(onward);
    let threads = Threads::start(idle.workers, work, recorder, &count);
    drop(count);
    let head = Head::new(J::COMMAND, started);
    let statistics = Statistics::new(&plan, &head, progress);
    let watch = Watch::new(&plan, &signals, noticed, statistics);
    let end = watch.until_end(&mut capture, &threads.workers, &mut job);
    let ended = end::Ended { plan: &plan, head: &head, signals: &signals, end };
    Ok(ended.close(capture, threads, &mut job))
}

/// The threads of a capture, before it runs.
struct IdleThreads {
    workers: Vec<IdleThread>,
    /// `None` when packets are only counted.
    writer: Option<IdleWriter>,
}

/// The thread that will write, and what to.
struct IdleWriter {
    thread: IdleThread,
    output: Output,
}

impl IdleThreads {
    fn start(workers: usize, output: Option<Output>) -> Result<Self> {
        let worker = |number| IdleThread::start(&format!("wirecap-work-{number}"));
        let writer = |output| IdleThread::start("wirecap-writer").map(|thread| IdleWriter { thread, output });
        let workers = (0..workers).map(worker).collect::<Result<_>>()?;
        Ok(Self { workers, writer: output.map(writer).transpose()? })
    }
}

/// What a recorder is started from.
struct Recording<'a> {
    plan: &'a Plan,
    places: &'a [Place],
    signals: &'a Signals,
    notices: &'a Sender<Notice>,
}

impl Recording<'_> {
    /// Starts to record. Without `waits`, packets that the output does not take in time are dropped.
    fn start(&self, writer: IdleWriter, capture: &Capture, waits: bool) -> Result<Recorder> {
        let destination = self.plan.destination.as_ref().expect("an output has a destination");
        let recorder = Recorder::builder(writer.output)
            .header(describe::header(self.plan, self.places, &capture.report()))
            .snaplen(self.plan.snaplen)
            .max_packets(self.plan.count.unwrap_or(u64::MAX))
            .give_up_flag(self.signals.give_up_flag())
            .on_stop(notifier(destination.describe(), self.notices.clone()));
        let recorder = if waits { recorder } else { recorder.drop_when_behind() };
        let started = recorder.start(capture, |work| _ = writer.thread.run(|| work.run()));
        started.map_err(|error| output::cannot_start(destination, &error))
    }
}

/// Notifies the watch of why nothing more is written. A signal that gives the output up has ended the capture already.
fn notifier(output: String, notices: Sender<Notice>) -> impl FnOnce(Stop<'_>) + Send {
    move |stop| {
        let notice = match stop {
            Stop::LimitReached => Notice::CountReached,
            Stop::Failed(RecordError::GivenUp) => return,
            Stop::Failed(error) => Notice::WriteFailed(output::cannot_write(&output, error)),
        };
        // No thread listens once the capture is ending.
        let _ = notices.send(notice);
    }
}

/// The threads of a capture.
struct Threads {
    workers: Vec<JoinHandle<()>>,
    /// `None` when packets are only counted.
    recorder: Option<Recorder>,
}

impl Threads {
    fn start<O: Onward>(
        idle: Vec<IdleThread>,
        work: impl Iterator<Item = (Worker, O)>,
        mut recorder: Option<Recorder>,
        count: &Count,
    ) -> Self {
        let lanes = recorder.as_mut().map_or_else(Vec::new, Recorder::take_lanes);
        let lanes = lanes.into_iter().map(Sink::Record);
        let sinks = lanes.chain(std::iter::repeat_with(|| Sink::Count(count.clone())));
        let start = |((thread, (worker, onward)), sink): ((IdleThread, (Worker, O)), Sink)| {
            thread.run(move || worker::run(worker, sink, onward))
        };
        Self { workers: idle.into_iter().zip(work).zip(sinks).map(start).collect(), recorder }
    }

    /// What is written, if anything is.
    fn progress(&self) -> Option<Progress> {
        self.recorder.as_ref().map(Recorder::progress)
    }
}
