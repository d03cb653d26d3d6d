//! The threads of a capture: started before the ports are opened, then given their work.

use std::{
    collections::VecDeque,
    sync::{Arc, mpsc::Sender},
    thread::JoinHandle,
};

use anyhow::Result;
use wirecap::{Capture, Worker};
use wirecap_record::{
    Lane, OutputCopy, OutputError, RecordConfig, RecordError, Recorder, StopReason, Writer,
};
use wirecap_sandbox::{Profile, Sandbox};

use super::{
    describe,
    end::Notice,
    files::OpenOutput,
    job::BatchHandler,
    output,
    place::Place,
    plan::Plan,
    worker::{self, Count, Sink},
    written_files::OutputFile,
};
use crate::{
    control::sample::Sampler,
    process::{idle_thread::IdleThread, signals::Signals},
};

/// The threads of a capture before it runs.
pub(super) struct IdleThreads {
    pub(super) workers: Vec<IdleThread>,
    pub(super) writers: IdleWriters,
}

/// The threads that will write.
pub(super) struct IdleWriters {
    /// One for each output; none when packets are only counted.
    threads: Vec<IdleWriter>,
    copy: Option<OutputCopy>,
}

/// A thread that will write, and its output.
pub(super) struct IdleWriter {
    thread: IdleThread,
    open: OpenOutput,
}

impl IdleThreads {
    pub(super) fn start(workers: usize, outputs: Vec<OpenOutput>, copy: Option<OutputCopy>) -> Result<Self> {
        let worker = |number| IdleThread::start(&format!("wirecap-work-{number}"));
        let writer = |(number, open): (usize, OpenOutput)| {
            let name = match open.file.queue {
                None => "wirecap-writer".into(),
                Some(_) => format!("wirecap-file-{number}"),
            };
            IdleThread::start(&name).map(|thread| IdleWriter { thread, open })
        };
        let workers = (0..workers).map(worker).collect::<Result<_>>()?;
        let threads = outputs.into_iter().enumerate().map(writer).collect::<Result<_>>()?;
        Ok(Self { workers, writers: IdleWriters { threads, copy } })
    }
}

/// What writes the packets of a capture; empty when they are only counted.
#[derive(Default)]
pub(super) struct Recording {
    /// One for each worker.
    lanes: Vec<Lane>,
    pub(super) recorders: Vec<(OutputFile, Recorder)>,
}

impl Recording {
    /// Starts to record. Without `waits`, packets that the output does not accept in time are dropped.
    pub(super) fn start(
        plan: &Plan,
        places: &[Place],
        signals: &Signals,
        notices: &Sender<Notice>,
        writers: IdleWriters,
        capture: &Capture,
        waits: bool,
    ) -> Result<Self> {
        let (mut threads, mut files) = (VecDeque::new(), Vec::new());
        let (mut outputs, mut rotations) = (Vec::new(), Vec::new());
        for IdleWriter { thread, open: OpenOutput { file, output, rotation, begin } } in writers.threads {
            threads.push_back((thread, plan.writer(output.file_path()), begin));
            files.push(file);
            outputs.push(output);
            rotations.extend(rotation);
        }
        let names: Vec<_> = files.iter().map(|file| file.name.clone()).collect();
        let config = RecordConfig {
            snaplen: plan.output.snaplen,
            max_packets: plan.output.count,
            rotations,
            header: describe::header(plan, places, &capture.report()),
            drop_when_behind: !waits,
            copy: writers.copy,
            give_up: signals.escalation.give_up_flag(),
            on_stop: Some(notifier(names.clone(), notices.clone()).into()),
        };
        let spawn = |writer: Writer| {
            let sandbox = plan.sandbox.clone();
            threads.pop_front().map(|(thread, profile, begin)| {
                thread.run(move || {
                    sandbox.enter(&profile);
                    if let Some(begin) = begin {
                        begin.begin();
                    }
                    writer.run();
                })
            });
        };
        let started = match files.as_slice() {
            [] => return Ok(Self::default()),
            [OutputFile { queue: None, .. }] => Recorder::start(outputs.remove(0), capture, config, spawn)
                .map(|mut recorder| {
                    let lanes = recorder.take_lanes();
                    (vec![recorder], lanes)
                })
                .map_err(|cause| OutputError { output: 0, cause }),
            _ => Recorder::start_per_queue(outputs, capture, config, spawn),
        };
        let (recorders, lanes) = started.map_err(|OutputError { output, cause }| {
            output::cannot_start(names.get(output).map_or("", String::as_str), &cause)
        })?;
        Ok(Self { lanes, recorders: files.into_iter().zip(recorders).collect() })
    }
}

/// The callback that notifies the watch when nothing more is written. Not if a signal gave the output up:
/// that has already ended the capture.
fn notifier(names: Vec<String>, notices: Sender<Notice>) -> impl Fn(StopReason<'_>) + Send + Sync {
    move |stop| {
        let notice = match stop {
            StopReason::LimitReached => Notice::CountReached,
            StopReason::FilesComplete => Notice::FilesComplete,
            StopReason::Failed { cause: RecordError::GivenUp, .. } => return,
            StopReason::Failed { output, cause } => {
                Notice::WriteFailed(output::cannot_write(&names[output], cause))
            }
        };
        // No thread listens once the capture is ending.
        let _ = notices.send(notice);
    }
}

/// The threads of a capture.
pub(super) struct Threads {
    pub(super) workers: Vec<JoinHandle<()>>,
    /// None when packets are only counted.
    pub(super) recorders: Vec<(OutputFile, Recorder)>,
}

impl Threads {
    pub(super) fn start<O: BatchHandler>(
        idle: Vec<IdleThread>,
        work: impl Iterator<Item = (Worker, O)>,
        recording: Recording,
        count: &Count,
        sampler: &Arc<Sampler>,
        sandbox: &Sandbox,
    ) -> Self {
        let Recording { lanes, recorders } = recording;
        let lanes = lanes.into_iter().map(Sink::Record);
        let sinks = lanes.chain(std::iter::repeat_with(|| Sink::Count(count.clone())));
        let mut workers = Vec::new();
        for ((thread, (worker, handler)), sink) in idle.into_iter().zip(work).zip(sinks) {
            let (sandbox, sampler) = (sandbox.clone(), Arc::clone(sampler));
            workers.push(thread.run(move || {
                sandbox.enter(&Profile::Worker);
                worker::run(worker, sink, handler, &sampler);
            }));
        }
        Self { workers, recorders }
    }
}
