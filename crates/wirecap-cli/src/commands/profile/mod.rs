//! `wirecap profile`: packets per receive queue in bins of time, and how uneven they are.
//!
//! ```text
//!   worker 0 ─ batch ─► tally ─┐ one lock,     Profiler ─┬─► rows ─► thread ─► --csv
//!   worker 1 ─ batch ─► tally ─┴─ per batch ──►          ├─► table or lines, while it runs
//!                                                        └─► summary, JSON, --picture, at the end
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | flags | [`flags`] |
//! | which queue a packet counts for | [`queues`] |
//! | what workers do with packets | [`worker`] |
//! | the job of the capture | [`job`] |
//! | the files | [`files`], [`csv`] |
//! | what is shown while it runs | [`live`] |
//! | words for times that jump | [`jumps`] |
//! | what is printed at the end | [`report`] |
//!
//! Rule: profiling is a capture (`capture/`) without a file of packets; threads, signals and account are
//! those of a capture.

mod csv;
mod files;
pub(crate) mod flags;
mod job;
mod jumps;
mod live;
mod queues;
pub(crate) mod report;
mod worker;

use anyhow::{Result, ensure};
use wirecap::PortSpec;

use self::{flags::ProfileFlags, job::ProfileJob};
use crate::{
    capture::{self, known_interfaces::KnownInterfaces, plan::Plan},
    commands::capture::settings::CaptureSettings,
    exit::Exit,
    print::log,
    process::{privileges, sandbox, signals::Signals},
};

/// Profiles until the end.
///
/// # Errors
/// Whatever keeps it from starting.
pub(crate) fn run(flags: ProfileFlags, signals: Signals) -> Result<Exit> {
    let mut interfaces = KnownInterfaces::default();
    let (settings, request) = flags.into_request(|name| interfaces.look_up(name).is_ok())?;
    let CaptureSettings { capture: config, output, process, service } = settings;
    log::set_format(output.log);
    if !output.quiet {
        privileges::warn_if_for_everyone();
    }
    check_ports(&config.ports, request.queues.is_computed())?;
    let sandbox = sandbox::open(&process, output.quiet)?;
    let plan = Plan::new(config, output, interfaces, sandbox)?.with_service(service);
    let job = ProfileJob::new(request, &plan)?;
    capture::run(plan, job, signals)
}

/// Refuses ports whose packets would not be comparable.
fn check_ports(ports: &[PortSpec], is_computed: bool) -> Result<()> {
    let has_trace = ports.iter().any(|port| matches!(port, PortSpec::Trace { .. }));
    ensure!(
        !has_trace || ports.len() == 1,
        usage!(
            "a trace file is profiled alone, in the order of its packets; merge several by time first: wirecap capture \
             trace:A trace:B -w all.pcapng"
        )
    );
    ensure!(
        !is_computed || ports.len() == 1,
        usage!(
            "RSS is computed for one NIC: name one interface with --queues and --rss-..., or leave these flags out"
        )
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_cannot_be_compared_are_refused() {
        let ports =
            |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect::<Vec<PortSpec>>();
        for (words, computed, is_fine) in [
            (&["eth0", "eth1"][..], false, true),
            (&["trace:a.pcap"], true, true),
            (&["eth0"], true, true),
            (&["trace:a.pcap", "trace:b.pcap"], false, false),
            (&["trace:a.pcap", "eth0"], false, false),
            (&["eth0", "eth1"], true, false),
        ] {
            assert_eq!(check_ports(&ports(words), computed).is_ok(), is_fine, "{words:?}");
        }
    }
}
