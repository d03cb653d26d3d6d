//! `wirecap forward`: a bump in the wire between two interfaces.
//!
//! ```text
//!   A ── queue q ──► worker q ──► transmit queue q of B          the cell is lent to B's driver, and returns to A's pool
//!   A ◄── transmit queue q ◄── worker q ◄── queue q ── B         the same worker serves both directions
//! ```
//!
//! Forwarding is a capture (`capture/`) whose workers send each packet on: threads, signals, file and account
//! are those of a capture.
//!
//! | to read about | open |
//! |---|---|
//! | flags and settings, and their checks | [`flags`], [`settings`], [`plan`] |
//! | what happens to a packet | [`forwarder`]; a transmit queue: [`output`] |
//! | what a router decides | the crate `wirecap-router` |
//! | what is counted | [`stats`] |

pub(crate) mod flags;
mod forwarder;
mod latency_clock;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod reported;
pub(crate) mod settings;
pub(crate) mod stats;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Map, Value};
use wirecap::{
    Capture, HostUse, Report, Timestamp, Transmitter,
    report::{PortReport, QueueMode},
};
use wirecap_headers::Rewrite;
use wirecap_router::{NextHopCounts, RunningRouter};
use wirecap_sandbox::Profile;
use wirecap_sys::netdev::Interface;

use self::{
    forwarder::{Forwarder, Path, RouterPath, Rules},
    plan::ForwardPlan,
    reported::ReportedCounts,
    settings::ForwardSettings,
    stats::{ForwardReport, ForwardStats},
};
use crate::{
    capture::{self, end::End, job::Job, written_files::FilesProgress},
    exit::Exit,
    message::{Message, Topic},
    print::{layout::paragraph, table::Table},
    process::signals::Signals,
    text::{
        forward::{self, ForwardWarning},
        loss::ForwardLosses,
        plural::counted,
    },
};

/// Shortest time between two looks at dropped packets.
pub(crate) const COMPLAINT_PERIOD: Duration = Duration::from_secs(1);

/// Forwards until the end.
///
/// # Errors
/// Whatever keeps it from starting. What happens later is printed, and is in the exit code.
pub(crate) fn run(settings: ForwardSettings, signals: Signals) -> Result<Exit> {
    let ForwardPlan { capture, interfaces, rules, router, rewrite, warnings } =
        ForwardPlan::new(settings, &signals)?;
    let sandbox = capture.sandbox.clone();
    let resolver = move || sandbox.enter(&Profile::Neighbours);
    let router = router.map(|router| router.start_after(resolver)).transpose()?;
    let names = interfaces.iter().map(|interface| interface.name.clone()).collect();
    let job = ForwardJob {
        names,
        next_hops: router.as_ref().map(RunningRouter::next_hop_counts),
        start: Some(Start { interfaces, warnings, rules, router, rewrite }),
        quiet: capture.output.quiet,
        ..ForwardJob::default()
    };
    capture::run(capture, job, signals)
}

fn announce(interfaces: &[Interface], rules: &Rules) {
    let completing = interfaces.iter().zip(&rules.complete_checksums).filter(|(_, completes)| **completes);
    for (interface, _) in completing {
        note!("{}: checksums left to a NIC are completed (or: --checksums keep)", interface.name);
    }
}

/// What is printed at the start, and what the handlers of the workers are made of.
struct Start {
    interfaces: Vec<Interface>,
    warnings: Vec<ForwardWarning>,
    rules: Rules,
    router: Option<RunningRouter>,
    rewrite: [Rewrite; 2],
}

