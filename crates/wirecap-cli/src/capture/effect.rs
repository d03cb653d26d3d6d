//! Whether what was asked for has an effect on the ports as they were opened.
//!
//! Rule: a flag that does nothing here is wrong usage, and a wish that cannot be kept is an error. Nothing is ignored silently.

use anyhow::{Result, anyhow};
use wirecap::{
    Diagnostic, Report,
    report::{PortReport, QueueMode},
};

use crate::{exit::Usage, plan::Plan, text::diagnostic::describe};

/// Which kinds of ports there are.
struct Kinds {
    xdp: bool,
    passive: bool,
}

/// Checks the flags against the ports.
///
/// # Errors
/// [`Usage`] for flags without effect; `--unmatched pass` where the filter is not in the kernel.
pub(super) fn check(plan: &Plan, report: &Report) -> Result<()> {
    let is_replay = |port: &&PortReport| port.queues.iter().any(|queue| queue.mode == QueueMode::Replay);
    let is_xdp = |port: &&PortReport| !port.is_passive() && !is_replay(port);
    let kinds = Kinds {
        xdp: report.ports.iter().any(|port| is_xdp(&port)),
        passive: report.ports.iter().any(PortReport::is_passive),
    };
    let names: Vec<_> = report.ports.iter().map(|port| port.name.as_str()).collect();
    let mode = plan.given.mode.unwrap_or_default();
    for (flag, needs, has_effect) in [
        ("--unmatched", "interfaces taken from the host (AF_XDP)", !plan.given.unmatched || kinds.xdp),
        ("--fanout", "interfaces captured beside the host", !plan.given.fanout || kinds.passive),
        ("--rss", "interfaces taken from the host (AF_XDP)", !plan.given.rss || kinds.xdp),
        (mode, "interfaces taken from the host (AF_XDP)", plan.given.mode.is_none() || kinds.xdp),
        ("--no-promiscuous", "interfaces", !plan.given.no_promiscuous || kinds.xdp || kinds.passive),
    ] {
        if !has_effect {
            let message = format!("{flag} is for {needs}, and {} is none: leave it out", names.join(", "));
            return Err(Usage(message).into());
        }
    }
    for port in report.ports.iter().filter(is_xdp) {
        let is_not_in_kernel =
            |fallback: &&Diagnostic| matches!(fallback, Diagnostic::FilterNotInKernel { .. });
        let Some(reason) = port.fallbacks.iter().find(is_not_in_kernel).map(describe) else { continue };
        if plan.given.pass {
            return Err(anyhow!(
                "--unmatched pass cannot be kept on {}: {reason}; leave it out, or capture beside the host (packet:{})",
                port.name,
                port.name
            ));
        }
    }
    Ok(())
}
