//! ICMP errors from the small router to the senders of packets that it cannot forward.
//!
//! ```text
//!   left 192.0.2.1, fd00:1::1 ══ m0 .254 ─ wirecap forward --route ─ m1 .254 ══ right 198.51.100.1, fd00:2::1
//! ```

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use wirecap_headers::{MacAddress, checksum};
use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::PacketSender;

use super::{
    Cable,
    routes::{cause, mac, networks, networks_by, route},
    way,
};
use crate::lab::CommandOutput;

const TABLE: &str = "
    192.0.2.0/24     dev m0
    fd00:1::/64      dev m0
    198.51.100.0/24  dev m1
    fd00:2::/64      dev m1
    203.0.113.7      drop
";
const TIMEOUT: Duration = Duration::from_secs(30);

/// The output of a ping from the left host, errors included.
fn pinged(cable: &Cable, arguments: &[&str]) -> String {
    let mut ping = cable.left.command("ping");
    let output = ping.args(["-n", "-c", "1"]).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(ended: &CommandOutput, from: &str) -> (u64, u64) {
    let way = way(ended, from);
    let figure = |name: &str| way[name].as_u64().unwrap();
    (figure("icmp_errors_sent"), figure("icmp_errors_suppressed"))
}

/// An IP frame from the left host to the router, with checksums.
fn frame_to(router: &str, left: &str, packet: &[u8]) -> Vec<u8> {
    let [router, left] = [router, left].map(|mac| mac.parse::<MacAddress>().unwrap().0);
    let kind = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    let mut packet = packet.to_vec();
    let _ = checksum::fill(&mut packet);
    [&router[..], &left, &kind, &packet].concat()
}

/// IPv4 from 192.0.2.1 with a TTL of 1, no checksums.
fn v4(fragment: u16, protocol: u8, to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let ([high, low], len) = (fragment.to_be_bytes(), 20 + payload.len() as u8);
    let mut packet = vec![0x45, 0, 0, len, 0, 7, high, low, 1, protocol, 0, 0, 192, 0, 2, 1];
    packet.extend(to);
    packet.extend(payload);
    packet
}

/// IPv6 from fd00:1::1 to fd00:2::1 with a hop limit of 1.
fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 1];
    for network in [1, 2] {
        packet.extend([0xfd, 0, 0, network, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
    packet.extend(payload);
    packet
}

/// Sends packets with Ethernet addresses of the left host and the router.
struct Wire {
    sender: PacketSender,
    router: String,
    left: String,
}

impl Wire {
    fn new(cable: &Cable) -> Self {
        let (router, left) = (mac(&cable.middle, "m0"), mac(&cable.left, "l0"));
        Self { sender: cable.sender(), router, left }
    }

    fn send(&mut self, packet: &[u8]) {
        self.sender.send(&frame_to(&self.router, &self.left, packet)).unwrap();
    }
}

#[test]
fn senders_learn_why_their_packets_are_dropped() {
    if !require_root("forward::senders_learn_why_their_packets_are_dropped") {
        return;
    }
    let cable = networks("told");
    let running = route(&cable, TABLE, &["--drop", "icmp[icmptype] == icmp-echo and greater 1000"]);
    for (arguments, from, words) in [
        (&["-t", "1", "198.51.100.1"][..], "192.0.2.254", "Time to live exceeded"),
        (&["-t", "1", "fd00:2::1"], "fd00:1::fe", "Time exceeded: Hop limit"),
        // The error quotes as much as fits.
        (&["-t", "1", "-s", "900", "198.51.100.1"], "192.0.2.254", "Time to live exceeded"),
        (&["-t", "1", "-s", "1400", "fd00:2::1"], "fd00:1::fe", "Time exceeded: Hop limit"),
        (&["203.0.113.8"], "192.0.2.254", "Destination Net Unreachable"),
        (&["2001:db8::1"], "fd00:1::fe", "Destination unreachable: No route"),
        (&["-W", "10", "198.51.100.77"], "192.0.2.254", "Destination Host Unreachable"),
        (&["-W", "10", "fd00:2::77"], "fd00:1::fe", "Destination unreachable: Address unreachable"),
    ] {
        let said = pinged(&cable, arguments);
        assert!(said.contains(&format!("From {from} icmp_seq=1 {words}")), "{arguments:?}: {said}");
    }
    // Packets that the user wants to drop get no error.
    for silent in [&["203.0.113.7"][..], &["-t", "1", "-s", "1200", "198.51.100.1"]] {
        let said = pinged(&cable, &[&["-W", "1"], silent].concat());
        assert!(said.contains(" 0 received, 100% packet loss"), "{silent:?}: {said}");
    }
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(errors(&ended, "m0"), (8, 0), "{ended:#?}");
    assert_eq!(errors(&ended, "m1"), (0, 0), "{ended:#?}");
    for (name, packets) in [("ttl_expired", 4), ("no_route", 3), ("no_neighbour", 2), ("unwanted", 1)] {
        assert_eq!(cause(&ended, "m0", name), packets, "{name}: {ended:#?}");
    }
}

#[test]
fn senders_find_out_how_long_packets_may_be() {
    if !require_root("forward::senders_find_out_how_long_packets_may_be") {
        return;
    }
    let cable = networks("path_mtu");
    for second in ["198.51.100.2/24", "fd00:2::2/64"] {
        cable.right.ip(&["addr", "add", second, "dev", "r0"]).unwrap();
    }
    for end in [cable.first.a(), cable.first.b()] {
        end.set_mtu(9000).unwrap();
    }
    let running = route(&cable, TABLE, &["--drop", " "]);
    // Packets of several cells, of which the error quotes the first.
    for (to, words) in [
        ("198.51.100.2", "From 192.0.2.254 icmp_seq=1 Frag needed and DF set (mtu = 1500)"),
        ("fd00:2::2", "From fd00:1::fe icmp_seq=1 Packet too big: mtu=1500"),
    ] {
        let said = pinged(&cable, &["-M", "do", "-s", "8000", to]);
        assert!(said.contains(words), "{to}: {said}");
    }
    // Packets pass until the MTU is smaller and the router has noticed.
    let large = ["-M", "do", "-s", "1400"];
    assert!(pinged(&cable, &[&large[..], &["-W", "20", "198.51.100.2"]].concat()).contains("1 received"));
    cable.second.b().set_mtu(1280).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    for (to, from, words) in [
        ("198.51.100.2", "192.0.2.254", "Frag needed and DF set (mtu = 1280)"),
        ("fd00:2::2", "fd00:1::fe", "Packet too big: mtu=1280"),
    ] {
        loop {
            let said = pinged(&cable, &[&large[..], &["-W", "1", to]].concat());
            if said.contains(&format!("From {from} icmp_seq=1 {words}")) {
                break;
            }
            assert!(Instant::now() < deadline, "{to}: {said}");
        }
    }
    // The router could fragment this packet, and does not.
    let said = pinged(&cable, &["-M", "dont", "-s", "1400", "-W", "1", "198.51.100.1"]);
    assert!(said.contains(" 0 received, 100% packet loss"), "{said}");
    let hosts = send_files_by_tcp(&cable);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let (sent, suppressed) = errors(&ended, "m0");
    assert!(sent >= 4 + hosts && suppressed == 0, "{ended:#?}");
    assert_eq!(cause(&ended, "m0", "too_long"), sent + 1, "{ended:#?}");
}

/// Sends files to new hosts, so that TCP begins with segments of 1,500 bytes. Returns the number of hosts.
fn send_files_by_tcp(cable: &Cable) -> u64 {
    let contents: Vec<u8> = (0..500_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let hosts = ["198.51.100.1:7007", "[fd00:2::1]:7007"];
    for host in hosts {
        let listener = cable.right.enter(|| TcpListener::bind(host)).unwrap();
        let reader = thread::spawn(move || {
            let mut arrived = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut arrived).unwrap();
            arrived
        });
        let mut stream = cable.left.enter(|| TcpStream::connect(host)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&contents).unwrap();
        drop(stream);
        assert!(reader.join().unwrap() == contents, "{host}");
    }
    hosts.len() as u64
}

#[test]
fn no_error_answers_errors_fragments_or_broadcasts() {
    if !require_root("forward::no_error_answers_errors_fragments_or_broadcasts") {
        return;
    }
    let cable = networks("untold");
    let running = route(&cable, TABLE, &[]);
    let mut wire = Wire::new(&cable);
    let (right, udp) = ([198, 51, 100, 1], [0xc0, 0, 0x82, 0x35, 0, 8, 0, 0]);
    let quoted = v4(0, 17, right, &udp);
    let unreachable = |kind: u8| [&[kind, 1, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
    for packet in [
        v4(0, 1, right, &unreachable(3)),
        v4(0, 1, right, &unreachable(11)),
        v4(0x0010, 17, right, &udp),
        v4(0, 17, [198, 51, 100, 255], &udp),
        v6(58, &unreachable(1)),
        v6(58, &unreachable(2)),
        v6(44, &[17, 0, 0, 8, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8]),
    ] {
        wire.send(&packet);
    }
    // Similar packets that do get an error.
    wire.send(&v4(0, 1, right, &[8, 0, 0, 0, 0, 9, 0, 1]));
    wire.send(&v4(0x2000, 17, right, &udp));
    wire.send(&v6(58, &[128, 0, 0, 0, 0, 9, 0, 1]));
    // When a ping has come through, so have all packets before it.
    cable.assert_ping(1, &["198.51.100.1"]);
    let ended = running.stop();
    assert_eq!((cause(&ended, "m0", "ttl_expired"), errors(&ended, "m0")), (9, (3, 0)), "{ended:#?}");
    assert_eq!(cause(&ended, "m0", "directed_broadcast"), 1, "{ended:#?}");
}

#[test]
fn errors_about_a_flood_are_limited() {
    const FLOOD: u64 = 3_000;
    if !require_root("forward::errors_about_a_flood_are_limited") {
        return;
    }
    // Two workers share one limit.
    let cable = networks_by("flood", 2);
    let running = route(&cable, TABLE, &["--workers", "2"]);
    let mut wire = Wire::new(&cable);
    let listener = cable.listen("packet:l0", "told.pcapng", &["icmp[icmptype] == icmp-timxceed"]);
    // Many sources and flows, so that both workers get some.
    let packet = |number: u64| {
        let udp = [0xc0, number as u8, 0x82, 0x35, 0, 8, 0, 0];
        [&v4(0, 17, [198, 51, 100, 1], &udp)[..12], &[192, 0, 2, 10 + number as u8, 198, 51, 100, 1], &udp]
            .concat()
    };
    let begun = Instant::now();
    (0..FLOOD).for_each(|number| wire.send(&packet(number % 64)));
    cable.assert_ping(1, &["198.51.100.1"]);
    let took_ms = begun.elapsed().as_millis() as u64;
    let (ended, heard) = (running.stop(), listener.stop());
    assert_eq!(cause(&ended, "m0", "ttl_expired"), FLOOD, "{ended:#?}");
    let (sent, suppressed) = errors(&ended, "m0");
    assert_eq!(sent + suppressed, FLOOD, "{ended:#?}");
    assert!(sent >= 50 && sent <= 50 + took_ms + 1, "{sent} in {took_ms} ms");
    assert_eq!(heard.account().sum("delivered"), sent, "{heard:#?}");
    let account = ended.account();
    let queues = account.0["ports"][0]["transmitted"].as_array().unwrap();
    let packets: Vec<_> = queues.iter().map(|queue| queue["packets"].as_u64().unwrap()).collect();
    // The errors, and an answer to the ping.
    assert_eq!((packets.len(), packets.iter().sum::<u64>()), (2, sent + 1), "{ended:#?}");
    let workers = account.0["workers"].as_array().unwrap();
    assert!(workers.iter().all(|worker| worker["packets"].as_u64().unwrap() > 100), "{ended:#?}");
}

#[test]
fn a_flood_by_one_source_leaves_others_their_errors() {
    if !require_root("forward::a_flood_by_one_source_leaves_others_their_errors") {
        return;
    }
    let cable = networks("one_floods");
    cable.left.ip(&["addr", "add", "192.0.2.2/24", "dev", "l0"]).unwrap();
    let running = route(&cable, TABLE, &[]);
    let (is_over, mut wire) = (AtomicBool::new(false), Wire::new(&cable));
    let (sent, said) = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let packet = v4(0, 17, [198, 51, 100, 1], &[0xc0, 0, 0x82, 0x35, 0, 8, 0, 0]);
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                (0..100).for_each(|_| wire.send(&packet));
                sent += 100;
                thread::sleep(Duration::from_millis(5));
            }
            sent
        });
        thread::sleep(Duration::from_millis(500));
        let pings = ["-I", "192.0.2.2", "-t", "1", "-c", "10", "-i", "0.3", "-W", "2", "198.51.100.1"];
        let said = cable.ping(&pings);
        is_over.store(true, Ordering::Relaxed);
        (flood.join().unwrap(), String::from_utf8(said.stdout).unwrap())
    });
    let ended = running.stop();
    // By chance, one in 256 shares a group with the flood for a tenth of a second.
    let is_told = ["+8 errors", "+9 errors", "+10 errors"].iter().any(|errors| said.contains(errors));
    assert!(is_told, "after {sent} packets: {said}\n{ended:#?}");
    let (answered, suppressed) = errors(&ended, "m0");
    assert_eq!(answered + suppressed, sent + 10, "{ended:#?}");
    assert!(suppressed > sent / 2, "{ended:#?}");
}

#[test]
fn without_an_address_errors_are_suppressed_and_counted() {
    if !require_root("forward::without_an_address_errors_are_suppressed_and_counted") {
        return;
    }
    let cable = Cable::new("addressless", VethOptions::default());
    let table = format!("198.51.100.0/24 dev m1 lladdr {}\n", mac(&cable.right, "r0"));
    let running = route(&cable, &table, &[]);
    let mut wire = Wire::new(&cable);
    let packet = v4(0, 17, [198, 51, 100, 1], &[0xc0, 0, 0x82, 0x35, 0, 8, 0, 0]);
    (0..3).for_each(|_| wire.send(&packet));
    let listener = cable.listen("packet:r0", "sent.pcapng", &["-c", "1", "udp"]);
    let mut lasting = packet;
    lasting[8] = 9;
    wire.send(&lasting);
    assert_eq!(listener.wait().code, Some(0));
    let ended = running.stop();
    assert_eq!((cause(&ended, "m0", "ttl_expired"), errors(&ended, "m0")), (3, (0, 3)), "{ended:#?}");
}
