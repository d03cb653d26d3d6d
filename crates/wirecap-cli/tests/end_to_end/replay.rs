//! Trace files in place of interfaces.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use tempfile::TempDir;
use wirecap_file::{Format, LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_lab::require_root;
use wirecap_lab::{Capture, CapturedPacket};
use wirecap_traffic::LiveOptions;

use crate::lab::{CommandOutput, Lab, READY, RunningCommand, WIRECAP, partial, read};

fn start(directory: &Path, arguments: &[&str]) -> RunningCommand {
    let mut command = Command::new(WIRECAP);
    command.current_dir(directory).arg("capture").args(arguments);
    RunningCommand::spawn(command)
}

fn run(directory: &Path, arguments: &[&str]) -> CommandOutput {
    start(directory, arguments).wait()
}

/// A pcap file with this number of packets of 100 bytes.
fn trace(packets: u64) -> Vec<u8> {
    let mut file = Vec::new();
    pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
    for number in 0..packets {
        let header =
            PacketHeader { timestamp_ns: 1_000 + number, original_len: 100, ..PacketHeader::default() };
        pcap::packet(&mut file, &header, 0, [[number as u8; 100].as_slice()]);
    }
    file
}

/// A directory with traces `a.pcap` (3,000 packets) and `b.pcap` (40).
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.pcap"), trace(3_000)).unwrap();
    fs::write(directory.path().join("b.pcap"), trace(40)).unwrap();
    directory
}

/// The packets as wirecap has to write them for its interface `interface`.
fn as_written(packets: &[CapturedPacket], interface: u32, format: Format) -> Vec<CapturedPacket> {
    let written = packets.iter().map(|packet| CapturedPacket {
        interface,
        timestamp_ns: Some(packet.timestamp_ns.unwrap_or(0)),
        original_len: packet.original_len.max(packet.data.len() as u32),
        queue: None,
        packet_id: None,
        outbound: packet.outbound.filter(|_| format == Format::Pcapng),
        comments: Vec::new(),
        ..packet.clone()
    });
    written.collect()
}

#[track_caller]
fn assert_same(name: &str, got: &[CapturedPacket], expected: &[CapturedPacket]) {
    let differs = got.iter().zip(expected).position(|(got, expected)| got != expected);
    assert_eq!(differs, None, "{name}: the first packet that differs");
    assert_eq!(got.len(), expected.len(), "{name}");
}

#[test]
fn every_trace_is_written_as_it_was_read() {
    const TEST: &str = "every_trace_is_written_as_it_was_read";
    let Some(paths) = wirecap_lab::trace_files(TEST) else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut replayed = 0;
    for path in paths {
        let Ok(file) = Capture::read(File::open(&path).unwrap()) else { continue };
        let link_type = file.interfaces[0].link_type;
        let other = file.packets.iter().position(|packet| packet.link_type != link_type);
        let packets = &file.packets[..other.unwrap_or(file.packets.len())];
        let source = format!("trace:{}", path.display());
        for (output, format) in [("out.pcapng", Format::Pcapng), ("out.pcap", Format::Pcap)] {
            let ended = run(directory.path(), &[&source, "-w", output, "--json", "-q"]);
            let account = ended.account();
            account.assert_lossless(packets.len() as u64);
            assert_eq!(account.written("packets"), packets.len() as u64);
            let written = read(&directory.path().join(output));
            assert_same(&source, &written.packets, &as_written(packets, 0, format));
            assert_eq!(written.interfaces[0].link_type, link_type);
            let error = &account.0["ports"][0]["error"];
            if other.is_none() && file.damage.is_none() {
                assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{source}");
                assert!(error.is_null());
            } else {
                assert_eq!(ended.code, Some(1), "{source}");
                assert_eq!(ended.stderr, format!("wirecap: {}", error.as_str().unwrap()));
                assert!(
                    ended.stderr.contains(&source) && ended.stderr.contains("at byte "),
                    "{}",
                    ended.stderr
                );
            }
        }
        replayed += 1;
    }
    assert!(replayed > 0);
}

