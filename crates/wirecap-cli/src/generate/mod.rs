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
//! | what is told at the start and at the end | [`announce`], [`report`] |

mod announce;
pub(crate) mod flags;
mod plan;
mod report;
mod values;

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use anyhow::{Result, anyhow};
use wirecap_sys::{cpu, xsk::XskError};
use wirecap_traffic::{End, Engine, LinkWatch, LiveGenerator, Made, Outcome, XdpGenerator, drive};

use self::{
    flags::GenerateFlags,
    plan::{EngineOptions, Plan},
    report::Report,
};
use crate::{
    capture::{progress::rate, watch},
    exit::{Exit, Usage, tell},
};

/// How often the progress line is written.
const PERIOD: Duration = Duration::from_millis(500);
/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// Generates until it is ended.
///
/// # Errors
/// Whatever keeps it from starting. What happens later is told, and is in the exit code.
pub(crate) fn run(flags: GenerateFlags) -> Result<Exit> {
    let plan = Plan::new(flags)?;
    if let Some(core) = plan.core {
        let pinned = cpu::pin_to_core(core);
        pinned.map_err(|cause| {
            Usage(format!("core {core} cannot be used: {cause}; leave --core out, or choose another"))
        })?;
    }
    let signals = watch::on_signals().map_err(|cause| anyhow!("cannot listen to signals: {cause}"))?;
    let opened = |error| opening_error(error, &plan);
    let ifindex = plan.interface.ifindex;
    let report = match &plan.engine {
        EngineOptions::Xdp(options) => {
            let mut engine = XdpGenerator::open(ifindex, options).map_err(opened)?;
            announce::start(&plan, &engine.queues());
            let (outcome, watch) = send(&mut engine, &plan, &signals)?;
            let unsent = engine.finish();
            Report::new(&plan, outcome, engine.made(), engine.queues(), unsent, &watch)
        }
        EngineOptions::Live(options) => {
            let mut engine = LiveGenerator::new(ifindex, *options).map_err(opened)?;
            announce::start(&plan, &[]);
            let (outcome, watch) = send(&mut engine, &plan, &signals)?;
            Report::new(&plan, outcome, engine.made(), Vec::new(), 0, &watch)
        }
    };
    Ok(report.print(plan.json))
}

/// Sends all of it, and tells how it goes.
fn send<E: Engine>(engine: &mut E, plan: &Plan, signals: &watch::Signals) -> Result<(Outcome, LinkWatch)> {
    cpu::precise_sleeps();
    let watch = LinkWatch::new(&plan.interface.name)?;
    let mut progress = Progress::new(io::stderr().is_terminal() && !plan.quiet && !plan.json);
    let outcome = drive(engine, plan.timing, |elapsed, made| {
        progress.show(elapsed, made);
        !signals.end()
    });
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

/// The line on the terminal that says how it goes.
struct Progress {
    enabled: bool,
    last: Duration,
    before: Made,
}

impl Progress {
    fn new(enabled: bool) -> Self {
        Self { enabled, last: Duration::ZERO, before: Made::default() }
    }

    fn show(&mut self, elapsed: Duration, made: Made) {
        if !self.enabled || elapsed - self.last < PERIOD {
            return;
        }
        let seconds = (elapsed - self.last).as_secs_f64();
        let _ = write!(io::stderr(), "{CLEAR}{}", line(elapsed, seconds, self.before, made));
        (self.last, self.before) = (elapsed, made);
    }

    fn clear(&self) {
        if self.last > Duration::ZERO {
            let _ = write!(io::stderr(), "{CLEAR}");
        }
    }
}

fn line(elapsed: Duration, seconds: f64, before: Made, made: Made) -> String {
    let since = Made { frames: made.frames - before.frames, bytes: made.bytes - before.bytes };
    format!(
        "{:.1} s  {} frames  {}  {:.1} Mbit/s",
        elapsed.as_secs_f64(),
        made.frames,
        rate(since.frames as f64 / seconds),
        report::bits_with_fcs(since) as f64 / seconds / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_rates_since_the_last_one() {
        let before = Made { frames: 1_000, bytes: 60_000 };
        let made = Made { frames: 501_000, bytes: 30_060_000 };
        let line = line(Duration::from_secs(2), 0.5, before, made);
        assert_eq!(line, "2.0 s  501000 frames  1.00 Mpps  512.0 Mbit/s");
    }
}
