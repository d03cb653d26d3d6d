//! `wirecap capture`: from interfaces to a file.
//!
//! ```text
//!   worker 0 ─ batch ─► block ─┐ bounded channel       per queue, in order          by time
//!   worker 1 ─ batch ─► block ─┼───────────────► sequencer ──────────────► merger ─────────► output
//!   worker 2 ─ batch ─► block ─┘                            (writer thread)                    │
//!        ▲                                                    └── emptied buffers ──┐         file
//!        └──────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Rule: a batch is dropped as soon as it is encoded. When the disk is slow, the channel fills up, the
//! workers wait, the pools absorb, and what the pools cannot hold is in the account as `no_free_cell`.
//!
//! | to read about | open |
//! |---|---|
//! | encoded packets on their way | [`block`] |
//! | what a worker thread does | [`worker`] |
//! | putting the blocks of a queue in order | [`sequencer`] |
//! | merging queues by time | [`merge`], [`order`] |
//! | queues in which nothing comes | [`lookout`], [`pace`] |
//! | buffers that are used again | [`buffers`] |
//! | writing, and failing to | [`writer`], [`output`], [`sink`], [`open`], [`records`], [`written`] |
//! | the blocks around the packets | [`describe`] |
//! | interfaces and trace files, looked at and opened | [`place`] |
//! | what the process may have, and whether flags have an effect | [`limits`], [`effect`] |
//! | what other commands do with captured packets | [`job`] |
//! | what ends a capture, and what is done then | [`watch`], [`end`], [`drain`], [`failure`] |
//! | what the user is told | [`announce`], [`progress`], [`alarm`], [`statistics`], [`summary`], [`accounts`] |

mod accounts;
mod alarm;
mod announce;
mod block;
mod buffers;
mod describe;
mod drain;
mod effect;
mod end;
mod failure;
pub(crate) mod job;
mod limits;
mod lookout;
mod merge;
mod open;
mod order;
mod output;
mod pace;
mod place;
mod progress;
mod records;
pub(crate) mod sequencer;
mod sink;
mod statistics;
mod summary;
mod unstamped;
pub(crate) mod watch;
mod worker;
mod writer;
mod written;

