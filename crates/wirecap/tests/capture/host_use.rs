//! Uses of an interface by the host other than an address and visible interfaces on top of it: an interface
//! in use is captured passively, any other one is taken.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use wirecap::{Builder, Capture, HostUse, HostView, PortEvent};
use wirecap_lab::{Namespace, VethOptions};

use wirecap_testing::{need_root, wait_until, wire::Wire};

use crate::passive::{left_to_the_host, taken};

/// Listens until its standard input is closed: with an EtherType, on in0 or, without a name, on all
/// interfaces.
const LISTEN: &str = r#"
import socket, sys
listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(int(sys.argv[1], 16)))
if len(sys.argv) > 2:
    listener.bind((sys.argv[2], 0))
print(flush=True)
sys.stdin.read()
"#;

/// Is a member of a multicast group until its standard input is closed.
const JOIN: &str = r#"
import socket, struct, sys
member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
interface = struct.pack("4s4si", socket.inet_aton(sys.argv[1]), b"", socket.if_nametoindex(sys.argv[2]))
member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, interface)
print(flush=True)
sys.stdin.read()
"#;

/// A program inside, already running; it ends when this is dropped.
struct BackgroundProgram(Child);

impl BackgroundProgram {
    fn start(wire: &Wire, program: &str, arguments: &[&str]) -> Self {
        let mut command = wire.inside.command("python3");
        command.args(["-c", program]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "\n", "the program is running");
        Self(child)
    }

    /// The name of its process in reports.
    fn pid(&self) -> String {
        format!("\"pid\":{}", self.0.id())
    }
}

