//! A replay from its plan to its report.
//!
//! ```text
//!   Plan ─ open ─► files read as far as memory goes ─┬─ all ───────► PreloadedTrace ─┐
//!                                                    └─ more ──────► StreamedTrace ──┴─ run ─► Player ─► Report
//! ```

use std::{path::PathBuf, sync::Arc, time::Duration};

use wirecap_send::{
    Lane, LinkMonitor, SendDiagnostic, TxCounters, check_link, check_queues, transmit_queues,
};
use wirecap_sys::{
    cpu,
    netdev::{self, Interface},
};

use crate::{
    Control, Error, Failure, Plan, Report, Schedule, Storage, Tally,
    control::Forecast,
    feed::{Feed, FeedPlan, PassEnd},
    loaded::{LoadedFrames, read_ahead},
    pacing::Pacing,
    player::Player,
    preloaded::PreloadedTrace,
    shape::Shape,
    source::Source,
    streamed::StreamedTrace,
    trace::is_stdin,
};

/// A replay that is ready to run.
#[derive(Debug)]
pub struct Replay {
    plan: Plan,
    interface: Interface,
    control: Arc<Control>,
    trace: OpenTrace,
    fallbacks: Vec<SendDiagnostic>,
    /// `None` if the kernel does not report changes.
    link: Option<LinkMonitor>,
}

/// A trace that can be sent.
#[derive(Debug)]
struct OpenTrace {
    lanes: Vec<Lane>,
    source: Source,
    expected: Forecast,
    held: Storage,
    /// Of a pass that was read to its end before the start.
    pass: Option<PassEnd>,
}

/// Opens the queues once the files are read as far as memory goes.
struct TraceOpener<'a> {
    plan: &'a Plan,
    interface: &'a Interface,
    shape: Shape,
    feed: Feed,
    feed_plan: FeedPlan,
    loaded: LoadedFrames,
}

impl TraceOpener<'_> {
    /// Puts the whole trace into cells.
    fn preload(self) -> Result<OpenTrace, Error> {
        let Self { plan, interface, shape, feed, feed_plan, loaded } = self;
        let copies = loaded.copies(plan);
        let cells: Vec<u64> = loaded.cells.iter().map(|cells| cells * u64::from(copies)).collect();
        let mut lanes = shape.open(interface, &feed_plan.queues, &cells, plan.mode)?;
        let (end, bytes) = (feed.end(), loaded.bytes());
        let expected = Forecast {
            packets: plan.passes.map(|passes| passes.saturating_mul(end.frames)),
            planned: planned(plan, &end, bytes),
            ..expected(plan)
        };
        let trace = PreloadedTrace::load(loaded.blocks, &mut lanes, copies, plan);
        let held = Storage::Preloaded { cells_bytes: shape.bytes(&cells), copies };
        Ok(OpenTrace { lanes, source: Source::Preloaded(Box::new(trace)), expected, held, pass: Some(end) })
    }

    /// Reads the rest while it is sent.
    fn stream(self, control: &Arc<Control>) -> Result<OpenTrace, Error> {
        let Self { plan, interface, shape, feed, feed_plan, loaded } = self;
        let cells =
            vec![shape.stream_cells(plan.memory_bytes, feed_plan.queues.len()); feed_plan.queues.len()];
        let wide: Vec<u64> = cells.iter().map(|&cells| cells.into()).collect();
        let lanes = shape.open(interface, &feed_plan.queues, &wide, plan.mode)?;
        let trace = StreamedTrace::start(feed, loaded.blocks, feed_plan, &cells, control);
        let source = Source::Streamed(Box::new(trace.map_err(Error::Thread)?));
        let held = Storage::Streamed { cells_bytes: shape.bytes(&wide), starved: 0 };
        Ok(OpenTrace { lanes, source, expected: expected(plan), held, pass: None })
    }
}

fn expected(plan: &Plan) -> Forecast {
    Forecast { passes: plan.passes, limits: plan.limits, ..Forecast::default() }
}

