//! Trace files are merged in time order, however far apart their times are.

use std::{fs, path::Path, process::Command};

use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};

use crate::lab::{CommandOutput, RunningCommand, WIRECAP, read};

/// Packets per trace and their length: more than is held back for interfaces.
const PACKETS: u64 = 60_000;
const PACKET_BYTES: usize = 1_400;

/// Writes a trace whose times are `first_ns` and so on, `step_ns` apart.
fn write_trace(path: &Path, first_ns: u64, step_ns: u64) {
    let mut file = Vec::new();
    pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
    for number in 0..PACKETS {
        let header = PacketHeader {
            timestamp_ns: first_ns + number * step_ns,
            original_len: PACKET_BYTES as u32,
            ..PacketHeader::default()
        };
        pcap::packet(&mut file, &header, 0, [[number as u8; PACKET_BYTES].as_slice()]);
    }
    assert!(file.len() > 64 << 20);
    fs::write(path, file).unwrap();
}

fn capture(directory: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(WIRECAP);
    command.current_dir(directory).args(["capture", "--json", "-w", "all.pcapng"]).args(arguments);
    RunningCommand::spawn(command).wait()
}

#[test]
fn traces_whose_times_are_far_apart_are_merged_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let second = 1_000_000_000;
    // Half of the last trace is before all of the second, and half within it.
    for (name, first_ns, step_ns) in [
        ("early.pcap", second, 1),
        ("late.pcap", 9 * second, 1_000),
        ("wide.pcap", 9 * second - 30_000_000, 1_000),
    ] {
        write_trace(&directory.path().join(name), first_ns, step_ns);
    }
    for arguments in [
        &["trace:early.pcap", "trace:late.pcap"][..],
        &["trace:late.pcap", "trace:early.pcap", "--workers", "1"],
        &["trace:late.pcap", "trace:wide.pcap", "trace:early.pcap", "--workers", "3", "-T", "0", "-M", "64"],
        &["trace:late.pcap", "trace:early.pcap", "--dispatch", "push"],
    ] {
        let ended = capture(directory.path(), arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
        let account = ended.account();
        assert_eq!(account.written("out_of_order"), 0, "{arguments:?}");
        let packets = read(&directory.path().join("all.pcapng")).packets;
        assert!(packets.is_sorted_by_key(|packet| packet.timestamp_ns), "{arguments:?}");
        assert_eq!(
            (packets.len() as u64, account.written("packets")),
            (account.sum("delivered"), account.sum("delivered"))
        );
        assert_eq!(account.sum("seen") % PACKETS, 0, "{arguments:?}");
    }
}
