//! Next hops in virtual time, with a fake kernel.

use std::net::Ipv4Addr;

use super::*;
use crate::{
    neighbours::{
        counts::NextHopReport,
        hop_requests::{CHANCE, MAX_ASKED},
    },
    source::Source,
};

/// A kernel that answers nothing by itself and records the requests.
#[derive(Default)]
pub(crate) struct FakeKernel {
    pub(crate) entries: HashMap<Hop, Neighbour>,
    pub(crate) asked: Vec<Hop>,
    pub(crate) is_full: bool,
}

pub(crate) fn neighbour(hop: Hop, state: NeighbourState, mac: Option<MacAddress>) -> Neighbour {
    Neighbour { ifindex: 1, address: hop.address, mac, state, is_kernels_own: true }
}

impl Kernel for FakeKernel {
    fn ask(&mut self, hop: Hop) -> Result<AskedNeighbour, Refusal> {
        if self.is_full {
            return Err(Refusal::TableFull);
        }
        self.asked.push(hop);
        let made = || neighbour(hop, NeighbourState::Incomplete, None);
        let is_new = !self.entries.contains_key(&hop);
        Ok(AskedNeighbour { entry: Some(*self.entries.entry(hop).or_insert_with(made)), is_new })
    }

    fn get(&mut self, hop: Hop) -> Option<Neighbour> {
        self.entries.get(&hop).copied()
    }

    fn forget(&mut self, hop: Hop) {
        self.entries.remove(&hop);
    }
}

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

/// The next hops, the kernel, and the time.
struct World {
    next_hops: NextHops,
    kernel: FakeKernel,
    now: Instant,
    table: Table,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let next_hops = NextHops::new(Arc::default(), now);
        Self { next_hops, kernel: FakeKernel::default(), now, table: Table::new() }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.next_hops.refresh(&mut self.kernel, self.now);
    }

    fn want(&mut self, hop: Hop) {
        self.want_from(hop, 1);
    }

    fn want_from(&mut self, hop: Hop, source: u32) {
        let source = Source::v4(0, source);
        self.next_hops.want(&mut self.kernel, UnresolvedHop { hop, source }, self.now);
    }

    /// Changes the kernel's entry and reports the change.
    fn change(&mut self, hop: Hop, state: NeighbourState, mac: Option<MacAddress>) {
        let neighbour = neighbour(hop, state, mac);
        self.kernel.entries.insert(hop, neighbour);
        self.next_hops.changed(hop, neighbour, self.now);
    }

    /// The address that a worker finds.
    fn found(&mut self, hop: Hop) -> Option<MacAddress> {
        if let Some(table) = self.next_hops.take_table() {
            self.table = table;
        }
        match self.table.get(&hop) {
            Some(Entry::Known(reached)) => {
                reached.used.store(true, Ordering::Relaxed);
                Some(reached.mac)
            }
            _ => None,
        }
    }

    /// Whether workers leave `hop` alone.
    fn is_left_alone(&mut self, hop: Hop) -> bool {
        let _ = self.found(hop);
        matches!(self.table.get(&hop), Some(Entry::Silent(until)) if self.now < *until)
    }
}

fn hop(number: u32) -> Hop {
    Hop { port: 1, address: Ipv4Addr::from_bits(0x0a00_0000 + number).into() }
}

#[test]
fn a_hop_that_answers_is_known_and_asked_for_once() {
    let mut world = World::new();
    world.want(hop(1));
    world.want(hop(1));
    assert_eq!(world.found(hop(1)), None);
    world.change(hop(1), NeighbourState::Valid, Some(MAC));
    assert_eq!(world.found(hop(1)), Some(MAC));
    world.want(hop(1));
    assert_eq!(world.kernel.asked, [hop(1)]);
    let other = MacAddress([2, 0, 0, 0, 0, 8]);
    world.change(hop(1), NeighbourState::Valid, Some(other));
    assert_eq!(world.found(hop(1)), Some(other));
    world.next_hops.removed(hop(1));
    assert_eq!(world.found(hop(1)), None);
    // Nothing is kept about an unwanted hop.
    world.change(hop(2), NeighbourState::Valid, Some(MAC));
    assert_eq!(world.found(hop(2)), None);
    let report = world.next_hops.counts.report();
    assert_eq!((report.asked, report.found), (1, 1));
}

#[test]
fn a_hop_that_the_kernel_knows_is_known_at_once() {
    let mut world = World::new();
    world.kernel.entries.insert(hop(1), neighbour(hop(1), NeighbourState::Stale, Some(MAC)));
    world.want(hop(1));
    assert_eq!(world.found(hop(1)), Some(MAC));
}

