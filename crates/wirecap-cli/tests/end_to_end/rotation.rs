//! Series of files: no packet is lost or doubled at their borders.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use wirecap_file::{
    PacketHeader, pcap,
    pcapng::{self, InterfaceInfo, SectionInfo},
};
use wirecap_lab::{CapturedPacket, require_root};
use wirecap_testing::wait_until;
use wirecap_traffic::{FrameSpec, LiveOptions, Marks, Template};

use crate::lab::{Lab, WIRECAP, assert_frames, cores, install_script, partial, read};

/// The traces in a directory, in the order of their names.
fn files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|name| name == "pcapng"))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn packets(path: &Path) -> Vec<CapturedPacket> {
    read(path).packets
}

fn sequences(packets: &[CapturedPacket]) -> Vec<u64> {
    packets.iter().map(|packet| Marks::read(&packet.data).unwrap().sequence).collect()
}

/// Of several queues, at 100,000 packets/s.
#[test]
fn each_packet_is_in_one_file_of_its_time_and_each_file_is_whole() {
    if !require_root("each_packet_is_in_one_file_of_its_time_and_each_file_is_whole") {
        return;
    }
    const FRAMES: u64 = 100_000;
    const PERIOD_NS: u64 = 500_000_000;
    // What belongs to a period may come after the next one has begun, if the machine stalls for longer than
    // packets are held back: then it is out of order, too.
    for flags in [&[][..], &["--direct-io"], &["--timestamp", "kernel", "--xdp-mode", "copy"]] {
        let lab = Lab::with_queues("rotation", 2);
        // On a disk: not every file system in memory has direct writes.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let name = directory.path().join("x.pcapng");
        let arguments = ["r0", "-R", "512", "-w", name.to_str().unwrap(), "-G", "500ms"];
        let running = lab.capture(&[&arguments, flags].concat());
        let rate = 100_000 / cores() as u64;
        let (lab, spec) = (&lab, FrameSpec::default());
        std::thread::scope(|scope| {
            for core in 0..cores() {
                let options = LiveOptions { frame: spec, ..LiveOptions::default() };
                scope.spawn(move || lab.send_at(Some(rate), 0, core, FRAMES, options));
            }
        });
        let (ended, sent) = (running.stop(), FRAMES * cores() as u64);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let account = ended.account();
        account.assert_lossless(sent);
        let files = files(directory.path());
        let written = ["packets", "output_files", "bytes"].map(|name| account.written(name));
        let bytes = files.iter().map(|path| path.metadata().unwrap().len()).sum();
        assert_eq!(written, [sent, files.len() as u64, bytes], "{flags:?}");
        // Two seconds; less if the machine stalls, since the senders then catch up.
        assert!(files.len() > 1, "{files:?}");
        let traces: Vec<_> = files.iter().map(|path| packets(path)).collect();
        let all: Vec<_> = traces.iter().flatten().collect();
        for core in 0..cores() as u32 {
            let own: Vec<_> = all.iter().copied().filter(|packet| packet.queue == Some(core)).collect();
            assert_frames(&own, spec, usize::MAX);
        }
        if account.written("out_of_order") == 0 {
            for (trace, path) in traces.iter().zip(&files) {
                let times: Vec<_> = trace.iter().filter_map(|packet| packet.timestamp_ns).collect();
                let (first, last) = (times.iter().min().unwrap_or(&0), times.iter().max().unwrap_or(&0));
                assert!(last - first < PERIOD_NS, "{path:?}: {first} to {last}");
            }
        }
    }
}

#[test]
fn a_ring_of_files_keeps_the_newest_packets() {
    if !require_root("a_ring_of_files_keeps_the_newest_packets") {
        return;
    }
    const FRAMES: u64 = 40_000;
    const MAX_BYTES: u64 = 256 << 10;
    let lab = Lab::with_queues("ring", 1);
    let directory = TempDir::new().unwrap();
    let name = directory.path().join("x.pcapng");
    let running =
        lab.capture(&["r0", "-w", name.to_str().unwrap(), "-C", "256k", "-W", "3", "--snaplen", "60"]);
    lab.send_at(Some(100_000), 0, 0, FRAMES, LiveOptions::default());
    let ended = running.stop();
    let account = ended.account();
    account.assert_lossless(FRAMES);
    assert_eq!(account.written("packets"), FRAMES);
    let files = files(directory.path());
    let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["x_00001.pcapng", "x_00002.pcapng", "x_00003.pcapng"]);
    let count = account.written("output_files");
    assert!(count > 6, "{count}");
    let mut kept = Vec::new();
    for path in &files {
        // The last one has the account as well.
        let len = path.metadata().unwrap().len();
        assert!(len <= MAX_BYTES + 1_000 && len > 0, "{path:?}: {len}");
        kept.extend(sequences(&packets(path)));
    }
    kept.sort_unstable();
    let first = FRAMES - kept.len() as u64;
    assert!(kept.iter().copied().eq(first..FRAMES), "the newest {} of {FRAMES}", kept.len());
}

