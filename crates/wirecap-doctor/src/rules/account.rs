//! What was lost already: by an earlier capture, and by the NIC since its driver was loaded.

use super::{of, of_machine};
use crate::{
    finding::{Evidence, Finding, Severity},
    snapshot::{AccountSettings, Interface, PortAccount, Snapshot},
};

/// Fewer missed packets than one in this number are not reported.
const PACKETS_PER_MISS: u64 = 1_000_000;
/// From this part of all packets on, in percent, a queue has most of them.
const MOST_PERCENT: u64 = 60;
/// From this part on, in percent, a queue lost nearly all of the packets that were lost to full pools.
const MOST_LOST_PERCENT: u64 = 90;

pub(super) fn of_interface(_: &Snapshot, interface: &Interface) -> Vec<Finding> {
    let (missed, received) = (interface.counters.missed, interface.counters.received);
    let is_much = missed > received / PACKETS_PER_MISS;
    let evidence = Evidence::NicMissed { missed, received };
    Vec::from_iter(is_much.then(|| of(interface, Severity::Warning, evidence, Vec::new())))
}

pub(super) fn examine(snapshot: &Snapshot) -> Vec<Finding> {
    let of_ports = snapshot.account.iter().flat_map(|port| of_port(port, snapshot));
    stood(snapshot).into_iter().chain(of_ports).collect()
}

/// In that time, pools and rings may have filled up.
fn stood(snapshot: &Snapshot) -> Option<Finding> {
    let seconds = snapshot.account_stood_seconds;
    let was_full = |port: &PortAccount| {
        let lost = port.lost();
        lost.of_full_pools() + lost.rx_ring_full + port.dropped_before_xdp > 0
    };
    (seconds > 0.0 && snapshot.account.iter().any(was_full))
        .then(|| of_machine(Severity::Problem, Evidence::ProcessStood { seconds }, Vec::new()))
}

fn of_port(port: &PortAccount, snapshot: &Snapshot) -> Vec<Finding> {
    let (lost, seen) = (port.lost(), port.seen());
    let no_buffer = lost.of_full_pools();
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
        .chain(skew(port, seen, snapshot))
        .map(|evidence| of_machine(Severity::Problem, evidence, Vec::new()))
        .collect()
}

/// One queue had most of the packets, and of those lost: if others lost many, too, skew alone is not the
/// cause. A single worker has them all anyway, and how long packets are does not depend on their queue. Which
/// CPU or socket gets a packet of a passive capture is no setting of the interface alone.
fn skew(port: &PortAccount, seen: u64, snapshot: &Snapshot) -> Option<Evidence> {
    let settings = &snapshot.account_settings;
    let busiest = port.queues.iter().max_by_key(|queue| queue.seen)?;
    let percent = percent_of(busiest.seen, seen)?;
    let has_several = port.queues.len() > 1 && settings.workers != Some(1) && !port.is_passive;
    let is_skewed = has_several && percent >= MOST_PERCENT;
    let percent_of_lost = percent_of(busiest.lost.of_full_pools(), port.lost().of_full_pools());
    let is_cause = percent_of_lost.is_some_and(|percent| percent >= MOST_LOST_PERCENT);
    let &AccountSettings { mode, threshold_percent, chunks_per_pool, .. } = settings;
    (is_skewed && is_cause).then(|| Evidence::SkewedQueues {
        port: port.name.clone(),
        queue: busiest.queue,
        percent,
        queues: port.queues.len() as u32,
        mode,
        threshold_percent,
        chunks_per_pool,
    })
}

