//! `wirecap forward`: a bump in the wire between two interfaces.
//!
//! ```text
//!   A ── queue q ──► worker q ──► transmit queue q of B          the cell is lent to B's driver, and goes home to A's pool
//!   A ◄── transmit queue q ◄── worker q ◄── queue q ── B         the same worker does both directions
//! ```
//!
//! It is a capture (`capture/`) whose workers send each packet on: threads, signals, file and account are those of a
//! capture.
//!
//! | to read about | open |
//! |---|---|
//! | the flags, and what they may be | [`flags`], [`plan`] |
//! | what happens to a packet | [`forwarder`] |
//! | a small router, and its next hops | [`router`], [`neighbours`] |
//! | what is counted, and how long packets take | [`way`], [`latency`] |

pub(crate) mod flags;
mod forwarder;
mod latency;
mod neighbours;
mod plan;
mod router;
mod way;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Map, Value};
use wirecap::{Capture, Report, Timestamp, Transmitter};
use wirecap_sys::netdev::Interface;

use self::{
    flags::ForwardFlags,
    forwarder::{Forwarder, Paths, Rules},
    neighbours::Hops,
    plan::ForwardPlan,
    way::{Way, WayReport},
};
use crate::{
    capture::{self, job::Job, watch::End},
    exit::{Exit, tell},
    table::Table,
};

/// How often it is told that packets are dropped, at most.
const COMPLAINT_PERIOD: Duration = Duration::from_secs(1);

/// Forwards until it is ended.
///
/// # Errors
/// Whatever keeps it from starting. What happens later is told, and is in the exit code.
pub(crate) fn run(flags: ForwardFlags) -> Result<Exit> {
    let ForwardPlan { capture, interfaces, rules } = ForwardPlan::new(flags)?;
    if !capture.quiet {
        announce(&interfaces, &rules);
    }
    let hops = match rules.paths {
        Paths::Cable(_) => None,
        Paths::Routes(_) => {
            Some(Hops::start(interfaces.iter().map(|interface| interface.ifindex).collect())?)
        }
    };
    let names = interfaces.into_iter().map(|interface| interface.name).collect();
    let routed = hops.is_some();
    let job =
        Forward { names, routed, start: Some((rules, hops)), ways: Vec::new(), told: Vec::new(), last: None };
    capture::run(capture, job)
}

fn announce(interfaces: &[Interface], rules: &Rules) {
    let completing = interfaces.iter().zip(&rules.complete_checksums).filter(|(_, completes)| **completes);
    for (interface, _) in completing {
        tell(format_args!(
            "wirecap: {}: TCP and UDP checksums that its hosts have left to a NIC are completed (--checksums keep leaves them)",
            interface.name
        ));
    }
}

/// Forwarding, as a job of a capture.
struct Forward {
    names: Vec<String>,
    /// Packets go where routes say, not from each of two ports to the other.
    routed: bool,
    /// Until it begins: the rules, and what a router has to know of next hops.
    start: Option<(Rules, Option<Hops>)>,
    /// By port that packets come in by, of each worker.
    ways: Vec<Vec<Arc<Way>>>,
    /// By port, how many drops were told of.
    told: Vec<u64>,
    last: Option<Instant>,
}

impl Forward {
    fn reports(&self) -> Vec<WayReport> {
        let ports = self.ways.iter().enumerate();
        let reports = ports.map(|(port, ways)| {
            let to = (!self.routed).then(|| self.names[1 - port].as_str());
            WayReport::new(&self.names[port], to, ways.iter().map(Arc::as_ref))
        });
        reports.collect()
    }

    /// What was dropped since it was last told of, in words; once in a period at most.
    fn complaints(&mut self) -> Vec<String> {
        if self.last.is_some_and(|last| last.elapsed() < COMPLAINT_PERIOD) {
            return Vec::new();
        }
        self.last = Some(Instant::now());
        let reports = self.reports();
        self.told.resize(reports.len(), 0);
        let mut lines = Vec::new();
        for (report, told) in reports.iter().zip(&mut self.told) {
            let dropped: u64 = report.causes().map(|(_, packets)| packets).sum();
            if dropped > *told {
                lines.push(format!("wirecap: {}", in_words(report, dropped - *told)));
                *told = dropped;
            }
        }
        lines
    }
}

