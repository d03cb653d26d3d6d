//! `wirecap size`: how large pools have to be for some traffic, by simulation.
//!
//! ```text
//!   flags ─► Demand ─► wirecap-sim: the engine core in virtual time ─► the least R of each mode ─► report
//! ```
//!
//! Rule: what is printed says that it is simulated, and what the simulation leaves out.

pub(crate) mod flags;
pub(crate) mod report;
mod values;

use std::time::SystemTime;

use anyhow::{Result, ensure};
use wirecap_core::{GeometryError, Mode};
use wirecap_sim::sizing::{Demand, MAX_PACKETS, max_chunks};

use self::{
    flags::SizeFlags,
    report::{Pools, SizeReport, cells_of},
};
use crate::{
    exit::Exit,
    print::{head::Head, printable::json, stdio::print_stdout},
};

/// The thresholds that are tried, in percent; of two that need equally many chunks, the first is
/// chosen.
const THRESHOLDS: [u8; 5] = [60, 40, 80, 20, 90];
/// The most steps of a simulation: a look at each queue for each chunk.
const MAX_STEPS: f64 = 4e7;
/// The longest burst that is tried, as a multiple of the given one.
const LONGER: f64 = 16.0;

/// Simulates, and prints what is needed.
///
/// # Errors
/// Wrong usage; standard output is closed.
pub(crate) fn run(flags: &SizeFlags) -> Result<Exit> {
    let demand = flags.demand();
    check(flags, &demand)?;
    let report = SizeReport {
        head: Head::new("size", SystemTime::now()),
        demand,
        packet: flags.packet,
        cells_per_chunk: flags.cells_per_chunk,
        dispatch: flags.dispatch(),
        simulated_s: demand.burst_s.min(longest_s(flags, &demand)),
        lasts: flags.burst.is_none(),
        pools: if is_possible(flags, &demand) { pools(flags, &demand)? } else { Vec::new() },
    };
    print_stdout("the sizes", &if flags.json { json(&report.record()) } else { report.to_string() })?;
    Ok(if report.pools.is_empty() { Exit::Failed } else { Exit::Fine })
}

fn check(flags: &SizeFlags, demand: &Demand) -> Result<()> {
    ensure!(
        flags.skew <= f64::from(flags.queues),
        usage!(
            "--skew {}: the busiest of {queues} queues gets at most {queues} times the mean, which is all packets",
            flags.skew,
            queues = flags.queues
        )
    );
    ensure!(
        flags.cells_per_chunk.is_power_of_two(),
        usage!(
            "-M {}: write a power of two, like -M {}",
            flags.cells_per_chunk,
            flags.cells_per_chunk.next_power_of_two()
        )
    );
    let longest_s = longest_s(flags, demand);
    ensure!(
        flags.burst.is_none_or(|burst| burst.as_secs_f64() <= longest_s),
        usage!(
            "--burst: at this rate, at most {longest_s:.3} s can be simulated; leave --burst out for a rate that lasts, or raise -M"
        )
    );
    Ok(())
}

/// Whether pools of some size suffice: not if packets come faster than they are handled, without an end.
fn is_possible(flags: &SizeFlags, demand: &Demand) -> bool {
    flags.burst.is_some() || demand.total_pps <= demand.capacity_pps()
}

/// The pools of each mode that can do it.
fn pools(flags: &SizeFlags, demand: &Demand) -> Result<Vec<Pools>> {
    // A rate that lasts is simulated for a while, shorter if it is high.
    let longest_s = longest_s(flags, demand);
    let demand = &Demand { burst_s: demand.burst_s.min(longest_s), ..*demand };
    // A long packet takes several cells.
    let possible = max_chunks(flags.cells_per_chunk) / cells_of(flags.packet) as u32;
    let least = |mode| {
        let least = demand.least_chunks(flags.cells_per_chunk, mode)?;
        Ok::<_, GeometryError>(least.filter(|chunks| *chunks <= possible))
    };
    let mut found = Vec::new();
    if flags.burst.is_some() || demand.busiest_pps() <= demand.pace_pps {
        found.extend(least(Mode::Basic)?.map(|chunks| (Mode::Basic, chunks)));
    }
    let mut best: Option<(Mode, u32)> = None;
    for threshold_percent in THRESHOLDS.into_iter().filter(|_| flags.queues > 1) {
        let mode = Mode::Advanced { threshold_percent };
        if let Some(chunks) = least(mode)?.filter(|chunks| best.is_none_or(|(_, least)| *chunks < least)) {
            best = Some((mode, chunks));
        }
    }
    found.extend(best);
    let pools = |(mode, least_chunks)| {
        let chunks = Demand::with_margin(least_chunks).min(possible);
        let tried_s = (LONGER * demand.burst_s).min(longest_s);
        let longest = |demand: &Demand| demand.longest_burst_s(flags.cells_per_chunk, chunks, mode, tried_s);
        let one_queue = Demand { skew: demand.queues.into(), ..*demand };
        Ok(Pools {
            mode,
            cells_per_chunk: flags.cells_per_chunk,
            least_chunks,
            chunks,
            longest_burst_s: longest(demand)?,
            longest_in_one_queue_s: longest(&one_queue)?,
            tried_s,
        })
    };
    found.into_iter().map(pools).collect()
}

/// The longest time of such packets that is simulated in some seconds.
fn longest_s(flags: &SizeFlags, demand: &Demand) -> f64 {
    let steps = MAX_STEPS * f64::from(flags.cells_per_chunk) / f64::from(flags.queues);
    steps.min(MAX_PACKETS) / demand.total_pps
}
