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

use self::{flags::ReplayFlags, progress::Bar};
use crate::{
    cores::check_cores,
    exit::{Exit, tell},
    head::Head,
    idle_thread::no_thread,
    signals::Signals,
};

/// How often signals and the progress are looked at: seldom, since it may take the core from the thread that sends.
const TICK: Duration = Duration::from_millis(200);
/// After this time it is said what is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Replays as the flags say, to the end.
///
/// # Errors
/// Whatever keeps it from starting. What happens later is told, and is in the exit code.
pub(crate) fn run(flags: &ReplayFlags, signals: &Signals) -> Result<Exit> {
    check_cores(&Vec::from_iter(flags.send.core))?;
    let plan = plan::plan(flags)?;
    let started = SystemTime::now();
    let control = Arc::new(Control::default());
    let (events, happened) = mpsc::channel();
    let thread = start(plan.clone(), &control, flags.send.quiet, events)?;
    let mut waiting = Waiting { since: Instant::now(), plan: &plan, told: flags.send.quiet };
    let (mut bar, mut is_sending) = (Bar::new(flags), false);
    loop {
        match happened.recv_timeout(TICK) {
            Ok(Event::Sending) => is_sending = true,
            Ok(Event::Over) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if !control.is_stopped() && signals.end() {
            control.stop();
            if !is_sending {
                // It may wait for somebody who never writes; the process ends without it.
                tell("wirecap: stopped before anything was sent");
                return Ok(Exit::Failed);
            }
        }
        if signals.take_report_request() {
            bar.tell(&control);
        }
        if is_sending {
            bar.show(&control);
        } else {
            waiting.look();
        }
    }
    bar.clear();
    let report = thread
        .join()
        .map_err(|_| anyhow!("the thread that sends has panicked; this is a defect of wirecap"))?
        .map_err(with_advice)?;
    Ok(report::print(&report, Head::new("replay", started), &flags.send))
}

/// An error, and which flag helps.
fn with_advice(error: wirecap_replay::Error) -> anyhow::Error {
    match &error {
        wirecap_replay::Error::Queue { source, .. } if source.is_unsupported() => {
            anyhow!(
                "{error}: the driver does not offer zero-copy; leave --tx-mode out, or write --tx-mode copy"
            )
        }
        _ => error.into(),
    }
}

/// What the thread that replays has to say.
enum Event {
    Sending,
    Over,
}

fn start(
    plan: Plan,
    control: &Arc<Control>,
    quiet: bool,
    events: Sender<Event>,
) -> Result<JoinHandle<Result<Report, wirecap_replay::Error>>> {
    let control = Arc::clone(control);
    let work = move || {
        let replay = Replay::open(plan, &control)?;
        announce::start(&replay, quiet);
        // Nobody listens once a signal has come.
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
    told: bool,
}

impl Waiting<'_> {
    fn look(&mut self) {
        if self.told || self.since.elapsed() < PATIENCE {
            return;
        }
        self.told = true;
        let is_pipe = |path: &&std::path::PathBuf| {
            path.as_path() == Path::new("-") || path.metadata().is_ok_and(|metadata| !metadata.is_file())
        };
        match self.plan.files.iter().find(is_pipe) {
            Some(pipe) => tell(format_args!("wirecap: waiting for a program that writes {}", pipe.display())),
            None => tell("wirecap: reading"),
        }
    }
}