fn in_words(report: &WayReport, since: u64) -> String {
    let causes: Vec<_> = report.causes().map(|(name, packets)| format!("{name} {packets}")).collect();
    let to = report.to.as_deref().unwrap_or("where they were to go");
    format!("{since} packets from {} were not sent on to {to}; so far: {}", report.from, causes.join(", "))
}

impl Job for Forward {
    type Onward = Forwarder;

    fn begin(&mut self, capture: &mut Capture, workers: usize) -> Result<Vec<Forwarder>> {
        let batch_times = capture.report().ports.iter().all(|port| port.timestamp.source == Timestamp::Batch);
        let (rules, hops) = self.start.take().expect("it begins once");
        let rules = Arc::new(Rules { batch_times, ..rules });
        let ports = self.names.len();
        let way = || Arc::new(Way::new());
        self.ways = (0..ports).map(|_| (0..workers).map(|_| way()).collect()).collect();
        let mut dealt = deal(capture.take_transmitters(), ports, workers);
        let forwarders = (0..workers).map(|worker| {
            let ways = self.ways.iter().map(|ways| Arc::clone(&ways[worker])).collect();
            Forwarder::new(&rules, std::mem::take(&mut dealt[worker]), ways, workers, hops.clone())
        });
        Ok(forwarders.collect())
    }

    fn look(&mut self, capture: &Capture) -> (Vec<String>, Option<End>) {
        let gone = capture.removed_ports();
        let end = (!gone.is_empty()).then_some(End::Cut);
        (self.complaints(), end)
    }

    fn in_words(&self, _: &Report) -> String {
        let mut table = Table::new(&[
            "from",
            "to",
            "forwarded",
            "bytes",
            "dropped",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
        ]);
        let reports = self.reports();
        for report in &reports {
            let dropped: u64 = report.causes().map(|(_, packets)| packets).sum();
            let to = report.to.clone().unwrap_or_else(|| "by route".into());
            let mut row = vec![report.from.clone(), to];
            row.extend([report.forwarded, report.bytes, dropped].map(|figure| figure.to_string()));
            let times = report.latency.map(|times| [times.p50_ns, times.p99_ns, times.p999_ns, times.max_ns]);
            row.extend(times.map_or_else(Default::default, |times| {
                times.map(|time_ns| format!("{:.1}", time_ns as f64 / 1e3))
            }));
            table.row(row);
        }
        let mut text = format!("\n{table}");
        for report in reports.iter().filter(|report| report.causes().next().is_some()) {
            let causes: Vec<_> = report.causes().map(|(name, packets)| format!("{name} {packets}")).collect();
            text += &format!("dropped from {}: {}\n", report.from, causes.join(", "));
        }
        for report in reports.iter().filter(|report| report.checksums_completed > 0) {
            text += &format!("checksums completed from {}: {}\n", report.from, report.checksums_completed);
        }
        text
    }

    fn json(&self, _: &Report) -> Map<String, Value> {
        let ways = serde_json::to_value(self.reports()).expect("figures and names");
        Map::from_iter([("forwarded".to_owned(), ways)])
    }
}

/// Deals out the transmitters: by worker, then by port. Those of queue q are the worker's that is home of queue q.
fn deal(transmitters: Vec<Transmitter>, ports: usize, workers: usize) -> Vec<Vec<Vec<Transmitter>>> {
    let mut dealt: Vec<Vec<Vec<Transmitter>>> =
        (0..workers).map(|_| (0..ports).map(|_| Vec::new()).collect()).collect();
    let mut next = vec![0; ports];
    for transmitter in transmitters {
        let port = transmitter.port();
        dealt[next[port] % workers][port].push(transmitter);
        next[port] += 1;
    }
    dealt
}