impl Replay {
    /// Checks the plan, reads the files as far as memory goes, and opens the queues. Waits for the writers of
    /// pipes.
    ///
    /// # Errors
    /// [`Error`]; nothing was sent.
    pub fn open(plan: Plan, control: &Arc<Control>) -> Result<Self, Error> {
        check_files(&plan.files)?;
        let interface = netdev::interface(&plan.interface)?;
        check_link(&interface)?;
        let queues = plan.placement.queues(transmit_queues(&interface))?;
        check_queues(&interface, queues.iter().copied())?;
        let shape = Shape::of(&interface, &plan, &queues);
        let feed_plan = FeedPlan { plan: plan.clone(), queues, room: shape.room };
        let mut feed = Feed::open(&feed_plan, control)?;
        let loaded = read_ahead(&mut feed, &plan, shape, feed_plan.queues.len(), control)?;
        let opening = TraceOpener { plan: &plan, interface: &interface, shape, feed, feed_plan, loaded };
        let trace = if opening.loaded.is_whole { opening.preload()? } else { opening.stream(control)? };
        let mut fallbacks: Vec<_> = shape.fallback().into_iter().collect();
        fallbacks.extend(trace.lanes.first().and_then(Lane::fallback));
        let link = match LinkMonitor::watch(&interface) {
            Ok(link) => Some(link),
            Err(cause) => {
                fallbacks.push(SendDiagnostic::LinkNotWatched { cause: cause.to_string() });
                None
            }
        };
        Ok(Self { plan, interface, control: Arc::clone(control), trace, fallbacks, link })
    }

    /// Where the trace is stored.
    pub fn held(&self) -> Storage {
        self.trace.held
    }

    /// Packets per pass, the tally of the files, and what could not be read; `None` if the trace is streamed.
    pub fn pass(&self) -> Option<(u64, Tally, &[Failure])> {
        self.trace.pass.as_ref().map(|pass| (pass.frames, pass.tally, pass.failures.as_slice()))
    }

    /// The duration until the files or a limit end the replay, if known.
    pub fn planned(&self) -> Option<Duration> {
        self.trace.expected.length()
    }

    /// The interface, as of its lookup.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The queues that send, each with `zero-copy` or `copy`.
    pub fn queues(&self) -> Vec<(u16, &'static str)> {
        self.trace.lanes.iter().map(|lane| (lane.number(), lane.mode().as_str())).collect()
    }

    /// Requests that were not met.
    pub fn fallbacks(&self) -> &[SendDiagnostic] {
        &self.fallbacks
    }

    /// Sends on the calling thread, which must be in the interface's network namespace.
    pub fn run(self) -> Report {
        let Self { plan, interface, control, trace, mut fallbacks, link } = self;
        let OpenTrace { lanes, source, expected, mut held, pass } = trace;
        if let Some((core, Err(cause))) = plan.core.map(|core| (core, cpu::pin_to_core(core))) {
            fallbacks.push(SendDiagnostic::NotPinned { core, cause: cause.to_string() });
        }
        cpu::precise_sleeps();
        let counters = TxCounters::start(interface.ifindex);
        let is_timed = Schedule::new(plan.speed).is_timed();
        let mut player = Player::new(&interface, lanes, source, &control, expected, is_timed, link);
        let (end, error) = player.run();
        let queues: Vec<_> = player.lanes.iter().map(Lane::report).collect();
        let packets = queues.iter().map(|queue| queue.packets).sum();
        let bytes = queues.iter().map(|queue| queue.bytes).sum();
        let PassEnd { tally, mut failures, .. } = pass.unwrap_or_default();
        let trace = match &player.source {
            Source::Streamed(streamed) => {
                failures.extend_from_slice(&streamed.failures);
                streamed.tally
            }
            Source::Preloaded(_) => tally,
        };
        failures.extend(error.as_ref().map(Failure::from));
        let seconds = player.last_ns as f64 / 1e9;
        if let Storage::Streamed { starved, .. } = &mut held {
            *starved = player.starvation.times;
        }
        Report {
            counters: counters.and_then(|counters| counters.settled(packets)).ok(),
            interface: interface.name.clone(),
            end,
            packets,
            bytes,
            seconds,
            pps: rate(packets, seconds),
            bps: rate(bytes * 8, seconds),
            passes: player.source.passes_begun(),
            held,
            pacing: player.pacing.as_ref().map(Pacing::report),
            queues,
            trace,
            truncated: plan.cut,
            fallbacks,
            failures,
        }
    }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn check_files(files: &[PathBuf]) -> Result<(), Error> {
    let stdin = files.iter().filter(|path| is_stdin(path)).count();
    if stdin > 1 { Err(Error::StdinTwice) } else { Ok(()) }
}

/// The planned duration: until the last packet is due.
fn planned(plan: &Plan, end: &PassEnd, bytes: u64) -> Option<Duration> {
    let count = plan.passes?;
    let mut schedule = Schedule::new(plan.speed);
    if !schedule.is_timed() || end.frames == 0 {
        return None;
    }
    let before = count.saturating_sub(1);
    let between = end.span_ns.saturating_add(plan.gap_ns(end.span_ns, end.frames));
    schedule.next_pass(between.saturating_mul(before), 0);
    schedule.sent_before(count.saturating_mul(end.frames).saturating_sub(1), count.saturating_mul(bytes));
    Some(Duration::from_nanos(schedule.due_ns(end.span_ns)))
}