#[test]
fn two_traces_are_two_interfaces_of_one_file() {
    let directory = directory();
    let ended =
        run(directory.path(), &["trace:a.pcap", "trace:b.pcap", "-w", "both.pcapng", "--json", "-M", "64"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(3_040);
    let both = read(&directory.path().join("both.pcapng"));
    let names: Vec<_> = both.interfaces.iter().map(|interface| interface.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["trace:a.pcap", "trace:b.pcap"]);
    for (interface, name) in ["a.pcap", "b.pcap"].into_iter().enumerate() {
        let packets = read(&directory.path().join(name)).packets;
        let of_it = both.packets.iter().filter(|packet| packet.interface == interface as u32);
        let of_it: Vec<_> = of_it.cloned().collect();
        assert_same(name, &of_it, &as_written(&packets, interface as u32, Format::Pcapng));
    }
    let received: Vec<_> = both.statistics.iter().map(|port| port.counters.received.unwrap()).collect();
    assert_eq!(received, [3_000, 40]);
}

#[test]
fn flags_apply_to_traces_too() {
    let directory = directory();
    let path = directory.path().join("out.pcapng");
    for dispatch in ["pull", "push"] {
        let arguments =
            ["trace:a.pcap", "-w", "out.pcapng", "--json", "--dispatch", dispatch, "--workers", "3"];
        let ended = run(directory.path(), &[&arguments[..], &["-c", "1234", "--snaplen", "60"]].concat());
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(ended.account().written("packets"), 1_234);
        let written = read(&path);
        assert_eq!((written.packets.len(), written.interfaces[0].snaplen), (1_234, 60));
        for (number, packet) in written.packets.iter().enumerate() {
            assert_eq!((packet.data.as_slice(), packet.original_len), ([number as u8; 60].as_slice(), 100));
            assert_eq!(packet.timestamp_ns, Some(1_000 + number as u64));
        }
    }
    let ended = run(directory.path(), &["trace:b.pcap"]);
    let table = String::from_utf8(ended.stdout).unwrap();
    assert!(table.contains("trace:b.pcap") && table.contains("40 packets in"), "{table}");
    assert!(ended.stderr.contains("trace:b.pcap, a trace file, read into cells"), "{}", ended.stderr);
}

#[test]
fn a_trace_is_never_written_over() {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    fs::hard_link(at("a.pcap"), at("hard.pcapng")).unwrap();
    symlink("a.pcap", at("soft.pcap")).unwrap();
    for (source, output) in [
        ("trace:a.pcap", "a.pcap"),
        ("trace:./a.pcap", "../a.pcap"),
        ("trace:a.pcap", "hard.pcapng"),
        ("trace:soft.pcap", "a.pcap"),
        ("trace:hard.pcapng", "soft.pcap"),
    ] {
        let output = output.replace("..", directory.path().to_str().unwrap());
        let ended = run(directory.path(), &[source, "-w", &output]);
        assert_eq!(ended.code, Some(2), "{source} {output}: {ended:#?}");
        assert!(ended.stderr.contains("is the trace that is read"), "{}", ended.stderr);
        assert_eq!(fs::read(at("a.pcap")).unwrap(), trace(3_000));
    }
    // The shell appends to the trace: >> a.pcap
    let mut command = Command::new(WIRECAP);
    command.current_dir(directory.path()).args(["capture", "trace:a.pcap", "-w", "-"]);
    let appending = OpenOptions::new().append(true).open(at("a.pcap")).unwrap();
    let status = command.stdout(appending).stderr(Stdio::null()).status().unwrap();
    assert_eq!((status.code(), fs::read(at("a.pcap")).unwrap() == trace(3_000)), (Some(2), true));
}

#[test]
fn a_refused_replay_leaves_files_unchanged() {
    let directory = directory();
    fs::write(directory.path().join("old.pcapng"), "precious").unwrap();
    fs::write(directory.path().join("text.pcap"), "no trace at all").unwrap();
    for (source, hint) in [
        ("trace:none.pcap", "check the name"),
        ("trace:text.pcap", "not a pcap or pcapng file"),
        ("trace:.", "is a directory"),
    ] {
        let ended = run(directory.path(), &["trace:a.pcap", source, "-w", "old.pcapng", "--json"]);
        assert_eq!((ended.code, ended.stdout.len()), (Some(1), 0), "{ended:#?}");
        assert!(ended.stderr.contains(hint) && ended.has_one_line_of_stderr(), "{}", ended.stderr);
        assert_eq!(fs::read(directory.path().join("old.pcapng")).unwrap(), b"precious");
    }
    let ended = run(directory.path(), &["trace:a.pcap", "trace:a.pcap"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.stderr.contains("named twice"), "{}", ended.stderr);
}

#[test]
fn standard_input_is_a_trace() {
    let directory = directory();
    let mut command = Command::new("sh");
    // Two programs in a pipeline: the second reads what the first writes.
    let script = format!(
        "'{WIRECAP}' capture trace:a.pcap -q -w - 2>/dev/null | '{WIRECAP}' capture trace:- -q -w out.pcapng --json"
    );
    command.current_dir(directory.path()).args(["-c", &script]);
    let ended = RunningCommand::spawn(command).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(3_000);
    let packets = read(&directory.path().join("a.pcap")).packets;
    let written = read(&directory.path().join("out.pcapng")).packets;
    assert_same("a.pcap", &written, &as_written(&packets, 0, Format::Pcapng));
}

#[test]
fn a_named_pipe_is_waited_for_and_followed() {
    let directory = directory();
    let path = directory.path().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let running = start(directory.path(), &["trace:pipe", "-w", "out.pcapng"]);
    running.wait_for("waiting for a program that writes pipe");
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("no program writes pipe, so nothing was captured"), "{}", ended.stderr);
    assert!(!directory.path().join("out.pcapng").exists(), "nothing is left behind");

    let running = start(directory.path(), &["trace:pipe", "-w", "out.pcapng", "--json"]);
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    let bytes = trace(20);
    let (first, second) = bytes.split_at(24 + 10 * 116);
    writer.write_all(first).unwrap();
    // While the pipe is silent, the file already has the packets so far.
    running.wait_for_bytes(&directory.path().join("out.pcapng"), 10 * 132);
    writer.write_all(second).unwrap();
    drop(writer);
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(20);

    let running = start(directory.path(), &["trace:pipe", "-w", "more.pcapng", "--json"]);
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    writer.write_all(first).unwrap();
    running.wait_for_bytes(&directory.path().join("more.pcapng"), 10 * 132);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "a signal ends the capture although the pipe is open: {ended:#?}");
    ended.account().assert_lossless(10);
}

#[test]
fn a_trace_beside_an_interface_ends_and_the_capture_continues() {
    if !require_root("a_trace_beside_an_interface_ends_and_the_capture_continues") {
        return;
    }
    let lab = Lab::with_queues("replay", 1);
    let (source, path) = (lab.path("b.pcap"), lab.path("out.pcapng"));
    fs::write(&source, trace(40)).unwrap();
    let source = format!("trace:{}", source.display());
    let running = lab.capture(&[&source, "r0", "-w", path.to_str().unwrap()]);
    running.wait_for("is read; the capture continues with the other ports");
    lab.send(0, 0, 1_000, LiveOptions::default());
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(1_040);
    let written = read(&path);
    let of = |interface| written.packets.iter().filter(|packet| packet.interface == interface).count();
    assert_eq!((of(0), of(1)), (40, 1_000));
    assert_eq!(written.interfaces[1].name.as_deref(), Some("r0"));
}

#[test]
fn a_silent_pipe_does_not_hold_up_an_interface() {
    if !require_root("a_silent_pipe_does_not_hold_up_an_interface") {
        return;
    }
    let lab = Lab::with_queues("dry", 1);
    let (pipe, path) = (lab.path("pipe"), lab.path("out.pcapng"));
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let source = format!("trace:{}", pipe.display());
    let running = lab.spawn(&["capture", "--json", &source, "r0", "-w", path.to_str().unwrap()]);
    let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
    writer.write_all(&trace(0)).unwrap();
    running.wait_for(READY);
    let mut length = fs::metadata(partial(&path)).unwrap().len();
    let mut delays = [(); 5].map(|()| {
        let begun = Instant::now();
        lab.send(0, 0, 10, LiveOptions::default());
        // At least: a record has a header of 28 bytes, the frame and the length.
        length += 10 * (28 + 60 + 4);
        running.wait_for_bytes(&path, length);
        begun.elapsed()
    });
    delays.sort_unstable();
    // If the pipe held the packets up, each delay would be two seconds.
    assert!(delays[2] < Duration::from_secs(1), "{delays:?}");

    writer.write_all(&trace(20)[24..]).unwrap();
    drop(writer);
    running.wait_for("is read; the capture continues with the other ports");
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    account.assert_lossless(70);
    // The packets of the pipe have times of 1970, and the interface has not waited for them.
    assert_eq!((account.written("packets"), account.written("out_of_order")), (70, 20));
}

#[test]
fn a_writer_that_is_quick_or_writes_nothing_is_noticed() {
    let directory = directory();
    let path = directory.path().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    // The writer is gone before wirecap reads the pipe.
    for _ in 0..20 {
        let running = start(directory.path(), &["trace:pipe", "--json", "-q"]);
        fs::write(&path, trace(20)).unwrap();
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.account().assert_lossless(20);
    }
    let running = start(directory.path(), &["trace:pipe", "--json", "-q"]);
    drop(OpenOptions::new().write(true).open(&path).unwrap());
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("the capture file is empty"), "{}", ended.stderr);

    let running = start(directory.path(), &["trace:pipe", "-w", "out.pcapng", "--json"]);
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    writer.write_all(&trace(0)[..10]).unwrap();
    running.wait_for("waiting for a program that writes pipe");
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "a signal ends the wait within the file's header, too: {ended:#?}");
    assert!(!directory.path().join("out.pcapng").exists());
}

#[test]
fn a_filter_chooses_among_the_packets_of_a_trace() {
    let directory = directory();
    // All bytes of packet n are n; a length in an IPv4 header does not matter.
    let arguments = ["trace:a.pcap", "ether[0] = 7", "-w", "out.pcapng", "--json", "-q"];
    let ended = run(directory.path(), &arguments);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    assert_eq!((account.sum("seen"), account.sum("filtered"), account.sum("delivered")), (3_000, 2_988, 12));
    assert_eq!(account.0["ports"][0]["filter"]["runs"], "native-code");
    assert_eq!(account.0["ports"][0]["timestamp"]["source"], "file");
    let all = read(&directory.path().join("a.pcap")).packets;
    let wanted: Vec<_> = all.into_iter().filter(|packet| packet.data[0] == 7).collect();
    let written = read(&directory.path().join("out.pcapng"));
    assert_same("7", &written.packets, &as_written(&wanted, 0, Format::Pcapng));
    let interface = &written.interfaces[0];
    assert_eq!(interface.filter.as_deref(), Some("ether[0] = 7"));
    assert!(interface.comments[0].contains("of each packet, from the file"), "{interface:?}");
}
