//! A router in virtual time: a worker, next hops and a fake kernel, without threads or clocks.

use std::time::Duration;

use wirecap_headers::{Layout, MacAddress, Ttl, checksum};
use wirecap_sys::netdev::NeighbourState;

use super::*;
use crate::{
    RouterPort, WholePacket,
    neighbours::{
        Hop, ResolverEnd,
        next_hops::{
            NextHops,
            tests::{FakeKernel, neighbour},
        },
    },
};

const ROUTES: &str = "
    198.51.100.0/24 dev right                              # hosts
    203.0.113.0/24  dev right lladdr 02:00:00:00:00:99
    10.0.0.0/8      dev right via 198.51.100.9
    10.66.0.0/16    drop
    2001:db8::/32   dev right lladdr 02:00:00:00:00:99
";
const LEFT: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x10]);
const RIGHT: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x20]);
const SENDER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const HOST: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

struct World {
    worker: RouterWorker<Vec<u8>>,
    channel: ResolverEnd,
    next_hops: NextHops,
    kernel: FakeKernel,
    now: Instant,
    fault: Option<DropCause>,
}

fn router(routes: &str) -> Router {
    let port = |name: &str, mac, address: &str| RouterPort {
        names: vec![name.into(), format!("{name}-too")],
        ifindex: 1,
        mac: Some(mac),
        addresses: vec![address.parse().unwrap()],
    };
    let ports = [port("left", LEFT, "192.0.2.254/24"), port("right", RIGHT, "198.51.100.254/24")];
    Router::new(routes.parse().unwrap(), &ports, Ttl::Decrement).unwrap()
}

impl World {
    fn new() -> Self {
        Self::with(1)
    }

    /// The first of this number of workers.
    fn with(workers: usize) -> Self {
        let (resolver, channel) = Resolver::without_thread();
        let worker = RouterWorker::new(&Arc::new(router(ROUTES)), &resolver, workers);
        // Time begins when everything is set up.
        let now = Instant::now();
        let next_hops = NextHops::new(channel.counts(), now);
        let mut world = Self { worker, channel, next_hops, kernel: FakeKernel::default(), now, fault: None };
        world.pass(0);
        world
    }

    /// Advances the time, does the work of the resolver and begins a batch.
    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        while let Ok(pending) = self.channel.next_request() {
            self.next_hops.want(&mut self.kernel, pending, self.now);
        }
        self.next_hops.refresh(&mut self.kernel, self.now);
        if let Some(table) = self.next_hops.take_table() {
            self.channel.publish(table);
        }
        let fault = self.fault;
        let link = |mtu| OutgoingLink { mtu, fault };
        self.worker.begin(self.now, [1500, 1000].map(link));
    }

    /// The kernel reports the state of a next hop on the right.
    fn answer(&mut self, host: [u8; 4], state: NeighbourState, mac: Option<MacAddress>) {
        let hop = Hop { port: 1, address: host.into() };
        self.next_hops.changed(hop, neighbour(hop, state, mac), self.now);
    }

    fn route(&mut self, frame: &mut [u8]) -> Decision {
        let before = frame.to_vec();
        let decision = self.worker.route(frame, WholePacket::FirstPart, 0);
        if !matches!(decision, Decision::Forward { .. }) {
            assert_eq!(frame, before, "only forwarded packets are changed");
        }
        decision
    }

    /// Parks a packet. Returns whether there was room.
    fn park(&mut self, mut frame: Vec<u8>) -> bool {
        let Decision::Wait(pending) = self.route(&mut frame) else {
            panic!("the packet does not have to wait")
        };
        let is_admitted = !matches!(self.worker.admit(pending), Admission::Full);
        if is_admitted {
            self.worker.park(frame, pending);
        }
        is_admitted
    }

    /// Type and code of the ICMP error about a packet dropped for `cause`.
    fn error(&mut self, frame: &[u8], cause: DropCause) -> Option<[u8; 2]> {
        match self.worker.answer(frame, frame.len(), 0, cause) {
            Answer::Error(error) => {
                let ip = *Layout::of(error).unwrap().ip().unwrap();
                assert_eq!(MacAddress::destination_of(error), Some(SENDER));
                error[ip.transport().unwrap()..].first_chunk().copied()
            }
            Answer::Silence => None,
            Answer::Suppressed => panic!("suppressed"),
        }
    }
}

