//! The packet sender on a veth pair, checked by a receiver and by the interface's counters. Needs root.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_send::TxCounters;
use wirecap_sys::netdev;
use wirecap_testing::{MAX_PACKET_LEN, MIN_PACKET_LEN, PacketSender, PacketSenderError as Error, SendPath};
use wirecap_traffic::{FrameSpec, Template};

/// The destination of the frames: address and port.
const LISTENER: &str = "198.19.0.1:9";

struct Lab {
    left: Namespace,
    right: Namespace,
    veth: VethPair,
}

impl Lab {
    fn new(label: &str) -> Self {
        let left = Namespace::new(&format!("{label}_left")).unwrap();
        let right = Namespace::new(&format!("{label}_right")).unwrap();
        let addresses_b = vec!["198.19.0.1/15".into()];
        let options = VethOptions { mtu: 65_535, addresses_b, ..VethOptions::default() };
        let veth = VethPair::new(&left, "l0", &right, "r0", options).unwrap();
        Self { left, right, veth }
    }

    fn sender(&self, path: SendPath) -> PacketSender {
        let ifindex = self.veth.a().ifindex().unwrap();
        self.left.enter(|| PacketSender::open(ifindex, path)).unwrap()
    }

    /// Sends until a frame arrives: shortly after it comes up, a link drops the frames of its queueing
    /// discipline.
    fn warm_up(&self) {
        let mut sender = self.sender(SendPath::Queueing);
        let ifindex = self.veth.a().ifindex().unwrap();
        let counters = self.left.enter(|| TxCounters::start(ifindex)).unwrap();
        while self.left.enter(|| counters.settled(1)).unwrap().packets == 0 {
            sender.send(&[0; 60]).unwrap();
        }
    }

    fn mac_of_right(&self) -> [u8; 6] {
        let interface = self.right.enter(|| netdev::interface("r0")).unwrap();
        interface.mac.unwrap().0
    }
}

#[test]
fn frames_arrive_as_they_were_sent_on_either_path() {
    if !require_root("frames_arrive_as_they_were_sent_on_either_path") {
        return;
    }
    let lab = Lab::new("packet");
    let listener = lab.right.enter(|| UdpSocket::bind(LISTENER)).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let destination_mac = lab.mac_of_right();
    for path in [SendPath::Queueing, SendPath::Direct] {
        let mut sender = lab.sender(path);
        for len in [60, 1514, 9000] {
            let mut template =
                Template::new(FrameSpec { len, destination_mac, ..FrameSpec::default() }).unwrap();
            let frame = template.stamp(3, len as u64);
            sender.send(frame).unwrap();
            let mut received = vec![0; len];
            let payload = listener.recv(&mut received).unwrap();
            assert_eq!(received[..payload], frame[len - payload..], "{path:?}, {len} bytes");
        }
        let sent = lab.left.enter(|| sender.finish()).unwrap();
        assert_eq!((sent.frames, sent.taken, sent.dropped), (3, 3, 0), "{path:?}");
    }
}

#[test]
fn only_lengths_from_a_bare_header_to_the_largest_mtu_are_accepted() {
    if !require_root("only_lengths_from_a_bare_header_to_the_largest_mtu_are_accepted") {
        return;
    }
    let lab = Lab::new("lengths");
    let mut sender = lab.sender(SendPath::Queueing);
    let zeros = vec![0; MAX_PACKET_LEN + 1];
    for len in [MIN_PACKET_LEN, 59, 1515, 32_768, MAX_PACKET_LEN] {
        sender.send(&zeros[..len]).unwrap();
    }
    for len in [0, MIN_PACKET_LEN - 1, MAX_PACKET_LEN + 1] {
        assert!(matches!(sender.send(&zeros[..len]), Err(Error::FrameLen { .. })), "{len} bytes");
    }
    assert_eq!(lab.left.enter(|| sender.finish()).unwrap().taken, 5);
    assert_eq!(sender.frames(), 5);

    lab.veth.a().set_mtu(1500).unwrap();
    let error = sender.send(&zeros[..1600]).unwrap_err();
    assert!(error.to_string().contains("1600 bytes") && error.to_string().contains("MTU"), "{error}");
    assert_eq!(sender.frames(), 5, "a refused frame does not count");
}

#[test]
fn sending_waits_while_the_receive_ring_is_full() {
    if !require_root("sending_waits_while_the_receive_ring_is_full") {
        return;
    }
    let lab = Lab::new("burst");
    lab.warm_up();
    // Many more frames than the 256 that a veth's ring holds, sent as fast as possible.
    let mut sender = lab.sender(SendPath::Queueing);
    let mut template = Template::new(FrameSpec::default()).unwrap();
    (0..20_000).for_each(|sequence| sender.send(template.stamp(0, sequence)).unwrap());
    let sent = lab.left.enter(|| sender.finish()).unwrap();
    assert_eq!((sent.frames, sent.taken, sent.dropped), (20_000, 20_000, 0));
}

#[test]
fn a_missing_interface_and_one_that_is_down_are_errors() {
    if !require_root("a_missing_interface_and_one_that_is_down_are_errors") {
        return;
    }
    let lab = Lab::new("down");
    let missing = lab.left.enter(|| PacketSender::open(4_000_000, SendPath::Queueing)).unwrap_err();
    let is_missing = matches!(missing, Error::Interface(netdev::Error::NoSuchIndex(4_000_000)));
    assert!(is_missing, "{missing}");
    let mut sender = lab.sender(SendPath::Queueing);
    lab.veth.a().set_down().unwrap();
    match sender.send(&[0; 60]).unwrap_err() {
        Error::NotAccepted { cause, .. } => assert_eq!(cause.kind(), io::ErrorKind::NetworkDown),
        other => panic!("{other}"),
    }
}