#[test]
fn only_stale_hops_in_use_are_asked_about() {
    let mut world = World::new();
    for number in 1..=3 {
        world.want(hop(number));
        world.change(hop(number), NeighbourState::Valid, Some(MAC));
    }
    world.kernel.asked.clear();
    world.change(hop(2), NeighbourState::Stale, Some(MAC));
    world.change(hop(3), NeighbourState::Stale, Some(MAC));
    // Wanting a hop counts as use; from now on only the first two are used.
    world.pass(REFRESH);
    world.kernel.asked.clear();
    for _ in 0..3 {
        assert_eq!((world.found(hop(1)), world.found(hop(2))), (Some(MAC), Some(MAC)));
        world.pass(REFRESH);
    }
    assert_eq!(world.kernel.asked, [hop(2); 3]);
}

#[test]
fn an_unused_hop_is_forgotten() {
    let mut world = World::new();
    for number in 1..=2 {
        world.want(hop(number));
        world.change(hop(number), NeighbourState::Valid, Some(MAC));
    }
    for _ in 0..=REFRESHES_UNUSED {
        assert_eq!(world.found(hop(1)), Some(MAC));
        world.pass(REFRESH);
    }
    assert_eq!(world.found(hop(1)), Some(MAC));
    assert!(!world.table.contains_key(&hop(2)));
}

#[test]
fn a_silent_hop_is_left_alone_for_longer_each_time() {
    let mut world = World::new();
    for pause in [1, 2, 4, 8, 8] {
        world.want(hop(1));
        world.change(hop(1), NeighbourState::Failed, None);
        assert!(world.is_left_alone(hop(1)));
        let asked = world.kernel.asked.len();
        world.now += Duration::from_secs(pause) - Duration::from_millis(1);
        world.want(hop(1));
        assert!(world.is_left_alone(hop(1)) && world.kernel.asked.len() == asked, "{pause} s");
        world.now += Duration::from_millis(1);
        assert!(!world.is_left_alone(hop(1)));
    }
    assert_eq!(world.kernel.asked.len(), 5);
    // An unsolicited announcement of the hop ends the pause.
    world.want(hop(1));
    world.change(hop(1), NeighbourState::Failed, None);
    world.change(hop(1), NeighbourState::Stale, Some(MAC));
    assert_eq!(world.found(hop(1)), Some(MAC));
    world.change(hop(1), NeighbourState::Failed, None);
    world.want(hop(1));
    world.change(hop(1), NeighbourState::Failed, None);
    world.now += FIRST_PAUSE;
    assert!(!world.is_left_alone(hop(1)), "the pauses start again with a short one");
    // The link coming up ends the pause, too.
    world.want(hop(1));
    world.change(hop(1), NeighbourState::Failed, None);
    world.next_hops.link_is_up(0);
    assert!(world.is_left_alone(hop(1)));
    world.next_hops.link_is_up(1);
    assert!(!world.is_left_alone(hop(1)));
}

#[test]
fn a_known_hop_that_fails_is_asked_anew_before_it_is_left_alone() {
    let mut world = World::new();
    world.want(hop(1));
    world.change(hop(1), NeighbourState::Valid, Some(MAC));
    assert_eq!(world.found(hop(1)), Some(MAC));
    world.change(hop(1), NeighbourState::Failed, None);
    assert!(world.found(hop(1)).is_none() && !world.is_left_alone(hop(1)), "packets wait");
    world.want(hop(1));
    assert_eq!(world.kernel.asked, [hop(1); 2]);
    // It was away for a moment.
    world.change(hop(1), NeighbourState::Valid, Some(MAC));
    assert_eq!(world.found(hop(1)), Some(MAC));
    // It is gone.
    world.change(hop(1), NeighbourState::Failed, None);
    world.want(hop(1));
    world.change(hop(1), NeighbourState::Failed, None);
    assert!(world.is_left_alone(hop(1)));
    assert_eq!(world.next_hops.counts.report().silent, 1);
}

#[test]
fn an_unusable_entry_set_by_others_is_not_waited_for() {
    let mut world = World::new();
    let mut group = neighbour(hop(1), NeighbourState::Valid, Some(MacAddress([0xff; 6])));
    group.is_kernels_own = false;
    world.kernel.entries.insert(hop(1), group);
    world.want(hop(1));
    assert!(world.is_left_alone(hop(1)));
}

