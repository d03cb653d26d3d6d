//! The small router: hosts of different networks, the kernel's neighbours, and packets that are not routed.
//!
//! ```text
//!   left 192.0.2.1 ══ m0 .254 ─ wirecap forward --route ─ m1 .254 ══ right 198.51.100.1
//! ```

use std::fs;

use wirecap_lab::{MachineLock, VethOptions, require_root};

use super::{Cable, way};
use crate::lab::{CommandOutput, READY, RunningCommand};

/// Hosts that use the middle as their router.
pub fn networks(label: &str) -> Cable {
    networks_by(label, 1)
}

/// The same, with this number of queues per interface.
pub fn networks_by(label: &str, queues: u32) -> Cable {
    let cable = Cable::new(label, VethOptions { ipv6: true, queues, ..VethOptions::default() });
    let ip = |host: &wirecap_lab::Namespace, line: &str| {
        host.ip(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
    };
    ip(&cable.right, "addr flush dev r0 scope global");
    ip(&cable.left, "addr del fd00::1/64 dev l0");
    for (host, name, number) in [(&cable.left, "l0", 1), (&cable.right, "r0", 2)] {
        ip(host, &format!("addr add fd00:{number}::1/64 dev {name} nodad"));
        ip(&cable.middle, &format!("addr add fd00:{number}::fe/64 dev m{} nodad", number - 1));
    }
    ip(&cable.right, "addr add 198.51.100.1/24 dev r0");
    ip(&cable.middle, "addr add 192.0.2.254/24 dev m0");
    ip(&cable.middle, "addr add 198.51.100.254/24 dev m1");
    ip(&cable.left, "route add default via 192.0.2.254");
    ip(&cable.right, "route add default via 198.51.100.254");
    ip(&cable.left, "route add default via fd00:1::fe");
    ip(&cable.right, "route add default via fd00:2::fe");
    cable
}

pub fn route(cable: &Cable, table: &str, arguments: &[&str]) -> RunningCommand {
    let path = cable.path("table.txt");
    fs::write(&path, table).unwrap();
    let running = cable
        .spawn(&[&["forward", "m0", "m1", "--json", "--route", path.to_str().unwrap()], arguments].concat());
    running.wait_for(READY);
    running
}

/// The Ethernet address of an interface.
pub fn mac(host: &wirecap_lab::Namespace, name: &str) -> String {
    let shown = host.ip(&["-br", "link", "show", name]).unwrap();
    shown.split_whitespace().nth(2).unwrap().to_owned()
}

pub fn cause(ended: &CommandOutput, from: &str, name: &str) -> u64 {
    way(ended, from)["dropped"][name].as_u64().unwrap()
}

#[test]
fn hosts_of_two_networks_reach_each_other_through_the_router() {
    if !require_root("forward::hosts_of_two_networks_reach_each_other_through_the_router") {
        return;
    }
    let cable = networks("routes");
    let table = "
        192.0.2.0/24     dev m0          # on the link
        fd00:1::/64      dev m0
        198.51.100.0/24  dev m1
        ::/0             dev m1 via fd00:2::1
        203.0.113.7      drop
    ";
    let running = route(&cable, table, &["--drop", "icmp[icmptype] == icmp-echo and greater 1000"]);
    cable.assert_ping(10, &["198.51.100.1"]);
    cable.assert_ping(10, &["fd00:2::1"]);
    // The host answers for the router's own address.
    cable.assert_ping(2, &["192.0.2.254"]);
    cable.assert_ping(2, &["fd00:1::fe"]);
    let lost = |arguments: &[&str]| {
        let output = cable.ping(&[&["-c", "2", "-i", "0.01", "-W", "4"], arguments].concat());
        assert!(String::from_utf8_lossy(&output.stdout).contains(" 0 received"), "{arguments:?}: {output:?}");
    };
    lost(&["-s", "1200", "198.51.100.1"]);
    lost(&["-t", "1", "198.51.100.1"]);
    lost(&["203.0.113.7"]);
    lost(&["203.0.113.8"]);
    // No such host: the router asks for it, and gives up.
    lost(&["198.51.100.77"]);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for (name, packets) in [("unwanted", 2), ("ttl_expired", 2), ("no_route", 4), ("no_neighbour", 2)] {
        assert_eq!(cause(&ended, "m0", name), packets, "{name}: {ended:#?}");
    }
    assert!(way(&ended, "m0")["forwarded"].as_u64().unwrap() >= 20);
    assert!(way(&ended, "m1")["forwarded"].as_u64().unwrap() >= 20);
    assert!(way(&ended, "m0")["to"].is_null());
}

/// The router changes the first cell; the filter sees all of them.
#[test]
fn packets_of_several_cells_are_filtered_as_a_whole() {
    if !require_root("forward::packets_of_several_cells_are_filtered_as_a_whole") {
        return;
    }
    let cable = networks("whole");
    for end in [cable.first.a(), cable.first.b(), cable.second.a(), cable.second.b()] {
        end.set_mtu(9000).unwrap();
    }
    let table = "192.0.2.0/24 dev m0\n198.51.100.0/24 dev m1";
    let running = route(&cable, table, &["--pass", "", "--drop", "ether[3000] = 0x5a"]);
    let passes = |pattern, bytes| {
        let arguments = ["-c", "1", "-W", "4", "-M", "do", "-p", pattern, "-s", bytes, "198.51.100.1"];
        String::from_utf8_lossy(&cable.ping(&arguments).stdout).contains(" 1 received")
    };
    assert!(passes("41", "4000") && passes("5a", "1000"));
    assert!(!passes("5a", "4000"));
    let ended = running.stop();
    assert_eq!(cause(&ended, "m0", "unwanted"), 1, "{ended:#?}");
}

#[test]
fn next_hops_may_be_given_and_several_ports_may_be_routed() {
    if !require_root("forward::next_hops_may_be_given_and_several_ports_may_be_routed") {
        return;
    }
    let cable = networks("hops");
    let third = wirecap_lab::Namespace::new("hops_third").unwrap();
    let _pair =
        wirecap_lab::VethPair::new(&third, "t0", &cable.middle, "m2", VethOptions::default()).unwrap();
    third.ip(&["addr", "add", "203.0.113.1/24", "dev", "t0"]).unwrap();
    third.ip(&["route", "add", "default", "dev", "t0"]).unwrap();
    third.ip(&["neigh", "add", "192.0.2.1", "lladdr", &mac(&cable.middle, "m2"), "dev", "t0"]).unwrap();
    let table = format!(
        "192.0.2.0/24 dev m0 lladdr {}\n0.0.0.0/0 dev m1 via 198.51.100.1\n203.0.113.0/24 dev m2 lladdr {}\n",
        mac(&cable.left, "l0"),
        mac(&third, "t0"),
    );
    let path = cable.path("table.txt");
    fs::write(&path, table).unwrap();
    let running = cable.spawn(&["forward", "m0", "m1", "m2", "--json", "--route", path.to_str().unwrap()]);
    running.wait_for(READY);
    cable.assert_ping(5, &["203.0.113.1"]);
    cable.assert_ping(5, &["198.51.100.1"]);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(way(&ended, "m2")["forwarded"].as_u64().unwrap() >= 5);
}

#[test]
fn an_invalid_table_is_refused_with_its_line() {
    if !require_root("forward::an_invalid_table_is_refused_with_its_line") {
        return;
    }
    let cable = networks("tables");
    let path = cable.path("table.txt");
    let name = path.to_str().unwrap();
    for (table, arguments, code, words) in [
        ("10.0.0.0/8 dev m1\n10.0.0.0/33 dev m1\n", &[][..], 2, "line 2"),
        ("10.0.0.1/8 dev m1\n", &[], 2, "line 1"),
        ("", &[], 2, "--route: the routes lead over no interface"),
        ("10.0.0.0/8 drop\n", &[], 2, "--route: the routes lead over no interface"),
        ("10.0.0.0/8 dev eth9\n", &[], 2, "eth9, but the interfaces are m0, m1"),
        ("10.0.0.0/8 dev m1\n", &["--vlan", "1=2"], 2, "--vlan is for a cable"),
        ("10.0.0.0/8 dev m1\n", &["--pass", "udp prt 1"], 2, "syntax error"),
    ] {
        fs::write(&path, table).unwrap();
        let ended = cable.spawn(&[&["forward", "m0", "m1", "--route", name], arguments].concat()).wait();
        assert_eq!(ended.code, Some(code), "{table:?} {arguments:?}: {ended:#?}");
        assert!(ended.stderr.contains(words), "{table:?} {arguments:?}: {ended:#?}");
    }
    let ended = cable.spawn(&["forward", "m0", "m1", "--route", "/nowhere/table.txt"]).wait();
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.stderr.contains("cannot read the routes in /nowhere/table.txt"), "{ended:#?}");
}

