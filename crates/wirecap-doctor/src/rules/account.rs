//! What was lost already: by an earlier capture, and by the NIC since its driver was loaded.

use super::{of, of_machine};
use crate::{
    finding::{Evidence, Finding, Severity},
    snapshot::{Interface, PortAccount, Snapshot},
};

/// Fewer missed packets than one in this number are not reported.
const PACKETS_PER_MISS: u64 = 1_000_000;
/// From this part of all packets on, in percent, a queue has most of them.
const MOST_PERCENT: u64 = 60;

pub(super) fn of_interface(_: &Snapshot, interface: &Interface) -> Vec<Finding> {
    let (missed, received) = (interface.counters.missed, interface.counters.received);
    let is_much = missed > received / PACKETS_PER_MISS;
    let evidence = Evidence::NicMissed { missed, received };
    Vec::from_iter(is_much.then(|| of(interface, Severity::Warning, evidence, Vec::new())))
}

pub(super) fn examine(snapshot: &Snapshot) -> Vec<Finding> {
    snapshot.account.iter().flat_map(of_port).collect()
}

fn of_port(port: &PortAccount) -> Vec<Finding> {
    let (lost, seen) = (port.lost(), port.seen());
    let no_buffer = lost.no_free_cell + lost.no_free_block;
    let name = || port.name.clone();
    let causes = [
        (no_buffer, Evidence::LostNoBuffer { port: name(), lost: no_buffer, seen }),
        (lost.rx_ring_full, Evidence::LostRingFull { port: name(), lost: lost.rx_ring_full, seen }),
        (lost.too_long, Evidence::LostTooLong { port: name(), lost: lost.too_long, seen }),
        (
            port.dropped_before_xdp,
            Evidence::LostBeforeXdp { port: name(), lost: port.dropped_before_xdp, seen },
        ),
    ];
    let causes = causes.into_iter().filter(|(lost, _)| *lost > 0).map(|(_, evidence)| evidence);
    causes
        .chain(skew(port, seen))
        .map(|evidence| of_machine(Severity::Problem, evidence, Vec::new()))
        .collect()
}

fn skew(port: &PortAccount, seen: u64) -> Option<Evidence> {
    let busiest = port.queues.iter().max_by_key(|queue| queue.seen)?;
    let percent = (busiest.seen * 100).checked_div(seen)?;
    (port.queues.len() > 1 && percent >= MOST_PERCENT && busiest.lost.total() > 0).then(|| {
        let queues = port.queues.len() as u32;
        Evidence::SkewedQueues { port: port.name.clone(), queue: busiest.queue, percent, queues }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::{found_after, found_in},
        snapshot::{Counters, LostPackets, QueueAccount},
    };

    fn account(lost: LostPackets, dropped_before_xdp: u64, seen: [u64; 2]) -> Vec<Rule> {
        found_in(|snapshot| {
            let queues = vec![
                QueueAccount { queue: 0, seen: seen[0], lost },
                QueueAccount { queue: 1, seen: seen[1], ..QueueAccount::default() },
            ];
            snapshot.account = vec![PortAccount { name: "eth1".into(), dropped_before_xdp, queues }];
        })
    }

    #[test]
    fn each_cause_of_loss_is_found() {
        let lost = LostPackets::default();
        assert_eq!(account(LostPackets { no_free_cell: 1, ..lost }, 0, [5, 5]), [Rule::LostNoBuffer]);
        assert_eq!(account(LostPackets { no_free_block: 1, ..lost }, 0, [5, 5]), [Rule::LostNoBuffer]);
        assert_eq!(account(LostPackets { rx_ring_full: 1, ..lost }, 0, [5, 5]), [Rule::LostRingFull]);
        assert_eq!(account(LostPackets { too_long: 1, ..lost }, 0, [5, 5]), [Rule::LostTooLong]);
        assert_eq!(account(lost, 1, [5, 5]), [Rule::LostBeforeXdp]);
        assert_eq!(account(lost, 0, [5, 5]), []);
    }

    #[test]
    fn a_busy_queue_counts_if_it_has_lost_packets() {
        let lost = LostPackets { no_free_block: 1, ..LostPackets::default() };
        assert_eq!(account(lost, 0, [60, 40]), [Rule::LostNoBuffer, Rule::SkewedQueues]);
        assert_eq!(account(lost, 0, [59, 41]), [Rule::LostNoBuffer]);
        assert_eq!(account(LostPackets::default(), 0, [100, 0]), []);
    }

    #[test]
    fn packets_that_the_nic_missed_count_from_one_in_a_million() {
        let with = |missed| {
            found_after(|snapshot| {
                snapshot.interfaces[0].counters = Counters { received: 10_000_000, missed };
            })
        };
        assert_eq!(with(11)[0].evidence, Evidence::NicMissed { missed: 11, received: 10_000_000 });
        assert_eq!(with(10), []);
    }
}