/// Forwarding, as a job of a capture.
#[derive(Default)]
struct ForwardJob {
    names: Vec<String>,
    /// Of a router: what became of the next hops that it asked for.
    next_hops: Option<Arc<NextHopCounts>>,
    /// `None` once it has begun.
    start: Option<Start>,
    /// By receiving port, then by worker.
    stats: Vec<Vec<Arc<ForwardStats>>>,
    /// Drops that were reported.
    dropped: ReportedCounts,
    /// Packets that a port got but did not send.
    unsent: ReportedCounts,
    /// Next hops that the kernel had no room for.
    refused_hops: ReportedCounts,
    /// The progress of writing, if packets are written.
    output: Option<FilesProgress>,
    /// Packets that the output did not accept in time.
    not_taken: ReportedCounts,
    /// When drops were last reported.
    last: Option<Instant>,
    /// Whether all packets of a batch have the same time.
    batch_times: bool,
    quiet: bool,
}

impl ForwardJob {
    fn is_routed(&self) -> bool {
        self.next_hops.is_some()
    }

    /// Whether there are ports to forward between.
    fn can_forward(&self, capture: &Capture) -> bool {
        let removed = capture.removed_ports().len();
        removed == 0 || self.is_routed() && self.names.len() - removed >= 2
    }

    fn reports(&self) -> Vec<ForwardReport> {
        let ports = self.stats.iter().enumerate();
        let reports = ports.map(|(port, workers)| {
            let to = (!self.is_routed()).then(|| self.names[1 - port].as_str());
            ForwardReport::new(&self.names[port], to, workers.iter().map(Arc::as_ref))
        });
        reports.collect()
    }

    /// Messages about packets dropped since the last ones, at growing intervals.
    fn complaints(&mut self, capture: &Capture) -> Vec<Message> {
        if self.last.is_some_and(|last| last.elapsed() < COMPLAINT_PERIOD) {
            return Vec::new();
        }
        let now = Instant::now();
        self.last = Some(now);
        let mut messages = Vec::new();
        for (port, report) in self.reports().iter().enumerate() {
            if let Some(since) =
                self.dropped.since(port, report.packets_dropped(), report.causes().count(), now)
            {
                messages.push(Message::warning(describe(report, since)).about(Topic::Dropped));
            }
        }
        for (number, port) in capture.report().ports.iter().enumerate() {
            let name = &port.name;
            let (unsent, by_whom) = unsent(port);
            if let Some(since) = self.unsent.since(number, unsent, 1, now) {
                let since = counted(since, "packet");
                let text = format!("{name} did not send {since} that it got; so far: {by_whom}");
                messages.push(Message::warning(text).about(Topic::Unsent));
            }
        }
        let not_taken = self.output.as_ref().map_or(0, |output| output.total().not_taken);
        if let Some(since) = self.not_taken.since(0, not_taken, 1, now) {
            let text = format!(
                "{} not written, because the output does not accept them in time; so far {not_taken}; forwarding \
                 continues",
                counted(since, "packet")
            );
            messages.push(Message::warning(text).about(Topic::NotTaken));
        }
        let refused = self.next_hops.as_ref().map_or(0, |next_hops| next_hops.report().table_full);
        if let Some(since) = self.refused_hops.since(0, refused, 1, now) {
            let text = format!(
                "the kernel's neighbour table is full, so {} could not be resolved; raise \
                 net.ipv4.neigh.default.gc_thresh3 and net.ipv6.neigh.default.gc_thresh3",
                counted(since, "next hop")
            );
            messages.push(Message::warning(text).about(Topic::NeighbourTableFull));
        }
        messages
    }
}

/// Packets that a port got but did not send: their number, and its sources as text. In copy mode the kernel
/// reports what the driver dropped. In other modes the counters of the interface are the only source, and
/// include packets of other senders. [`ForwardStats`] counts none of these packets as dropped.
pub(crate) fn unsent(port: &PortReport) -> (u64, String) {
    let by_driver = port.transmitted.iter().map(|queue| queue.dropped.driver).sum();
    let by_counters = port.unsent.unwrap_or(0);
    (by_counters.max(by_driver), format!("driver {by_driver}, by its own counters {by_counters}"))
}