/// A part of a whole, in percent; `None` of nothing.
fn percent_of(part: u64, whole: u64) -> Option<u64> {
    let percent = (u128::from(part) * 100).checked_div(whole.into())?;
    u64::try_from(percent).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::{found_after, found_in},
        snapshot::{CaptureMode, Counters, LostPackets, QueueAccount},
    };

    fn account(lost: LostPackets, dropped_before_xdp: u64, seen: [u64; 2]) -> Vec<Rule> {
        found_in(|snapshot| {
            let queues = vec![
                QueueAccount { queue: 0, seen: seen[0], lost },
                QueueAccount { queue: 1, seen: seen[1], ..QueueAccount::default() },
            ];
            snapshot.account = vec![PortAccount {
                name: "eth1".into(),
                dropped_before_xdp,
                queues,
                ..PortAccount::default()
            }];
        })
    }

    #[test]
    fn a_process_that_hardly_ran_is_found_first_if_packets_were_lost() {
        let with = |no_free_block, too_long| {
            found_in(|snapshot| {
                let lost = LostPackets { no_free_block, too_long, ..LostPackets::default() };
                let queues = vec![QueueAccount { queue: 0, seen: 9, lost }];
                snapshot.account =
                    vec![PortAccount { name: "eth1".into(), queues, ..PortAccount::default() }];
                snapshot.account_stood_seconds = 13.4;
            })
        };
        assert_eq!(with(1, 0), [Rule::ProcessStood, Rule::LostNoBuffer]);
        assert_eq!((with(0, 0), with(0, 1)), (vec![], vec![Rule::LostTooLong]));
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
        let also_lost = |others| {
            found_in(|snapshot| {
                let lost = |no_free_block| LostPackets { no_free_block, ..LostPackets::default() };
                let queues = vec![
                    QueueAccount { queue: 0, seen: 700, lost: lost(90) },
                    QueueAccount { queue: 1, seen: 300, lost: lost(others) },
                ];
                snapshot.account =
                    vec![PortAccount { name: "eth1".into(), queues, ..PortAccount::default() }];
            })
        };
        assert_eq!(also_lost(10), [Rule::LostNoBuffer, Rule::SkewedQueues]);
        assert_eq!(also_lost(11), [Rule::LostNoBuffer], "skew alone is not the cause");
        let long = LostPackets { too_long: 1, ..LostPackets::default() };
        assert_eq!(account(long, 0, [60, 40]), [Rule::LostTooLong]);
        let ring = LostPackets { rx_ring_full: 1, ..LostPackets::default() };
        assert_eq!(account(ring, 0, [60, 40]), [Rule::LostRingFull], "a larger pool would not help");
    }

    /// A port whose packets all came by one of its queues.
    fn skewed() -> PortAccount {
        let lost = LostPackets { no_free_block: 1, ..LostPackets::default() };
        let busy = QueueAccount { queue: 0, seen: 16_936, lost };
        let idle = QueueAccount { queue: 1, ..QueueAccount::default() };
        PortAccount { name: "eth1".into(), queues: vec![busy, idle], ..PortAccount::default() }
    }

    /// The skew that a capture with these settings reports.
    fn skew_with(settings: AccountSettings) -> Option<Evidence> {
        skew_of(skewed(), settings)
    }

    fn skew_of(port: PortAccount, settings: AccountSettings) -> Option<Evidence> {
        let findings = found_after(|snapshot| {
            (snapshot.account, snapshot.account_settings) = (vec![port.clone()], settings);
        });
        let mut evidence = findings.into_iter().map(|finding| finding.evidence);
        evidence.find(|evidence| evidence.rule() == Rule::SkewedQueues)
    }

    #[test]
    fn a_skew_has_the_settings_of_the_capture() {
        let settings = AccountSettings {
            mode: Some(CaptureMode::Advanced),
            threshold_percent: Some(60),
            chunks_per_pool: Some(4),
            workers: Some(2),
        };
        let expected = Evidence::SkewedQueues {
            port: "eth1".into(),
            queue: 0,
            percent: 100,
            queues: 2,
            mode: Some(CaptureMode::Advanced),
            threshold_percent: Some(60),
            chunks_per_pool: Some(4),
        };
        assert_eq!(skew_with(settings), Some(expected));
        assert_eq!(skew_with(AccountSettings { workers: Some(1), ..settings }), None);
        assert_eq!(skew_of(PortAccount { is_passive: true, ..skewed() }, settings), None);
        let unknown = skew_with(AccountSettings::default());
        assert!(matches!(unknown, Some(Evidence::SkewedQueues { mode: None, .. })), "{unknown:?}");
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
