//! Receive queues, and how packets are spread over them.

use wirecap_sys::netdev::ChannelCounts;

use super::{is_veth, of};
use crate::{
    finding::{Evidence, Finding, Severity},
    setting::{Change, Setting, Value},
    snapshot::{Interface, Rss, Snapshot},
};

pub(super) fn examine(snapshot: &Snapshot, interface: &Interface) -> Vec<Finding> {
    let cores = snapshot.machine.cpus.allowed.len() as u32;
    let number = beyond_cores(interface, cores).or_else(|| single(interface, cores));
    let rss = interface.rss.as_ref().filter(|_| interface.queues > 1);
    let of_rss = rss.into_iter().flat_map(|rss| {
        [table(interface, rss), directions(interface, rss), ports(interface, rss), key(interface, rss)]
    });
    number.into_iter().chain(of_rss.flatten()).collect()
}

fn beyond_cores(interface: &Interface, cores: u32) -> Option<Finding> {
    let queues = interface.queues;
    (cores > 0 && queues > cores && !is_veth(interface)).then(|| {
        let evidence = Evidence::QueuesBeyondCores { queues, cores };
        of(interface, Severity::Hint, evidence, channels(interface, cores))
    })
}

/// The most receive queues that the driver can have.
pub(super) fn possible(interface: &Interface) -> Option<u32> {
    let ChannelCounts { max_rx, max_combined, .. } = interface.channels?;
    Some(max_rx.max(max_combined))
}

fn single(interface: &Interface, cores: u32) -> Option<Finding> {
    let possible = possible(interface)?;
    let lacks_native = is_veth(interface) && interface.xdp.is_some_and(|xdp| !xdp.native);
    let wanted = if lacks_native { possible } else { cores.min(possible) };
    (interface.queues == 1 && possible > 1 && cores > 1).then(|| {
        let evidence = Evidence::SingleQueue { possible, cores };
        of(interface, Severity::Warning, evidence, channels(interface, wanted))
    })
}

/// The change to another number of queues; none where the driver has two kinds in use.
pub(super) fn channels(interface: &Interface, queues: u32) -> Vec<Change> {
    let Some(now) = interface.channels else { return Vec::new() };
    let wanted = match (now.rx, now.combined) {
        (0, 1..) => ChannelCounts { combined: queues, ..now },
        (1.., 0) => ChannelCounts { rx: queues, ..now },
        _ => return Vec::new(),
    };
    vec![Change {
        setting: Setting::Channels { interface: interface.name.clone() },
        from: Value::Channels(now),
        to: Value::Channels(wanted),
    }]
}

fn table(interface: &Interface, rss: &Rss) -> Option<Finding> {
    let queues = interface.queues;
    let entries = |queue| rss.table.iter().filter(|entry| **entry == queue).count() as u32;
    let counts: Vec<_> = (0..queues).map(entries).collect();
    let (fewest, most) = (*counts.iter().min()?, *counts.iter().max()?);
    // An even table differs by one at most.
    (!rss.table.is_empty() && most - fewest > 1).then(|| {
        let unused: Vec<_> = (0..queues).filter(|queue| counts[*queue as usize] == 0).collect();
        let severity = if unused.len() as u32 + 1 >= queues { Severity::Warning } else { Severity::Hint };
        let even = (0..rss.table.len() as u32).map(|entry| entry % queues).collect();
        let change = Change {
            setting: Setting::RssTable { interface: interface.name.clone() },
            from: Value::Table(rss.table.clone()),
            to: Value::Table(even),
        };
        of(interface, severity, Evidence::RssTable { unused, fewest, most }, vec![change])
    })
}

fn directions(interface: &Interface, rss: &Rss) -> Option<Finding> {
    let has_two_ways = !rss.is_joined && !is_symmetric(&rss.key);
    (!rss.key.is_empty() && !is_zero(&rss.key) && (has_two_ways || !rss.lopsided_flows.is_empty())).then(
        || {
            let evidence = Evidence::RssDirections { lopsided_flows: rss.lopsided_flows.clone() };
            of(interface, Severity::Hint, evidence, Vec::new())
        },
    )
}

/// Whether the Toeplitz hash by this key is the same when source and destination are exchanged: the key
/// repeats two bytes, four hexadecimal digits.
fn is_symmetric(key: &str) -> bool {
    key.as_bytes().chunks(4).all(|digits| key.as_bytes().starts_with(digits))
}

fn is_zero(key: &str) -> bool {
    key.bytes().all(|digit| digit == b'0')
}

fn ports(interface: &Interface, rss: &Rss) -> Option<Finding> {
    let flows = rss.flows_without_ports.clone();
    (!flows.is_empty()).then(|| of(interface, Severity::Hint, Evidence::RssPorts { flows }, Vec::new()))
}

