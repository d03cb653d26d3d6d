//! Engines in which the ring is the buffer (Type II of the paper): a packet lies in the ring until the
//! application is done with it.
//!
//! They differ by when a place of the ring is free again. With DNA each packet frees its own once it is
//! handled. With NETMAP the application takes all that is there, and its next system call (NIOCRXSYNC) frees
//! all of them together.

use crate::{
    SECOND_NS,
    outcome::{Outcome, QueueOutcome},
    traffic::{Arrivals, Run, Traffic},
};

/// When places are free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// One by one: DNA.
    Each,
    /// All that were taken together: NETMAP.
    Batch,
}

/// Such an engine, with one handler for each queue.
#[derive(Debug, Clone, Copy)]
pub struct RingEngine {
    /// Descriptors of each ring.
    pub ring: u64,
    /// When they are free again.
    pub release: Release,
    /// Packets per second that a handler can handle.
    pub pace_pps: f64,
}

impl RingEngine {
    /// Runs it.
    pub fn run(&self, traffic: &Traffic) -> Outcome {
        Outcome::of_separate(traffic, |runs| self.run_queue(runs))
    }

    fn run_queue(&self, runs: &[Run]) -> QueueOutcome {
        let mut arrivals = Arrivals::new(runs);
        let mut outcome = QueueOutcome::default();
        let pace_ns = SECOND_NS as f64 / self.pace_pps;
        // Packets in the ring that are not taken, and the batch that is handled, with the time of its end.
        let (mut waiting, mut batch) = (0, 0);
        let mut now_ns = 0.0;
        loop {
            if batch == 0 && waiting == 0 {
                let Some(next_ns) = arrivals.time_ns(0) else { break };
                now_ns = next_ns.max(now_ns);
                self.arrive(&mut arrivals, now_ns, &mut waiting, batch, &mut outcome);
            }
            batch = match self.release {
                Release::Each => 1,
                Release::Batch => waiting,
            };
            waiting -= batch;
            now_ns += batch as f64 * pace_ns;
            // A place is free at the end of its packet or batch: not for what came before.
            self.arrive(&mut arrivals, now_ns, &mut waiting, batch, &mut outcome);
            outcome.handled += batch;
            batch = 0;
        }
        outcome
    }

    fn arrive(
        &self,
        arrivals: &mut Arrivals<'_>,
        until_ns: f64,
        waiting: &mut u64,
        batch: u64,
        outcome: &mut QueueOutcome,
    ) {
        let come = arrivals.take(until_ns, u64::MAX);
        let room = self.ring - batch - *waiting;
        let captured = come.min(room);
        *waiting += captured;
        outcome.offered += come;
        outcome.not_captured += come - captured;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HANDLER_PPS, WIRE_RATE_PPS, closed_form, traffic::Phase};

    fn dna(ring: u64, pace_pps: f64) -> RingEngine {
        RingEngine { ring, release: Release::Each, pace_pps }
    }

    #[test]
    fn a_burst_loses_what_arithmetic_says() {
        for packets in [500, 1_000, 1_100, 6_000, 100_000] {
            let outcome = dna(1_024, HANDLER_PPS).run(&Traffic::burst(packets, WIRE_RATE_PPS)).total();
            let expected = closed_form::burst_loss(packets, WIRE_RATE_PPS, HANDLER_PPS, 1_024);
            assert_eq!(outcome.offered, packets);
            assert_eq!(outcome.handled + outcome.lost(), packets);
            assert!(
                (outcome.lost() as f64 - expected).abs() <= 1.0,
                "{packets}: {} {expected}",
                outcome.lost()
            );
        }
    }

    #[test]
    fn random_packets_are_lost_as_in_a_queue_with_constant_times() {
        for (load, places) in [(0.8, 4), (0.95, 8), (1.5, 16)] {
            let traffic = Traffic::poisson(load * 1e6, 400_000, 7);
            let outcome = dna(places as u64, 1e6).run(&traffic).total();
            let (share, expected) = (outcome.lost_percent() / 100.0, closed_form::mdk_loss(load, places));
            assert!((share - expected).abs() < 0.05 * expected, "{load} {places}: {share} {expected}");
        }
    }

    #[test]
    fn what_is_freed_in_batches_loses_more() {
        let traffic = Traffic::bursty(&[vec![Phase { from_s: 0.0, until_s: 10.0, pps: 20_000.0 }]], 200.0, 3);
        let each = dna(1_024, HANDLER_PPS).run(&traffic).total().lost();
        let batch =
            RingEngine { release: Release::Batch, ..dna(1_024, HANDLER_PPS) }.run(&traffic).total().lost();
        assert!(each < batch, "{each} {batch}");
    }
}