/// Warns about packets that arrive whole because the other end of a virtual interface did not segment them.
fn warn_of_generic(capture: &Capture) {
    for port in capture.report().ports {
        if port.queues.iter().any(|queue| queue.mode == QueueMode::Generic) {
            warn!("{}", forward::describe(&ForwardWarning::Unsegmented { interface: port.name }));
        }
    }
}

fn describe(report: &ForwardReport, since: u64) -> String {
    let since = counted(since, "packet");
    let to = report.to.as_deref().unwrap_or("their destination");
    format!("{since} from {} not sent on to {to}; so far: {}", report.from, report.describe_causes())
}

impl Job for ForwardJob {
    const COMMAND: &'static str = "forward";
    const ACTIVITY: &'static str = "forwarding";
    const FORWARDS: bool = true;
    type BatchHandler = Forwarder;

    fn begin(
        &mut self,
        capture: &mut Capture,
        workers: usize,
        output: Option<FilesProgress>,
    ) -> Result<Vec<Forwarder>> {
        self.output = output;
        let Start { interfaces, warnings, rules, router, rewrite } =
            self.start.take().expect("it begins once");
        if !self.quiet {
            warnings.iter().for_each(|warning| warn!("{}", forward::describe(warning)));
            announce(&interfaces, &rules);
            warn_of_generic(capture);
        }
        let batch_times = capture.report().ports.iter().all(|port| port.timestamp.source == Timestamp::Batch);
        self.batch_times = batch_times;
        let rules = Arc::new(Rules { batch_times, ..rules });
        let ports = self.names.len();
        self.stats = (0..ports).map(|_| (0..workers).map(|_| Arc::default()).collect()).collect();
        let mut dealt = deal(capture.take_transmitters(), ports, workers);
        // Only for a router: otherwise the plan requests no allocators.
        let mut allocators = capture.take_allocators().into_iter();
        let forwarders = (0..workers).map(|worker| {
            let stats = self.stats.iter().map(|stats| Arc::clone(&stats[worker])).collect();
            let path = match &router {
                Some(router) => Path::Router(Box::new(RouterPath {
                    router: router.worker(workers),
                    allocator: allocators.next().expect("each worker of a router has an allocator"),
                    whole: Vec::new(),
                })),
                None => Path::Cable(rewrite.clone()),
            };
            Forwarder::new(&rules, path, std::mem::take(&mut dealt[worker]), stats, workers)
        });
        Ok(forwarders.collect())
    }

    fn look(&mut self, capture: &Capture) -> (Vec<Message>, Option<End>) {
        (self.complaints(capture), (!self.can_forward(capture)).then_some(End::Cut))
    }

