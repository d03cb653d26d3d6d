//! The search for the pools that are recommended.
//!
//! ```text
//!   the least R, by bisection ─► a quarter more ─► the next R that is lossless ─► how long a burst it outlasts
//!                                at least the default
//! ```

use anyhow::Result;
use wirecap_core::Mode;
use wirecap_sim::sizing::{Demand, max_chunks};

use super::{
    effort::Effort,
    flags::SizeFlags,
    report::{Pools, cells_of, default_chunks},
};

/// The thresholds that are tried, in percent; of two that need equally many chunks, the first is
/// chosen.
const THRESHOLDS: [u8; 5] = [60, 40, 80, 20, 90];

/// A number of chunks that is enough.
struct Chunks {
    mode: Mode,
    least: u32,
    recommended: u32,
}

pub(super) struct Search<'f> {
    flags: &'f SizeFlags,
    /// What is simulated.
    demand: Demand,
    /// The longest burst that is tried.
    tried_s: f64,
    effort: Effort,
}

impl<'f> Search<'f> {
    pub(super) fn new(flags: &'f SizeFlags, demand: Demand, tried_s: f64) -> Self {
        Self { flags, demand, tried_s, effort: Effort::new(flags.json) }
    }

    /// The pools of each mode that can do it.
    ///
    /// # Errors
    /// Wrong usage: M is not possible, or the simulations take too long.
    pub(super) fn pools(mut self) -> Result<Vec<Pools>> {
        let mut found = Vec::new();
        if self.flags.burst.is_some() || self.demand.group(1).workers_keep_up() {
            found.extend(self.chunks(Mode::Basic, u32::MAX)?);
        }
        let mut best: Option<Chunks> = None;
        for threshold_percent in THRESHOLDS.into_iter().filter(|_| self.flags.queues > 1) {
            let mode = Mode::Advanced { threshold_percent };
            let below = best.as_ref().map_or(u32::MAX, |best| best.recommended);
            if below <= self.default() {
                break;
            }
            best = self.chunks(mode, below)?.or(best);
        }
        found.extend(best);
        found.into_iter().map(|chunks| self.outlast(&chunks)).collect()
    }

    /// The chunks that this mode needs; `None` if they are not fewer than `below`.
    fn chunks(&mut self, mode: Mode, below: u32) -> Result<Option<Chunks>> {
        let (demand, cells, possible) =
            (seen_by(mode, &self.demand), self.flags.cells_per_chunk, self.possible());
        let most = possible.min(below - 1);
        let default = self.default();
        let step = &mut |work| self.effort.step(work);
        let Some(least) = demand.least_chunks(cells, mode, most, step)? else { return Ok(None) };
        let wanted = Demand::with_margin(least).max(default).min(possible);
        let safe = demand.safe_chunks(cells, mode, (wanted, most), step)?;
        Ok(safe.map(|recommended| Chunks { mode, least, recommended }))
    }

    /// How long bursts may last with these chunks.
    fn outlast(&mut self, chunks: &Chunks) -> Result<Pools> {
        let &Chunks { mode, least, recommended } = chunks;
        let (cells, tried_s) = (self.flags.cells_per_chunk, self.tried_s);
        let mut longest = |skew| {
            let demand = Demand { burst_s: tried_s, skew, ..self.demand };
            let step = &mut |work| self.effort.step(work);
            seen_by(mode, &demand).first_loss_s(cells, recommended, mode, step)
        };
        Ok(Pools {
            mode,
            cells_per_chunk: cells,
            least_chunks: least,
            chunks: recommended,
            longest_burst_s: longest(self.demand.skew)?,
            longest_in_one_queue_s: longest(self.demand.queues.into())?,
            tried_s,
        })
    }

    /// Chunks of the default pool; a long packet takes several cells.
    fn default(&self) -> u32 {
        (default_chunks(self.flags.cells_per_chunk) / cells_of(self.flags.packet)) as u32
    }

    /// The most chunks of a pool; a long packet takes several cells.
    fn possible(&self) -> u32 {
        max_chunks(self.flags.cells_per_chunk) / cells_of(self.flags.packet) as u32
    }
}

/// The traffic that matters. Without buddies, each queue is alone, and the busiest one needs most.
fn seen_by(mode: Mode, demand: &Demand) -> Demand {
    match mode {
        Mode::Basic => demand.group(1),
        Mode::Advanced { .. } => *demand,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::flags::parsed, *};

    fn pools(arguments: &str) -> Vec<Pools> {
        let flags = parsed(arguments);
        let demand = flags.demand();
        Search::new(&flags, demand, 4.0 * demand.burst_s).pools().unwrap()
    }

    #[test]
    fn what_is_recommended_outlasts_the_burst() {
        for (traffic, burst_s) in [
            (
                "--queues 6 --skew 3.3 --rate 1330910pps --worker 215558 --burst 5ms -M 64 --dispatch push",
                0.005,
            ),
            ("--queues 8 --skew 5.52 --rate 244066pps --worker 44228 --burst 30ms", 0.03),
            ("--queues 8 --skew 3 --rate 3900kpps --worker 400k --burst 50ms", 0.05),
            ("--rate 148.8Mpps --burst 1ms --worker 10Mpps --dispatch push", 0.001),
        ] {
            for pools in pools(traffic) {
                assert!(pools.longest_burst_s.is_none_or(|longest_s| longest_s >= burst_s), "{pools:?}");
            }
        }
    }

    #[test]
    fn no_pool_is_smaller_than_the_default_one() {
        let traffic = "--queues 4 --rate 200kpps --burst 100ms --worker 60k --skew 3";
        for (more, chunks) in [("-M 64", 512), ("-M 16384", 5), ("-M 256", 128), ("-M 256 --packet 9022", 21)]
        {
            let pools = pools(&format!("{traffic} {more}"));
            assert_eq!(pools.last().map(|pools| pools.chunks), Some(chunks), "{more}: {pools:?}");
        }
    }
}