fn key(interface: &Interface, rss: &Rss) -> Option<Finding> {
    (!rss.key.is_empty() && is_zero(&rss.key)).then(|| {
        let evidence = Evidence::RssKey { key_bytes: rss.key.len() as u32 / 2 };
        of(interface, Severity::Problem, evidence, Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::{found_after, tuned},
    };

    #[test]
    fn as_many_queues_as_cores_are_enough() {
        for (queues, found) in [(8, 0), (9, 1), (64, 1)] {
            let findings = found_after(|snapshot| {
                snapshot.interfaces[0].queues = queues;
                snapshot.interfaces[0].rss = None;
            });
            assert_eq!(findings.len(), found, "{queues}: {findings:?}");
            assert!(findings.iter().all(|finding| finding.rule() == Rule::QueuesBeyondCores), "{findings:?}");
        }
        let of_veth = found_after(|snapshot| {
            let interface = &mut snapshot.interfaces[0];
            (interface.queues, interface.rss, interface.driver) = (9, None, Some("veth".into()));
        });
        assert!(of_veth.iter().all(|finding| finding.rule() != Rule::QueuesBeyondCores), "{of_veth:?}");
    }

    #[test]
    fn a_single_queue_counts_if_there_could_be_more() {
        let with = |queues, max_combined, cores| {
            found_after(|snapshot| {
                snapshot.machine.cpus.allowed.truncate(cores);
                let interface = &mut snapshot.interfaces[0];
                (interface.queues, interface.interrupts) = (queues, Vec::new());
                let channels = interface.channels.as_mut().unwrap();
                (channels.combined, channels.max_combined) = (queues, max_combined);
            })
        };
        let findings = with(1, 16, 8);
        assert_eq!(findings[0].evidence, Evidence::SingleQueue { possible: 16, cores: 8 });
        let Value::Channels(wanted) = &findings[0].changes[0].to else { panic!("{findings:?}") };
        assert_eq!((wanted.combined, wanted.rx), (8, 0));
        assert_eq!((with(1, 1, 8), with(1, 16, 1)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_table_that_leaves_queues_out_is_found_and_an_even_one_is_not() {
        let with = |table: Vec<u32>| {
            found_after(|snapshot| snapshot.interfaces[0].rss.as_mut().unwrap().table = table.clone())
        };
        // 128 entries do not divide evenly by 8 queues plus one, nor need they.
        assert_eq!(with((0..129).map(|entry| entry % 8).collect()), Vec::new());
        let findings = with((0..128).map(|entry| entry % 4).collect());
        let expected = Evidence::RssTable { unused: vec![4, 5, 6, 7], fewest: 0, most: 32 };
        assert_eq!((&findings[0].evidence, findings[0].severity), (&expected, Severity::Hint));
        let Value::Table(even) = &findings[0].changes[0].to else { panic!("{findings:?}") };
        assert_eq!((even.len(), even[7], even[8]), (128, 7, 0));
        assert_eq!(with(vec![0; 128])[0].severity, Severity::Warning, "all in one queue");
        assert_eq!(with(Vec::new()), Vec::new(), "unknown");
    }

    #[test]
    fn directions_are_the_same_by_a_key_that_repeats_or_by_joining() {
        let with = |key: &str, is_joined, lopsided: &[&str]| {
            found_after(|snapshot| {
                let rss = snapshot.interfaces[0].rss.as_mut().unwrap();
                (rss.key, rss.is_joined) = (key.into(), is_joined);
                rss.lopsided_flows = lopsided.iter().map(ToString::to_string).collect();
            })
        };
        let asymmetric = "6d5a56da255b0ec2";
        assert_eq!(with(asymmetric, false, &[])[0].rule(), Rule::RssDirections);
        assert_eq!(with("6d5a6d5a6d5a", false, &["udp4"])[0].rule(), Rule::RssDirections);
        assert_eq!((with(asymmetric, true, &[]), with("6d5a6d5a6d", false, &[])), (Vec::new(), Vec::new()));
    }

    #[test]
    fn flows_without_ports_and_keys_of_zeros_are_found() {
        let findings = found_after(|snapshot| {
            snapshot.interfaces[0].rss.as_mut().unwrap().flows_without_ports = vec!["udp4".into()];
        });
        assert_eq!(findings[0].evidence, Evidence::RssPorts { flows: vec!["udp4".into()] });
        let findings = found_after(|snapshot| {
            snapshot.interfaces[0].rss.as_mut().unwrap().key = "00".repeat(40);
        });
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].evidence, Evidence::RssKey { key_bytes: 40 });
        assert!(!is_zero(&tuned().interfaces[0].rss.as_ref().unwrap().key));
    }
}