#[test]
fn packets_without_an_answering_next_hop_do_not_use_up_the_pools() {
    if !require_root("forward::packets_without_an_answering_next_hop_do_not_use_up_the_pools") {
        return;
    }
    // Another scan would fill up the kernel's table of neighbours, which all namespaces share.
    let _alone = MachineLock::wait_for("neighbours");
    let cable = networks("scan");
    let table = "192.0.2.0/24 dev m0\n198.51.100.0/24 dev m1";
    let running = route(&cable, table, &["-M", "64", "-R", "4"]);
    cable.assert_ping(3, &["198.51.100.1"]);
    // A packet whose next hop does not answer waits for three seconds while hundreds pass. Without a copy, it
    // would pin a whole chunk. With `-w`, ping(8) waits for late answers too; without it, no longer than
    // twice the longest one so far.
    let scan = "for last in $(seq 100 129); do
        ping -q -c 1 -W 1 198.51.100.$last > /dev/null &
        ping -q -i 0.0002 -c 100 -w 20 198.51.100.1 | grep 'packets transmitted'
    done; wait";
    let output = cable.left.command("sh").args(["-c", scan]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // ping(8) may send one more while it waits for the last answer.
    assert_eq!(said.matches(" 0% packet loss").count(), 30, "{said}");
    let ended = running.stop();
    assert_eq!(cause(&ended, "m0", "no_neighbour"), 30, "{ended:#?}");
    let lost = &ended.account().0["ports"][0]["queues"][0]["lost"];
    assert_eq!(lost["no_free_cell"], 0, "{lost:#}");
}
