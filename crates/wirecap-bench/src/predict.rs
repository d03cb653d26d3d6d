//! Losses predicted by arithmetic, before any measurement.
//!
//! ```text
//!   cells in use
//!   R·M ┤· · · · · · · · · ·╱▔▔▔▔▔▔▔▔▔▔▔  from here on, packets beyond the pace are lost
//!       │              ╱╲╱
//!       │        ╱╲╱            each ╲ is a chunk that comes home: M cells every M / pace seconds
//!       │  ╱╲╱
//!       └──────────────────────────────── time, arrivals at a constant rate
//! ```
//!
//! Rule: plain functions of sizes and rates; the only measured input is the offered rate.

/// A pool and the worker that empties it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drain {
    /// M: the number of cells that come home at a time.
    pub cells_per_chunk: u64,
    /// R × M.
    pub cells_per_pool: u64,
    /// The worker's pace in packets per second.
    pub pace_pps: f64,
}

impl Drain {
    /// Cells that have come home `seconds` after the first packet.
    fn home_after(&self, seconds: f64) -> u64 {
        let chunks = (self.pace_pps * seconds / self.cells_per_chunk as f64).floor();
        chunks as u64 * self.cells_per_chunk
    }

    /// Packets lost of a burst of `packets` that arrives within `seconds`: those for which neither the pool
    /// nor the cells that come home in that time have room.
    pub fn burst_loss(&self, packets: u64, seconds: f64) -> u64 {
        packets.saturating_sub(self.cells_per_pool + self.home_after(seconds))
    }

    /// The largest burst without loss when packets arrive at `arrival_pps`: the paper's P_m · R · M / (P_m −
    /// P_p), reduced because cells come home a chunk at a time. `None` if the worker keeps up.
    pub fn largest_burst(&self, arrival_pps: f64) -> Option<u64> {
        if arrival_pps <= self.pace_pps {
            return None;
        }
        let seconds_per_chunk = self.cells_per_chunk as f64 / self.pace_pps;
        (0..).find_map(|chunks: u64| {
            let arrived = arrival_pps * seconds_per_chunk * (chunks + 1) as f64;
            let room = self.cells_per_pool + chunks * self.cells_per_chunk;
            // Just before the next chunk is home, more packets have arrived than there is room for.
            (arrived > room as f64).then_some(room)
        })
    }

    /// Packets lost of traffic at a constant rate within `seconds`: the excess over the pace, less the pool.
    pub fn overload_loss(&self, arrival_pps: f64, seconds: f64) -> u64 {
        self.burst_loss((arrival_pps * seconds) as u64, seconds)
    }
}

/// The difference between a loss and its prediction, in percent of the prediction, or of `offered` if the
/// prediction is 0.
pub fn difference_percent(lost: u64, predicted: u64, offered: u64) -> f64 {
    let base = if predicted == 0 { offered } else { predicted };
    if base == 0 { 0.0 } else { 100.0 * (lost as f64 - predicted as f64) / base as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirecap_core::Geometry;

    const PACE: f64 = 38_844.0;

    fn drain(cells_per_chunk: u64, chunks: u64) -> Drain {
        Drain { cells_per_chunk, cells_per_pool: cells_per_chunk * chunks, pace_pps: PACE }
    }

    #[test]
    fn burst_loss_matches_figure_9_of_the_paper() {
        // 100,000 packets at 14.88 Mpps: B-(256, 500) loses none, B-(256, 100) about 71 to 74 percent.
        let seconds = 100_000.0 / 14_880_000.0;
        assert_eq!(drain(256, 500).burst_loss(100_000, seconds), 0);
        assert_eq!(drain(256, 100).burst_loss(100_000, seconds), 100_000 - 25_600 - 256);
        assert_eq!(drain(64, 100).burst_loss(100_000, seconds), 100_000 - 6_400 - 4 * 64);
    }

    #[test]
    fn the_largest_burst_is_at_most_two_chunks_below_the_paper_s() {
        for (cells_per_chunk, chunks) in [(64, 100), (256, 100), (128, 200)] {
            let arrival = 2.0 * PACE;
            let ours = drain(cells_per_chunk, chunks).largest_burst(arrival).unwrap() as f64;
            let geometry = Geometry::new(cells_per_chunk as u32, chunks as u32, 2048).unwrap();
            let paper = geometry.largest_burst(arrival, PACE).unwrap();
            assert!(ours <= paper && ours >= paper - 2.0 * cells_per_chunk as f64, "{ours}, {paper}");
        }
        assert_eq!(drain(64, 4).largest_burst(PACE), None);
    }

    #[test]
    fn the_largest_burst_has_no_predicted_loss() {
        let drain = drain(256, 100);
        let arrival = 100_000.0;
        let burst = drain.largest_burst(arrival).unwrap();
        assert_eq!(drain.burst_loss(burst, burst as f64 / arrival), 0);
        assert!(drain.burst_loss(burst + 600, (burst + 600) as f64 / arrival) > 0);
    }

    #[test]
    fn overload_loses_the_excess_less_the_pool() {
        let drain = Drain { cells_per_chunk: 256, cells_per_pool: 25_600, pace_pps: PACE };
        let expected = (80_000.0 - PACE) * 30.0 - 25_600.0;
        let lost = drain.overload_loss(80_000.0, 30.0) as f64;
        assert!((lost - expected).abs() <= 256.0, "{lost}, {expected}");
    }

    #[test]
    fn a_difference_is_relative_to_the_prediction_or_to_the_traffic() {
        assert_eq!(difference_percent(102, 100, 1000), 2.0);
        assert_eq!(difference_percent(10, 0, 1000), 1.0);
        assert_eq!(difference_percent(0, 0, 0), 0.0);
    }
}
