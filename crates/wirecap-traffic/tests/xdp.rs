//! Sends frames from chosen transmit queues into a veth pair. Needs root.

use std::{collections::BTreeSet, time::Duration};

use wirecap_lab::{Earshot, VethOptions, require_root};
use wirecap_send::{CopyReason, SendDiagnostic, SendError, TxCounters};
use wirecap_sys::netdev::LinkFault;
use wirecap_traffic::{
    End, Error, FrameSpec, IpVersion, Marks, Popularity, QueueShare, Sizes, Template, Timing, Transport,
    XdpGenerator, XdpOptions, drive,
};

fn wire(label: &str) -> Earshot {
    Earshot::new(label, VethOptions { mtu: 9_000, queues: 2, ..VethOptions::default() }).unwrap()
}

fn open(wire: &Earshot, options: &XdpOptions) -> Result<XdpGenerator, Error> {
    let ifindex = wire.end().ifindex().unwrap();
    wire.enter(|| XdpGenerator::open(ifindex, options))
}

/// Sends `frames` frames and returns those that arrived.
fn send(wire: &Earshot, generator: &mut XdpGenerator, frames: u64) -> Vec<Vec<u8>> {
    let ifindex = wire.end().ifindex().unwrap();
    let counters = wire.enter(|| TxCounters::start(ifindex)).unwrap();
    let outcome = drive(generator, Timing { frames: Some(frames), ..Timing::default() }, |_, _| true);
    assert!(matches!(outcome.end, End::Done), "{outcome:?}");
    assert_eq!(generator.finish(), 0);
    let taken = wire.enter(|| counters.settled(frames)).unwrap();
    assert_eq!((taken.packets, taken.dropped), (frames, 0));
    (0..frames).map(|_| wire.hear()).collect()
}

#[test]
fn frames_of_every_kind_arrive_intact() {
    if !require_root("frames_of_every_kind_arrive_intact") {
        return;
    }
    let wire = wire("kinds");
    let size = |len, weight| wirecap_traffic::Size { len, weight };
    let sizes =
        Sizes::mix(vec![size(60, 7), size(590, 4), size(2_048, 1), size(2_049, 1), size(9_014, 1)]).unwrap();
    for (ip, transport) in [(IpVersion::V4, Transport::Udp), (IpVersion::V6, Transport::Tcp)] {
        let frame = FrameSpec { ip, transport, run: 99, ..FrameSpec::default() };
        let options = XdpOptions { frame, sizes: sizes.clone(), flows: 10, ..XdpOptions::default() };
        let mut generator = open(&wire, &options).unwrap();
        let heard = send(&wire, &mut generator, 1_500);
        let mut lens = BTreeSet::new();
        for (sequence, bytes) in heard.iter().enumerate() {
            let marks = Marks::read(bytes).expect("marks");
            let expected = (99, sequence as u64, sequence as u32 % 10);
            assert_eq!((marks.run, marks.sequence, marks.flow), expected);
            let mut template = Template::new(FrameSpec { len: bytes.len(), ..frame }).unwrap();
            assert!(template.stamp_at(marks.flow, marks.sequence, marks.sent_ns) == bytes, "{marks:?}");
            lens.insert(bytes.len());
        }
        let shortest = frame.len_min();
        assert_eq!(lens, BTreeSet::from([shortest, 590, 2_048, 2_049, 9_014]));
        drop(generator);
        let again: Vec<usize> =
            send(&wire, &mut open(&wire, &options).unwrap(), 50).iter().map(Vec::len).collect();
        assert_eq!(
            again,
            heard[..50].iter().map(Vec::len).collect::<Vec<_>>(),
            "the same seed, the same frames"
        );
    }
}

#[test]
fn queues_get_their_shares_and_their_own_flows() {
    if !require_root("queues_get_their_shares_and_their_own_flows") {
        return;
    }
    let wire = wire("shares");
    let share = |queue, weight| QueueShare { queue, weight };
    let options = XdpOptions {
        queues: vec![share(1, 30), share(0, 10)],
        flows: 7,
        popularity: Popularity::Zipf(1.0),
        ..XdpOptions::default()
    };
    let mut generator = open(&wire, &options).unwrap();
    let heard = send(&wire, &mut generator, 4_000);
    let queues = generator.queues();
    let made: Vec<_> = queues.iter().map(|queue| (queue.queue, queue.made, queue.sent)).collect();
    assert!(made[0].1.abs_diff(3_000) <= 32 && made[0].1 + made[1].1 == 4_000, "{made:?}");
    assert_eq!((made[0].0, made[1].0), (1, 0));
    assert!(queues.iter().all(|queue| queue.made == queue.sent && queue.invalid == 0));
    let not_offered = SendDiagnostic::ZeroCopyUnavailable { reason: CopyReason::NotOffered };
    assert_eq!(queues[0].fallback, Some(not_offered), "{queues:?}");
    let mut per_flow = [0; 7];
    heard.iter().for_each(|bytes| per_flow[Marks::read(bytes).unwrap().flow as usize] += 1);
    // Queue 1 has four flows and queue 0 has three, the most popular first.
    assert_eq!(per_flow.iter().step_by(2).sum::<u64>(), made[0].1, "{per_flow:?}");
    assert!(
        per_flow[0] > per_flow[2] && per_flow[2] > per_flow[6] && per_flow[1] > per_flow[5],
        "{per_flow:?}"
    );
}

#[test]
fn impossible_sends_are_reported() {
    if !require_root("impossible_sends_are_reported") {
        return;
    }
    let wire = wire("refused");
    let queue = |queue| vec![QueueShare { queue, weight: 1 }];
    let error = open(&wire, &XdpOptions { queues: queue(9), ..XdpOptions::default() }).unwrap_err();
    assert!(matches!(error, Error::Send(SendError::NoQueue { queue: 9, .. })), "{error}");
    let both = vec![QueueShare { queue: 0, weight: 1 }, QueueShare { queue: 1, weight: 1 }];
    let error = open(&wire, &XdpOptions { queues: both, flows: 1, ..XdpOptions::default() }).unwrap_err();
    assert!(matches!(error, Error::FewFlows { flows: 1, queues: 2 }), "{error}");
    let error = open(&wire, &XdpOptions { flows: 0, ..XdpOptions::default() }).unwrap_err();
    assert!(matches!(error, Error::Flows { flows: 0, .. }), "{error}");

    let mut generator = open(&wire, &XdpOptions::default()).unwrap();
    let timing = Timing { time: Some(Duration::from_secs(20)), ..Timing::default() };
    wire.end().set_down().unwrap();
    let mut driven = || wire.enter(|| drive(&mut generator, timing, |_, _| true));
    let outcome = driven();
    assert!(
        matches!(outcome.end, End::Failed(Error::Send(SendError::Link { fault: LinkFault::Down, .. }))),
        "{outcome:?}"
    );
    wire.end().set_up().unwrap();
    wire.end().namespace().ip(&["link", "del", "dev", "l0"]).unwrap();
    let outcome = driven();
    assert!(
        matches!(outcome.end, End::Failed(Error::Send(SendError::Link { fault: LinkFault::Removed, .. }))),
        "{outcome:?}"
    );
}
