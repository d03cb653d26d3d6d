//! Handling, as a job of a capture.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use anyhow::{Result, ensure};
use serde_json::{Map, Value};
use wirecap::{Capture, Mode, PortSpec, Report};
use wirecap_filter::shortened;
use wirecap_traffic::WorkerPace;

use super::{
    counts::{ThreadCounts, read},
    load::{FilterRuns, Filters, Load, LoadRequest},
    onward::{self, SendCounts, SentOn},
    report::{FilterRecord, HandleRecord, describe, describe_load},
    worker::HandleWorker,
};
use crate::{
    capture::{
        end::End,
        job::{Job, PacketCounter},
        plan::Plan,
        written_files::FilesProgress,
    },
    commands::forward::{COMPLAINT_PERIOD, reported::ReportedCounts, unsent},
    message::{Message, Topic},
    text::{
        loss::ForwardLosses,
        plural::{counted, was},
        ranges,
    },
};

/// The job that handles packets as a slow application does.
pub(super) struct HandleJob {
    load: LoadRequest,
    /// Whether the filter runs as machine code; known once it has begun.
    is_native: bool,
    mode: Mode,
    /// Where packets are sent on: the last of the ports.
    forward: Option<PortSpec>,
    /// Set when a signal gives up what is still to be handled.
    give_up: Arc<AtomicBool>,
    threads: Vec<Arc<ThreadCounts>>,
    sent: Vec<Arc<SendCounts>>,
    /// Packets not sent on that were reported, and when.
    dropped: ReportedCounts,
    unsent: ReportedCounts,
    last: Option<Instant>,
    quiet: bool,
}

impl HandleJob {
    pub(super) fn new(
        load: LoadRequest,
        forward: Option<PortSpec>,
        plan: &Plan,
        give_up: Arc<AtomicBool>,
    ) -> Self {
        Self {
            load,
            is_native: false,
            mode: plan.config.mode,
            forward,
            give_up,
            threads: Vec::new(),
            sent: Vec::new(),
            dropped: ReportedCounts::default(),
            unsent: ReportedCounts::default(),
            last: None,
            quiet: plan.output.quiet,
        }
    }

    /// The load of each worker. Prints what is not as asked.
    fn loads(&mut self, workers: usize, report: &Report) -> Result<Vec<Load>> {
        Ok(match &self.load {
            LoadRequest::Pace(pps) => {
                (0..workers).map(|_| Load::Pace(WorkerPace::new(*pps as f64))).collect()
            }
            LoadRequest::Filter(FilterRuns { runs: 0, .. }) => (0..workers).map(|_| Load::Nothing).collect(),
            LoadRequest::Filter(request) => {
                let (filters, interpreted) = Filters::new(request, report)?;
                if let Some(reason) = interpreted {
                    warn!(
                        "--native: there is no machine code for {}, so it is interpreted: {reason}",
                        shortened(&request.expression)
                    );
                }
                self.is_native = filters.are_native();
                let filters = Arc::new(filters);
                (0..workers).map(|_| Load::Filter(Arc::clone(&filters))).collect()
            }
        })
    }

    /// The figures so far.
    fn record(&self) -> HandleRecord {
        let (filters, paced) = match &self.load {
            LoadRequest::Pace(_) => (false, true),
            LoadRequest::Filter(FilterRuns { runs, .. }) => (*runs > 0, false),
        };
        let threads = self.threads.iter().enumerate();
        let ignored = self.threads.iter().map(|counts| read(&counts.ignored)).sum();
        HandleRecord {
            filter: match &self.load {
                LoadRequest::Filter(FilterRuns { expression, runs, .. }) => {
                    let (filter, native) = (expression.clone(), self.is_native);
                    Some(FilterRecord { filter, runs: *runs, native })
                }
                LoadRequest::Pace(_) => None,
            },
            pace_pps: match self.load {
                LoadRequest::Pace(pps) => Some(pps),
                LoadRequest::Filter(_) => None,
            },
            threads: threads.map(|(thread, counts)| counts.record(thread, filters, paced)).collect(),
            unhandled: self.threads.iter().map(|counts| read(&counts.unhandled)).sum(),
            sent_on: self.forward.as_ref().map(|to| SentOn::new(&to.name(), &self.sent, ignored)),
        }
    }