use std::{
    sync::{
        Arc,
        mpsc::{Sender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
    time::SystemTime,
};

use anyhow::{Result, anyhow};
use wirecap::{
    Capture, Worker,
    report::{PortReport, QueueMode},
};

use self::{
    block::{Encoding, Queues},
    buffers::Buffers,
    job::{Job, Onward},
    lookout::Lookout,
    output::Output,
    place::Place,
    statistics::Statistics,
    watch::{Notice, Watch},
    worker::{Count, Encode},
    writer::{Closing, Finished, Writer},
    written::Gauge,
};
use crate::{cores::check_cores, exit::Exit, head::Head, plan::Plan, signals::Signals};

/// Blocks that may wait for the writer. With blocks of full chunks this is some 10 MiB: enough to keep
/// the disk busy, little beside the pools.
const WAITING_BLOCKS: usize = 64;

/// Captures as planned, to the end, and does its job with the packets.
///
/// # Errors
/// Whatever keeps the capture from starting. What happens later is told, and is in the exit code.
pub(crate) fn run<J: Job>(plan: Plan, mut job: J) -> Result<Exit> {
    // First of all: where SIGINT is ignored from the start, as by jobs of a shell script, one that comes before is lost.
    let signals = Signals::listen()?;
    check_cores(&plan.cores)?;
    let places = place::look_up(&plan)?;
    limits::check(&plan, places.iter().map(Place::queues).sum())?;
    let open = |destination| Output::open(destination, &signals);
    let mut output = plan.destination.as_ref().map(open).transpose()?;
    let mut capture = place::open(&plan, &places, &signals)?;
    effect::check(&plan, &capture.report())?;
    let started = SystemTime::now();
    if let Some(output) = &mut output {
        output.begin(&describe::header(&plan, &places, &capture.report()))?;
    }
    if !plan.quiet {
        announce::start(&plan, &capture.report());
    }

    let (notices, noticed) = channel();
    let workers = capture.take_workers();
    let onward = job.begin(&mut capture, workers.len())?;
    let work = workers.into_iter().zip(onward).collect();
    let threads = Threads::start(&plan, &capture, work, output, notices)?;
    let head = Head::new(J::COMMAND, started);
    let statistics = Statistics::new(&plan, &head, threads.gauge());
    let watch = Watch::new(&plan, &signals, noticed, statistics);
    let end = watch.until_end(&mut capture, &threads.workers, &mut job);
    let ended = end::Ended { plan: &plan, head: &head, signals: &signals, started, end };
    Ok(ended.close(capture, threads, &mut job))
}

/// The threads of a capture.
struct Threads {
    workers: Vec<JoinHandle<()>>,
    /// `None` when packets are only counted.
    writer: Option<WriterThread>,
}

/// The thread that writes.
struct WriterThread {
    handle: JoinHandle<Finished>,
    gauge: Arc<Gauge>,
    /// Takes what stands behind the packets.
    closing: Sender<Closing>,
}

impl Threads {
    fn start<O: Onward>(
        plan: &Plan,
        capture: &Capture,
        work: Vec<(Worker, O)>,
        output: Option<Output>,
        notices: Sender<Notice>,
    ) -> Result<Self> {
        match output {
            Some(output) => Self::to_file(plan, capture, work, output, notices),
            None => Self::count_only(plan, work, &notices),
        }
    }

    fn count_only<O: Onward>(plan: &Plan, work: Vec<(Worker, O)>, notices: &Sender<Notice>) -> Result<Self> {
        let count = Count::new(plan.count, notices);
        let workers = work.into_iter().map(|(worker, onward)| {
            let count = count.clone();
            spawn(worker, move |worker| count.run(worker, onward))
        });
        Ok(Self { workers: workers.collect::<Result<_>>()?, writer: None })
    }

    fn to_file<O: Onward>(
        plan: &Plan,
        capture: &Capture,
        work: Vec<(Worker, O)>,
        output: Output,
        notices: Sender<Notice>,
    ) -> Result<Self> {
        let ports = capture.report().ports;
        let queues = Queues::new(ports.iter().map(|port| {
            let captured = port.queues.iter().filter(|queue| queue.mode != QueueMode::Host);
            captured.map(|queue| queue.queue)
        }));
        let passive = ports.iter().map(PortReport::is_passive).collect();
        let encoding = Encoding { format: output.format(), snaplen: plan.snaplen, queues, passive };
        let encoding = Arc::new(encoding);
        let lookout = Lookout::new(capture.horizons(), &encoding);
        let (sender, blocks) = sync_channel(WAITING_BLOCKS);
        let (mut returns, mut workers) = (Vec::new(), Vec::new());
        for (worker, onward) in work {
            let (give_back, given_back) = sync_channel(WAITING_BLOCKS);
            returns.push(give_back);
            let encode = Encode::new(&encoding, &sender, given_back);
            workers.push(spawn(worker, move |worker| encode.run(worker, onward))?);
        }
        let writer = Writer::new(output, plan.count, lookout, Buffers::new(returns), notices);
        let (gauge, (closing, closed)) = (writer.gauge(), channel());
        let handle = thread::Builder::new()
            .name("wirecap-writer".into())
            .spawn(move || writer.run(&blocks, &closed))
            .map_err(|cause| anyhow!("cannot start the writer thread: {cause}"))?;
        Ok(Self { workers, writer: Some(WriterThread { handle, gauge, closing }) })
    }

    /// What is written, if anything is.
    fn gauge(&self) -> Option<Arc<Gauge>> {
        self.writer.as_ref().map(|writer| Arc::clone(&writer.gauge))
    }
}

fn spawn(worker: Worker, work: impl FnOnce(Worker) + Send + 'static) -> Result<JoinHandle<()>> {
    let name = format!("wirecap-work-{}", worker.index());
    let started = thread::Builder::new().name(name).spawn(move || work(worker));
    started.map_err(|cause| anyhow!("cannot start a worker thread: {cause}"))
}
