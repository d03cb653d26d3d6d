//! `wirecap generate`: numbered frames from the transmit queues of an interface.
//!
//! ```text
//!   flags ─► plan ─► engine: AF_XDP queues, or the kernel's live frames ─► interface
//!                      ▲ frames that are due
//!                   schedule                                   report: frames made, and frames the interface sent
//! ```
//!
//! The frames, the engines and the schedule are those of `wirecap-traffic`.
//!
//! | to read about | open |
//! |---|---|
//! | the flags and their values | [`flags`], [`values`] |
//! | checks before anything is sent | [`plan`] |
//! | what is printed at the start, during the run and at the end | [`announce`], [`progress`], [`report`] |

mod announce;
pub(crate) mod flags;
mod plan;
mod progress;
pub(crate) mod report;
mod values;

use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow, ensure};
use wirecap_send::{LinkMonitor, TxCounters};
use wirecap_sys::cpu;
use wirecap_traffic::{End, Engine, Error, LiveGenerator, XdpGenerator, drive};

use self::{
    flags::GenerateFlags,
    plan::{EngineOptions, Plan},
    report::{Report, SendResult},
};
use crate::{
    exit::{Exit, Usage},
    print::status_line::StatusLine,
    process::{cores::check_cores, signals::Signals},
};

/// Generates until the end.
///
/// # Errors
/// Whatever keeps it from starting. What happens later is printed, and is in the exit code.
pub(crate) fn run(flags: GenerateFlags, signals: &Signals) -> Result<Exit> {
    let plan = Plan::new(flags)?;
    if let Some(core) = plan.flags.send.core {
        check_cores(&[core])?;
        cpu::pin_to_core(core).map_err(|cause| anyhow!("cannot run on core {core}: {cause}"))?;
    }
    let started = SystemTime::now();
    let ifindex = plan.interface.ifindex;
    let sent = match &plan.engine {
        EngineOptions::Xdp(options) => {
            let mut engine = XdpGenerator::open(ifindex, options).map_err(opening_error)?;
            check_begun(signals)?;
            announce::start(&plan, &engine.queues());
            let sent = send(&mut engine, &plan, signals)?;
            let in_flight = engine.finish();
            SendResult { in_flight, queues: engine.queues(), ..sent }
        }
        EngineOptions::Live(options) => {
            let mut engine = LiveGenerator::new(ifindex, *options).map_err(opening_error)?;
            check_begun(signals)?;
            announce::start(&plan, &[]);
            send(&mut engine, &plan, signals)?
        }
    };
    Ok(Report::new(&plan, started, sent).print(&plan.flags.send))
}

/// Fails if a signal has requested the end while the engine was opened.
fn check_begun(signals: &Signals) -> Result<()> {
    ensure!(!signals.end(), "stopped before anything was sent");
    Ok(())
}

/// Sends all frames, and shows the progress.
fn send<E: Engine>(engine: &mut E, plan: &Plan, signals: &Signals) -> Result<SendResult> {
    cpu::precise_sleeps();
    let counters = TxCounters::start(plan.interface.ifindex)?;
    let mut line = StatusLine::new(plan.flags.send.quiet, plan.flags.send.json);
    let mut link = LinkMonitor::watch(&plan.interface)?;
    let (begun, mut lost) = (Instant::now(), None);
    let mut outcome = drive(engine, plan.timing, |elapsed, totals| {
        let now = progress::snapshot(elapsed, totals);
        if line.is_due() {
            line.show_rates(now, |rates| progress::fields(now, rates));
        }
        if signals.take_report_request() {
            line.print_total(now, |rates| progress::fields(now, rates));
        }
        lost = link.check(begun + elapsed).err();
        lost.is_none() && !signals.end()
    });
    if let Some(error) = lost {
        outcome.end = End::Failed(error.into());
    }
    line.clear();
    if let End::Failed(error) = &outcome.end {
        fail!("{error}");
    }
    Ok(SendResult { outcome, totals: engine.totals(), counters, queues: Vec::new(), in_flight: 0 })
}

/// The error of an engine that cannot be opened: values that no machine accepts are wrong usage.
fn opening_error(error: Error) -> anyhow::Error {
    use Error::{FewFlows, Flows, FrameLen, SizeMix, Vlan};
    match error {
        FewFlows { .. } | Flows { .. } | FrameLen { .. } | SizeMix | Vlan { .. } => {
            Usage(error.to_string()).into()
        }
        error => error.into(),
    }
}