#[test]
fn a_scan_leaves_room_and_keeps_the_kernels_table_small() {
    let mut world = World::new();
    // One source wants 2,000 hops a second for three seconds; now and then another source wants one.
    for number in 0..6_000 {
        world.want_from(hop(number), 1);
        world.now += Duration::from_micros(500);
        if number % 600 == 599 {
            world.want_from(hop(10_000 + number), 2);
            assert!(world.kernel.asked.contains(&hop(10_000 + number)), "{number}");
        }
        assert!(world.kernel.entries.len() <= MAX_ASKED, "{}", world.kernel.entries.len());
    }
    // Each hop gets its chance, and no more.
    assert!(world.kernel.asked.len() > 5_500, "{}", world.kernel.asked.len());
    let report = world.next_hops.counts.report();
    assert!(report.crowded_out > 5_000, "{report:?}");
}

/// The host asks for a neighbour, and its packets wait; a scan wants the same one, and more than there is
/// room for.
#[test]
fn entries_that_the_host_has_made_stay_when_a_scan_crowds_them_out() {
    let mut world = World::new();
    let of_host = [0, 7, 100].map(hop);
    for hop in of_host {
        world.kernel.entries.insert(hop, neighbour(hop, NeighbourState::Incomplete, None));
    }
    for number in 0..2_000 {
        world.want(hop(number));
        world.now += Duration::from_millis(1);
    }
    assert!(of_host.iter().all(|hop| world.kernel.entries.contains_key(hop)));
    // Those of the scan are gone, or the newest.
    assert!(world.kernel.entries.len() <= MAX_ASKED + of_host.len(), "{}", world.kernel.entries.len());
    assert!(!world.kernel.entries.contains_key(&hop(1)) && world.next_hops.counts.report().crowded_out > 0);
}

#[test]
fn a_faster_scan_does_not_make_the_kernel_ask_faster() {
    let mut world = World::new();
    // 100,000 hops in one second.
    for number in 0..100_000 {
        world.want(hop(number));
        world.now += Duration::from_micros(10);
    }
    let most = MAX_ASKED * (Duration::from_secs(1).as_millis() / CHANCE.as_millis() + 1) as usize;
    assert!(world.kernel.asked.len() <= most, "{}", world.kernel.asked.len());
}

#[test]
fn a_full_kernel_table_is_counted() {
    let mut world = World::new();
    world.kernel.is_full = true;
    world.want(hop(1));
    assert_eq!(world.next_hops.counts.report(), NextHopReport { table_full: 1, ..Default::default() });
    // The hop is asked for as soon as there is room.
    world.kernel.is_full = false;
    world.want(hop(1));
    assert_eq!(world.kernel.asked, [hop(1)]);
}

#[test]
fn after_lost_events_every_hop_is_rechecked() {
    let mut world = World::new();
    for number in 1..=4 {
        world.want(hop(number));
    }
    world.change(hop(1), NeighbourState::Valid, Some(MAC));
    world.change(hop(2), NeighbourState::Valid, Some(MAC));
    // Changes whose events were lost.
    world.kernel.entries.remove(&hop(1));
    world.kernel.entries.insert(hop(3), neighbour(hop(3), NeighbourState::Valid, Some(MAC)));
    world.kernel.entries.insert(hop(4), neighbour(hop(4), NeighbourState::Failed, None));
    world.next_hops.look_again(&mut world.kernel, world.now);
    assert_eq!([1, 2, 3, 4].map(|number| world.found(hop(number))), [None, Some(MAC), Some(MAC), None]);
    assert!(world.is_left_alone(hop(4)));
}

#[test]
fn known_and_silent_hops_are_bounded() {
    let mut world = World::new();
    for number in 0..MAX_KNOWN as u32 + 100 {
        world.want(hop(number));
        world.change(hop(number), NeighbourState::Valid, Some(MAC));
        let _ = world.found(hop(0));
        if number == 150 {
            // Hops that are used from now on stay: there are enough others to make room.
            world.pass(REFRESH);
        }
    }
    assert_eq!((world.next_hops.known.len(), world.found(hop(0))), (MAX_KNOWN, Some(MAC)));
    let mut world = World::new();
    for number in 0..MAX_SILENT as u32 + 100 {
        world.want(hop(number));
        world.change(hop(number), NeighbourState::Failed, None);
    }
    assert_eq!(world.next_hops.silent.len(), MAX_SILENT);
    world.pass(FIRST_PAUSE + MEMORY);
    assert!(world.next_hops.silent.is_empty());
}