#[test]
fn a_capture_ends_after_the_number_of_files_also_in_silence() {
    if !require_root("a_capture_ends_after_the_number_of_files_also_in_silence") {
        return;
    }
    let lab = Lab::with_queues("silence", 1);
    let directory = TempDir::new().unwrap();
    let name = directory.path().join("x.pcapng");
    let running = lab.capture(&["r0", "-w", name.to_str().unwrap(), "-G", "200ms", "-W", "2"]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    // The first file ends by itself, and so does the second, without a packet.
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    assert_eq!(account.0["end"], "files", "{ended:#?}");
    assert_eq!(files(directory.path()).len(), 2);
    assert_eq!(account.written("packets"), 1_000);
}

#[test]
fn a_command_gets_each_file_once_it_is_complete() {
    if !require_root("a_command_gets_each_file_once_it_is_complete") {
        return;
    }
    let lab = Lab::with_queues("command", 1);
    let directory = TempDir::new().unwrap();
    let (name, script) = (directory.path().join("x.pcapng"), directory.path().join("script"));
    // The number of packets of a file that is complete, or an error.
    install_script("#!/bin/sh\ncapinfos -Mc \"$1\" > \"$1.count\" && chmod 400 \"$1\"\n", &script);
    let name = name.to_str().unwrap();
    let running = lab.capture(&["r0", "-w", name, "-C", "64k", "-z", script.to_str().unwrap()]);
    lab.send_at(Some(20_000), 0, 0, 5_000, LiveOptions::default());
    let first = directory.path().join("x_00001.pcapng.count");
    wait_until("the command has run with the first file", || first.exists());
    let ended = running.stop();
    ended.account().assert_lossless(5_000);
    let files = files(directory.path());
    assert!(files.len() > 3, "{files:?}");
    for path in &files {
        let count = fs::read_to_string(format!("{}.count", path.display())).unwrap();
        assert!(count.contains(&format!(" {}\n", packets(path).len())), "{path:?}: {count}");
    }
}

#[test]
fn a_command_that_is_given_up_goes_on_and_is_named() {
    if !require_root("a_command_that_is_given_up_goes_on_and_is_named") {
        return;
    }
    let lab = Lab::with_queues("slowcommand", 1);
    let directory = TempDir::new().unwrap();
    let (name, script) = (directory.path().join("x.pcapng"), directory.path().join("script"));
    // Ends once it may: a file appears.
    install_script("#!/bin/sh\necho $$ >\"$1.pid\"\nuntil [ -e \"$1.go\" ]; do sleep 0.1; done\n", &script);
    let name = name.to_str().unwrap();
    let running = lab.capture(&["r0", "-w", name, "-b", "packets:100", "-z", script.to_str().unwrap()]);
    lab.send(0, 0, 400, LiveOptions::default());
    let first = directory.path().join("x_00001.pcapng");
    let [pid, go] = ["pid", "go"].map(|what| PathBuf::from(format!("{}.{what}", first.display())));
    wait_until("the command runs", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    running.signal(Signal::SIGINT);
    running.wait_for("the command of -z runs with the last files");
    running.signal(Signal::SIGINT);
    running.wait_for("a signal ended the wait");
    let pid = fs::read_to_string(pid).unwrap().trim().to_owned();
    let is_there = || Path::new("/proc").join(&pid).exists();
    assert!(is_there(), "the command goes on");
    fs::write(go, "").unwrap();
    // It has the standard error of the capture.
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let words = format!(
        "a signal ended the wait for the command of -z, which still runs with {} (process {pid}) and has not run with 3 files",
        first.display()
    );
    assert!(ended.stderr.contains(&words), "{words}: {}", ended.stderr);
    wait_until("the command has ended", || !is_there());
}

#[test]
fn a_file_that_cannot_be_opened_ends_the_capture_and_keeps_the_others() {
    if !require_root("a_file_that_cannot_be_opened_ends_the_capture_and_keeps_the_others") {
        return;
    }
    let lab = Lab::with_queues("unopened", 1);
    let directory = TempDir::new().unwrap();
    let name = directory.path().join("x.pcapng");
    let running = lab.capture(&["r0", "-w", name.to_str().unwrap(), "-C", "64k"]);
    // In the place of the third file. If it were there already, the run would begin after it.
    fs::create_dir(directory.path().join("x_00003.pcapng")).unwrap();
    lab.send_at(Some(20_000), 0, 0, 10_000, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("cannot write") && ended.stderr.contains("x_*.pcapng"), "{}", ended.stderr);
    let account = ended.account();
    let kept: Vec<_> =
        ["x_00001.pcapng", "x_00002.pcapng"].map(|name| packets(&directory.path().join(name))).concat();
    assert_eq!(account.written("packets"), kept.len() as u64);
    assert!(sequences(&kept).into_iter().eq(0..kept.len() as u64));
}

/// Each period of 100 ms has the same name as the one before.
#[test]
fn names_that_do_not_tell_periods_apart_are_numbered() {
    const FRAMES: u64 = 1_000;
    let directory = TempDir::new().unwrap();
    // All of them in 2020: the names have the times of the packets, that of the first file, too.
    let (input, name) = (directory.path().join("input.pcap"), directory.path().join("%Y.pcapng"));
    let mut bytes = Vec::new();
    pcap::file_header(&mut bytes, 1, 0);
    let mut template = Template::new(FrameSpec::default()).unwrap();
    for sequence in 0..FRAMES {
        let time_ns = 1_590_000_000_000_000_000 + sequence * 1_000_000;
        let frame = template.stamp_at(0, sequence, time_ns);
        let header = PacketHeader {
            timestamp_ns: time_ns,
            original_len: frame.len() as u32,
            ..PacketHeader::default()
        };
        pcap::packet(&mut bytes, &header, 0, [frame]);
    }
    fs::write(&input, bytes).unwrap();
    let port = format!("trace:{}", input.display());
    let output = Command::new(WIRECAP)
        .args(["capture", &port, "-w", name.to_str().unwrap(), "-G", "100ms", "-q"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let names: Vec<_> = files(directory.path())
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let numbered = (2..=10).map(|number| format!("2020_{number:05}"));
    assert_eq!(names, ["2020".to_owned()].into_iter().chain(numbered).collect::<Vec<_>>());
    let all: Vec<_> = files(directory.path()).iter().flat_map(|path| sequences(&packets(path))).collect();
    assert!(all.into_iter().eq(0..FRAMES));
}

/// It has no time, or is damaged: no reason to open files, or to stop.
#[test]
fn a_packet_with_the_last_time_there_is_goes_to_one_file() {
    let directory = TempDir::new().unwrap();
    let (input, name) = (directory.path().join("input"), directory.path().join("x.pcapng"));
    let mut bytes = Vec::new();
    pcapng::section_header(&mut bytes, &SectionInfo::default());
    pcapng::interface(&mut bytes, &InterfaceInfo::default());
    let mut template = Template::new(FrameSpec::default()).unwrap();
    for sequence in 0..10 {
        let timestamp_ns = if sequence == 5 { u64::MAX } else { 1_590_000_000_000_000_000 + sequence };
        let header = PacketHeader { timestamp_ns, ..PacketHeader::default() };
        pcapng::packet(&mut bytes, &header, 0, [template.stamp_at(0, sequence, timestamp_ns)]);
    }
    fs::write(&input, bytes).unwrap();
    let port = format!("trace:{}", input.display());
    for (flags, count) in [(["-C", "1M", "-a", "files:9"], 10), (["-C", "1M", "-c", "8"], 8)] {
        let output = Command::new(WIRECAP)
            .args(["capture", &port, "-w", name.to_str().unwrap(), "-q"])
            .args(flags)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let [file] = &files(directory.path())[..] else { panic!("{flags:?}: {output:?}") };
        assert!(sequences(&packets(file)).into_iter().eq(0..count), "{flags:?}");
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_file_that_is_moved_while_it_is_written_is_named_and_no_command_gets_it() {
    if !require_root("a_file_that_is_moved_while_it_is_written_is_named_and_no_command_gets_it") {
        return;
    }
    let lab = Lab::with_queues("movedfile", 1);
    let directory = TempDir::new().unwrap();
    let [name, script, elsewhere] =
        ["x.pcapng", "script", "elsewhere"].map(|name| directory.path().join(name));
    install_script("#!/bin/sh\nexec touch \"$1.seen\"\n", &script);
    let (name, script) = (name.to_str().unwrap(), script.to_str().unwrap());
    let running = lab.capture(&["r0", "-w", name, "-C", "64k", "-z", script]);
    let first = directory.path().join("x_00001.pcapng");
    fs::rename(partial(&first), &elsewhere).unwrap();
    lab.send_at(Some(20_000), 0, 0, 5_000, LiveOptions::default());
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "nothing is lost: {ended:#?}");
    let words = format!(
        "{} was moved while it was written; the packets are in {}",
        first.display(),
        elsewhere.canonicalize().unwrap().display()
    );
    assert!(ended.stderr.contains(&words), "{words}: {}", ended.stderr);
    let seen = |number: u64| directory.path().join(format!("x_{number:05}.pcapng.seen")).exists();
    assert!(!seen(1) && seen(2), "{ended:#?}");
}

/// And no other: what is lost is known by file.
#[test]
fn a_file_that_is_deleted_while_it_is_written_is_named_with_its_packets() {
    if !require_root("a_file_that_is_deleted_while_it_is_written_is_named_with_its_packets") {
        return;
    }
    let lab = Lab::with_queues("lostfile", 1);
    let directory = TempDir::new().unwrap();
    let name = directory.path().join("x.pcapng");
    let running = lab.capture(&["r0", "-w", name.to_str().unwrap(), "-C", "64k"]);
    let first = directory.path().join("x_00001.pcapng");
    fs::remove_file(partial(&first)).unwrap();
    lab.send_at(Some(20_000), 0, 0, 5_000, LiveOptions::default());
    running.wait_for("x_00001.pcapng was deleted while it was being written");
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let kept: usize = files(directory.path()).iter().map(|path| packets(path).len()).sum();
    let lost = 5_000 - kept;
    let words = format!("{} was deleted while it was written; its {lost} packets", first.display());
    assert!(ended.stderr.contains(&words), "{words}: {}", ended.stderr);
    assert_eq!(ended.account().written("deleted"), lost as u64);
}

/// As dumpcap keeps them.
#[test]
fn the_newest_files_are_kept_and_a_number_of_files_or_a_size_ends_the_capture() {
    if !require_root("the_newest_files_are_kept_and_a_number_of_files_or_a_size_ends_the_capture") {
        return;
    }
    let lab = Lab::with_queues("keep", 1);
    let directory = TempDir::new().unwrap();
    let name = directory.path().join("x.pcapng");
    let name = name.to_str().unwrap();
    let running = lab.capture(&["r0", "-w", name, "-b", "packets:100", "-b", "files:3", "-a", "files:8"]);
    lab.send_at(Some(5_000), 0, 0, 1_000, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    assert_eq!((&account.0["end"], account.written("output_files")), (&"files".into(), 8));
    let names: Vec<_> =
        files(directory.path()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["x_00006.pcapng", "x_00007.pcapng", "x_00008.pcapng"]);
    let kept: Vec<_> = files(directory.path()).iter().flat_map(|path| sequences(&packets(path))).collect();
    assert!(kept.into_iter().eq(500..800), "the newest");

    let directory = TempDir::new().unwrap();
    let name = directory.path().join("y.pcapng");
    let running = lab.capture(&["r0", "-w", name.to_str().unwrap(), "-a", "filesize:50"]);
    lab.send_at(Some(5_000), 0, 0, 2_000, LiveOptions::default());
    let ended = running.wait();
    let account = ended.account();
    assert_eq!((ended.code, &account.0["end"]), (Some(0), &"files".into()), "{ended:#?}");
    assert_eq!(files(directory.path()), std::slice::from_ref(&name), "its own name, and no other file");
    let (len, kept) = (name.metadata().unwrap().len(), sequences(&packets(&name)));
    assert!((45_000..51_000).contains(&len) && kept.len() < 2_000, "{len}");
    assert!(kept.into_iter().eq(0..account.written("packets")));
    for (flags, words) in [
        (&["-b", "files:3"][..], "for a series"),
        (&["-C", "1", "-b", "files:1"], "keep two or more"),
        (&["-C", "1", "-W", "3", "-b", "files:3"], "leave one of them out"),
        (&["-b", "files:x"], "like files:10"),
        (&["-a", "filesize:10", "-C", "1"], "leave one of them out"),
    ] {
        let refused = lab.spawn(&[&["capture", "r0", "-w", name.to_str().unwrap()], flags].concat()).wait();
        assert_eq!(refused.code, Some(2), "{flags:?}: {refused:#?}");
        assert!(refused.stderr.contains(words), "{flags:?}: {}", refused.stderr);
    }
}

/// The account says so, and so does the exit code.
#[test]
fn a_command_that_fails_is_in_the_account() {
    if !require_root("a_command_that_fails_is_in_the_account") {
        return;
    }
    let lab = Lab::with_queues("badcommand", 1);
    let directory = TempDir::new().unwrap();
    let name = directory.path().join("x.pcapng");
    let running = lab.capture(&["r0", "-w", name.to_str().unwrap(), "-b", "packets:100", "-z", "false"]);
    lab.send(0, 0, 950, LiveOptions::default());
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let account = ended.account();
    account.assert_lossless(950);
    let error = account.0["error"].as_str().unwrap();
    assert!(error.contains("false failed with 10 of 10 files"), "{error}");
    assert_eq!(files(directory.path()).len(), 10);
}