/// A frame from a host on the left to the router, with `payload` bytes after its IPv4 header.
fn v4(source: [u8; 4], destination: [u8; 4], ttl: u8, payload: usize) -> Vec<u8> {
    let [high, low] = (20 + payload as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, high, low, 0, 0, 0x40, 0, ttl, 17, 0, 0];
    packet.extend([source, destination].concat());
    let checksum = checksum::ipv4_header(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&LEFT.0[..], &SENDER.0, &[8, 0], &packet, &vec![7; payload]].concat()
}

/// A frame from a host on the left.
fn to(destination: [u8; 4]) -> Vec<u8> {
    v4([192, 0, 2, 1], destination, 64, 26)
}

fn dropped(cause: DropCause) -> Decision {
    Decision::Discard { cause }
}

#[test]
fn a_packet_to_a_known_next_hop_is_rewritten_with_a_correct_checksum() {
    let mut world = World::new();
    let mut frame = to([203, 0, 113, 5]);
    assert_eq!(world.route(&mut frame), Decision::Forward { port: 1, len: 60 });
    assert_eq!(MacAddress::destination_of(&frame), Some(MacAddress([2, 0, 0, 0, 0, 0x99])));
    assert_eq!(MacAddress::source_of(&frame), Some(RIGHT));
    assert_eq!((frame[22], checksum::sum(&frame[14..34])), (63, 0xffff));
}

#[test]
fn a_packet_waits_until_its_next_hop_answers() {
    let mut world = World::new();
    assert!(world.park(to([10, 1, 2, 3])));
    world.pass(1);
    // Its next hop is the router that the route names.
    assert_eq!(world.kernel.asked, [Hop { port: 1, address: [198, 51, 100, 9].into() }]);
    assert!(world.worker.settle().is_empty() && world.worker.has_waiting());
    world.answer([198, 51, 100, 9], NeighbourState::Valid, Some(HOST));
    world.pass(1);
    let settled = world.worker.settle();
    assert_eq!(settled, [(to([10, 1, 2, 3]), Outcome::Known)]);
    let mut frame = to([10, 1, 2, 3]);
    assert_eq!(world.route(&mut frame), Decision::Forward { port: 1, len: 60 });
    assert_eq!(MacAddress::destination_of(&frame), Some(HOST));
    assert!(!world.worker.has_waiting());
}

#[test]
fn packets_to_a_silent_next_hop_are_lost_and_later_ones_dropped_at_once() {
    let mut world = World::new();
    assert!(world.park(to([198, 51, 100, 5])));
    world.pass(1);
    world.answer([198, 51, 100, 5], NeighbourState::Failed, None);
    world.pass(1);
    assert_eq!(world.worker.settle(), [(to([198, 51, 100, 5]), Outcome::Lost)]);
    let mut frame = to([198, 51, 100, 5]);
    assert_eq!(world.route(&mut frame), dropped(DropCause::NoNeighbour));
    assert_eq!(world.error(&frame, DropCause::NoNeighbour), Some([3, 1]));
    // After a pause the next hop is asked for again.
    world.pass(1_000);
    assert!(matches!(world.route(&mut frame), Decision::Wait(_)));
}

#[test]
fn without_an_answer_a_packet_waits_for_three_seconds() {
    let mut world = World::new();
    assert!(world.park(to([198, 51, 100, 5])));
    world.pass(2_900);
    assert!(world.worker.settle().is_empty());
    world.pass(100);
    assert_eq!(world.worker.settle(), [(to([198, 51, 100, 5]), Outcome::Lost)]);
    // Packets that still wait at the end are taken out.
    assert!(world.park(to([198, 51, 100, 6])));
    assert_eq!(world.worker.take_waiting().count(), 1);
    assert!(!world.worker.has_waiting());
}

