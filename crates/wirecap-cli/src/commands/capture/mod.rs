//! `wirecap capture`: packets into a file, counted, or verified. The module `capture` runs the capture, as
//! for `forward`.

mod conditions;
pub(crate) mod copy_to;
pub(crate) mod engine_flags;
pub(crate) mod flags;
pub(crate) mod habits;
pub(crate) mod settings;
mod verify;
pub(crate) mod words;

use anyhow::Result;

use self::{copy_to::CopyJob, settings::CaptureSettings, verify::VerifyJob};
use crate::{
    capture::{self, job::CaptureJob, known_interfaces::KnownInterfaces, plan::Plan},
    exit::Exit,
    process::{sandbox, signals::Signals},
};

/// Captures until the end.
///
/// # Errors
/// Whatever keeps it from starting.
pub(crate) fn run(settings: CaptureSettings, interfaces: KnownInterfaces, signals: Signals) -> Result<Exit> {
    settings.check()?;
    let CaptureSettings { capture: config, output, process, service } = settings;
    let sandbox = sandbox::open(&process, output.quiet)?;
    let plan = Plan::new(config, output, interfaces, sandbox)?.with_service(service);
    let expected = plan.output.expect;
    match (plan.output.copy_interface(), plan.output.verify) {
        (Some(_), true) => {
            Err(usage!("--copy-to and --verify cannot be combined: verify where the copies arrive").into())
        }
        (Some(to), false) => {
            let job = CopyJob::new(to, &plan.config.ports, &plan.sandbox)?;
            capture::run(plan, job, signals)
        }
        (None, true) => capture::run(plan, VerifyJob::new(expected), signals),
        (None, false) => capture::run(plan, CaptureJob, signals),
    }
}
