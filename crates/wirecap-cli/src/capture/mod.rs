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
//! | writing, and failing to | [`writer`], [`output`], [`open`], [`records`] |
//! | the blocks around the packets | [`describe`] |
//! | interfaces and trace files, looked at and opened | [`place`] |
//! | what the process may have, and whether flags have an effect | [`limits`], [`effect`] |
//! | what other commands do with captured packets | [`job`] |
//! | what ends a capture, and what is done then | [`watch`], [`end`] |
//! | what is wrong with times | [`times`] |
//! | what the user is told | [`announce`], [`progress`], [`summary`] |

mod announce;
pub(crate) mod backlog;
mod block;
mod buffers;
mod describe;
mod disorder;
mod effect;
mod end;
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
mod summary;
mod times;
pub(crate) mod watch;
mod worker;
mod writer;

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

use self::{
    backlog::Backlog,
    block::{Encoding, Queues},
    buffers::Buffers,
    job::{Job, Onward},
    lookout::Lookout,
    output::Output,
    watch::{Notice, Watch},
    worker::{Count, Encode},
    writer::Writer,
};
use crate::{cores::check_cores, exit::Exit, idle_thread::IdleThread, plan::Plan, signals::Signals};

/// Blocks that may wait for the writer. With blocks of full chunks this is some 10 MiB: enough to keep
/// the disk busy, little beside the pools.
const WAITING_BLOCKS: usize = 64;
/// The same, of a job that does not wait for the output: what bounds them is their memory, see [`backlog`].
const WAITING_BLOCKS_OF_BACKLOG: usize = 16 << 10;

/// Captures as planned, to the end, and does its job with the packets.
///
/// # Errors
/// Whatever keeps the capture from starting. What happens later is told, and is in the exit code.
pub(crate) fn run(plan: Plan, mut job: impl Job, signals: Signals) -> Result<Exit> {
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
    let end = Watch::new(&plan, signals, noticed).until_end(&mut capture, &threads.workers, &mut job);
    Ok(end::close(&plan, capture, threads, end, started, &job))
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
    /// Gives the writer back when it has written everything; `None` when packets are only counted.
    writer: Option<Receiver<Writer>>,
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
        let writer = Writer::new(output, plan.count, lookout, Buffers::new(returns), notices);
        let writer = writer.with_backlog(backlog);
        let (done, written) = sync_channel(1);
        thread.run(move || {
            // The receiver lives until the end of the capture.
            let _ = done.send(writer.run(&blocks));
        });
        Self { workers, writer: Some(written) }
    }
}
