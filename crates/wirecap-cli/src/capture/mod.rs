//! A capture from start to end, for every command that captures: from interfaces to a file.
//!
//! ```text
//!   plan ─► ports opened ─► worker threads ─► Lane of a Recorder, or counted ─► the job: dropped, sent on, …
//!                               ▲                    └─► writer thread ─► file, pipe     (wirecap-record)
//!             watch: signals, limits, events ─► end ─► account
//! ```
//!
//! Rules: all threads are started before the ports are opened, and wait for their work. When they get it,
//! they give up what they do not need (`process/sandbox.rs`); the main thread is the last.
//!
//! | to read about | open |
//! |---|---|
//! | the threads, and what a worker does | [`threads`], [`worker`] |
//! | the output, and the texts of its errors | [`output`]; names, and a file for each queue: [`files`]; a series of files: [`series`]; what is in them: [`written_files`] |
//! | the blocks around the packets | [`describe`] |
//! | what is captured, checked before anything is opened | [`plan`]; each interface is looked up once: [`known_interfaces`] |
//! | interfaces and trace files, looked up and opened | [`place`] |
//! | limits of the process, and whether flags have an effect | [`limits`], [`effect`] |
//! | what commands do with captured packets | [`job`] |
//! | what ends a capture, and what happens then | [`end`], [`watch`], [`close`], [`drain`], [`failure`] |
//! | whether the process ran at all | [`pulse`] |
//! | settings of the machine that may explain a loss | [`explain`] |
//! | problems with times, and with the order of packets | [`times`], [`disorder`] |
//! | clients of the control socket and of metrics | [`service`] |
//! | what is printed | [`announce`], [`progress`], [`alarm`], [`statistics`], [`summary`], [`accounts`] |

mod accounts;
mod alarm;
mod announce;
mod close;
mod describe;
mod disorder;
mod drain;
mod effect;
pub(crate) mod end;
mod explain;
mod failure;
mod file_name;
mod files;
mod helpers;
pub(crate) mod job;
pub(crate) mod known_interfaces;
mod limits;
pub(crate) mod output;
mod place;
pub(crate) mod plan;
mod printing;
mod progress;
mod pulse;
mod record;
mod series;
mod service;
pub(crate) mod silence;
mod stall;
mod statistics;
mod summary;
mod threads;
mod times;
mod watch;
mod worker;
pub(crate) mod written_files;

#[cfg(test)]
pub(crate) use self::record::Record;

use std::{sync::mpsc::channel, time::SystemTime};

use anyhow::Result;
use wirecap_record::OutputCopy;
use wirecap_sandbox::Profile;

use self::{
    files::Opener,
    helpers::Helpers,
    job::Job,
    output::NoRoom,
    plan::Plan,
    series::Commands,
    statistics::Statistics,
    threads::{IdleThreads, Recording, Threads},
    watch::Watch,
    worker::Count,
    written_files::FilesProgress,
};
use crate::{
    exit::Exit,
    print::head::Head,
    process::{cores::check_cores, parent, sandbox, service_manager::ServiceManager, signals::Signals},
};

/// Captures as planned, to the end, with a job for the packets.
///
/// # Errors
/// Whatever keeps the capture from starting. What happens later is printed, and is in the exit code.
pub(crate) fn run<J: Job>(mut plan: Plan, mut job: J, signals: Signals) -> Result<Exit> {
    plan.check_terminal()?;
    check_cores(&plan.cores())?;
    let places = place::look_up(&mut plan)?;
    place::check_copied_elsewhere(&plan)?;
    let (control, mut desk) = service::start(&plan, J::COMMAND, &signals)?;
    let mut helpers = Helpers { commands: Commands::start(&plan.output, &plan.sandbox)?, printer: None };
    let commands = helpers.commands.as_ref();
    let opener = Opener { plan: &plan, places: &places, signals: &signals, commands };
    let mut no_room = None;
    let mut outputs = or_without(opener.one(), &job, &mut no_room)?;
    let prepared = place::prepare(&plan, &places, &signals)?;
    let files = files::of_queues(&plan, &places, &prepared)?;
    limits::check(&plan, &prepared, files.len())?;
    outputs.extend(opener.of_queues(files)?);
    let copy = match plan.output.copy_pipe() {
        Some(pipe) => {
            let pipe = opener.as_user(|| output::open_pipe(pipe, &signals))?;
            Some(OutputCopy::to_pipe(pipe)?)
        }
        None if plan.output.print => helpers.print(&plan, &mut outputs)?,
        None => None,
    };
    let idle = IdleThreads::start(prepared.workers(), outputs, copy)?;
    let mut capture = place::open(&plan, prepared, &signals)?;
    effect::check(&plan, &capture.report())?;
    let started = SystemTime::now();
    let (notices, noticed) = channel();
    let waits = job.without_output().is_none();
    let delays = plan.delays(&job);
    let writers = idle.writers;
    let recording = Recording::start(&plan, &places, &signals, &notices, writers, &capture, waits);
    let recording = or_without(recording, &job, &mut no_room)?;
    if no_room.is_some() {
        plan.destination = None;
    }
    let progress = FilesProgress::of(&recording.recorders);
    // A file that ends at a size is no series, though it is recorded as one.
    let recorders = recording.recorders.iter().filter(|_| plan.output.rotates());
    desk.set_rotators(recorders.filter_map(|(_, recorder)| recorder.rotator()).collect());
    let head = Head::new(J::COMMAND, started);
    // Before the announcement, so that clients that wait for it find a running capture.
    control.board.begin(head.started());
    service::announce(&plan, &control);
    if !plan.output.quiet {
        announce::start(&plan, &capture.report(), progress.as_ref(), &job);
    }
    announce::warn(&capture.report());

    let workers = capture.take_workers();
    let handler = job.begin(&mut capture, workers.len(), progress.clone())?;
    let count = Count::new(plan.output.count, &notices);
    drop(notices);
    let work = workers.into_iter().zip(handler);
    let sampler = &control.board.sampler;
    let threads = Threads::start(idle.workers, work, recording, &count, sampler, &plan.sandbox);
    let manager = ServiceManager::from_env();
    plan.sandbox.enter(&Profile::Main(sandbox::needs(&plan.config, &capture.report(), plan.output.print)));
    if parent::renew().is_err() {
        signals.escalation.raise();
    }
    drop(count);
    let statistics = Statistics::new(&plan, &head, &control, progress);
    let watch = Watch::new(&plan, &signals, noticed, statistics, (desk, manager), delays);
    let watched = watch.until_end(&mut capture, &threads.workers, &mut job);
    let (end, on_losses) = (watched.end, watched.on_losses);
    let (plan, head, signals, control) = (&plan, &head, &signals, &control);
    let ended = close::EndedCapture { plan, head, signals, control, end, on_losses, no_room };
    Ok(ended.close(capture, threads, helpers, watched.manager, &mut job))
}

/// What was opened; nothing if there is no room for it and the job goes on without. That is printed, and kept
/// as a failure for the end.
fn or_without<T: Default>(opened: Result<T>, job: &impl Job, no_room: &mut Option<NoRoom>) -> Result<T> {
    opened.or_else(|error| {
        let Some(what) = job.without_output() else { return Err(error) };
        let error = error.downcast::<NoRoom>()?;
        warn!("{error}; {what}");
        *no_room = Some(error);
        Ok(T::default())
    })
}
