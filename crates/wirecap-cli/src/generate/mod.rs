//! `wirecap generate`: frames that can be told apart, from the transmit queues of an interface.
//!
//! ```text
//!   flags ─► plan ─► engine: AF_XDP queues, or the kernel's live frames ─► interface
//!                      ▲ so much is due
//!                   schedule                                   report: what was made, and what the interface took
//! ```
//!
//! The frames, the engines and the schedule are those of `wirecap-traffic`; here is what the user says and is told.
//!
//! | to read about | open |
//! |---|---|
//! | the flags, and their values | [`flags`], [`values`] |
//! | what is checked before anything is sent | [`plan`] |
//! | what is told at the start, meanwhile and at the end | [`announce`], [`progress`], [`report`] |

mod announce;
pub(crate) mod flags;
mod link;
mod plan;
mod progress;
pub(crate) mod report;
mod values;

use std::time::SystemTime;

use anyhow::{Result, anyhow};
use wirecap_sys::{cpu, xsk::XskError};
use wirecap_traffic::{End, Engine, LinkWatch, LiveGenerator, Outcome, XdpGenerator, drive};

use self::{
    flags::GenerateFlags,
    link::Link,
    plan::{EngineOptions, Plan},
    progress::Progress,
    report::Report,
};
use crate::{
    cores::check_cores,
    exit::{Exit, Usage, tell},
    signals::Signals,
};

/// Generates until it is ended.
///
/// # Errors
/// Whatever keeps it from starting. What happens later is told, and is in the exit code.
pub(crate) fn run(flags: GenerateFlags, signals: &Signals) -> Result<Exit> {
    let plan = Plan::new(flags)?;
    if let Some(core) = plan.core {
        check_cores(&[core])?;
        cpu::pin_to_core(core).map_err(|cause| anyhow!("cannot run on core {core}: {cause}"))?;
    }
    let started = SystemTime::now();
    let opened = |error| opening_error(error, &plan);
    let ifindex = plan.interface.ifindex;
    let report = match &plan.engine {
        EngineOptions::Xdp(options) => {
            let mut engine = XdpGenerator::open(ifindex, options).map_err(opened)?;
            check_begun(signals)?;
            announce::start(&plan, &engine.queues());
            let (outcome, watch) = send(&mut engine, &plan, signals)?;
            let in_flight = engine.finish();
            Report::new(&plan, started, outcome, engine.made(), engine.queues(), in_flight, &watch)
        }
        EngineOptions::Live(options) => {
            let mut engine = LiveGenerator::new(ifindex, *options).map_err(opened)?;
            check_begun(signals)?;
            announce::start(&plan, &[]);
            let (outcome, watch) = send(&mut engine, &plan, signals)?;
            Report::new(&plan, started, outcome, engine.made(), Vec::new(), 0, &watch)
        }
    };
    Ok(report.print(plan.json, plan.quiet))
}

/// Whether it is still wanted when everything is open.
fn check_begun(signals: &Signals) -> Result<()> {
    if signals.end() { Err(anyhow!("stopped before anything was sent")) } else { Ok(()) }
}

/// Sends all of it, and tells how it goes.
fn send<E: Engine>(engine: &mut E, plan: &Plan, signals: &Signals) -> Result<(Outcome, LinkWatch)> {
    cpu::precise_sleeps();
    let watch = LinkWatch::new(&plan.interface.name)?;
    let (mut progress, mut link) = (Progress::new(plan), Link::watch(&plan.interface)?);
    let mut lost = None;
    let mut outcome = drive(engine, plan.timing, |elapsed, made| {
        progress.show(elapsed, made);
        if signals.take_report_request() {
            progress.tell(elapsed, made);
        }
        lost = link.lost(elapsed);
        lost.is_none() && !signals.end()
    });
    if let Some(lost) = lost {
        outcome.end = End::Failed(lost);
    }
    progress.clear();
    if let End::Failed(error) = &outcome.end {
        tell(format_args!("wirecap: {error}"));
    }
    Ok((outcome, watch))
}

/// The error of an engine that cannot be opened: values that no machine could take are wrong usage.
fn opening_error(error: wirecap_traffic::Error, plan: &Plan) -> anyhow::Error {
    use wirecap_traffic::Error::{FewFlows, Flows, FrameLen, Open, SizeMix, Vlan};
    let queues = plan.interface.queues.current;
    match &error {
        FewFlows { .. } | Flows { .. } | FrameLen { .. } | SizeMix | Vlan { .. } => {
            Usage(error.to_string()).into()
        }
        Open { queue, cause: XskError::Bind { .. }, .. } if u32::from(*queue) >= queues => {
            anyhow!("{error}; {} has {queues} queues, numbered from 0", plan.interface.name)
        }
        Open { cause, .. } if cause.is_unsupported() => {
            anyhow!("{error}; leave --tx-mode out, or write --tx-mode copy")
        }
        _ => error.into(),
    }
}
