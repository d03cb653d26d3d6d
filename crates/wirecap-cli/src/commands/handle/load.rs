//! What each packet costs: a filter that runs a number of times, or a share of a second.
//!
//! ```text
//!   -x 300 ─► for each packet: the filter 300 times, interpreted ─► matches, counted     burns CPU time
//!   --pace ─► for each batch: sleep until a worker of that pace would have finished it   takes none
//! ```
//!
//! Rule: the result of each run is used, so that the compiler leaves none out.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use wirecap::{Batch, Report};
use wirecap_file::MAX_CAPTURED_LEN;
use wirecap_filter::{Filter, NativeFilter, Program, shortened};
use wirecap_traffic::WorkerPace;

/// How often a worker that sleeps checks whether a signal gives its packets up.
const GLANCE: Duration = Duration::from_millis(50);

/// What the flags ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoadRequest {
    /// Runs of a filter for each packet.
    Filter(FilterRuns),
    /// Packets per second of each thread.
    Pace(u64),
}

/// A filter that is applied several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilterRuns {
    pub(super) expression: String,
    pub(super) runs: u64,
    /// Whether machine code was asked for.
    pub(super) native: bool,
}

/// Compiles a filter, which has to be answered from the bytes of a packet.
///
/// # Errors
/// It means nothing for the link type; [`Usage`](crate::exit::Usage) that names what is not in the bytes.
pub(super) fn compile(expression: &str, link_type: u16) -> Result<Filter> {
    let filter = Filter::compile(expression, link_type, MAX_CAPTURED_LEN).map_err(wirecap::Error::Filter)?;
    ensure!(
        !filter.asks_for_origin(),
        usage!(
            "--apply {}: inbound, outbound and ifindex are not in the bytes of a packet; leave them out",
            shortened(filter.expression())
        )
    );
    Ok(filter)
}

/// The load of one worker.
#[derive(Debug)]
pub(super) enum Load {
    /// None: packets are not even read.
    Nothing,
    Filter(Arc<Filters>),
    Pace(WorkerPace),
}

/// What a worker did with a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Handled {
    /// Packets that the filter matched.
    pub(super) matched: u64,
    /// How much later than a worker of the pace it was done.
    pub(super) late: Duration,
}

impl Load {
    /// Handles a batch that came at `now`. `None` if `give_up` was set before it was done.
    pub(super) fn handle(&mut self, batch: &Batch, now: Instant, give_up: &AtomicBool) -> Option<Handled> {
        match self {
            Self::Nothing => Some(Handled::default()),
            Self::Filter(filters) => {
                let matched = filters.apply(batch, give_up)?;
                Some(Handled { matched, ..Handled::default() })
            }
            Self::Pace(pace) => {
                let finish = pace.take(batch.len(), now);
                let done = sleep_until(finish, give_up)?;
                Some(Handled { late: done.saturating_duration_since(finish), ..Handled::default() })
            }
        }
    }

    /// Notes that no packet waits.
    pub(super) fn idle(&mut self) {
        if let Self::Pace(pace) = self {
            pace.idle();
        }
    }
}

/// Sleeps until `moment`, and returns the time then; `None` if `give_up` is set before it.
fn sleep_until(moment: Instant, give_up: &AtomicBool) -> Option<Instant> {
    loop {
        let now = Instant::now();
        let left = moment.saturating_duration_since(now);
        if left.is_zero() {
            return Some(now);
        }
        if give_up.load(Ordering::Relaxed) {
            return None;
        }
        thread::sleep(left.min(GLANCE));
    }
}

/// The filter for the packets of each port.
#[derive(Debug)]
pub(super) struct Filters {
    /// By port; ports of the same link type share theirs.
    runners: Vec<Arc<Runner>>,
    runs: u64,
}

/// What runs a filter.
#[derive(Debug)]
enum Runner {
    Interpreter(Program),
    Native(NativeFilter),
}

