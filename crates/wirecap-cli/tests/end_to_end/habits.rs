//! Command lines as people write them for tcpdump and dumpcap.

use std::fs;

use wirecap_lab::require_root;
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::lab::{Lab, read};

#[test]
fn a_command_line_for_tcpdump_or_dumpcap_captures_the_same() {
    if !require_root("a_command_line_for_tcpdump_or_dumpcap_captures_the_same") {
        return;
    }
    let lab = Lab::with_queues("habits", 1);
    let (path, filter) = (lab.path("x.pcap"), lab.path("filter"));
    let (file, filter) = (path.to_str().unwrap(), filter.to_str().unwrap());
    fs::write(filter, "udp # what is generated\nand port 9\n").unwrap();
    let options =
        LiveOptions { frame: FrameSpec { len: 200, ..FrameSpec::default() }, ..LiveOptions::default() };
    for (arguments, len) in [
        (vec!["-i", "r0", "-nn", "-s", "64", "-c", "5", "-w", file, "udp", "port", "9"], 64),
        (vec!["-i", "r0", "-p", "-U", "-l", "-F", filter, "-c", "5", "-w", file], 200),
        (vec!["-i", "r0", "-f", "udp port 9", "-B", "32", "-s", "0", "-c", "5", "-w", file], 200),
        (vec!["--interface", "r0", "-Q", "in", "-c", "5", "-w", file, "udp"], 200),
    ] {
        let running = lab.capture(&arguments);
        lab.send(0, 0, 1_000, options);
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:#?}");
        let packets = read(&path).packets;
        let lengths: Vec<_> = packets.iter().map(|packet| packet.data.len()).collect();
        assert_eq!(lengths, [len; 5], "{arguments:?}");
        fs::remove_file(&path).unwrap();
    }
    let list = |arguments: &[&str]| lab.spawn(arguments).wait().stdout;
    assert_eq!(list(&["capture", "-D"]), list(&["interfaces"]));
    assert!(!list(&["capture", "-D"]).is_empty());
}
