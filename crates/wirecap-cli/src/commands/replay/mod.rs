//! `wirecap replay`: from trace files to an interface.
//!
//! ```text
//!   flags ─► plan ─► Replay::open ─► announce ─► Replay::run ─► report       (threads of their own: open, run)
//!                                                    │
//!                  signals ─► stop ──────────────────┴──► progress           (the main thread)
//! ```
//!
//! Everything about replaying is in the crate `wirecap-replay`.

mod announce;
pub(crate) mod flags;
mod plan;
mod progress;
pub(crate) mod report;
mod values;

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, sync_channel},
    },
    time::{Duration, SystemTime},
};

use anyhow::{Result, bail};
use wirecap_replay::{Control, Plan, Replay};

use self::{flags::ReplayFlags, plan::ReplayPlan, progress::snapshot};
use crate::{
    exit::Exit,
    print::{head::Head, status_line::StatusLine},
    process::{cores::check_cores, idle_thread::IdleThread, signals::Signals, step::Step},
};

/// How often signals and the progress are checked: seldom, since that may take the core from the thread that
/// sends.
const TICK: Duration = Duration::from_millis(200);

/// Replays as the flags say, to the end.
///
/// # Errors
/// Whatever keeps it from starting. What happens later is printed, and is in the exit code.
pub(crate) fn run(flags: &ReplayFlags, signals: &Signals) -> Result<Exit> {
    check_cores(&Vec::from_iter(flags.send.core))?;
    let ReplayPlan { plan, spared } = plan::plan(flags)?;
    let (started, quiet) = (SystemTime::now(), flags.send.quiet);
    let thread = IdleThread::start("wirecap-send")?;
    let control = Arc::new(Control::default());
    let (step, shared) = (opening(&plan), Arc::clone(&control));
    let replay = step.run(signals, quiet, move || Replay::open(plan, &shared))??;
    announce::start(&replay, spared.as_ref(), quiet);
    let (sender, finished) = sync_channel(1);
    thread.run(move || _ = sender.send(replay.run()));
    let mut line = StatusLine::new(quiet, flags.send.json);
    let report = loop {
        match finished.recv_timeout(TICK) {
            Ok(report) => break report,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the thread that sends panicked; this is a defect of wirecap")
            }
        }
        if signals.end() {
            control.stop();
        }
        let is_asked = signals.take_report_request();
        match control.progress() {
            Some(now) if is_asked => line.print_total(snapshot(&now), |rates| progress::fields(&now, rates)),
            Some(now) if line.is_due() => {
                line.show_rates(snapshot(&now), |rates| progress::fields(&now, rates))
            }
            None if is_asked => note!("nothing is sent yet"),
            _ => {}
        }
    };
    line.clear();
    Ok(report::print(report, spared.as_ref(), Head::new("replay", started), &flags.send))
}

/// Opening the files and the queues.
fn opening(plan: &Plan) -> Step {
    let is_pipe = |path: &&std::path::PathBuf| {
        path.as_path() == Path::new("-") || path.metadata().is_ok_and(|metadata| !metadata.is_file())
    };
    let waits_for = match plan.files.iter().find(is_pipe) {
        Some(pipe) => format!("waiting for a program that writes {}", pipe.display()),
        None => "reading the files".into(),
    };
    let timeout = Duration::from_millis(500);
    Step { timeout, ..Step::new(&waits_for, "stopped before anything was sent") }
}
