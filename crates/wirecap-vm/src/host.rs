//! The host behind the captured NIC: it receives and sends by it as if nothing had ever been captured.

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

/// By then, whatever has happened, the interface must be the host's again.
const LIMIT: Duration = Duration::from_secs(10);
/// Where the generator's frames go to, with the network they come from.
const ADDRESS: &str = "198.19.0.1/15";
const RECEIVER: &str = "198.19.0.1:9";
/// Somebody at the other end of the wire.
const NEIGHBOUR: &str = "198.19.0.2";
const GREETING: &[u8] = b"the host sends by the interface that was captured";
const PATIENCE: Duration = Duration::from_millis(20);

/// After a case: the interface is the host's again, not later than [`LIMIT`] after it was given back. No
/// program is on it, it is not promiscuous, a datagram from the other end comes to a socket, and one from
/// that socket comes out at the other end.
///
/// # Panics
/// If it is not.
#[track_caller]
pub(crate) fn has_its_interface(machine: &Machine) {
    let since = machine.ledger.take_given_back();
    let interfaces = || [CAPTURED, SENDER].map(|name| netdev::interface(name).ok());
    wait_or_explain(
        || format!("the interfaces are the host's again: {:#?}", interfaces()),
        || interfaces().iter().flatten().filter(|interface| is_free(interface)).count() == 2,
    );
    let [captured, sender] = interfaces().map(|interface| interface.expect("it was there"));
    run("ip", &["address", "replace", ADDRESS, "dev", CAPTURED]);
    let neighbour_mac = sender.mac.expect("a NIC has one").to_string();
    run("ip", &["neighbour", "replace", NEIGHBOUR, "lladdr", &neighbour_mac, "dev", CAPTURED]);
    let (socket, ear) = (UdpSocket::bind(RECEIVER).unwrap(), Ear::new());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let spec = FrameSpec { destination_mac: captured.mac.expect("a NIC has one").0, ..FrameSpec::default() };
    let (mut template, mut from_other_end) = (Template::new(spec).unwrap(), machine.sender());
    let counters = || run("ip", &["-s", "-s", "link", "show"]);
    let mut payload = [0; 2048];
    wait_or_explain(
        || format!("a datagram comes to the host\n{}", counters()),
        || {
            let frame = template.stamp(0, 1);
            assert!(Marks::read(frame).is_some());
            from_other_end.send(frame).unwrap();
            socket.recv(&mut payload).is_ok_and(|len| frame.ends_with(&payload[..len]))
        },
    );
    wait_or_explain(
        || format!("a datagram of the host comes out at the other end\n{}", counters()),
        || {
            socket.send_to(GREETING, (NEIGHBOUR, 9)).unwrap();
            ear.hears(sender.ifindex, GREETING)
        },
    );
    run("ip", &["address", "flush", "dev", CAPTURED]);
    let passed = since.elapsed();
    println!("host: has its interface after {:.1} s", passed.as_secs_f64());
    assert!(passed < LIMIT, "the host had to wait {passed:?} for its interface");
}

fn is_free(interface: &Interface) -> bool {
    interface.xdp_programs.is_empty() && interface.promiscuity == 0 && interface.carrier
}

/// Hears what comes in by any interface.
struct Ear(OwnedFd);

impl Ear {
    fn new() -> Self {
        let ear = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll);
        let ear = ear.expect("a guest may");
        setsockopt(&ear, sockopt::ReceiveTimeout, &TimeVal::new(0, PATIENCE.as_micros() as i64)).unwrap();
        Self(ear)
    }

    /// Whether a frame that ends with these bytes has come in by an interface.
    fn hears(&self, ifindex: u32, end: &[u8]) -> bool {
        let mut frame = [0; 2048];
        while let Ok((len, from)) = recvfrom::<LinkAddr>(self.0.as_raw_fd(), &mut frame) {
            // It hears what goes out by other interfaces, too.
            let came_in = from.is_some_and(|from| from.ifindex() == ifindex as usize);
            if came_in && frame[..len].ends_with(end) {
                return true;
            }
        }
        false
    }
}
