//! `wirecap capture`: packets into a file, counted, or verified. The module `capture` runs the capture, as
//! for `forward`.

mod conditions;
pub(crate) mod copy_to;
pub(crate) mod engine_flags;
mod filter_check;
pub(crate) mod flags;
pub(crate) mod habits;
pub(crate) mod settings;
mod verify;
pub(crate) mod words;

use anyhow::{Result, ensure};
use wirecap_sandbox::Sandbox;

use self::{copy_to::CopyJob, settings::CaptureSettings, verify::VerifyJob};
use crate::{
    capture::{self, job::CaptureJob, known_interfaces::KnownInterfaces, plan::Plan},
    exit::Exit,
    process::{sandbox, signals::Signals},
    sources::{RefusedSettings, Setting},
};

/// An interface for checks without one.
const STAND_IN: &str = "eth0";

/// Captures until the end.
///
/// # Errors
/// Whatever keeps it from starting.
pub(crate) fn run(settings: CaptureSettings, interfaces: KnownInterfaces, signals: Signals) -> Result<Exit> {
    let sandbox = sandbox::open(&settings.process, settings.output.quiet)?;
    let plan = plan(settings, interfaces, sandbox)?;
    let expected = plan.output.expect;
    match (plan.output.copy_interface(), plan.output.verify) {
        (Some(to), _) => {
            let job = CopyJob::new(to, &plan.config.ports, &plan.sandbox)?;
            capture::run(plan, job, signals)
        }
        (None, true) => capture::run(plan, VerifyJob::new(expected), signals),
        (None, false) => capture::run(plan, CaptureJob, signals),
    }
}

/// Checks everything that does not depend on the machine. Without interfaces, which may come later, the rest
/// is checked.
///
/// # Errors
/// The first mistake.
pub(crate) fn check(mut settings: CaptureSettings, signals: &Signals) -> Result<()> {
    if settings.capture.ports.is_empty() {
        settings.capture.ports.push(STAND_IN.into());
    }
    let plan = plan(settings, KnownInterfaces::default(), Sandbox::off())?;
    filter_check::check(plan.config.filter, plan.output.quiet, signals)
}

fn plan(settings: CaptureSettings, interfaces: KnownInterfaces, sandbox: Sandbox) -> Result<Plan> {
    settings.check()?;
    let CaptureSettings { capture: config, output, service, .. } = settings;
    let plan = Plan::new(config, output, interfaces, sandbox)?.with_service(service);
    ensure!(
        plan.output.copy_interface().is_none() || !plan.output.verify,
        RefusedSettings::new(|sources| {
            let (copy, verify) = (sources.name(Setting::CopyTo), sources.name(Setting::Verify));
            format!("{copy} and {verify} cannot be combined: verify where the copies arrive")
        })
    );
    Ok(plan)
}