#[test]
fn a_scan_by_one_source_leaves_others_room_to_wait() {
    let mut world = World::new();
    let scan = |host: usize| to([198, 51, 100, (host % 250) as u8]);
    assert!((0..300).filter(|&host| world.park(scan(host))).count() < 200);
    // By chance, a source may share the group of the scanning one.
    assert!((70..80).any(|other| world.park(v4([192, 0, 2, other], [198, 51, 100, 5], 64, 26))));
}

#[test]
fn each_defect_has_its_cause_and_its_answer() {
    let mut world = World::new();
    let sender = [192, 0, 2, 1];
    let changed = |at: usize, byte: u8| {
        let mut frame = to([203, 0, 113, 5]);
        frame[at] = byte;
        frame
    };
    for (frame, cause, answer) in [
        (changed(5, 9), DropCause::NotForUs, None),
        (changed(14, 0x55), DropCause::BadHeader, None),
        (changed(25, 0xee), DropCause::BadChecksum, None),
        (to([8, 8, 8, 8]), DropCause::NoRoute, Some([3, 0])),
        (to([10, 66, 0, 1]), DropCause::NoRoute, None),
        (v4(sender, [203, 0, 113, 5], 1, 26), DropCause::TtlExpired, Some([11, 0])),
        (v4(sender, [203, 0, 113, 5], 64, 981), DropCause::TooLong, Some([3, 4])),
        (v4([192, 0, 2, 254], [203, 0, 113, 5], 64, 26), DropCause::OwnSource, None),
        (v4([127, 0, 0, 1], [203, 0, 113, 5], 64, 26), DropCause::MartianSource, None),
        (v4([192, 0, 2, 255], [203, 0, 113, 5], 64, 26), DropCause::MartianSource, None),
        (to([127, 0, 0, 1]), DropCause::MartianDestination, None),
        (to([198, 51, 100, 255]), DropCause::DirectedBroadcast, None),
    ] {
        assert_eq!(world.route(&mut frame.clone()), dropped(cause), "{frame:02x?}");
        assert_eq!(world.error(&frame, cause), answer, "{cause:?}");
    }
    let fits = v4(sender, [203, 0, 113, 5], 64, 980);
    assert_eq!(world.route(&mut fits.clone()), Decision::Forward { port: 1, len: 1014 });
    // What is behind the packet in its frame goes no further, and makes it no longer.
    let mut with_trailer = [&fits[..], &[7; 60]].concat();
    assert_eq!(world.route(&mut with_trailer), Decision::Forward { port: 1, len: 1014 });
    let too_long = [&v4(sender, [203, 0, 113, 5], 64, 981)[..], &[7; 60]].concat();
    assert_eq!(world.route(&mut too_long.clone()), dropped(DropCause::TooLong));
    assert_eq!(world.error(&too_long, DropCause::TooLong), Some([3, 4]));
}

#[test]
fn for_a_link_that_is_down_or_gone_no_next_hop_is_asked_for() {
    let mut world = World::new();
    for fault in [DropCause::Gone, DropCause::LinkDown] {
        world.fault = Some(fault);
        world.pass(1);
        for frame in [to([198, 51, 100, 7]), to([203, 0, 113, 5])] {
            assert_eq!(world.route(&mut frame.clone()), dropped(fault));
            assert_eq!(world.error(&frame, fault), None);
        }
    }
    world.pass(1);
    assert_eq!(world.kernel.asked, []);
    world.fault = None;
    world.pass(1);
    assert!(world.park(to([198, 51, 100, 7])));
}

