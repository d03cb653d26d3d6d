//! wirecap as a competitor: a child process that captures, reads one cache line of each packet, and counts.
//!
//! ```text
//!   wirecap-bench __count PORT … ──► READY on stderr ──► workers until idle or signalled ──► one JSON line on stdout
//! ```
//!
//! It follows the protocol of the peers in bench/peers, so both are measured in the same way.

mod tally;
pub mod xdp_count;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use wirecap::config::prefix::TAP;
use wirecap::port::null::NullPort;
use wirecap::{
    Batch, Capture, Dispatch, Mode, Modes, PortSpec, Report, TapHook, Timestamp, UnmatchedPolicy, Wait,
    WaitOutcome, Worker,
};
use wirecap_sys::cpu;
use wirecap_testing::cpu_time;
use wirecap_traffic::WorkerPace;

use tally::Tally;

/// First argument of a child.
pub const COMMAND: &str = "__count";
/// Name of the null port, which makes packets in memory.
pub const NULL: &str = "null";
/// How long a worker waits before it reports that it is idle.
const PAUSE: Duration = Duration::from_millis(10);
/// How often the main thread checks for the end.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Parser)]
#[command(name = "wirecap-bench __count")]
struct Arguments {
    /// Interface, or `null`.
    port: String,
    #[arg(short = 'M', default_value_t = 256)]
    cells_per_chunk: u32,
    #[arg(short = 'R', default_value_t = 128)]
    chunks_per_pool: u32,
    /// `basic`, or T in percent.
    #[arg(long, default_value = "basic")]
    mode: String,
    /// `pull` or `push`.
    #[arg(long, default_value = "pull")]
    dispatch: String,
    /// `sleep`, `busy` or `block`.
    #[arg(long, default_value = "sleep")]
    wait: String,
    /// `hardware`, `kernel` or `batch`.
    #[arg(long)]
    timestamp: Option<String>,
    /// `copy` or `packed`.
    #[arg(long, default_value = "copy")]
    xdp_mode: String,
    /// The interface is tapped: the host keeps its packets.
    #[arg(long)]
    tap: bool,
    /// `tcx` or `xdp`.
    #[arg(long, default_value = "tcx")]
    tap_hook: String,
    /// Packets that do not match are dropped in the kernel.
    #[arg(long)]
    filter: Option<String>,
    /// Packets are not read.
    #[arg(long)]
    untouched: bool,
    /// Core of the whole process, unless a thread has its own.
    #[arg(long)]
    cpu: Option<usize>,
    /// Core of the capture thread.
    #[arg(long)]
    capture_cpu: Option<usize>,
    /// Packets per second that each worker handles at most.
    #[arg(long)]
    pace: Option<f64>,
    /// The child stops this long after the last packet.
    #[arg(long, default_value_t = 500)]
    idle_ms: u64,
    /// Interval of printed reports.
    #[arg(long)]
    report_ms: Option<u64>,
    /// Packets of the null port.
    #[arg(long, default_value_t = 10_000_000)]
    packets: u64,
}

impl Arguments {
    fn open(&self) -> Result<Capture> {
        let port: PortSpec = if self.port == NULL {
            NullPort { queues: 1, packet_bytes: 60, packets_per_queue: self.packets }.into()
        } else if self.tap {
            format!("{TAP}{}", self.port).as_str().into()
        } else {
            self.port.as_str().into()
        };
        let mode = match self.mode.as_str() {
            "basic" => Mode::Basic,
            percent => Mode::advanced(percent.parse().context("--mode")?)?,
        };
        let dispatch = match self.dispatch.as_str() {
            "pull" => Dispatch::Pull,
            "push" => Dispatch::Push,
            other => bail!("--dispatch {other}"),
        };
        let wait = match self.wait.as_str() {
            "sleep" => Wait::Sleep,
            "busy" => Wait::Busy,
            "block" => Wait::Block,
            other => bail!("--wait {other}"),
        };
        let modes = match self.xdp_mode.as_str() {
            _ if self.tap => Modes::Best,
            "copy" => Modes::Copy,
            "packed" => Modes::Packed,
            other => bail!("--xdp-mode {other}"),
        };
        let mut builder = Capture::builder();
        builder = match self.timestamp.as_deref() {
            None => builder,
            Some("hardware") => builder.timestamp(Timestamp::Hardware),
            Some("kernel") => builder.timestamp(Timestamp::Kernel),
            Some("batch") => builder.timestamp(Timestamp::Batch),
            Some(other) => bail!("--timestamp {other}"),
        };
        if self.tap {
            // One for the streams of all CPUs.
            builder = builder.workers(1).tap_hook(match self.tap_hook.as_str() {
                "tcx" => TapHook::Tcx,
                "xdp" => TapHook::Xdp,
                other => bail!("--tap-hook {other}"),
            });
        }
        if let Some(filter) = &self.filter {
            builder = builder.filter(filter).unmatched(UnmatchedPolicy::Drop);
        }
        let builder = builder
            .port(port)
            .cells_per_chunk(self.cells_per_chunk)
            .chunks_per_pool(self.chunks_per_pool)
            .mode(mode)
            .dispatch(dispatch)
            .wait(wait)
            .modes(modes)
            .capture_cores(self.capture_cpu.into_iter().collect::<Vec<_>>());
        Ok(builder.open()?)
    }
}

/// What the workers report to the main thread.
#[derive(Debug)]
struct Activity {
    start: Instant,
    /// Microseconds from `start` to the last packet; 0 before the first. Workers write it, the main thread
    /// reads it.
    last_us: AtomicU64,
}

