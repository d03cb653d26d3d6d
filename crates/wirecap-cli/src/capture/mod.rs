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
//! | jobs that do not wait for the output | [`backlog`] |
//! | writing, and failing to | [`writer`], [`output`], [`sink`], [`open`], [`records`], [`written`] |
//! | the blocks around the packets | [`describe`] |
//! | interfaces and trace files, looked at and opened | [`place`] |
//! | what the process may have, and whether flags have an effect | [`limits`], [`effect`] |
//! | what other commands do with captured packets | [`job`] |
//! | what ends a capture, and what is done then | [`watch`], [`end`], [`drain`], [`failure`] |
//! | what is wrong with times, and with their order | [`times`], [`disorder`] |
//! | what the user is told | [`announce`], [`progress`], [`alarm`], [`statistics`], [`summary`], [`accounts`] |

mod accounts;
mod alarm;
mod announce;
mod describe;
mod disorder;
mod drain;
mod effect;
mod end;
mod failure;
pub(crate) mod job;
mod limits;
mod open;
mod output;
mod place;
mod progress;
mod sink;
mod statistics;
mod summary;
mod times;
pub(crate) mod watch;
mod worker;
mod writer;
mod written;

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel, sync_channel},
    },
    thread::JoinHandle,
    time::SystemTime,
};

use anyhow::Result;
use wirecap::{
    Capture, Worker,
    report::{PortReport, QueueMode},
};
pub(crate) use wirecap_record::{backlog, block, buffers, lookout, merge, order, pace, records, sequencer};

use self::{
    backlog::Backlog,
    block::{Encoding, Queues},
    buffers::Buffers,
    job::{Job, Onward},
    lookout::Lookout,
    output::Output,
    statistics::Statistics,
    watch::{Notice, Watch},
    worker::{Count, Encode},
    writer::{Closing, Finished, Writer},
    written::Gauge,
};
use crate::{
    cores::check_cores, exit::Exit, head::Head, idle_thread::IdleThread, plan::Plan, signals::Signals,
};

/// Blocks that may wait for the writer. With blocks of full chunks this is some 10 MiB: enough to keep
/// the disk busy, little beside the pools.
const WAITING_BLOCKS: usize = 64;
/// The same, of a job that does not wait for the output: what bounds them is their memory, see [`backlog`].
const WAITING_BLOCKS_OF_BACKLOG: usize = 16 << 10;

/// Captures as planned, to the end, and does its job with the packets.
///
/// # Errors
/// Whatever keeps the capture from starting. What happens later is told, and is in the exit code.
pub(crate) fn run<J: Job>(plan: Plan, mut job: J, signals: Signals) -> Result<Exit> {
    check_cores(&plan.cores)?;
    let places = place::look_up(&plan)?;
    let open = |destination| Output::open(destination, &signals);
    let mut output = plan.destination.as_ref().map(open).transpose()?;
    let looked_up = place::prepare(&plan, &places, &signals)?;
    limits::check(&plan, &looked_up)?;
    let idle = Idle::start(looked_up.workers(), output.is_some())?;
    let mut capture = place::open(&plan, looked_up, &signals)?;
    effect::check(&plan, &capture.report())?;
    let started = SystemTime::now();
    if let Some(output) = &mut output {
        output.begin(&describe::header(&plan, &places, &capture.report()))?;
    }
    if !plan.quiet {
        announce::start(&plan, &capture.report(), &job);
    }
    announce::warn(&capture.report());

    let (notices, noticed) = channel();
    let workers = capture.take_workers();
    let onward = job.begin(&mut capture, workers.len())?;
    let work = workers.into_iter().zip(onward).collect();
    let backlog = job.backlog().map(Arc::clone);
    let output = output.map(|output| (output, backlog));
    let threads = Threads::start(&plan, &capture, (idle, work), output, notices);
    let head = Head::new(J::COMMAND, started);
    let statistics = Statistics::new(&plan, &head, threads.gauge());
    let watch = Watch::new(&plan, &signals, noticed, statistics);
    let end = watch.until_end(&mut capture, &threads.workers, &mut job);
    let ended = end::Ended { plan: &plan, head: &head, signals: &signals, started, end };
    Ok(ended.close(capture, threads, &mut job))
}