#[test]
fn a_filter_decides_after_the_header_and_before_the_route() {
    let filter = wirecap_filter::Filter::compile("udp", 1, 262_144).unwrap();
    let (resolver, _end) = Resolver::without_thread();
    let router = Arc::new(router(ROUTES).with_filter(filter));
    let mut worker = RouterWorker::<Vec<u8>>::new(&router, &resolver, 1);
    let mut decide = |mut frame: Vec<u8>| worker.route(&mut frame, WholePacket::FirstPart, 0);
    let tcp = |mut frame: Vec<u8>| {
        frame[23] = 6;
        let checksum = checksum::ipv4_header(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame
    };
    assert_eq!(decide(to([203, 0, 113, 5])), Decision::Forward { port: 1, len: 60 });
    assert_eq!(decide(tcp(to([8, 8, 8, 8]))), dropped(DropCause::Unwanted));
    assert_eq!(decide(tcp(to([127, 0, 0, 1]))), dropped(DropCause::MartianDestination));
}

#[test]
fn a_flood_of_errors_is_suppressed_until_time_passes() {
    let mut world = World::new();
    let from = |host| v4([192, 0, 2, host], [8, 8, 8, 8], 64, 26);
    let errors = |world: &mut World, hosts: std::ops::Range<u8>| {
        let frames = hosts.map(from).cycle().take(1_000);
        let answers = frames.map(|frame| is_answered(world, &frame, DropCause::NoRoute));
        answers.filter(|is_sent| *is_sent).count()
    };
    assert_eq!((errors(&mut world, 1..100), errors(&mut world, 1..100)), (50, 0));
    world.pass(10);
    assert_eq!(errors(&mut world, 1..100), 10);
    world.pass(100);
    assert_eq!((errors(&mut world, 1..2), errors(&mut world, 1..2)), (10, 0), "the share of one source");
    for (workers, share) in [(2, 5), (3, 3), (10, 1), (64, 1)] {
        assert_eq!(errors(&mut World::with(workers), 1..2), share, "of one of {workers} workers");
    }
    // Some may be in one group.
    assert!(errors(&mut world, 2..100) >= 38, "what is left is for others");
}

#[test]
fn a_flood_leaves_others_the_errors_by_which_they_find_their_path_mtu() {
    let mut world = World::new();
    let mut found = 0;
    for host in 1..=100 {
        // By many sources, so that it uses up all errors.
        for (number, scanner) in (101..=200).cycle().take(1_000).enumerate() {
            let frame = v4([192, 0, 2, scanner], [8, 8, 8, number as u8], 64, 26);
            is_answered(&mut world, &frame, DropCause::NoRoute);
        }
        let long = v4([192, 0, 2, host], [203, 0, 113, 5], 64, 1_200);
        found += usize::from(is_answered(&mut world, &long, DropCause::TooLong));
        world.pass(100);
    }
    assert_eq!(found, 100);
    // They are not without a limit, either.
    let long = v4([192, 0, 2, 1], [203, 0, 113, 5], 64, 1_200);
    let sent = (0..1_000).filter(|_| is_answered(&mut world, &long, DropCause::TooLong));
    assert_eq!(sent.count(), 10);
}

fn is_answered(world: &mut World, frame: &[u8], cause: DropCause) -> bool {
    matches!(world.worker.answer(frame, frame.len(), 0, cause), Answer::Error(_))
}

#[test]
fn a_device_goes_by_any_of_its_names_and_an_unknown_one_is_refused() {
    let ports =
        |mac| [RouterPort { names: vec!["a".into(), "b".into()], ifindex: 1, mac, addresses: Vec::new() }];
    let new = |routes: &str, mac| Router::new(routes.parse().unwrap(), &ports(mac), Ttl::Keep);
    assert!(new("10.0.0.0/8 dev b", Some(LEFT)).is_ok());
    let error = new("10.0.0.0/8 dev c", Some(LEFT)).unwrap_err();
    assert_eq!(error.to_string(), "routes name the device c, but the interfaces are a");
    let error = new("10.0.0.0/8 dev b", None).unwrap_err();
    assert_eq!(error.to_string(), "a has no Ethernet address of its own to route by");
}
