//! `wirecap replay`: from trace files to an interface.
//!
//! ```text
//!   flags ─► plan ─► Replay::open ─► announce ─► Replay::run ─► report       (a thread of its own)
//!                                                    │
//!                  signals ─► stop ──────────────────┴──► progress           (the main thread)
//! ```
//!
//! All that a replay is lives in the crate `wirecap-replay`.

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
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Result, anyhow};
use wirecap_replay::{Control, Plan, Replay, Report};

use self::{flags::ReplayFlags, plan::ReplayPlan, progress::snapshot};
use crate::{
    exit::Exit,
    print::{head::Head, status_line::StatusLine},
    process::{cores::check_cores, idle_thread::no_thread, signals::Signals},
};

/// How often signals and the progress are looked at: seldom, since it may take the core from the thread that
/// sends.
const TICK: Duration = Duration::from_millis(200);
/// After this time it is said what is waited for.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Replays as the flags say, to the end.
///
/// # Errors
/// Whatever keeps it from starting. What happens later is printed, and is in the exit code.
pub(crate) fn run(flags: &ReplayFlags, signals: &Signals) -> Result<Exit> {
    check_cores(&Vec::from_iter(flags.send.core))?;
    let ReplayPlan { plan, spared } = plan::plan(flags)?;
    let started = SystemTime::now();
    let control = Arc::new(Control::default());
    let (events, happened) = mpsc::channel();
    let (quiet, announced) = (flags.send.quiet, spared.clone());
    let announce = move |replay: &Replay| announce::start(replay, announced.as_ref(), quiet);
    let thread = start(plan.clone(), &control, events, announce)?;
    let mut waiting = Waiting { since: Instant::now(), plan: &plan, is_printed: quiet };
    let (mut line, mut is_sending) = (StatusLine::new(quiet, flags.send.json), false);
    loop {
        match happened.recv_timeout(TICK) {
            Ok(Event::Sending) => is_sending = true,
            Ok(Event::Over) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if !control.is_stopped() && signals.end() {
            control.stop();
            if !is_sending {
                // The thread may wait for a writer that never comes; the process ends without it.
                note!("stopped before anything was sent");
                return Ok(Exit::Failed);
            }
        }
        let is_asked = signals.take_report_request();
        match control.progress() {
            Some(now) if is_asked => line.print_total(snapshot(&now), |rates| progress::line(&now, rates)),
            Some(now) if line.is_due() => line.show_rates(snapshot(&now), |rates| progress::line(&now, rates)),
            None if is_asked => note!("nothing is sent yet"),
            _ => {}
        }
        if !is_sending {
            waiting.look();
        }
    }
    line.clear();
    let report = thread
        .join()
        .map_err(|_| anyhow!("the thread that sends has panicked; this is a defect of wirecap"))??;
    Ok(report::print(report, spared.as_ref(), Head::new("replay", started), &flags.send))
}

/// What the thread that replays has to say.
enum Event {
    Sending,
    Over,
}

fn start(
    plan: Plan,
    control: &Arc<Control>,
    events: Sender<Event>,
    announce: impl FnOnce(&Replay) + Send + 'static,
) -> Result<JoinHandle<Result<Report, wirecap_replay::Error>>> {
    let control = Arc::clone(control);
    let work = move || {
        let replay = Replay::open(plan, &control)?;
        announce(&replay);
        // The main thread does not listen after a signal.
        let _ = events.send(Event::Sending);
        let report = replay.run();
        let _ = events.send(Event::Over);
        Ok(report)
    };
    let started = thread::Builder::new().name("wirecap-send".into()).spawn(work);
    started.map_err(|cause| no_thread("wirecap-send", &cause))
}

/// Says what is waited for, once.
struct Waiting<'a> {
    since: Instant,
    plan: &'a Plan,
    is_printed: bool,
}

impl Waiting<'_> {
    fn look(&mut self) {
        if self.is_printed || self.since.elapsed() < TIMEOUT {
            return;
        }
        self.is_printed = true;
        let is_pipe = |path: &&std::path::PathBuf| {
            path.as_path() == Path::new("-") || path.metadata().is_ok_and(|metadata| !metadata.is_file())
        };
        match self.plan.files.iter().find(is_pipe) {
            Some(pipe) => {
                note!("waiting for a program that writes {}", pipe.display())
            }
            None => note!("reading"),
        }
    }
}