/// The threads of a capture, before it runs.
struct Idle {
    workers: Vec<IdleThread>,
    writer: Option<IdleThread>,
}

impl Idle {
    fn start(workers: usize, writes: bool) -> Result<Self> {
        let worker = |number| IdleThread::start(&format!("wirecap-work-{number}"));
        let writer = writes.then(|| IdleThread::start("wirecap-writer")).transpose()?;
        Ok(Self { workers: (0..workers).map(worker).collect::<Result<_>>()?, writer })
    }
}

/// The threads of a capture.
struct Threads {
    workers: Vec<JoinHandle<()>>,
    /// `None` when packets are only counted.
    writer: Option<WriterThread>,
}

/// The thread that writes.
struct WriterThread {
    handle: JoinHandle<()>,
    /// Gives what came of writing when the thread ends.
    finished: Receiver<Finished>,
    gauge: Arc<Gauge>,
    /// Takes what stands behind the packets.
    closing: Sender<Closing>,
}

impl Threads {
    fn start<O: Onward>(
        plan: &Plan,
        capture: &Capture,
        (idle, work): (Idle, Vec<(Worker, O)>),
        output: Option<(Output, Option<Arc<Backlog>>)>,
        notices: Sender<Notice>,
    ) -> Self {
        match (output, idle.writer) {
            (Some((output, backlog)), Some(writer)) => {
                let work = idle.workers.into_iter().zip(work).collect();
                Self::to_file(plan, capture, work, (writer, output, backlog), notices)
            }
            _ => Self::count_only(plan, idle.workers.into_iter().zip(work), &notices),
        }
    }

    fn count_only<O: Onward>(
        plan: &Plan,
        work: impl Iterator<Item = (IdleThread, (Worker, O))>,
        notices: &Sender<Notice>,
    ) -> Self {
        let count = Count::new(plan.count, notices);
        let workers = work.map(|(thread, (worker, onward))| {
            let count = count.clone();
            thread.run(move || count.run(worker, onward))
        });
        Self { workers: workers.collect(), writer: None }
    }

    fn to_file<O: Onward>(
        plan: &Plan,
        capture: &Capture,
        work: Vec<(IdleThread, (Worker, O))>,
        (thread, output, backlog): (IdleThread, Output, Option<Arc<Backlog>>),
        notices: Sender<Notice>,
    ) -> Self {
        let ports = capture.report().ports;
        let queues = Queues::new(ports.iter().map(|port| {
            let captured = port.queues.iter().filter(|queue| queue.mode != QueueMode::Host);
            captured.map(|queue| queue.queue)
        }));
        let passive = ports.iter().map(PortReport::is_passive).collect();
        let encoding = Encoding { format: output.format(), snaplen: plan.snaplen, queues, passive };
        let encoding = Arc::new(encoding);
        let lookout = Lookout::new(capture.horizons(), &encoding);
        let waiting = if backlog.is_some() { WAITING_BLOCKS_OF_BACKLOG } else { WAITING_BLOCKS };
        let (sender, blocks) = sync_channel(waiting);
        let (mut returns, mut workers) = (Vec::new(), Vec::new());
        for (thread, (worker, onward)) in work {
            let (give_back, given_back) = sync_channel(WAITING_BLOCKS);
            returns.push(give_back);
            let encode = Encode::new(&encoding, &sender, given_back, worker.index(), backlog.clone());
            workers.push(thread.run(move || encode.run(worker, onward)));
        }
        let writer = Writer::new((output, backlog), plan.count, lookout, Buffers::new(returns), notices);
        let (gauge, (closing, closed)) = (writer.gauge(), channel());
        let (done, finished) = sync_channel(1);
        let handle = thread.run(move || {
            // It fails once the thread is not waited for any longer.
            let _ = done.send(writer.run(&blocks, &closed));
        });
        Self { workers, writer: Some(WriterThread { handle, finished, gauge, closing }) }
    }

    /// What is written, if anything is.
    fn gauge(&self) -> Option<Arc<Gauge>> {
        self.writer.as_ref().map(|writer| Arc::clone(&writer.gauge))
    }
}