impl Filters {
    /// Compiles the filter for the link types of the ports. Also returns why it is interpreted although
    /// machine code was asked for, if it is.
    ///
    /// # Errors
    /// The filter means nothing for one of the link types.
    pub(super) fn new(
        request: &FilterRuns,
        report: &Report,
    ) -> Result<(Self, Option<wirecap_filter::Error>)> {
        let mut known: Vec<(u16, Arc<Runner>)> = Vec::new();
        let mut interpreted = None;
        let mut runners = Vec::new();
        for port in &report.ports {
            let link_type = port.link_type;
            if !known.iter().any(|(other, _)| *other == link_type) {
                let filter = compile(&request.expression, link_type)?;
                let native = request.native.then(|| NativeFilter::new(filter.program())).transpose();
                let runner = match native {
                    Ok(Some(native)) => Runner::Native(native),
                    Ok(None) => Runner::Interpreter(filter.program().clone()),
                    Err(reason) => {
                        interpreted = Some(reason);
                        Runner::Interpreter(filter.program().clone())
                    }
                };
                known.push((link_type, Arc::new(runner)));
            }
            let of_type = known.iter().find(|(other, _)| *other == link_type);
            runners.extend(of_type.map(|(_, runner)| Arc::clone(runner)));
        }
        Ok((Self { runners, runs: request.runs }, interpreted))
    }

    /// Whether the filter runs as machine code, for every port.
    pub(super) fn are_native(&self) -> bool {
        self.runners.iter().all(|runner| matches!(**runner, Runner::Native(_)))
    }

    /// How many packets of a batch match; `None` if `give_up` was set before all runs were made.
    fn apply(&self, batch: &Batch, give_up: &AtomicBool) -> Option<u64> {
        let (runner, runs) = (&*self.runners[batch.port()], self.runs);
        let (mut matched, mut whole) = (0, Vec::new());
        for packet in batch {
            let bytes = packet.contiguous(&mut whole);
            let mut matches = 0;
            for done in (0..runs).step_by(PIECE) {
                if give_up.load(Ordering::Relaxed) {
                    return None;
                }
                let piece = (runs - done).min(PIECE as u64);
                matches += runner.matches(bytes, packet.original_len() as u32, piece);
            }
            matched += u64::from(matches == runs);
        }
        Some(matched)
    }
}

impl Runner {
    /// In how many of `runs` runs a packet matches: in all or in none.
    fn matches(&self, packet: &[u8], len: u32, runs: u64) -> u64 {
        match self {
            Self::Interpreter(program) => repeat(runs, packet, |packet| program.run(packet, len)),
            Self::Native(native) => repeat(runs, packet, |packet| native.matches(packet, len)),
        }
    }
}

/// Runs between two looks at whether they are given up: some milliseconds.
const PIECE: usize = 1 << 16;

/// How many of `runs` runs want the packet. The compiler has to take it for another one each time.
fn repeat(runs: u64, packet: &[u8], run: impl Fn(&[u8]) -> u32) -> u64 {
    (0..runs).map(|_| u64::from(run(black_box(packet)) != 0)).sum()
}

#[cfg(test)]
mod tests {
    use wirecap::{Capture, port::null::NullPort};

    use super::*;

    fn report() -> Report {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
        Capture::builder().port(port).chunks_per_pool(4).open().unwrap().report()
    }

    fn filters(expression: &str, runs: u64, native: bool) -> Filters {
        Filters::new(&FilterRuns { expression: expression.into(), runs, native }, &report()).unwrap().0
    }

    /// A UDP packet from this address.
    fn udp_from(source: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; 60];
        packet[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        packet[23] = 17;
        packet[26..30].copy_from_slice(&source);
        packet
    }

    #[test]
    fn a_packet_matches_in_all_runs_or_in_none() {
        for native in [false, true] {
            let filters = filters("net 131.225.2 and udp", 300, native);
            assert_eq!(filters.are_native(), native && cfg!(target_arch = "x86_64"));
            let matches = |packet: &[u8]| filters.runners[0].matches(packet, 60, 300);
            let (of_net, other) = (udp_from([131, 225, 2, 7]), udp_from([131, 225, 3, 7]));
            assert_eq!((matches(&of_net), matches(&other)), (300, 0), "native: {native}");
        }
    }

    #[test]
    fn the_direction_of_a_packet_is_refused() {
        let request = FilterRuns { expression: "inbound".into(), runs: 1, native: false };
        let refused = Filters::new(&request, &report()).unwrap_err();
        assert!(refused.is::<crate::exit::Usage>() && refused.to_string().contains("--apply inbound"));
    }

    #[test]
    fn a_sleep_ends_when_it_is_given_up() {
        let far = Instant::now() + Duration::from_secs(3_600);
        assert_eq!(sleep_until(far, &AtomicBool::new(true)), None);
        let near = Instant::now() + Duration::from_millis(3);
        assert!(sleep_until(near, &AtomicBool::new(false)).is_some_and(|woken| woken >= near));
    }
}