impl Activity {
    fn touch(&self, now: Instant) {
        let us = now.duration_since(self.start).as_micros() as u64;
        self.last_us.store(us.max(1), Ordering::Relaxed);
    }

    fn is_idle_for(&self, limit: Duration) -> bool {
        match self.last_us.load(Ordering::Relaxed) {
            0 => false,
            us => self.start.elapsed().saturating_sub(Duration::from_micros(us)) >= limit,
        }
    }
}

/// Runs the child that the command line of this program names. `None` if it names none.
pub fn of_command_line() -> Option<Result<()>> {
    let mut words = std::env::args().skip(1);
    match words.next()?.as_str() {
        COMMAND => Some(main(words)),
        xdp_count::COMMAND => Some(xdp_count::main(words)),
        _ => None,
    }
}

/// Runs the child, given the arguments after [`COMMAND`].
///
/// # Errors
/// If the capture cannot be opened.
pub fn main(arguments: impl Iterator<Item = String>) -> Result<()> {
    let arguments = Arguments::parse_from(std::iter::once(COMMAND.to_owned()).chain(arguments));
    if let Some(core) = arguments.cpu {
        // Before memory is allocated and threads start: they inherit the core.
        cpu::pin_to_core(core)?;
    }
    let signalled = end_flag()?;
    let is_pace_lifted = flag_of(&[SIGUSR1])?;
    let mut capture = arguments.open()?;
    let activity = Activity { start: Instant::now(), last_us: AtomicU64::new(0) };
    let workers = capture.take_workers();
    eprintln!("READY");
    let (tally, stopped_by) = thread::scope(|scope| {
        let handles: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let pace = arguments.pace.map(WorkerPace::new);
                scope.spawn(|| work(worker, pace, arguments.untouched, &is_pace_lifted, &activity))
            })
            .collect();
        let stopped_by = supervise(&arguments, &capture, &activity, &signalled);
        capture.stopper().stop();
        (Tally::merge(handles.into_iter().map(|handle| handle.join().expect("no worker panics"))), stopped_by)
    });
    print_result(&tally, stopped_by, &capture.finish());
    Ok(())
}

/// A flag that the signals set which end a child.
fn end_flag() -> Result<Arc<AtomicBool>> {
    flag_of(&[SIGINT, SIGTERM])
}

/// A flag that these signals set.
fn flag_of(signals: &[i32]) -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Waits for the end and prints reports until then. Returns the reason of the end.
fn supervise(
    arguments: &Arguments,
    capture: &Capture,
    activity: &Activity,
    signalled: &AtomicBool,
) -> &'static str {
    let mut next_report = arguments.report_ms.map(Duration::from_millis);
    loop {
        thread::sleep(TICK);
        if signalled.load(Ordering::Relaxed) {
            return "signal";
        }
        if activity.is_idle_for(Duration::from_millis(arguments.idle_ms)) {
            return "idle";
        }
        if let (Some(due), Some(every)) = (&mut next_report, arguments.report_ms) {
            if activity.start.elapsed() >= *due {
                *due += Duration::from_millis(every);
                println!("{}", json!({ "report": capture.report() }));
            }
        }
    }
}

/// One application thread. Once its pace is lifted, it takes what waits as fast as it can.
fn work(
    mut worker: Worker,
    mut pace: Option<WorkerPace>,
    untouched: bool,
    is_pace_lifted: &AtomicBool,
    activity: &Activity,
) -> Tally {
    let mut tally = Tally::default();
    let mut timeout = Duration::ZERO;
    loop {
        match worker.next_batch_within(timeout) {
            WaitOutcome::Batch(batch) => {
                let now = Instant::now();
                tally.begin(now);
                if !untouched {
                    read(&batch);
                }
                let mut done = now;
                if let Some(pace) = pace.as_mut().filter(|_| !is_pace_lifted.load(Ordering::Relaxed)) {
                    let finish = pace.take(batch.len(), now);
                    done = sleep_until(finish);
                    tally.latest_wake = tally.latest_wake.max(done.saturating_duration_since(finish));
                }
                tally.add(batch.len(), batch.bytes(), done);
                activity.touch(done);
                // Poll first: if no batch is ready, the worker has been idle.
                timeout = Duration::ZERO;
            }
            WaitOutcome::Idle => {
                if let Some(pace) = &mut pace {
                    pace.idle();
                }
                if !timeout.is_zero() {
                    tally.pause();
                }
                timeout = PAUSE;
            }
            WaitOutcome::Ended => return tally,
        }
    }
}

/// Reads one cache line of each packet.
fn read(batch: &Batch) {
    for packet in batch {
        black_box(packet.data()[0]);
    }
}

fn sleep_until(moment: Instant) -> Instant {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
    Instant::now()
}

fn print_result(tally: &Tally, stopped_by: &str, report: &Report) {
    let total = report.total();
    let mode = report.ports.first().and_then(|port| port.queues.first()).map(|queue| queue.mode);
    let dropped: serde_json::Map<_, _> =
        total.lost.causes().iter().map(|&(cause, packets)| (cause.into(), packets.into())).collect();
    let result = json!({
        "peer": "wirecap",
        "mode": mode,
        "buffer_bytes": report.memory.cells_bytes,
        "packets": tally.packets,
        "bytes": tally.bytes,
        "seconds": tally.seconds(),
        "cpu_seconds": tally.cpu_seconds(),
        "cpu_seconds_process": cpu_time::process_cpu_seconds(),
        "stopped_by": stopped_by,
        "left_in_ring": 0,
        "latest_wake_ms": tally.latest_wake.as_secs_f64() * 1e3,
        "unexplained": total.unexplained(),
        "dropped": dropped,
        "report": report,
    });
    println!("{result}");
}
