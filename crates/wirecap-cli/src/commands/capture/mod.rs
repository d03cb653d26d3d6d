//! `wirecap capture`: packets into a file, counted, or verified. The module `capture` runs the capture, as
//! for `forward`.

mod conditions;
pub(crate) mod flags;
pub(crate) mod habits;
pub(crate) mod settings;
mod verify;
mod words;

use anyhow::Result;

use self::{settings::CaptureSettings, verify::VerifyJob};
use crate::{
    capture::{self, job::CaptureJob, known_interfaces::KnownInterfaces, plan::Plan},
    exit::Exit,
    process::signals::Signals,
};

/// Captures until the end.
///
/// # Errors
/// Whatever keeps it from starting.
pub(crate) fn run(settings: CaptureSettings, interfaces: KnownInterfaces, signals: Signals) -> Result<Exit> {
    settings.check()?;
    let CaptureSettings { capture: config, output } = settings;
    let plan = Plan::new(config, output, interfaces)?;
    let expected = plan.output.expect;
    match plan.output.verify {
        true => capture::run(plan, VerifyJob::new(expected), signals),
        false => capture::run(plan, CaptureJob, signals),
    }
}
