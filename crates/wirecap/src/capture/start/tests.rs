//! Groups of workers, and how a capture handles reports about its links.

use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};

use super::*;
use crate::PortEvent;

#[test]
fn workers_in_no_set_have_no_buddies() {
    let mode = Mode::Advanced { threshold_percent: 60 };
    let (groups, group_of) = group(&Grouping::Sets(vec![vec![0, 2], vec![3]]), mode, 5).unwrap();
    let members: Vec<_> = groups.iter().map(BuddyGroup::members).collect();
    assert_eq!(members, [&[0, 2][..], &[3], &[1], &[4]]);
    assert_eq!(group_of, [0, 2, 0, 1, 3]);
    assert_eq!(group(&Grouping::All, mode, 3).unwrap().0[0].members(), [0, 1, 2]);
}

#[test]
fn a_worker_in_two_sets_and_a_missing_worker_are_refused() {
    for sets in [vec![vec![0, 2], vec![2]], vec![vec![0, 0]], vec![vec![3]]] {
        assert!(matches!(group(&Grouping::Sets(sets), Mode::Basic, 3), Err(Error::Grouping { .. })));
    }
}

/// A thread may note that the kernel reported the link down after an event has already reported it up again.
#[test]
fn a_stale_link_down_is_rechecked() {
    if !require_root("capture::start::a_stale_link_down_is_rechecked") {
        return;
    }
    let place = Namespace::new("doubt").unwrap();
    let _pair = VethPair::new(&place, "d0", &place, "d1", VethOptions::default()).unwrap();
    let builder = Capture::builder().port("xdp:d0").workers(1).chunks_per_pool(4).transmit(64);
    let mut capture = place.enter(|| builder.open()).unwrap();
    capture.events();
    let outlet = Arc::clone(&capture.ports.lock().unwrap()[0].outlet);
    assert_eq!(outlet.refuses(60), None);
    outlet.note_down();
    assert!(outlet.refuses(60).is_some());
    assert_eq!(capture.events(), [PortEvent::Up("d0".into())]);
    assert_eq!(outlet.refuses(60), None, "no event of the kernel has followed");
}
