//! The router's own interfaces change while it runs: their Ethernet addresses, and whether they have a link.
//! And frames of which only a part is an IP packet.
//!
//! ```text
//!   left 192.0.2.1 ══ m0 .254 ─ wirecap forward --route ─ m1 .254 ══ right 198.51.100.1
//! ```

use std::fs;

use wirecap_headers::{MacAddress, checksum};
use wirecap_lab::{VethOptions, VethPair, require_root};
use wirecap_testing::wait_until;

use super::{
    Cable,
    routes::{cause, mac, networks, route},
    way,
};
use crate::lab::{READY, read};

const TABLE: &str = "
    192.0.2.0/24     dev m0
    198.51.100.0/24  dev m1
";
const NEW: &str = "02:77:00:00:00:01";

fn answers(cable: &Cable) -> bool {
    cable.ping(&["-c", "1", "-W", "1", "198.51.100.1"]).status.success()
}

#[test]
fn a_new_ethernet_address_of_an_interface_is_followed() {
    if !require_root("forward::a_new_ethernet_address_of_an_interface_is_followed") {
        return;
    }
    let cable = networks("new_mac");
    let running = route(&cable, TABLE, &[]);
    cable.assert_ping(3, &["198.51.100.1"]);
    // Of both interfaces: to one packets come, from the other they go.
    for (name, address) in [("m0", NEW), ("m1", "02:77:00:00:00:02")] {
        cable.middle.ip(&["link", "set", name, "address", address]).unwrap();
    }
    cable.left.ip(&["neigh", "flush", "dev", "l0"]).unwrap();
    cable.right.ip(&["neigh", "flush", "dev", "r0"]).unwrap();
    wait_until("a ping with the new addresses", || answers(&cable));
    cable.assert_ping(5, &["198.51.100.1"]);
    assert!(cable.left.ip(&["neigh"]).unwrap().contains(NEW));
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}

#[test]
fn packets_for_a_link_that_is_down_are_lost_to_that() {
    if !require_root("forward::packets_for_a_link_that_is_down_are_lost_to_that") {
        return;
    }
    let cable = networks("no_link");
    let running = route(&cable, TABLE, &["--fail-on-loss"]);
    cable.assert_ping(3, &["198.51.100.1"]);
    cable.right.ip(&["link", "set", "r0", "down"]).unwrap();
    // Until the router has noticed, and forgotten the neighbour.
    let pings = ["-c", "10", "-i", "0.2", "-W", "1", "198.51.100.1"];
    let said = String::from_utf8(cable.ping(&pings).stdout).unwrap();
    assert!(said.contains(" 0 received"), "{said}");
    assert!(!said.contains("errors"), "no error about a link that is down: {said}");
    cable.right.ip(&["link", "set", "r0", "up"]).unwrap();
    // It was removed with the link.
    cable.right.ip(&["route", "add", "default", "via", "198.51.100.254"]).unwrap();
    wait_until("a ping after the link is up", || answers(&cable));
    let ended = running.stop();
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    let [of_link, of_neighbour] = ["link_down", "no_neighbour"].map(|name| cause(&ended, "m0", name));
    // A packet that came before the router had noticed, or just after the link was up, may have waited.
    assert!(of_link >= 6 && of_neighbour <= 4, "{of_link}, {of_neighbour}: {ended:#?}");
}

#[test]
fn a_router_goes_on_without_one_of_three_interfaces_and_ends_without_two() {
    if !require_root("forward::a_router_goes_on_without_one_of_three_interfaces_and_ends_without_two") {
        return;
    }
    let cable = networks("one_of_three");
    let pair = VethPair::new(&cable.middle, "t0", &cable.middle, "m2", VethOptions::default()).unwrap();
    cable.middle.ip(&["addr", "add", "203.0.113.254/24", "dev", "m2"]).unwrap();
    let path = cable.path("table.txt");
    fs::write(&path, format!("{TABLE}203.0.113.0/24 dev m2\n")).unwrap();
    let running = cable.spawn(&["forward", "m0", "m1", "m2", "--json", "--route", path.to_str().unwrap()]);
    running.wait_for(READY);
    cable.assert_ping(3, &["198.51.100.1"]);
    drop(pair);
    running.wait_for(
        "m2 was removed, or moved to another network namespace; the router goes on with the others",
    );
    // To a network that is gone with its interface, and to one that is still there.
    assert!(!cable.ping(&["-c", "5", "-i", "0.2", "-W", "1", "203.0.113.1"]).status.success());
    cable.assert_ping(5, &["198.51.100.1"]);
    cable.middle.ip(&["link", "del", "m1"]).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    for text in
        ["m1 was removed, or moved to another network namespace; forwarding ends", "m1, m2 were removed"]
    {
        assert!(ended.stderr.contains(text), "{text}: {ended:#?}");
    }
    let [gone, of_neighbour] = ["gone", "no_neighbour"].map(|name| cause(&ended, "m0", name));
    assert!(gone >= 5 && of_neighbour == 0, "{gone}, {of_neighbour}: {ended:#?}");
}

#[test]
fn what_is_behind_a_packet_stays_on_its_link() {
    if !require_root("forward::what_is_behind_a_packet_stays_on_its_link") {
        return;
    }
    let cable = networks("trailer");
    let listener = cable.listen("packet:r0", "heard.pcapng", &["udp port 33333"]);
    let running = route(&cable, TABLE, &[]);
    cable.assert_ping(1, &["198.51.100.1"]);
    let [router, left] = [mac(&cable.middle, "m0"), mac(&cable.left, "l0")];
    let [router, left] = [router, left].map(|mac| mac.parse::<MacAddress>().unwrap().0);
    let mut sender = cable.sender();
    let lengths = [0, 4, 100, 1_300];
    for payload in lengths {
        let [high, low] = (28 + payload as u16).to_be_bytes();
        let mut packet = vec![0x45, 0, high, low, 0, 7, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
        let [high, low] = (8 + payload as u16).to_be_bytes();
        packet.extend([0xc0, 0, 0x82, 0x35, high, low, 0, 0]);
        packet.extend(vec![b'x'; payload]);
        let _ = checksum::fill(&mut packet);
        let trailer = b"SECRET".repeat(20);
        sender.send(&[&router[..], &left, &[0x08, 0x00], &packet, &trailer].concat()).unwrap();
    }
    // When a ping has come through, so have all packets before it.
    cable.assert_ping(1, &["198.51.100.1"]);
    let (ended, _) = (running.stop(), listener.stop());
    let packets = read(&cable.path("heard.pcapng")).packets;
    let heard: Vec<_> = packets.into_iter().map(|packet| packet.data).collect();
    assert!(heard.iter().all(|frame| !frame.windows(6).any(|bytes| bytes == b"SECRET")), "{heard:02x?}");
    let expected = lengths.map(|payload| (14 + 28 + payload).max(60));
    assert_eq!(heard.iter().map(Vec::len).collect::<Vec<_>>(), expected);
    assert_eq!(way(&ended, "m0")["dropped"]["too_long"], 0, "{ended:#?}");
}
