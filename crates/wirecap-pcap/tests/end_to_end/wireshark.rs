//! tshark and dumpcap, which tshark captures with.

use std::{fs, path::Path};

use crate::{
    frames::{mixture, mixture_with_tags, udp},
    rig::{Library, PORT, Program, Rig, as_lines, files, packets, same, send_from},
};

impl Rig {
    /// Starts dumpcap, which writes to `path`, and waits until it captures.
    fn dumpcap(&self, library: Library, path: &Path, arguments: &[&str]) -> Program {
        let to = ["-q", "-w", path.to_str().unwrap()];
        let program = self.spawn(library, "dumpcap", &[arguments, &to].concat());
        program.running.wait_for("File: ");
        program
    }
}

#[test]
fn tshark_prints_fields_of_the_packets_that_a_display_filter_wants() {
    need_program!("tshark_prints_fields_of_the_packets_that_a_display_filter_wants", "tshark", "tshark");
    let rig = Rig::new("tshark");
    let frames = mixture_with_tags(100);
    let fields = ["frame.number", "frame.len", "eth.dst", "vlan.id", "ip.src", "ipv6.src", "udp.length"];
    let fields = fields.map(|field| ["-e", field]).concat();
    let arguments =
        [&["-i", PORT, "-c", "100", "-l", "-n", "-Y", "udp", "-T", "fields"], &fields[..]].concat();
    let printed = same("tshark", |library| {
        let program = rig.spawn(library, "tshark", &arguments);
        program.running.wait_for("Capture started");
        rig.send(&frames);
        program.succeed()
    });
    assert_eq!(printed.lines().count(), 75, "{printed}");
}

#[test]
fn dumpcap_captures_from_two_interfaces_at_once() {
    need_program!("dumpcap_captures_from_two_interfaces_at_once", "dumpcap", "wireshark-common");
    let rig = Rig::new("dumpcap");
    let second = rig.second_pair();
    let (first_frames, second_frames) = (mixture_with_tags(200), mixture(100));
    let lines = same("two interfaces", |library| {
        let file = rig.path(&format!("{library:?}.pcapng"));
        let program = rig.dumpcap(library, &file, &["-i", PORT, "-i", "in1", "-c", "300"]);
        rig.send(&first_frames);
        send_from(&second, &second_frames);
        program.succeed();
        // Each interface has its own order.
        let packets = packets(&file);
        let of = |interface| {
            let packets = packets.iter().filter(|packet| packet.interface == interface).cloned();
            as_lines(&packets.collect::<Vec<_>>())
        };
        format!("{}then\n{}", of(0), of(1))
    });
    let (first, second) = lines.split_once("then\n").unwrap();
    assert_eq!((first.lines().count(), second.lines().count()), (200, 100));
}

#[test]
fn dumpcap_writes_a_ring_of_files() {
    need_program!("dumpcap_writes_a_ring_of_files", "dumpcap", "wireshark-common");
    let rig = Rig::new("ring");
    let frames: Vec<_> = (0..550).map(|sequence| udp(100, sequence)).collect();
    let lines = same("a ring", |library| {
        let directory = rig.path(&format!("{library:?}"));
        fs::create_dir(&directory).unwrap();
        let arguments = ["-i", PORT, "-c", "550", "-b", "packets:100", "-b", "files:3"];
        let program = rig.dumpcap(library, &directory.join("ring.pcapng"), &arguments);
        rig.send(&frames);
        program.succeed();
        let files = files(&directory);
        files.iter().map(|file| format!("a file\n{}", as_lines(&packets(file)))).collect()
    });
    assert_eq!((lines.matches("a file").count(), lines.lines().count()), (3, 3 + 250));
}

#[test]
fn dumpcap_filters_and_cuts() {
    need_program!("dumpcap_filters_and_cuts", "dumpcap", "wireshark-common");
    let rig = Rig::new("cuts");
    let frames = mixture(200);
    let lines = same("a filter and a snap length", |library| {
        let file = rig.path(&format!("{library:?}.pcapng"));
        let program = rig.dumpcap(library, &file, &["-i", PORT, "-c", "150", "-s", "80", "-f", "udp"]);
        rig.send(&frames);
        program.succeed();
        as_lines(&packets(&file))
    });
    assert_eq!(lines.lines().count(), 150);
    assert!(lines.contains("80 of 1422: ") && lines.contains("68 of 68: "), "{lines}");
}
