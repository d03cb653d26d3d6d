//! A replay from its plan to its report.
//!
//! ```text
//!   Plan ─ open ─► files read as far as memory goes ─┬─ all of it ─► Preloaded ─┐
//!                                                    └─ more ──────► Streamed ──┴─ run ─► Player ─► Report
//! ```

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use wirecap_sys::{
    cpu,
    netdev::{self, Interface, LinkStatistics},
    xsk::{BindChoice, BindMode, MAX_PARTS, TransmitOptions, TransmitQueue},
};

use crate::{
    Control, Counters, Cut, Error, Held, Limits, Placement, Report, Schedule, Speed, Timing,
    control::Expected,
    feed::{Block, Feed, FeedPlan, PassEnd},
    lane::Lane,
    link,
    player::Player,
    preloaded::Preloaded,
    source::{Passes, Source},
    streamed::Streamed,
    trace::{is_regular, is_stdin},
};

/// Frames that can be with the kernel at the same time, for each queue.
const RING: u32 = 2048;
/// Cells of a queue where the trace is streamed: twice the ring, so that there are some to be filled.
const STREAM_CELLS: u32 = 2 * RING;
const SHORT_CELL: u32 = 2048;
const LONG_CELL: u32 = 4096;
/// An Ethernet header and a VLAN tag, in bytes.
const OVERHEAD: u32 = 18;
/// How long the interface's counters may take to reach what was sent.
const SETTLE: Duration = Duration::from_secs(2);

/// What to send, where, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Trace files; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// How several files share one time line.
    pub timing: Timing,
    /// Name of the interface, in the network namespace of the calling thread.
    pub interface: String,
    /// How fast.
    pub speed: Speed,
    /// From which queues.
    pub placement: Placement,
    /// How often the files are sent; `None` goes on until it is stopped.
    pub passes: Option<u64>,
    /// Between passes, in nanoseconds of the recorded time; `None` is the mean gap of the trace.
    pub pass_gap_ns: Option<u64>,
    /// When to stop before the end.
    pub limits: Limits,
    /// What is done with packets of which the file has only the beginning.
    pub cut: Cut,
    /// Bytes of memory for cells: a trace that needs more is streamed.
    pub memory_bytes: u64,
    /// Zero-copy or copy; `None` is the best that there is.
    pub mode: Option<BindMode>,
    /// The core of the thread that sends; `None` leaves it to the kernel.
    pub core: Option<usize>,
}

/// A replay that can begin.
#[derive(Debug)]
pub struct Replay {
    plan: Plan,
    interface: Interface,
    control: Arc<Control>,
    lanes: Vec<Lane>,
    source: Source,
    expected: Expected,
    held: Held,
    /// Of a pass that was read to its end before the start.
    pass: Option<PassEnd>,
    fallbacks: Vec<String>,
}

