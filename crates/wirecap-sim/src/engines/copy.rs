//! An engine that copies (Type I of the paper: PF_RING): the kernel copies each packet from the NIC's ring
//! into a larger buffer, on the core of the handler and before it.

use crate::{
    SECOND_NS,
    outcome::{Outcome, QueueOutcome},
    traffic::{Arrivals, Run, Traffic},
};

/// Such an engine, with one handler for each queue.
#[derive(Debug, Clone, Copy)]
pub struct CopyEngine {
    /// Descriptors of the NIC's ring.
    pub ring: u64,
    /// Packets that the buffer holds: `pf_ring`.
    pub buffer: u64,
    /// The kernel's time for each packet, which the handler cannot use: interrupt, NAPI, copy.
    pub copy_ns: f64,
    /// Packets per second that a handler can handle on a core of its own.
    pub pace_pps: f64,
}

impl CopyEngine {
    /// Runs it.
    pub fn run(&self, traffic: &Traffic) -> Outcome {
        Outcome::of_separate(traffic, |runs| self.run_queue(runs))
    }

    /// One packet at a time: the kernel has the core first, so a packet that comes while the handler works
    /// delays it by the time of a copy.
    fn run_queue(&self, runs: &[Run]) -> QueueOutcome {
        let mut arrivals = Arrivals::new(runs);
        let mut outcome = QueueOutcome::default();
        let pace_ns = SECOND_NS as f64 / self.pace_pps;
        // Packets in the buffer, all of which the kernel has copied before the handler has the core.
        let mut waiting = 0;
        // When the kernel is done with all it has, and what the handler still has to do for its packet.
        let (mut kernel_ns, mut left_ns, mut now_ns) = (0.0_f64, 0.0_f64, 0.0_f64);
        let mut in_hand = false;
        loop {
            let next_ns = arrivals.time_ns(0).unwrap_or(f64::INFINITY);
            // The handler works from when the kernel is done until the next packet comes.
            let mut from_ns = kernel_ns.max(now_ns);
            while from_ns < next_ns {
                if !in_hand {
                    if waiting == 0 {
                        break;
                    }
                    waiting -= 1;
                    (in_hand, left_ns) = (true, pace_ns);
                }
                let done_ns = from_ns + left_ns;
                if done_ns > next_ns {
                    left_ns = done_ns - next_ns;
                    break;
                }
                (in_hand, from_ns) = (false, done_ns);
                outcome.handled += 1;
            }
            now_ns = next_ns;
            if next_ns.is_infinite() {
                break;
            }
            arrivals.take(next_ns, 1);
            outcome.offered += 1;
            // Packets that the kernel has not copied lie in the ring.
            let in_ring = ((kernel_ns - next_ns).max(0.0) / self.copy_ns).ceil() as u64;
            if in_ring >= self.ring {
                outcome.not_captured += 1;
                continue;
            }
            kernel_ns = kernel_ns.max(next_ns) + self.copy_ns;
            if waiting + u64::from(in_hand) >= self.buffer {
                outcome.not_delivered += 1;
            } else {
                waiting += 1;
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HANDLER_PPS, WIRE_RATE_PPS};

    const ENGINE: CopyEngine =
        CopyEngine { ring: 1_024, buffer: 10_240, copy_ns: 1_000.0, pace_pps: HANDLER_PPS };

    #[test]
    fn what_the_kernel_takes_of_the_core_the_handler_lacks() {
        let outcome = ENGINE.run(&Traffic::steady(&[80_000.0], 60.0)).total();
        assert_eq!(outcome.handled + outcome.lost(), outcome.offered);
        assert_eq!(outcome.not_captured, 0);
        // The core has 920 ms of a second left for the handler.
        let expected = 100.0 * (1.0 - HANDLER_PPS * 0.92 / 80_000.0);
        assert!((outcome.lost_percent() - expected).abs() < 0.7, "{} {expected}", outcome.lost_percent());
    }

    #[test]
    fn a_burst_loses_what_ring_and_buffer_do_not_hold() {
        for packets in [1_000, 2_000, 100_000, 1_000_000] {
            let outcome = ENGINE.run(&Traffic::burst(packets, WIRE_RATE_PPS)).total();
            let copied = packets as f64 / WIRE_RATE_PPS * 1e9 / ENGINE.copy_ns;
            let captured = (packets as f64).min(ENGINE.ring as f64 + copied);
            let lost = packets as f64 - captured.min(ENGINE.buffer as f64);
            assert!((outcome.lost() as f64 - lost).abs() <= 2.0, "{packets}: {outcome:?} {lost}");
        }
    }

    #[test]
    fn a_kernel_that_needs_all_of_the_core_leaves_nothing_to_the_handler() {
        let outcome = ENGINE.run(&Traffic::steady(&[2e6], 1.0)).total();
        // Livelock: half is lost before the copy, and hardly any packet is handled.
        assert!((outcome.not_captured as f64 / outcome.offered as f64 - 0.5).abs() < 0.01, "{outcome:?}");
        assert_eq!(outcome.handled, ENGINE.buffer, "what the buffer holds, after the end");
        assert_eq!(outcome.handled + outcome.lost(), outcome.offered);
    }
}