impl Drop for BackgroundProgram {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

fn small() -> Builder {
    Capture::builder().chunks_per_pool(4)
}

/// Runs ip(8) inside.
fn ip(wire: &Wire, line: &str) {
    wire.inside.ip(&line.split(' ').collect::<Vec<_>>()).unwrap();
}

#[test]
fn a_route_over_an_interface_without_an_address_is_use() {
    need_root!("host_use::a_route_over_an_interface_without_an_address_is_use");
    let wire = Wire::with_queues("unnumbered", 1);
    ip(&wire, "address add 192.0.2.1/32 dev lo");
    taken(&wire, "in0");
    ip(&wire, "route add 198.51.100.0/24 dev in0 src 192.0.2.1");
    left_to_the_host(&wire, &["in_use", "route", "198.51.100.0/24"]);
    taken(&wire, "xdp:in0");
    ip(&wire, "route del 198.51.100.0/24 dev in0");
    taken(&wire, "in0");
    ip(&wire, "route add default dev in0 table 77");
    left_to_the_host(&wire, &["route", "default"]);
    ip(&wire, "route flush table 77");
    // A route with several hops, and a hop with its own name.
    wire.inside.ip(&["link", "set", "dev", "lo", "up"]).unwrap();
    ip(&wire, "route add 203.0.113.0/24 nexthop dev lo nexthop dev in0");
    left_to_the_host(&wire, &["route", "203.0.113.0/24"]);
    ip(&wire, "route del 203.0.113.0/24");
    ip(&wire, "nexthop add id 5 dev in0");
    taken(&wire, "in0");
    ip(&wire, "route add 203.0.113.0/24 nhid 5");
    left_to_the_host(&wire, &["route", "203.0.113.0/24"]);
}

#[test]
fn ipv6_routes_are_use_except_automatic_ones() {
    need_root!("host_use::ipv6_routes_are_use_except_automatic_ones");
    let wire = Wire::new("routes6", VethOptions { ipv6: true, ..VethOptions::default() });
    let has_link_local =
        || wire.inside.ip(&["-6", "route", "show", "dev", "in0"]).unwrap().contains("fe80::");
    wait_until("the link-local address is there", has_link_local);
    taken(&wire, "in0");
    // BGP unnumbered: the next hop of IPv4 has a link-local address.
    ip(&wire, "address add 192.0.2.1/32 dev lo");
    ip(&wire, "route add 198.51.100.0/24 via inet6 fe80::1 dev in0 src 192.0.2.1");
    left_to_the_host(&wire, &["route", "198.51.100.0/24"]);
    ip(&wire, "route del 198.51.100.0/24");
    ip(&wire, "-6 route add 2001:db8:1::/48 via fe80::1 dev in0");
    left_to_the_host(&wire, &["route", "2001:db8:1::/48"]);
    ip(&wire, "-6 route del 2001:db8:1::/48");
    taken(&wire, "in0");
}

#[test]
fn an_upper_device_in_another_namespace_is_use() {
    need_root!("host_use::an_upper_device_in_another_namespace_is_use");
    let wire = Wire::with_queues("moved", 1);
    let container = Namespace::new("moved_container").unwrap();
    for mode in ["bridge", "passthru"] {
        ip(&wire, &format!("link add link in0 name mac0 type macvlan mode {mode}"));
        wire.inside.ip(&["link", "set", "dev", "mac0", "netns", container.name()]).unwrap();
        taken(&wire, "in0");
        container.ip(&["link", "set", "dev", "mac0", "up"]).unwrap();
        left_to_the_host(&wire, &["hidden_upper"]);
        taken(&wire, "xdp:in0");
        container.ip(&["link", "del", "dev", "mac0"]).unwrap();
        taken(&wire, "in0");
    }
}

/// It hands the multicast addresses that it is asked for down to the interface below.
#[test]
fn a_macvlan_with_nothing_on_top_is_not_in_use() {
    need_root!("host_use::a_macvlan_with_nothing_on_top_is_not_in_use");
    let wire = Wire::with_queues("macvlan", 1);
    for mode in ["bridge", "private"] {
        ip(&wire, &format!("link add link in0 name mac0 type macvlan mode {mode}"));
        ip(&wire, "link set dev mac0 up");
        let choice = wire.inside.enter(|| HostView::read().unwrap().choose("mac0")).unwrap();
        assert_eq!(choice.uses, [], "{mode}");
        ip(&wire, "link del dev mac0");
    }
}

#[test]
fn foreign_entries_of_the_bridge_table_are_use() {
    need_root!("host_use::foreign_entries_of_the_bridge_table_are_use");
    let wire = Wire::with_queues("fdb", 1);
    let fdb = |action: &str| {
        let mut command = wire.inside.command("bridge");
        let arguments = ["fdb", action, "02:00:00:00:00:99", "dev", "in0", "self", "permanent"];
        assert!(command.args(arguments).status().unwrap().success());
    };
    fdb("add");
    left_to_the_host(&wire, &["foreign_address", "02:00:00:00:00:99"]);
    fdb("del");
    taken(&wire, "in0");
}

#[test]
fn a_multicast_group_that_the_host_has_joined_is_use() {
    need_root!("host_use::a_multicast_group_that_the_host_has_joined_is_use");
    let wire = Wire::with_queues("groups", 1);
    // Routers that speak OSPF join this group.
    let member = BackgroundProgram::start(&wire, JOIN, &["224.0.0.5", "in0"]);
    left_to_the_host(&wire, &["multicast_group", "224.0.0.5"]);
    drop(member);
    taken(&wire, "in0");
}

#[test]
fn a_listener_is_use() {
    need_root!("host_use::a_listener_is_use");
    let wire = Wire::with_queues("listeners", 1);
    taken(&wire, "in0");
    let ids = BackgroundProgram::start(&wire, LISTEN, &["0003", "in0"]);
    left_to_the_host(&wire, &["listener", "python3", &ids.pid()]);
    taken(&wire, "xdp:in0");
    drop(ids);
    taken(&wire, "in0");

    let all = BackgroundProgram::start(&wire, LISTEN, &["0003"]);
    left_to_the_host(&wire, &["listener", "python3", &all.pid(), "\"on_all_interfaces\":true"]);
    drop(all);
    // A DHCP client that waits for an answer listens like this.
    let dhcp = BackgroundProgram::start(&wire, LISTEN, &["0800", "in0"]);
    left_to_the_host(&wire, &["listener", "python3", &dhcp.pid()]);
    drop(dhcp);
    // A socket without an EtherType only sends; one on another interface receives nothing from this one.
    let sender = BackgroundProgram::start(&wire, LISTEN, &["0000", "in0"]);
    let other = BackgroundProgram::start(&wire, LISTEN, &["0003", "lo"]);
    taken(&wire, "in0");
    drop((sender, other));
}

#[test]
fn a_listener_for_lldp_does_not_keep_the_interface() {
    need_root!("host_use::a_listener_for_lldp_does_not_keep_the_interface");
    let wire = Wire::with_queues("lldp", 1);
    let _agent = BackgroundProgram::start(&wire, LISTEN, &["88cc", "in0"]);
    taken(&wire, "in0");
}

#[test]
fn an_ingress_filter_of_traffic_control_is_use() {
    need_root!("host_use::an_ingress_filter_of_traffic_control_is_use");
    let wire = Wire::with_queues("tc", 1);
    let tc = |line: &str| {
        let status = wire.inside.command("tc").args(line.split(' ')).status().unwrap();
        assert!(status.success(), "tc {line}");
    };
    tc("qdisc add dev in0 clsact");
    taken(&wire, "in0");
    tc("filter add dev in0 egress protocol ip prio 1 u32 match u32 0 0 action mirred egress redirect dev lo");
    taken(&wire, "in0");
    tc(
        "filter add dev in0 ingress protocol ip prio 1 u32 match u32 0 0 action mirred egress redirect dev lo",
    );
    left_to_the_host(&wire, &["ingress_filter", "u32"]);
    taken(&wire, "xdp:in0");
}

#[test]
fn a_use_that_begins_during_a_capture_is_reported_once() {
    need_root!("host_use::a_use_that_begins_during_a_capture_is_reported_once");
    let wire = Wire::with_queues("begins", 2);
    let known = BackgroundProgram::start(&wire, LISTEN, &["0003", "in0"]);
    let mut captures = ["xdp:in0@0", "xdp:in0@1"].map(|port| wire.capture_of(port, small()));
    let new = BackgroundProgram::start(&wire, LISTEN, &["0003", "in0"]);
    for capture in &mut captures {
        let mut begun = Vec::new();
        wait_until("the use is reported", || {
            begun.extend(
                capture.events().into_iter().filter(|event| matches!(event, PortEvent::InUse { .. })),
            );
            !begun.is_empty()
        });
        let [PortEvent::InUse { uses, .. }] = &begun[..] else { panic!("{begun:?}") };
        let [HostUse::Listener { processes, .. }] = &uses[..] else { panic!("{uses:?}") };
        assert_eq!(processes[0].pid, new.0.id());
        let uses = &capture.report().ports[0].host_use;
        let of = |running: &BackgroundProgram| {
            let pid = running.0.id();
            uses.iter()
                .any(|one| matches!(one, HostUse::Listener { processes, .. } if processes[0].pid == pid))
        };
        assert!(of(&known) && of(&new), "{uses:?}");
    }
}

#[test]
fn another_interface_in_use_does_not_matter() {
    need_root!("host_use::another_interface_in_use_does_not_matter");
    let wire = Wire::with_queues("others", 1);
    let options = VethOptions { addresses_b: vec!["192.0.2.2/24".into()], ..VethOptions::default() };
    let _second = wirecap_lab::VethPair::new(&wire.outside, "out1", &wire.inside, "in1", options).unwrap();
    ip(&wire, "route add 198.51.100.0/24 dev in1");
    ip(&wire, "link add link in1 name mac1 type macvlan");
    ip(&wire, "link set dev mac1 up");
    taken(&wire, "in0");
}