impl Replay {
    /// Looks at everything, reads the files as far as memory goes, and opens the queues. Waits for the writers of pipes.
    ///
    /// # Errors
    /// [`Error`], before anything was sent.
    pub fn open(plan: Plan, control: &Arc<Control>) -> Result<Self, Error> {
        check_files(&plan.files)?;
        let interface = netdev::interface(&plan.interface)?;
        link::check(&interface)?;
        let queues = plan.placement.queues()?;
        check_queues(&interface, &queues)?;
        let shape = Shape::of(&interface, &plan)?;
        let feed_plan = FeedPlan {
            files: plan.files.clone(),
            timing: plan.timing,
            placement: plan.placement.clone(),
            queues,
            cut: plan.cut,
            mtu: shape.mtu,
        };
        let (schedule, passes) =
            (Schedule::new(plan.speed), Passes { count: plan.passes, gap_ns: plan.pass_gap_ns });
        let mut feed = Feed::open(&feed_plan)?;
        let loaded = read_ahead(&mut feed, &plan, shape, feed_plan.queues.len(), control)?;
        let open = |cells: &[u64]| open_lanes(&interface, &feed_plan.queues, cells, shape, plan.mode);
        let mut expected = Expected { passes: plan.passes, limits: plan.limits, ..Expected::default() };
        let (lanes, source, held, pass) = if loaded.is_whole {
            let copies = loaded.copies(&plan);
            let cells: Vec<u64> = loaded.cells.iter().map(|cells| cells * u64::from(copies)).collect();
            let mut lanes = open(&cells)?;
            let (end, bytes) = (feed.end(), loaded.bytes());
            expected.packets = plan.passes.map(|passes| passes.saturating_mul(end.frames));
            expected.planned = planned(plan.speed, passes, &end, bytes);
            let trace = Preloaded::load(loaded.blocks, &mut lanes, copies, schedule, passes);
            let held = Held::Preloaded { cells_bytes: shape.bytes(&cells), copies };
            (lanes, Source::Preloaded(trace), held, Some(end))
        } else {
            let cells = vec![u64::from(STREAM_CELLS); feed_plan.queues.len()];
            let lanes = open(&cells)?;
            let (held, cells) = (Held::Streamed { cells_bytes: shape.bytes(&cells), starved: 0 }, vec![STREAM_CELLS; cells.len()]);
            let head = (feed, loaded.blocks);
            let trace = Streamed::start(head, feed_plan, &cells, (schedule, passes), control).map_err(Error::Thread)?;
            (lanes, Source::Streamed(Box::new(trace)), held, None)
        };
        let mut fallbacks: Vec<String> = shape.refused.then(|| too_long_for_cells(&interface)).into_iter().collect();
        fallbacks.extend(lanes.first().and_then(Lane::fallback));
        Ok(Self { plan, interface, control: Arc::clone(control), lanes, source, expected, held, pass, fallbacks })
    }

    /// Where the trace is kept.
    pub fn held(&self) -> Held {
        self.held
    }

    /// Packets of one pass that will be sent, what was found in the files, and what could not be read, where all is read.
    pub fn pass(&self) -> Option<(u64, crate::Tally, &[String])> {
        self.pass.as_ref().map(|pass| (pass.frames, pass.tally, pass.failures.as_slice()))
    }

    /// How long it will take, where that is known.
    pub fn planned(&self) -> Option<Duration> {
        self.expected.planned
    }

    /// The interface, as it was when it was looked up.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The queues that are sent from, with `zero-copy` or `copy` for each.
    pub fn queues(&self) -> Vec<(u16, &'static str)> {
        self.lanes.iter().map(Lane::report).map(|lane| (lane.queue, lane.mode)).collect()
    }

    /// What could not be had, and what is done instead, in words.
    pub fn fallbacks(&self) -> &[String] {
        &self.fallbacks
    }

    /// Sends, on the calling thread, which has to be in the interface's network namespace.
    pub fn run(self) -> Report {
        let Self { plan, interface, control, lanes, source, expected, held, pass, mut fallbacks } = self;
        if let Some(Err(cause)) = plan.core.map(cpu::pin_to_core) {
            fallbacks.push(format!("not bound to core {}: {cause}", plan.core.unwrap_or_default()));
        }
        cpu::precise_sleeps();
        let before = LinkStatistics::of_index(interface.ifindex);
        let is_timed = Schedule::new(plan.speed).is_timed();
        let mut player = Player::new(&interface, (lanes, source), &control, expected, is_timed);
        let is_over = AtomicBool::new(false);
        let (end, error) = thread::scope(|scope| {
            match netdev::changes() {
                Ok(changes) => {
                    scope.spawn(|| link::watch(&interface, changes, &control, &is_over));
                }
                Err(cause) => fallbacks.push(format!("the link is not watched: {cause}")),
            }
            let ended = player.run();
            is_over.store(true, Ordering::Relaxed);
            ended
        });
        let queues: Vec<_> = player.lanes().iter().map(Lane::report).collect();
        let packets = queues.iter().map(|queue| queue.packets).sum();
        let bytes = queues.iter().map(|queue| queue.bytes).sum();
        let (pass, held) = match player.source() {
            Source::Streamed(trace) => (trace.end.clone(), held.with_starved(trace.starved)),
            Source::Preloaded(_) => (pass.unwrap_or_default(), held),
        };
        let mut failures = pass.failures;
        failures.extend(error.map(|error| error.to_string()));
        let seconds = player.seconds();
        Report {
            counters: before.ok().and_then(|before| settled(interface.ifindex, &before, packets)),
            interface: interface.name.clone(),
            end,
            packets,
            bytes,
            seconds,
            pps: rate(packets, seconds),
            bps: rate(bytes * 8, seconds),
            passes: player.source().passes_begun(),
            held,
            pacing: player.pacing(),
            queues,
            trace: pass.tally,
            truncated: plan.cut,
            fallbacks,
            failures,
        }
    }
}

