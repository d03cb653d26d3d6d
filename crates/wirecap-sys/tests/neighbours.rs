//! The kernel's neighbours: requested, announced, and left alone where others keep them.

use std::{
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_sys::netdev::{
    Neighbour, NeighbourChanges, NeighbourEvent, NeighbourState, Neighbours, interface,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// `a0` with 192.0.2.1 and fd00::1, whose other end has .2 and ::2.
struct Link {
    near: Namespace,
    far: Namespace,
    ifindex: u32,
    _pair: VethPair,
}

impl Link {
    fn new(label: &str) -> Self {
        let [near, far] = ["near", "far"].map(|end| Namespace::new(&format!("{label}_{end}")).unwrap());
        let options = VethOptions {
            ipv6: true,
            addresses_a: vec!["192.0.2.1/24".into(), "fd00::1/64".into()],
            addresses_b: vec!["192.0.2.2/24".into(), "fd00::2/64".into()],
            ..VethOptions::default()
        };
        let pair = VethPair::new(&near, "a0", &far, "b0", options).unwrap();
        let ifindex = pair.a().ifindex().unwrap();
        Self { near, far, ifindex, _pair: pair }
    }

    fn ip(&self, line: &str) -> String {
        self.near.ip(&line.split_whitespace().collect::<Vec<_>>()).unwrap()
    }
}

fn await_event(changes: &mut NeighbourChanges, wanted: impl Fn(&NeighbourEvent) -> bool) -> NeighbourEvent {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match changes.next_event().unwrap() {
            Some(event) if wanted(&event) => return event,
            Some(_) => {}
            None => thread::sleep(Duration::from_millis(2)),
        }
        assert!(Instant::now() < deadline, "no such event");
    }
}

#[test]
fn a_neighbour_that_answers_is_announced_and_a_silent_one_fails() {
    if !require_root("a_neighbour_that_answers_is_announced_and_a_silent_one_fails") {
        return;
    }
    let link = Link::new("answers");
    let (mut changes, mut neighbours) =
        link.near.enter(|| (NeighbourChanges::open().unwrap(), Neighbours::open().unwrap()));
    let far_mac = link.far.enter(|| interface("b0").unwrap().mac.unwrap());
    for address in ["192.0.2.2", "fd00::2"].map(|address| address.parse::<IpAddr>().unwrap()) {
        assert_eq!(neighbours.get(link.ifindex, address).unwrap(), None);
        let asked = neighbours.ask(link.ifindex, address).unwrap();
        assert!(asked.is_new, "{asked:?}");
        let asked = asked.entry.unwrap();
        assert_eq!((asked.address, asked.is_kernels_own), (address, true));
        let found = await_event(
            &mut changes,
            |event| matches!(event, NeighbourEvent::State(neighbour) if neighbour.address == address && neighbour.usable_mac().is_some()),
        );
        let NeighbourEvent::State(neighbour) = found else { unreachable!() };
        assert_eq!((neighbour.ifindex, neighbour.usable_mac()), (link.ifindex, Some(far_mac)));
        // Asking again changes nothing.
        let again = neighbours.ask(link.ifindex, address).unwrap();
        assert_eq!((again.is_new, again.entry.unwrap().usable_mac()), (false, Some(far_mac)));
    }
    let silent: IpAddr = "192.0.2.77".parse().unwrap();
    let is_of = |neighbour: &Neighbour| neighbour.address == silent;
    let asked = neighbours.ask(link.ifindex, silent).unwrap().entry.unwrap();
    assert_eq!((asked.state, asked.usable_mac()), (NeighbourState::Incomplete, None));
    await_event(
        &mut changes,
        |event| matches!(event, NeighbourEvent::State(neighbour) if is_of(neighbour) && neighbour.state == NeighbourState::Failed),
    );
    // A failed neighbour is requested anew, and the request can be given up.
    assert!(!neighbours.forget(link.ifindex, silent).unwrap());
    assert_eq!(neighbours.ask(link.ifindex, silent).unwrap().entry.unwrap().state, NeighbourState::Failed);
    assert_eq!(neighbours.get(link.ifindex, silent).unwrap().unwrap().state, NeighbourState::Incomplete);
    assert!(neighbours.forget(link.ifindex, silent).unwrap());
    assert_eq!(neighbours.get(link.ifindex, silent).unwrap(), None);
    let removed = NeighbourEvent::Removed { ifindex: link.ifindex, address: silent };
    await_event(&mut changes, |event| *event == removed);
    assert!(!neighbours.forget(link.ifindex, silent).unwrap());
}

#[test]
fn foreign_entries_stay_unchanged() {
    if !require_root("foreign_entries_stay_unchanged") {
        return;
    }
    let link = Link::new("others");
    let mut neighbours = link.near.enter(|| Neighbours::open().unwrap());
    for (address, kind) in [
        ("192.0.2.11", "nud permanent"),
        ("192.0.2.12", "nud noarp"),
        ("192.0.2.13", "nud stale extern_learn"),
        ("192.0.2.14", "managed"),
        ("fd00::11", "nud permanent"),
        ("fd00::13", "nud reachable extern_learn"),
    ] {
        let lladdr = if kind == "managed" { "" } else { "lladdr 02:00:00:00:00:09" };
        link.ip(&format!("neigh replace {address} {lladdr} dev a0 {kind}"));
        let shown = || link.ip(&format!("neigh show {address} dev a0"));
        let before = shown();
        let address: IpAddr = address.parse().unwrap();
        for _ in 0..3 {
            let found = neighbours.ask(link.ifindex, address).unwrap().entry.unwrap();
            assert!(!found.is_kernels_own, "{kind}: {found:?}");
            assert!(!neighbours.forget(link.ifindex, address).unwrap(), "{kind}");
        }
        let is_same = |word: &str| before.contains(word) == shown().contains(word);
        let words = ["PERMANENT", "NOARP", "extern_learn", "managed"];
        assert!(words.into_iter().all(is_same), "{kind}: {before} has become {}", shown());
    }
}

#[test]
fn addresses_of_groups_are_not_used() {
    if !require_root("addresses_of_groups_are_not_used") {
        return;
    }
    let link = Link::new("groups");
    let mut neighbours = link.near.enter(|| Neighbours::open().unwrap());
    // The kernel itself makes this entry: a group needs no request.
    let everybody = neighbours.ask(link.ifindex, "192.0.2.255".parse().unwrap()).unwrap().entry.unwrap();
    assert_eq!(everybody.usable_mac(), None, "{everybody:?}");
    assert!(everybody.mac.is_some_and(|mac| mac.is_group()), "{everybody:?}");
}
