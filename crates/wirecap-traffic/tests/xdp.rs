//! Frames from transmit queues of one's choice into a veth pair. Needs root.

use std::{
    collections::BTreeSet,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use nix::sys::{
    socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt},
    time::TimeVal,
};
use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_traffic::{
    End, Error, FrameSpec, IpVersion, LinkWatch, Marks, Popularity, QueueShare, Sizes, Template, Timing,
    Transport, XdpGenerator, XdpOptions, drive,
};

/// Two ends: from one frames are sent, at the other they are heard.
struct Lab {
    left: Namespace,
    _right: Namespace,
    veth: VethPair,
    ear: OwnedFd,
}

impl Lab {
    fn new(label: &str) -> Self {
        let left = Namespace::new(&format!("{label}_l")).unwrap();
        let right = Namespace::new(&format!("{label}_r")).unwrap();
        let options = VethOptions { mtu: 9_000, queues: 2, ..VethOptions::default() };
        let veth = VethPair::new(&left, "l0", &right, "r0", options).unwrap();
        let ear = right.enter(|| {
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll).unwrap()
        });
        setsockopt(&ear, sockopt::RcvBufForce, &(64 << 20)).unwrap();
        setsockopt(&ear, sockopt::ReceiveTimeout, &TimeVal::new(10, 0)).unwrap();
        Self { left, _right: right, veth, ear }
    }

    fn open(&self, options: &XdpOptions) -> Result<XdpGenerator, Error> {
        let ifindex = self.veth.a().ifindex().unwrap();
        self.left.enter(|| XdpGenerator::open(ifindex, options))
    }

    /// Sends so many frames, and gives them as they were heard.
    fn send(&self, generator: &mut XdpGenerator, frames: u64) -> Vec<Vec<u8>> {
        let watch = self.left.enter(|| LinkWatch::new("l0")).unwrap();
        let outcome = drive(generator, Timing { frames: Some(frames), ..Timing::default() }, |_, _| true);
        assert!(matches!(outcome.end, End::Done), "{outcome:?}");
        assert_eq!(generator.finish(), 0);
        let taken = self.left.enter(|| watch.settled(frames)).unwrap();
        assert_eq!((taken.frames, taken.dropped), (frames, 0));
        (0..frames).map(|_| self.hear()).collect()
    }

    fn hear(&self) -> Vec<u8> {
        let mut bytes = vec![0; 70_000];
        let len = recv(self.ear.as_raw_fd(), &mut bytes, MsgFlags::empty()).expect("a frame");
        bytes.truncate(len);
        bytes
    }
}

#[test]
fn frames_of_every_kind_arrive_each_as_it_should_be() {
    if !require_root("frames_of_every_kind_arrive_each_as_it_should_be") {
        return;
    }
    let lab = Lab::new("kinds");
    let size = |len, weight| wirecap_traffic::Size { len, weight };
    let sizes =
        Sizes::mix(vec![size(60, 7), size(590, 4), size(2_048, 1), size(2_049, 1), size(9_014, 1)]).unwrap();
    for (ip, transport) in [(IpVersion::V4, Transport::Udp), (IpVersion::V6, Transport::Tcp)] {
        let frame = FrameSpec { ip, transport, run: 99, ..FrameSpec::default() };
        let options = XdpOptions { frame, sizes: sizes.clone(), flows: 10, ..XdpOptions::default() };
        let mut generator = lab.open(&options).unwrap();
        let heard = lab.send(&mut generator, 1_500);
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
        let again: Vec<usize> = lab.send(&mut lab.open(&options).unwrap(), 50).iter().map(Vec::len).collect();
        assert_eq!(
            again,
            heard[..50].iter().map(Vec::len).collect::<Vec<_>>(),
            "the same seed, the same frames"
        );
    }
}

#[test]
fn queues_get_their_shares_and_flows_of_their_own() {
    if !require_root("queues_get_their_shares_and_flows_of_their_own") {
        return;
    }
    let lab = Lab::new("shares");
    let share = |queue, weight| QueueShare { queue, weight };
    let options = XdpOptions {
        queues: vec![share(1, 30), share(0, 10)],
        flows: 7,
        popularity: Popularity::Zipf(1.0),
        ..XdpOptions::default()
    };
    let mut generator = lab.open(&options).unwrap();
    let heard = lab.send(&mut generator, 4_000);
    let queues = generator.queues();
    let made: Vec<_> = queues.iter().map(|queue| (queue.queue, queue.made, queue.completed)).collect();
    assert!(made[0].1.abs_diff(3_000) <= 32 && made[0].1 + made[1].1 == 4_000, "{made:?}");
    assert_eq!((made[0].0, made[1].0), (1, 0));
    assert!(queues.iter().all(|queue| queue.made == queue.completed && queue.invalid == 0));
    assert!(
        queues[0].fallback.as_ref().is_some_and(|why| why == "the driver does not offer it"),
        "{queues:?}"
    );
    let mut per_flow = [0; 7];
    heard.iter().for_each(|bytes| per_flow[Marks::read(bytes).unwrap().flow as usize] += 1);
    // Four flows of queue 1, three of queue 0, each with the more popular ones first.
    assert_eq!(per_flow.iter().step_by(2).sum::<u64>(), made[0].1, "{per_flow:?}");
    assert!(
        per_flow[0] > per_flow[2] && per_flow[2] > per_flow[6] && per_flow[1] > per_flow[5],
        "{per_flow:?}"
    );
}

#[test]
fn what_cannot_be_sent_is_said() {
    if !require_root("what_cannot_be_sent_is_said") {
        return;
    }
    let lab = Lab::new("refused");
    let queue = |queue| vec![QueueShare { queue, weight: 1 }];
    let error = lab.open(&XdpOptions { queues: queue(9), ..XdpOptions::default() }).unwrap_err();
    assert!(matches!(error, Error::Open { queue: 9, .. }), "{error}");
    let both = vec![QueueShare { queue: 0, weight: 1 }, QueueShare { queue: 1, weight: 1 }];
    let error = lab.open(&XdpOptions { queues: both, flows: 1, ..XdpOptions::default() }).unwrap_err();
    assert!(matches!(error, Error::FewFlows { flows: 1, queues: 2 }), "{error}");
    let error = lab.open(&XdpOptions { flows: 0, ..XdpOptions::default() }).unwrap_err();
    assert!(matches!(error, Error::Flows { flows: 0, .. }), "{error}");

    let mut generator = lab.open(&XdpOptions::default()).unwrap();
    let timing = Timing { time: Some(Duration::from_secs(20)), ..Timing::default() };
    lab.left.ip(&["link", "set", "dev", "l0", "down"]).unwrap();
    let outcome = drive(&mut generator, timing, |_, _| true);
    assert!(matches!(outcome.end, End::Failed(Error::LinkDown { .. })), "{outcome:?}");
    lab.left.ip(&["link", "set", "dev", "l0", "up"]).unwrap();
    lab.left.ip(&["link", "del", "dev", "l0"]).unwrap();
    let outcome = drive(&mut generator, timing, |_, _| true);
    assert!(matches!(outcome.end, End::Failed(Error::Removed { .. })), "{outcome:?}");
}
