//! The threads of a capture: started before the ports are opened, then given their work.

use std::{sync::mpsc::Sender, thread::JoinHandle};

use anyhow::Result;
use wirecap::{Capture, Worker};
use wirecap_record::{Output, RecordConfig, RecordError, Recorder, Stop};

use super::{
    describe,
    end::Notice,
    job::BatchHandler,
    output,
    place::Place,
    plan::Plan,
    worker::{self, Count, Sink},
};
use crate::process::{idle_thread::IdleThread, signals::Signals};

/// The threads of a capture before it runs.
pub(super) struct IdleThreads {
    pub(super) workers: Vec<IdleThread>,
    /// `None` when packets are only counted.
    pub(super) writer: Option<IdleWriter>,
}

/// The thread that will write, and its output.
pub(super) struct IdleWriter {
    pub(super) thread: IdleThread,
    pub(super) output: Output,
}

impl IdleThreads {
    pub(super) fn start(workers: usize, output: Option<Output>) -> Result<Self> {
        let worker = |number| IdleThread::start(&format!("wirecap-work-{number}"));
        let writer = |output| IdleThread::start("wirecap-writer").map(|thread| IdleWriter { thread, output });
        let workers = (0..workers).map(worker).collect::<Result<_>>()?;
        Ok(Self { workers, writer: output.map(writer).transpose()? })
    }
}

/// Starts to record. Without `waits`, packets that the output does not accept in time are dropped.
pub(super) fn record(
    (plan, places): (&Plan, &[Place]),
    signals: &Signals,
    notices: &Sender<Notice>,
    writer: IdleWriter,
    capture: &Capture,
    waits: bool,
) -> Result<Recorder> {
    let IdleWriter { thread, output } = writer;
    let destination = plan.destination.as_ref().expect("an output has a destination");
    let config = RecordConfig {
        snaplen: plan.output.snaplen,
        max_packets: plan.output.count,
        header: Some(describe::header(plan, places, &capture.report())),
        drop_when_behind: !waits,
        give_up: signals.escalation.give_up_flag(),
        on_stop: Some(notifier(destination.describe(), notices.clone()).into()),
    };
    let started = Recorder::start(output, capture, config, |writer| _ = thread.run(|| writer.run()));
    started.map_err(|error| output::cannot_start(destination, &error))
}

/// The callback that notifies the watch when nothing more is written. Not if a signal gave the output up:
/// that has already ended the capture.
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
pub(super) struct Threads {
    pub(super) workers: Vec<JoinHandle<()>>,
    /// `None` when packets are only counted.
    pub(super) recorder: Option<Recorder>,
}

impl Threads {
    pub(super) fn start<O: BatchHandler>(
        idle: Vec<IdleThread>,
        work: impl Iterator<Item = (Worker, O)>,
        mut recorder: Option<Recorder>,
        count: &Count,
    ) -> Self {
        let lanes = recorder.as_mut().map_or_else(Vec::new, Recorder::take_lanes);
        let lanes = lanes.into_iter().map(Sink::Record);
        let sinks = lanes.chain(std::iter::repeat_with(|| Sink::Count(count.clone())));
        let mut workers = Vec::new();
        for ((thread, (worker, handler)), sink) in idle.into_iter().zip(work).zip(sinks) {
            workers.push(thread.run(move || worker::run(worker, sink, handler)));
        }
        Self { workers, recorder }
    }
}
