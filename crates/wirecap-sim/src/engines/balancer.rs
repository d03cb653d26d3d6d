//! DPDK with a balancer: one core polls the rings of all queues and gives each packet to the handler that
//! is free first.
//!
//! ```text
//!   ring 0 ──┐                        ┌─► handler
//!   ring 1 ──┼─► balancer (one core) ─┼─► handler      buffers: one pool, as much memory as WireCAP's pools
//!   ring 2 ──┘                        └─► handler
//! ```
//!
//! Rule: a packet has its buffer from its arrival until it is handled. The handlers' queues are unlimited
//! otherwise, and flows are not kept together: the best that a balancer can do.

use std::collections::VecDeque;

use crate::{
    SECOND_NS,
    outcome::{Outcome, QueueOutcome},
    traffic::{Arrivals, Traffic},
};

/// Such an engine.
#[derive(Debug, Clone, Copy)]
pub struct BalancerEngine {
    /// Descriptors of each ring.
    pub ring: usize,
    /// Buffers of all queues together.
    pub buffers: usize,
    /// Handlers; the balancer is not one of them. At least one.
    pub handlers: usize,
    /// Packets per second that the balancer moves.
    pub balancer_pps: f64,
    /// Packets per second that a handler handles.
    pub pace_pps: f64,
}

impl BalancerEngine {
    /// Runs it.
    pub fn run(&self, traffic: &Traffic) -> Outcome {
        let mut arrivals: Vec<_> = traffic.queues.iter().map(|runs| Arrivals::new(runs)).collect();
        let next_ns = |arrivals: &Arrivals<'_>| arrivals.time_ns(0).unwrap_or(f64::INFINITY);
        let mut next: Vec<_> = arrivals.iter().map(next_ns).collect();
        let mut queues = vec![QueueOutcome::default(); next.len()];
        let (move_ns, pace_ns) = (SECOND_NS as f64 / self.balancer_pps, SECOND_NS as f64 / self.pace_pps);
        // When the packets of each ring are moved, and those of all handlers handled, both in order: times
        // that have passed are removed with the next packet.
        let mut rings = vec![VecDeque::new(); next.len()];
        let mut handled: VecDeque<f64> = VecDeque::new();
        let mut free_ns = vec![0.0_f64; self.handlers];
        let mut moved_ns = 0.0_f64;
        loop {
            let earliest = (0..next.len()).min_by(|&one, &other| next[one].total_cmp(&next[other]));
            let Some((queue, now_ns)) = earliest.map(|queue| (queue, next[queue])) else { break };
            if now_ns.is_infinite() {
                break;
            }
            arrivals[queue].take(now_ns, 1);
            next[queue] = next_ns(&arrivals[queue]);
            queues[queue].offered += 1;
            remove_past(&mut rings[queue], now_ns);
            remove_past(&mut handled, now_ns);
            if rings[queue].len() >= self.ring || handled.len() >= self.buffers {
                queues[queue].not_captured += 1;
                continue;
            }
            moved_ns = moved_ns.max(now_ns) + move_ns;
            rings[queue].push_back(moved_ns);
            let handler = free_ns.iter_mut().min_by(|one, other| one.total_cmp(other));
            let free_ns = handler.expect("at least one handler");
            *free_ns = free_ns.max(moved_ns) + pace_ns;
            handled.push_back(*free_ns);
            queues[queue].handled += 1;
        }
        Outcome { queues, offloaded: 0 }
    }
}

fn remove_past(times: &mut VecDeque<f64>, now_ns: f64) {
    while times.front().is_some_and(|&at_ns| at_ns <= now_ns) {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HANDLER_PPS, WIRE_RATE_PPS, closed_form};

    const ENGINE: BalancerEngine = BalancerEngine {
        ring: 1_024,
        buffers: 25_600,
        handlers: 4,
        balancer_pps: 50e6,
        pace_pps: HANDLER_PPS,
    };

    #[test]
    fn a_burst_loses_what_all_handlers_and_buffers_do_not_take() {
        for packets in [1_000, 30_000, 100_000, 1_000_000] {
            let outcome = ENGINE.run(&Traffic::burst(packets, WIRE_RATE_PPS)).total();
            let expected = closed_form::burst_loss(packets, WIRE_RATE_PPS, 4.0 * HANDLER_PPS, 25_600);
            assert_eq!((outcome.offered, outcome.handled + outcome.lost()), (packets, packets));
            assert!((outcome.lost() as f64 - expected).abs() <= 5.0, "{packets}: {outcome:?} {expected}");
        }
    }

    #[test]
    fn random_packets_are_lost_as_in_a_queue_with_constant_times() {
        for (load, places) in [(0.8, 4), (1.5, 16)] {
            let traffic = Traffic::poisson(load * 1e6, 300_000, 7);
            let engine =
                BalancerEngine { buffers: places, handlers: 1, pace_pps: 1e6, balancer_pps: 1e12, ..ENGINE };
            let (share, expected) =
                (engine.run(&traffic).total().lost_percent() / 100.0, closed_form::mdk_loss(load, places));
            assert!((share - expected).abs() < 0.05 * expected, "{load} {places}: {share} {expected}");
        }
    }

    #[test]
    fn a_balancer_that_is_slower_than_the_wire_loses_the_rest_in_the_ring() {
        let engine = BalancerEngine { balancer_pps: 5e6, pace_pps: 25e6, ..ENGINE };
        let outcome = engine.run(&Traffic::burst(1_000_000, WIRE_RATE_PPS)).total();
        let expected = closed_form::burst_loss(1_000_000, WIRE_RATE_PPS, 5e6, 1_024);
        assert!((outcome.lost() as f64 - expected).abs() <= 5.0, "{outcome:?} {expected}");
    }
}