    /// Prints how packets are handled, and how queues and threads go together if not one to one.
    fn announce(&self, report: &Report) {
        note!("{}", describe_load(&self.record()));
        let ports = report.ports.len() - usize::from(self.forward.is_some());
        let queues: usize = report.ports[..ports].iter().map(|port| port.queues.len()).sum();
        let threads = self.threads.len();
        if queues > threads {
            note!(
                "{} for {}: the queues are dealt out in turn",
                counted(threads as u64, "thread"),
                counted(queues as u64, "receive queue")
            );
        } else if threads > queues {
            let helpers = ranges((queues..threads).map(|thread| thread as u64));
            note!("threads without a receive queue, which only help: {helpers}");
        }
    }
}

impl Job for HandleJob {
    const COMMAND: &'static str = "handle";
    const ACTIVITY: &'static str = "handling";
    const HAS_ENGINE_FLAGS: bool = true;
    type BatchHandler = HandleWorker;

    fn begin(
        &mut self,
        capture: &mut Capture,
        workers: usize,
        _: Option<FilesProgress>,
    ) -> Result<Vec<HandleWorker>> {
        let report = capture.report();
        let loads = self.loads(workers, &report)?;
        self.threads = (0..workers).map(|_| Arc::default()).collect();
        let mut senders = Vec::new();
        if self.forward.is_some() {
            self.sent = (0..workers).map(|_| Arc::default()).collect();
            let to = report.ports.len() - 1;
            senders = onward::senders(capture.take_transmitters(), to, &self.sent, self.mode);
            ensure!(
                senders.len() == workers,
                "{} has fewer transmit queues than when wirecap began; start it again",
                report.ports[to].name
            );
        }
        if !self.quiet {
            self.announce(&report);
        }
        let mut senders = senders.into_iter();
        let handlers = loads.into_iter().zip(&self.threads).map(|(load, counts)| {
            HandleWorker::new(load, senders.next(), Arc::clone(counts), Arc::clone(&self.give_up))
        });
        Ok(handlers.collect())
    }

    fn look(&mut self, capture: &Capture) -> (Vec<Message>, Option<End>) {
        let Some(to) = &self.forward else { return (Vec::new(), None) };
        let gone = !capture.removed_ports().is_empty();
        let end = gone.then_some(End::Cut);
        if self.last.is_some_and(|last| last.elapsed() < COMPLAINT_PERIOD) {
            return (Vec::new(), end);
        }
        let now = Instant::now();
        self.last = Some(now);
        let mut messages = Vec::new();
        let dropped = SentOn::new(&to.name(), &self.sent, 0).dropped;
        if let Some(since) = self.dropped.since(0, dropped.total(), dropped.causes_occurred(), now) {
            let (since, causes) = (counted(since, "packet"), dropped.describe());
            let text = format!("{since} not sent on to {}; so far: {causes}", to.name());
            messages.push(Message::warning(text).about(Topic::Dropped));
        }
        let of_port = capture.report().ports.pop().map(|port| unsent(&port));
        let (not_sent, by_whom) = of_port.unwrap_or_default();
        if let Some(since) = self.unsent.since(0, not_sent, 1, now) {
            let since = counted(since, "packet");
            let text = format!("{} did not send {since} that it got; so far: {by_whom}", to.name());
            messages.push(Message::warning(text).about(Topic::Unsent));
        }
        (messages, end)
    }

    fn handled(&self) -> Option<PacketCounter> {
        let threads = self.threads.clone();
        Some(Box::new(move || threads.iter().map(|counts| counts.done()).sum()))
    }

    fn failure(&self) -> Option<String> {
        let unhandled = self.record().unhandled;
        let packets = counted(unhandled, "packet");
        (unhandled > 0)
            .then(|| format!("{packets} {} captured and not handled: a signal gave them up", was(unhandled)))
    }

    /// Packets that arrive at the second interface are not handled, so those that find no room are no loss.
    fn judged(&self, mut report: Report) -> Report {
        report.ports.truncate(report.ports.len() - usize::from(self.forward.is_some()));
        report
    }

    /// Packets that are too long for the other interface are not lost.
    fn lost(&self, report: &Report) -> ForwardLosses {
        let Some(sent_on) = self.record().sent_on else { return ForwardLosses::default() };
        let unsent = report.ports.last().map_or(0, |port| unsent(port).0);
        ForwardLosses { dropped: sent_on.dropped.lost(), unsent }
    }

    fn describe(&self, report: &Report) -> String {
        describe(&self.record(), report)
    }

    fn json(&self, _: &Report) -> Map<String, Value> {
        let record = serde_json::to_value(self.record()).expect("figures and names");
        Map::from_iter([("handled".to_owned(), record)])
    }
}
