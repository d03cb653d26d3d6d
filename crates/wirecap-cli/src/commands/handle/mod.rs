//! `wirecap handle`: captures as a slow application does, like `pkt_handler` and `multi_pkt_handler` of the
//! WireCAP paper.
//!
//! ```text
//!   batch ─► worker ─┬─ -x N: the filter, N times for each packet ─┬─► dropped: the cells go home
//!                    └─ --pace: sleeps until it would be done ─────┴─► --forward: transmit queue of IFACE2
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | flags | [`flags`] |
//! | what each packet costs | [`load`] |
//! | what workers do with packets | [`worker`] |
//! | how they are sent on | [`onward`] |
//! | the job of the capture | [`job`] |
//! | figures, and what is printed at the end | [`counts`], [`report`] |
//!
//! Rule: handling is a capture (`capture/`) whose workers keep each batch until they are done with it;
//! threads, signals and account are those of a capture.

mod counts;
pub(crate) mod flags;
mod job;
mod load;
mod onward;
pub(crate) mod report;
mod worker;

use std::collections::BTreeSet;

use anyhow::Result;
use wirecap::PortSpec;

use self::{
    flags::{HandleFlags, HandleRequest},
    job::HandleJob,
    load::{FilterRuns, LoadRequest},
};
use crate::{
    capture::{self, known_interfaces::KnownInterfaces, plan::Plan},
    commands::capture::settings::CaptureSettings,
    exit::Exit,
    print::log,
    process::{privileges, sandbox, signals::Signals, step::Step},
    text::forward,
};

/// Handles packets until the end.
///
/// # Errors
/// Whatever keeps it from starting.
pub(crate) fn run(flags: HandleFlags, signals: Signals) -> Result<Exit> {
    let mut interfaces = KnownInterfaces::default();
    let (settings, request) = flags.into_request(|name| interfaces.look_up(name).is_ok())?;
    let CaptureSettings { capture: mut config, output, process, service } = settings;
    log::set_format(output.log);
    if !output.quiet {
        privileges::warn_if_for_everyone();
    }
    let HandleRequest { load, forward } = request;
    let mut warnings = Vec::new();
    if let Some(to) = &forward {
        onward::set_up(&mut config, to, &mut interfaces, &mut warnings)?;
    }
    if let LoadRequest::Filter(FilterRuns { expression, runs: 1.., .. }) = &load {
        for link_type in link_types(&config.ports, &mut interfaces)? {
            let expression = expression.clone();
            let compile = move || load::compile(&expression, link_type);
            Step::compiling().run(&signals, output.quiet, compile)??;
        }
    }
    let sandbox = sandbox::open(&process, output.quiet)?;
    let plan = Plan::new(config, output, interfaces, sandbox)?.with_service(service).with_worker_per_queue();
    if !plan.output.quiet {
        warnings.iter().for_each(|warning| warn!("{}", forward::describe(warning)));
    }
    let job = HandleJob::new(load, forward, &plan, signals.escalation.give_up_flag());
    capture::run(plan, job, signals)
}

/// The link types of the interfaces, each once: a mistake in the filter ends the command before anything is
/// opened. Those of trace files are known once they are open, which changes nothing.
///
/// # Errors
/// An unknown interface.
fn link_types(ports: &[PortSpec], interfaces: &mut KnownInterfaces) -> Result<BTreeSet<u16>> {
    let mut link_types = BTreeSet::new();
    for port in ports {
        if let PortSpec::Interface { name, .. } = port {
            link_types.extend(interfaces.look_up(name)?.hardware_type.link_type());
        }
    }
    Ok(link_types)
}