impl Held {
    fn with_starved(self, starved: u64) -> Self {
        match self {
            Held::Streamed { cells_bytes, .. } => Held::Streamed { cells_bytes, starved },
            held => held,
        }
    }
}

fn rate(what: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { what as f64 / seconds } else { 0.0 }
}

fn check_files(files: &[PathBuf]) -> Result<(), Error> {
    let stdin = files.iter().filter(|path| is_stdin(path)).count();
    if stdin > 1 { Err(Error::StdinTwice) } else { Ok(()) }
}

fn check_queues(interface: &Interface, queues: &[u16]) -> Result<(), Error> {
    let there = netdev::transmit_queues(&interface.name)?.unwrap_or(interface.queues.current);
    match queues.iter().find(|&&queue| u32::from(queue) >= there) {
        Some(&queue) => Err(Error::NoQueue { interface: interface.name.clone(), queues: there, queue }),
        None => Ok(()),
    }
}

/// What the interface's counters say, once they have said what became of so many packets, or after some time.
fn settled(ifindex: u32, before: &LinkStatistics, packets: u64) -> Option<Counters> {
    let since = Instant::now();
    loop {
        let after = LinkStatistics::of_index(ifindex).ok()?;
        let counters = Counters::between(before, &after);
        if counters.total() >= packets || since.elapsed() > SETTLE {
            return Some(counters);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// How long it takes as planned: until the last packet is due.
fn planned(speed: Speed, passes: Passes, end: &PassEnd, bytes: u64) -> Option<Duration> {
    let count = passes.count?;
    let mut schedule = Schedule::new(speed);
    if !schedule.is_timed() || end.frames == 0 {
        return None;
    }
    let before = count.saturating_sub(1);
    let between = end.span_ns.saturating_add(passes.gap_ns(end.span_ns, end.frames));
    schedule.next_pass(between.saturating_mul(before), 0);
    schedule.sent_before(count.saturating_mul(end.frames).saturating_sub(1), count.saturating_mul(bytes));
    Some(Duration::from_nanos(schedule.due_ns(end.span_ns)))
}

/// How cells are laid out for an interface.
#[derive(Debug, Clone, Copy)]
struct Shape {
    cell_bytes: u32,
    multi_buffer: bool,
    /// The MTU, or what fits into the cells of one frame.
    mtu: u32,
    /// Frames of several cells were wanted, and the kernel or driver does not have them.
    refused: bool,
}

impl Shape {
    fn of(interface: &Interface, plan: &Plan) -> Result<Self, Error> {
        let longest = interface.mtu.saturating_add(OVERHEAD);
        let cell_bytes = if longest <= SHORT_CELL { SHORT_CELL } else { LONG_CELL };
        let shape = |parts: u32, refused| Self {
            cell_bytes,
            multi_buffer: parts > 1,
            mtu: interface.mtu.min(cell_bytes * parts - OVERHEAD),
            refused,
        };
        if longest <= cell_bytes {
            return Ok(shape(1, false));
        }
        // Only trying tells whether the driver sends frames of several cells.
        let queue = plan.placement.queues()?.first().copied().unwrap_or(0);
        let options = TransmitOptions {
            cells: 64,
            cell_bytes,
            ring_entries: 64,
            bind: bind(plan.mode),
            multi_buffer: true,
        };
        let refused = TransmitQueue::open(interface.ifindex, queue.into(), options).is_err();
        Ok(shape(if refused { 1 } else { MAX_PARTS as u32 }, refused))
    }

    fn bytes(&self, cells: &[u64]) -> u64 {
        cells.iter().map(|cells| cells * u64::from(self.cell_bytes)).sum()
    }
}

fn too_long_for_cells(interface: &Interface) -> String {
    let longest = LONG_CELL;
    format!("{}: packets longer than {longest} bytes are left out, since it takes none of several buffers", interface.name)
}

fn bind(mode: Option<BindMode>) -> BindChoice {
    mode.map_or(BindChoice::Best, BindChoice::Only)
}

fn open_lanes(
    interface: &Interface,
    queues: &[u16],
    cells: &[u64],
    shape: Shape,
    mode: Option<BindMode>,
) -> Result<Vec<Lane>, Error> {
    let lanes = queues.iter().zip(cells).map(|(&queue, &cells)| {
        let options = TransmitOptions {
            cells: (cells as u32).max(1),
            cell_bytes: shape.cell_bytes,
            ring_entries: RING,
            bind: bind(mode),
            multi_buffer: shape.multi_buffer,
        };
        let opened = TransmitQueue::open(interface.ifindex, queue.into(), options);
        let refused = |source| Error::Queue { interface: interface.name.clone(), queue, source };
        opened.map(|opened| Lane::new(queue, opened)).map_err(refused)
    });
    lanes.collect()
}

/// What was read before the start.
struct Loaded {
    blocks: Vec<Block>,
    /// All of the files.
    is_whole: bool,
    /// Of each queue.
    cells: Vec<u64>,
    cell_bytes: u32,
}

impl Loaded {
    /// So many that the busiest queue has cells for twice its ring, as far as memory goes; one if there is one pass.
    fn copies(&self, plan: &Plan) -> u32 {
        let (busiest, all) = (self.cells.iter().copied().max().unwrap_or(0), self.cells.iter().sum::<u64>());
        if plan.passes == Some(1) || busiest == 0 {
            return 1;
        }
        let wanted = u64::from(2 * RING).div_ceil(busiest).min(plan.passes.unwrap_or(u64::MAX));
        let possible = plan.memory_bytes / (all * u64::from(self.cell_bytes));
        wanted.min(possible).max(1) as u32
    }

    fn bytes(&self) -> u64 {
        let frames = self.blocks.iter().flat_map(|block| &block.frames);
        frames.map(|frame| u64::from(frame.len)).sum()
    }
}

/// Reads until the end, or until the cells would take more memory than there is for them.
fn read_ahead(
    feed: &mut Feed,
    plan: &Plan,
    shape: Shape,
    lanes: usize,
    control: &Control,
) -> Result<Loaded, Error> {
    let mut loaded =
        Loaded { blocks: Vec::new(), is_whole: false, cells: vec![0; lanes], cell_bytes: shape.cell_bytes };
    let pipe = plan.files.iter().find(|path| !is_regular(path));
    // Whoever writes a pipe may go on for ever: it is sent as it comes, unless it is wanted again.
    if pipe.is_some() && plan.passes == Some(1) {
        return Ok(loaded);
    }
    while !loaded.is_whole && !control.is_stopped() {
        let mut block = Block::default();
        loaded.is_whole = !feed.fill(&mut block);
        let cells = Preloaded::cells(std::slice::from_ref(&block), lanes, shape.cell_bytes);
        loaded.cells.iter_mut().zip(cells).for_each(|(all, more)| *all += more);
        loaded.blocks.push(block);
        if shape.bytes(&loaded.cells) > plan.memory_bytes {
            loaded.is_whole = false;
            break;
        }
    }
    match pipe {
        Some(pipe) if !loaded.is_whole => {
            Err(Error::OnePass { name: pipe.display().to_string(), memory_mib: plan.memory_bytes >> 20 })
        }
        _ => Ok(loaded),
    }
}
