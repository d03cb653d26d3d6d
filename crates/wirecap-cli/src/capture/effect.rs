//! Checks that each flag has an effect on the ports as they were opened.
//!
//! Rule: a flag without effect is wrong usage, and a request that cannot be met is an error. No flag is
//! ignored silently.

use anyhow::{Result, ensure};
use wirecap::{
    Config, Diagnostic, Modes, Report, UnmatchedPolicy,
    config::prefix::PACKET,
    report::{PortReport, QueueMode},
};

use super::plan::Plan;
use crate::text::diagnostic::describe;

/// Checks the flags against the ports.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) for flags without effect; `--unmatched pass` where the filter is not in the
/// kernel.
pub(super) fn check(plan: &Plan, report: &Report) -> Result<()> {
    let is_replay = |port: &&PortReport| port.queues.iter().any(|queue| queue.mode == QueueMode::Trace);
    let is_xdp = |port: &&PortReport| !port.is_passive() && !is_replay(port);
    let xdp = report.ports.iter().any(|port| is_xdp(&port));
    let passive = report.ports.iter().any(PortReport::is_passive);
    let is_tapped = |port: &PortReport| port.queues.iter().any(|queue| queue.mode == QueueMode::Tap);
    let tapped = report.ports.iter().any(is_tapped);
    let names: Vec<_> = report.ports.iter().map(|port| port.name.as_str()).collect();
    let (config, usual) = (&plan.config, Config::default());
    let mode = if config.xdp_mode == Modes::ZeroCopy {
        "--xdp-mode zero-copy (--require-zero-copy)"
    } else {
        "--xdp-mode"
    };
    for (flag, needs, has_effect) in [
        ("--unmatched", "interfaces taken from the host (AF_XDP)", config.unmatched.is_none() || xdp),
        ("--fanout", "interfaces captured passively", config.fanout == usual.fanout || passive),
        ("--tap-hook", "tapped interfaces (tap:NAME)", config.tap_hook == usual.tap_hook || tapped),
        ("--rss", "interfaces taken from the host (AF_XDP)", config.rss == usual.rss || xdp),
        (mode, "interfaces taken from the host (AF_XDP)", config.xdp_mode == usual.xdp_mode || xdp),
        ("--no-promiscuous", "interfaces", config.promiscuous || xdp || passive),
    ] {
        ensure!(has_effect, usage!("{flag} is for {needs}, which {} is not: leave it out", names.join(", ")));
    }
    for port in report.ports.iter().filter(is_xdp) {
        let is_not_in_kernel =
            |fallback: &&Diagnostic| matches!(fallback, Diagnostic::FilterNotInKernel { .. });
        let Some(reason) = port.fallbacks.iter().find(is_not_in_kernel).map(describe) else { continue };
        ensure!(
            config.unmatched != Some(UnmatchedPolicy::Pass),
            "--unmatched pass is not possible on {}: {reason}; leave it out, or capture passively ({PACKET}{})",
            port.name,
            port.name
        );
    }
    Ok(())
}
