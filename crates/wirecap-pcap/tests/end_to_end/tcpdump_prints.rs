//! What tcpdump prints.

use std::{io::ErrorKind, net::TcpStream};

use nix::sys::signal::Signal;
use wirecap_lab::VethOptions;
use wirecap_testing::need_root;
use wirecap_traffic::FrameSpec;

use crate::{
    frames::{LAST, frame, mixture, mixture_with_tags, udp},
    rig::{LIBRARIES, Library, PORT, Rig, same},
};

const FRAMES: u64 = 100;
const PINGS: u32 = 5;

impl Rig {
    /// What `tcpdump -i DEVICE` prints of these frames, without times. The last of them it prints.
    fn tcpdump(&self, library: Library, device: &str, arguments: &[&str], frames: &[Vec<u8>]) -> String {
        let always = ["-i", device, "-n", "-t", "-l", "-e"];
        let program = self.spawn(library, "tcpdump", &[&always, arguments].concat());
        program.running.wait_for("listening on");
        self.send(frames);
        program.wait_for_output(LAST);
        program.running.signal(Signal::SIGINT);
        program.succeed()
    }
}

#[test]
fn it_prints_the_same_of_frames_of_all_kinds_and_lengths() {
    need_root!("it_prints_the_same_of_frames_of_all_kinds_and_lengths");
    let rig = Rig::new("prints");
    let frames = mixture_with_tags(FRAMES);
    for arguments in [
        &["-xx"][..],
        &["-xx", "-s", "64"],
        // libpcap reserves this much for each packet.
        &["--immediate-mode", "-s", "2000"],
        &["-B", "4096", "-j", "host"],
        &["-p", "-c", "100"],
    ] {
        let what = arguments.join(" ");
        let printed = same(&what, |library| rig.tcpdump(library, PORT, arguments, &frames));
        assert_eq!(printed.matches("02:00:00:00:00:01 >").count(), FRAMES as usize, "{what}: {printed}");
    }
}

#[test]
fn filters_let_the_same_frames_through() {
    need_root!("filters_let_the_same_frames_through");
    let rig = Rig::new("lets");
    let frames = mixture(FRAMES);
    for (filter, packets) in [
        ("ip and port 9", 67),
        ("udp", 75),
        ("src host 198.18.0.0", 34),
        ("greater 800 and udp", 33),
        ("ether src 02:00:00:00:00:01 and not tcp and not ip6", 50),
        ("ether dst 02:00:00:00:00:99", 1),
    ] {
        let printed = same(filter, |library| rig.tcpdump(library, PORT, &["-xx", filter], &frames));
        assert_eq!(printed.matches("02:00:00:00:00:01 >").count(), packets, "{filter}: {printed}");
    }
}

#[test]
fn vlan_filters_find_tagged_frames() {
    need_root!("vlan_filters_find_tagged_frames");
    let rig = Rig::new("vlan");
    let tagged =
        |vlan, sequence| frame(FrameSpec { len: 64, vlan: Some(vlan), ..FrameSpec::default() }, 0, sequence);
    let mut frames: Vec<_> =
        (0..30).flat_map(|sequence| [udp(60, sequence), tagged(8, sequence), tagged(7, sequence)]).collect();
    frames.last_mut().unwrap()[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x99]);
    // Without `vlan`, a filter sees packets as if they had no tag.
    for filter in ["udp port 9", "ip and not tcp", "ether proto 0x800 and greater 60"] {
        same(filter, |library| rig.tcpdump(library, PORT, &["-xx", filter], &frames));
    }
    for filter in ["vlan", "vlan 7", "vlan 7 and udp port 9"] {
        let printed = same(filter, |library| rig.tcpdump(library, PORT, &["-xx", filter], &frames));
        assert_eq!(printed.matches("vlan 7,").count(), 30, "{printed}");
        assert_eq!(printed.matches("vlan 8,").count(), if filter == "vlan" { 30 } else { 0 });
    }
}

#[test]
fn jumbo_frames_are_whole() {
    need_root!("jumbo_frames_are_whole");
    let rig = Rig::with("jumbo", VethOptions { mtu: 9000, ..VethOptions::default() });
    let mut frames: Vec<_> =
        (0..40).map(|sequence| udp(if sequence % 2 == 0 { 9014 } else { 5000 }, sequence)).collect();
    frames.last_mut().unwrap()[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x99]);
    let device = |library, settings: &str| match library {
        Library::System => PORT.to_owned(),
        Library::Wirecap => format!("{PORT}{settings}"),
    };
    for settings in ["", "?xdp_mode=copy", "?cell_bytes=4096&xdp_mode=copy"] {
        let printed =
            same(settings, |library| rig.tcpdump(library, &device(library, settings), &["-xx"], &frames));
        assert_eq!(printed.matches("0x2320:").count(), 20, "{settings}: {printed:.2000}");
    }
}

impl Rig {
    /// What tcpdump prints of some pings of an address of the captured interface.
    fn tcpdump_of_pings(&self, library: Library, arguments: &[&str]) -> String {
        let always = ["-i", PORT, "-n", "-t", "-l"];
        let program = self.spawn(library, "tcpdump", &[&always, arguments].concat());
        program.running.wait_for("listening on");
        self.ping(PINGS);
        program.succeed()
    }
}

/// Requires of tcpdump's output these numbers of packets.
#[track_caller]
fn assert_pings(printed: &str, requests: usize, replies: usize) {
    let found = (printed.matches("echo request").count(), printed.matches("echo reply").count());
    assert_eq!(found, (requests, replies), "{printed}");
}

#[test]
fn directions_are_told_apart_on_an_interface_that_the_host_uses() {
    need_root!("directions_are_told_apart_on_an_interface_that_the_host_uses");
    let rig = Rig::with_addresses("directions");
    for (direction, count, requests, replies) in
        [("in", "5", 5, 0), ("out", "5", 0, 5), ("inout", "10", 5, 5)]
    {
        let arguments = ["-Q", direction, "-c", count, "icmp"];
        let printed = same(direction, |library| rig.tcpdump_of_pings(library, &arguments));
        assert_pings(&printed, requests, replies);
    }
}

/// On libpcap, packets that come while the filter is set are lost: its filter in user space does not know
/// directions.
#[test]
fn filters_know_directions() {
    need_root!("filters_know_directions");
    let rig = Rig::with_addresses("inbound");
    for (filter, requests, replies) in [("icmp and inbound", 5, 0), ("icmp and outbound", 0, 5)] {
        let printed = rig.tcpdump_of_pings(Library::Wirecap, &["-c", "5", filter]);
        assert_pings(&printed, requests, replies);
    }
}

/// As Suricata switches them off before it opens a device.
#[test]
fn where_offloads_are_off_checksums_of_the_host_are_complete() {
    need_root!("where_offloads_are_off_checksums_of_the_host_are_complete");
    let rig = Rig::with_addresses("checksums");
    rig.wire.inside.ethtool(&["-K", PORT, "tx", "off", "tso", "off"]).unwrap();
    for library in LIBRARIES {
        let arguments =
            ["-i", PORT, "-Q", "out", "-n", "-t", "-l", "-v", "-c", "1", "tcp[tcpflags] == tcp-syn"];
        let program = rig.spawn(library, "tcpdump", &arguments);
        program.running.wait_for("listening on");
        let refused = rig.wire.inside.enter(|| TcpStream::connect("192.0.2.1:7"));
        assert_eq!(refused.map(drop).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let printed = program.succeed();
        assert!(printed.contains("(correct)") && !printed.contains("incorrect"), "{library:?}: {printed}");
    }
}