    fn after_removal(&self, capture: &Capture) -> &'static str {
        if self.can_forward(capture) {
            "the router goes on with the others; if the interface comes back, start wirecap again"
        } else {
            "forwarding ends"
        }
    }

    /// The filter leaves packets to the router's own addresses, and multicast, to the host.
    fn deprives(&self, host_use: &HostUse) -> bool {
        let is_left = matches!(
            host_use,
            HostUse::Address { .. } | HostUse::Route { .. } | HostUse::MulticastGroup { .. }
        );
        !(self.is_routed() && is_left)
    }

    /// Neither a stalled reader nor a full disk stops forwarding.
    fn without_output(&self) -> Option<&'static str> {
        Some("forwarding continues without writing")
    }

    /// Packets that a rule, a route or a length limit drops are not lost.
    fn lost(&self, report: &Report) -> ForwardLosses {
        let dropped = self.reports().iter().map(|way| way.lost).sum();
        ForwardLosses { dropped, unsent: report.ports.iter().map(|port| unsent(port).0).sum() }
    }

    fn describe(&self, report: &Report) -> String {
        let reports = self.reports();
        let mut text = format!("\n{}\n{}", counts(&reports, report), times(&reports));
        if self.batch_times && reports.iter().any(|report| report.latency.is_some()) {
            let from = "times begin when a packet is first seen in its ring; with --timestamp kernel, when it arrives";
            text += &paragraph(from);
        }
        for report in reports.iter().filter(|report| report.packets_dropped() > 0) {
            text += &paragraph(&format!("dropped from {}: {}", report.from, report.describe_causes()));
        }
        for report in reports.iter().filter(|report| report.checksums_completed > 0) {
            text += &format!("checksums completed from {}: {}\n", report.from, report.checksums_completed);
        }
        for port in &report.ports {
            let (unsent, by_whom) = unsent(port);
            if unsent > 0 {
                let packets = counted(unsent, "packet");
                text += &paragraph(&format!("{} did not send {packets} that it got: {by_whom}", port.name));
            }
        }
        for report in reports.iter().filter(|report| report.icmp_errors() > 0) {
            text += &format!(
                "ICMP errors back to {}: sent {}, suppressed {}\n",
                report.from, report.icmp_errors_sent, report.icmp_errors_suppressed
            );
        }
        if let Some(hops) = self.next_hops.as_ref().map(|counts| counts.report()) {
            text += &paragraph(&format!(
                "next hops: asked for {}, found {}, silent {}, crowded out {}, refused by the kernel {}",
                hops.asked, hops.found, hops.silent, hops.crowded_out, hops.table_full
            ));
        }
        text
    }

    fn json(&self, _: &Report) -> Map<String, Value> {
        let ways = serde_json::to_value(self.reports()).expect("figures and names");
        let next_hops = self.next_hops.as_ref().map(|counts| counts.report());
        let next_hops = serde_json::to_value(next_hops).expect("figures");
        Map::from_iter([("forwarded".to_owned(), ways), ("next_hops".to_owned(), next_hops)])
    }
}

/// What became of the packets of each direction.
fn counts(ways: &[ForwardReport], report: &Report) -> Table {
    let mut table = Table::new(&["from", "to", "forwarded", "bytes", "dropped", "unsent"]).with_keys(2);
    for way in ways {
        let figures = [way.forwarded, way.bytes, way.packets_dropped()].map(|figure| figure.to_string());
        // For a router, lines below give the figures of each interface.
        let sent_by = report.ports.iter().find(|port| way.to.as_ref() == Some(&port.name));
        let unsent = sent_by.map_or_else(|| "-".into(), |port| unsent(port).0.to_string());
        table.row(ends(way).into_iter().chain(figures).chain([unsent]).collect());
    }
    table
}

/// The latency of each direction.
fn times(ways: &[ForwardReport]) -> Table {
    let mut table = Table::new(&["from", "to", "p50 us", "p99 us", "p99.9 us", "max us"]).with_keys(2);
    for way in ways {
        let times = way.latency.map(|times| [times.p50_ns, times.p99_ns, times.p999_ns, times.max_ns]);
        let times = times.map_or_else(Default::default, |times| {
            times.map(|time_ns| format!("{:.1}", time_ns as f64 / 1e3))
        });
        table.row(ends(way).into_iter().chain(times).collect());
    }
    table
}

/// Where the packets of a direction were received, and where they went.
fn ends(way: &ForwardReport) -> [String; 2] {
    [way.from.clone(), way.to.clone().unwrap_or_else(|| "by route".into())]
}

/// Sorts the transmitters by worker, then by port. Those of queue q belong to the home worker of queue q.
fn deal(transmitters: Vec<Transmitter>, ports: usize, workers: usize) -> Vec<Vec<Vec<Transmitter>>> {
    let mut dealt: Vec<Vec<Vec<Transmitter>>> =
        (0..workers).map(|_| (0..ports).map(|_| Vec::new()).collect()).collect();
    for transmitter in transmitters {
        dealt[transmitter.worker()][transmitter.port()].push(transmitter);
    }
    dealt
}
