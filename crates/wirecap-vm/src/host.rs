//! The host behind the captured NIC: after a capture it sends and receives through the NIC as before.

use std::{
    net::UdpSocket,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use nix::sys::{
    socket::{
        AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
    },
    time::TimeVal,
};
use wirecap_sys::netdev::{self, Interface};
use wirecap_traffic::{FrameSpec, Marks, Template};

use wirecap_testing::wait_or_explain;

use crate::machine::{CAPTURED, Machine, SENDER, run};

/// The host must have its interface back within this time.
const LIMIT: Duration = Duration::from_secs(10);
/// The destination of the generator's frames, with the network of their sources.
const ADDRESS: &str = "198.19.0.1/15";
const RECEIVER: &str = "198.19.0.1:9";
/// An address at the other end of the wire.
const NEIGHBOUR: &str = "198.19.0.2";
const GREETING: &[u8] = b"the host sends through the interface that was captured";
const TIMEOUT: Duration = Duration::from_millis(20);

/// Asserts after a case that the host has its interface back, within [`LIMIT`] of its release: no program is
/// attached, it is not promiscuous, a datagram from the other end reaches a socket, and one from that socket
/// reaches the other end.
///
/// # Panics
/// If the host does not.
#[track_caller]
pub(crate) fn has_its_interface(machine: &Machine) {
    let since = machine.ledger.take_given_back();
    let interfaces = || [CAPTURED, SENDER].map(|name| netdev::interface(name).ok());
    wait_or_explain(
        || format!("the interfaces are the host's again: {:#?}", interfaces()),
        || interfaces().iter().flatten().filter(|interface| is_free(interface)).count() == 2,
    );
    let [captured, sender] = interfaces().map(|interface| interface.expect("the interface exists"));
    run("ip", &["address", "replace", ADDRESS, "dev", CAPTURED]);
    let neighbour_mac = sender.mac.expect("a NIC has a MAC address").to_string();
    run("ip", &["neighbour", "replace", NEIGHBOUR, "lladdr", &neighbour_mac, "dev", CAPTURED]);
    let (socket, ear) = (UdpSocket::bind(RECEIVER).unwrap(), Ear::new());
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let spec = FrameSpec {
        destination_mac: captured.mac.expect("a NIC has a MAC address").0,
        ..FrameSpec::default()
    };
    let (mut template, mut from_other_end) = (Template::new(spec).unwrap(), machine.sender());
    let counters = || run("ip", &["-s", "-s", "link", "show"]);
    let mut payload = [0; 2048];
    wait_or_explain(
        || format!("a datagram reaches the host\n{}", counters()),
        || {
            let frame = template.stamp(0, 1);
            assert!(Marks::read(frame).is_some());
            from_other_end.send(frame).unwrap();
            socket.recv(&mut payload).is_ok_and(|len| frame.ends_with(&payload[..len]))
        },
    );
    wait_or_explain(
        || format!("a datagram of the host reaches the other end\n{}", counters()),
        || {
            socket.send_to(GREETING, (NEIGHBOUR, 9)).unwrap();
            ear.hears(sender.ifindex, GREETING)
        },
    );
    run("ip", &["address", "flush", "dev", CAPTURED]);
    let passed = since.elapsed();
    println!("host: has its interface after {:.1} s", passed.as_secs_f64());
    assert!(passed < LIMIT, "the host waited {passed:?} for its interface");
}

fn is_free(interface: &Interface) -> bool {
    interface.xdp_programs.is_empty() && interface.promiscuity == 0 && interface.carrier
}

/// A packet socket on all interfaces.
struct Ear(OwnedFd);

impl Ear {
    fn new() -> Self {
        let ear = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll);
        let ear = ear.expect("the guest has CAP_NET_RAW");
        setsockopt(&ear, sockopt::ReceiveTimeout, &TimeVal::new(0, TIMEOUT.as_micros() as i64)).unwrap();
        Self(ear)
    }

    /// Whether a frame that ends with `end` has arrived on an interface.
    fn hears(&self, ifindex: u32, end: &[u8]) -> bool {
        let mut frame = [0; 2048];
        while let Ok((len, from)) = recvfrom::<LinkAddr>(self.0.as_raw_fd(), &mut frame) {
            // The socket also gets what other interfaces send.
            let arrived_there = from.is_some_and(|from| from.ifindex() == ifindex as usize);
            if arrived_there && frame[..len].ends_with(end) {
                return true;
            }
        }
        false
    }
}
