//! `wirecap size`: how large pools have to be for some traffic, by simulation.
//!
//! ```text
//!   flags ─► Demand ─► search: the least R of each mode, by wirecap-sim, the engine core in virtual time ─► report
//! ```
//!
//! Rule: what is printed says that it is simulated, and what the simulation leaves out.

mod effort;
pub(crate) mod flags;
pub(crate) mod report;
mod search;
mod values;

use std::time::SystemTime;

use anyhow::{Result, ensure};
use wirecap_core::geometry::MIN_CELLS_PER_CHUNK_MULTI_BUFFER;
use wirecap_sim::sizing::{Demand, MAX_PACKETS};

use self::{
    flags::SizeFlags,
    report::{SizeReport, cells_of, time},
    search::Search,
};
use crate::{
    exit::Exit,
    print::{head::Head, printable::json, stdio::print_stdout},
};

/// The most steps of a simulation: a look at each queue for each chunk.
const MAX_STEPS: f64 = 4e7;
/// The most packets of a rate that lasts that are simulated.
const LASTING_PACKETS: f64 = 5e6;
/// The longest burst that is tried, as a multiple of the given one.
const LONGER: f64 = 16.0;

/// Simulates, and prints what is needed.
///
/// # Errors
/// Wrong usage; standard output is closed.
pub(crate) fn run(flags: &SizeFlags) -> Result<Exit> {
    let demand = flags.demand();
    check(flags, &demand)?;
    let longest_s = longest_s(flags, &demand);
    let simulated_s = match flags.burst {
        Some(_) => demand.burst_s,
        None => demand.burst_s.min(longest_s / LONGER).min(LASTING_PACKETS / demand.total_pps),
    };
    let simulated = Demand { burst_s: simulated_s, ..demand };
    let report = SizeReport {
        head: Head::new("size", SystemTime::now()),
        demand,
        packet: flags.packet,
        cells_per_chunk: flags.cells_per_chunk,
        dispatch: flags.dispatch(),
        simulated_s,
        lasts: flags.burst.is_none(),
        pools: match is_possible(flags, &demand) {
            true => Search::new(flags, simulated, longest_s.min(LONGER * simulated_s)).pools()?,
            false => Vec::new(),
        },
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
    ensure!(
        cells_of(flags.packet) == 1 || flags.cells_per_chunk >= MIN_CELLS_PER_CHUNK_MULTI_BUFFER,
        usage!(
            "-M {}: packets of {} bytes take several cells, for which a chunk has at least {least}; write -M {least}",
            flags.cells_per_chunk,
            flags.packet,
            least = MIN_CELLS_PER_CHUNK_MULTI_BUFFER
        )
    );
    let longest_s = longest_s(flags, demand);
    ensure!(
        flags.burst.is_none_or(|burst| burst.as_secs_f64() <= longest_s),
        usage!(
            "--burst: at this rate, at most {} can be simulated; leave --burst out for a rate that lasts, or raise -M",
            time(longest_s)
        )
    );
    Ok(())
}

/// Whether pools of some size suffice: not if packets come faster than workers keep up with, without an end.
fn is_possible(flags: &SizeFlags, demand: &Demand) -> bool {
    flags.burst.is_some() || demand.workers_keep_up()
}

/// The longest time of such packets that is simulated in some seconds.
fn longest_s(flags: &SizeFlags, demand: &Demand) -> f64 {
    let steps = MAX_STEPS * f64::from(flags.cells_per_chunk) / f64::from(flags.queues);
    steps.min(MAX_PACKETS) / demand.total_pps
}

#[cfg(test)]
mod tests {
    use super::{flags::parsed, *};
    use crate::exit::code_of;

    #[test]
    fn chunks_hold_the_longest_packet_that_takes_several_cells() {
        let checked = |arguments: &str| {
            let flags = parsed(&format!("--rate 1Mpps --worker 2Mpps {arguments}"));
            check(&flags, &flags.demand())
        };
        for fine in ["--packet 9022 -M 64", "--packet 1518 -M 1"] {
            checked(fine).unwrap();
        }
        let error = checked("--packet 9022 -M 32").unwrap_err();
        assert!(error.to_string().ends_with("write -M 64") && code_of(&error) == Exit::Usage, "{error}");
    }
}
