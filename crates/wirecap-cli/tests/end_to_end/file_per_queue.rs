//! A file for each receive queue.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::Value;
use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::kernel_is_at_least;
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::{
    lab::{Account, Lab, SmallDisk, assert_frames, cores, partial, read},
    tools::ask,
};

const FRAMES: u64 = 20_000;
const SPEC: FrameSpec = FrameSpec { len: 300, ..FrameSpec::DEFAULT };

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// One veth pair with `queues` queues, for the capture.
fn queues(queues: u32) -> VethOptions {
    VethOptions { queues, ..VethOptions::default() }
}

/// The record of each file.
fn files(account: &Account) -> &[Value] {
    account.0["written"]["files"].as_array().unwrap()
}

#[test]
fn each_packet_is_in_the_file_of_its_queue_once_and_in_order() {
    if !require_root("each_packet_is_in_the_file_of_its_queue_once_and_in_order") {
        return;
    }
    for flags in [
        &[][..],
        &["--mode", "basic", "--workers", "1"],
        // T = 0: batches of a queue come from several workers. M = 32: from many, of pools that hold all
        // frames of their queues.
        &["-T", "0", "--workers", "4", "-M", "32", "--xdp-mode", "copy"],
        &["-T", "0", "--workers", "3", "-M", "64", "--dispatch", "push"],
        &["--xdp-mode", "copy", "--timestamp", "batch"],
        &["--direct-io"],
    ] {
        let lab = Lab::new("per_queue", &[queues(3), queues(3)]);
        // On a disk: not every file system in memory has direct writes.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = directory.path().join("x.pcapng");
        let arguments = ["r0", "r1", "-R", "1024", "-w", text(&path), "--file-per-queue"];
        let running = lab.capture(&[&arguments, flags].concat());
        std::thread::scope(|scope| {
            for (pair, core) in (0..2).flat_map(|pair| (0..cores()).map(move |core| (pair, core))) {
                let options = LiveOptions { frame: SPEC, ..LiveOptions::default() };
                let lab = &lab;
                scope.spawn(move || lab.send(pair, core, FRAMES, options));
            }
        });
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let pattern = format!("6 files, one for each queue: {}/x.*.pcapng", text(directory.path()));
        assert!(ended.stderr.contains(&pattern), "{}", ended.stderr);
        let (account, sent) = (ended.account(), FRAMES * 2 * cores() as u64);
        account.assert_lossless(sent);
        assert_eq!((account.written("packets"), account.written("out_of_order")), (sent, 0), "{flags:?}");
        assert_eq!(account.0["written"]["file"], text(&path));

        let (mut bytes, mut names) = (0, Vec::new());
        for (interface, queue) in (0..2).flat_map(|interface| (0..3).map(move |queue| (interface, queue))) {
            let name = directory.path().join(format!("x.r{interface}.{queue}.pcapng"));
            let trace = read(&name);
            assert_eq!(trace.interfaces.len(), 2, "their numbers are those of the capture");
            let is_its = |packet: &wirecap_lab::CapturedPacket| {
                (packet.interface, packet.queue) == (interface, Some(queue))
            };
            assert!(trace.packets.iter().all(is_its), "{flags:?}: {name:?}");
            let expected = if (queue as usize) < cores() { FRAMES } else { 0 };
            assert_eq!(trace.packets.len() as u64, expected, "{flags:?}: {name:?}");
            assert_frames(&trace.packets.iter().collect::<Vec<_>>(), SPEC, usize::MAX);
            let [statistics] = trace.statistics.as_slice() else { panic!("{:?}", trace.statistics) };
            let received = (statistics.interface, statistics.counters.received);
            assert_eq!(received, (interface, Some(expected)), "the account of its queue");
            let metadata = fs::metadata(&name).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o737, 0o600);
            let record = &files(&account)[names.len()];
            assert_eq!(record["file"], text(&name));
            assert_eq!((&record["port"], &record["queue"]), (&format!("r{interface}").into(), &queue.into()));
            assert_eq!((&record["packets"], &record["bytes"]), (&expected.into(), &metadata.len().into()));
            bytes += metadata.len();
            names.push(name);
        }
        assert_eq!((account.written("bytes"), files(&account).len()), (bytes, names.len()));
        assert!(!path.exists());
        if let Some(text) = ask("capinfos", &["-M", "-c", "-o", text(&names[0])]) {
            let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
            assert!(line("Number of packets:").ends_with(&format!(" {FRAMES}")), "{text}");
            assert!(line("Strict time order:").ends_with("True"), "{text}");
        }
        if let Some(text) = ask("tshark", &["-r", text(&names[0]), "-Y", "udp.dstport == 9"]) {
            assert_eq!(text.lines().count() as u64, FRAMES);
        }
    }
}

#[test]
fn classic_pcap_files_of_several_interfaces_are_one_for_each_queue() {
    if !require_root("classic_pcap_files_of_several_interfaces_are_one_for_each_queue") {
        return;
    }
    let lab = Lab::new("per_queue_pcap", &[queues(1), queues(1)]);
    let path = lab.path("y.pcap");
    let count = (FRAMES / 2).to_string();
    let running =
        lab.capture(&["r0", "r1", "-R", "1024", "-w", text(&path), "--file-per-queue", "-c", &count]);
    (0..2).for_each(|pair| _ = lab.send_some(pair, 0, FRAMES));
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    assert_eq!((&account.0["end"], account.written("packets")), (&"count".into(), FRAMES / 2));
    let kept = ["y.r0.0.pcap", "y.r1.0.pcap"].map(|name| read(&lab.path(name)).packets.len() as u64);
    assert_eq!(kept.iter().sum::<u64>(), FRAMES / 2, "{kept:?}");
}

#[test]
fn a_full_disk_ends_the_capture_and_the_other_files_are_whole() {
    if !require_root("a_full_disk_ends_the_capture_and_the_other_files_are_whole") {
        return;
    }
    let lab = Lab::new("per_queue_full", &[queues(1), queues(1)]);
    let (path, disk) = (lab.path("z.pcapng"), lab.path("disk"));
    let _disk = SmallDisk::mount(&disk);
    let (full, whole) = (lab.path("z.r0.0.pcapng"), lab.path("z.r1.0.pcapng"));
    std::os::unix::fs::symlink(disk.join("full"), &full).unwrap();
    let running = lab.capture(&["r0", "r1", "-w", text(&path), "--file-per-queue"]);
    lab.send(1, 0, 2_000, LiveOptions::default());
    lab.send_some(0, 0, 30_000);
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let account = ended.account();
    assert_eq!(account.0["end"], "write_failed");
    let capture = read(&partial(&disk.join("full")));
    let kept = capture.packets.len() as u64;
    assert_frames(&capture.packets.iter().collect::<Vec<_>>(), FrameSpec::default(), usize::MAX);
    assert!(kept > 5_000, "{kept}");
    let lost = account.0["ports"][0]["queues"][0]["delivered"].as_u64().unwrap() - kept;
    let words = [
        format!("cannot write {}: No space left on device", text(&full)),
        format!("kept {kept} packets"),
        format!("; {lost} packet{} captured but not written", if lost == 1 { " was" } else { "s were" }),
    ];
    for words in words {
        assert!(ended.stderr.contains(&words), "{words}: {ended:#?}");
    }
    assert!(!ended.stderr.contains("z.r1.0"), "the other one is whole: {ended:#?}");
    assert_eq!(read(&whole).packets.len(), 2_000);
    assert_eq!(
        (&files(&account)[0]["packets"], &files(&account)[1]["packets"]),
        (&kept.into(), &2_000.into())
    );
    let partials = [0, 1].map(|number| files(&account)[number]["partial"].as_str());
    assert_eq!(partials, [partial(&disk.join("full")).to_str(), None]);
}

#[test]
fn each_file_that_is_deleted_or_moved_is_reported() {
    if !require_root("each_file_that_is_deleted_or_moved_is_reported") {
        return;
    }
    let lab = Lab::new("per_queue_gone", &[queues(1), queues(1)]);
    let [path, moved, other, deleted] =
        ["g.pcapng", "g.r0.0.pcapng", "other.pcapng", "g.r1.0.pcapng"].map(|name| lab.path(name));
    let running = lab.capture(&["r0", "r1", "-w", text(&path), "--file-per-queue"]);
    fs::rename(partial(&moved), &other).unwrap();
    fs::remove_file(partial(&deleted)).unwrap();
    (0..2).for_each(|pair| _ = lab.send(pair, 0, 1_000, LiveOptions::default()));
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let words = [
        format!("{} was moved while it was written; the packets are in ", text(&moved)),
        format!("{} was deleted while it was written; its 1000 packets are lost", text(&deleted)),
    ];
    for words in words {
        assert!(ended.stderr.contains(&words), "{words}: {ended:#?}");
    }
    assert_eq!(read(&other).packets.len(), 1_000);
}

#[test]
fn files_that_cannot_be_written_are_named_before_anything_is_touched() {
    if !require_root("files_that_cannot_be_written_are_named_before_anything_is_touched") {
        return;
    }
    let lab = Lab::new("per_queue_refused", &[queues(2), queues(2)]);
    let path = lab.path("f.pcapng");
    let running = lab.capture(&["r0", "-w", text(&path), "--file-per-queue"]);
    // The file of one queue is taken: those of the others are not made.
    let one = lab.path("f.1.pcapng");
    let refuse = |arguments: &[&str], code: i32, words: &str| {
        let ended = lab.spawn(&[&["capture"], arguments].concat()).wait();
        assert_eq!((ended.code, ended.stdout.len()), (Some(code), 0), "{arguments:?}: {ended:#?}");
        assert!(ended.stderr.contains(words), "{words}: {ended:#?}");
    };
    let in_use = format!("cannot write {}: another process is writing it", text(&one));
    refuse(&["r1", "-w", text(&one)], 1, &in_use);
    let first_file = partial(&lab.path("f.0.pcapng"));
    fs::rename(&first_file, lab.path("moved.pcapng")).unwrap();
    refuse(&["r1", "-w", text(&path), "--file-per-queue"], 1, &in_use);
    assert!(!first_file.exists());
    running.stop().account().assert_lossless(0);

    // A trace that would be overwritten, and two that would be written to the same file.
    fs::rename(&one, lab.path("in.0.pcapng")).unwrap();
    let traces = lab.path("d");
    fs::create_dir(&traces).unwrap();
    fs::copy(lab.path("in.0.pcapng"), traces.join("in.0.pcap")).unwrap();
    let (first, second) = (lab.path("in.0.pcapng"), traces.join("in.0.pcap"));
    let [first, second] = [&first, &second].map(|path| format!("trace:{}", text(path)));
    let before = fs::read(lab.path("in.0.pcapng")).unwrap();
    let path = lab.path("in.pcapng");
    let arguments = ["-w", text(&path), "--file-per-queue"];
    refuse(&[&[first.as_str()], &arguments[..]].concat(), 2, "is the trace that is read");
    refuse(
        &[&[first.as_str(), &second], &arguments[..]].concat(),
        2,
        &format!("would both be written to {}", text(&lab.path("in.in.0.0.pcapng"))),
    );
    assert_eq!(fs::read(lab.path("in.0.pcapng")).unwrap(), before);

    let pipe = lab.path("pipe.pcapng");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    refuse(&["r0", "-w", text(&pipe), "--file-per-queue"], 2, "leave --file-per-queue out");
    let config = lab.path("config.toml");
    fs::write(&config, "[output]\nwrite = 'x.pcapng'\nfile_per_queue = true\n").unwrap();
    let ended = lab.spawn(&["forward", "r0", "r1", "--config", text(&config)]).wait();
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.stderr.contains(":3:18: file_per_queue: cannot be set for forward"), "{ended:#?}");
}

#[test]
fn beside_the_host_each_core_or_socket_has_a_file() {
    if !require_root("beside_the_host_each_core_or_socket_has_a_file") {
        return;
    }
    let options = VethOptions {
        addresses_a: vec!["192.0.2.1/24".into()],
        addresses_b: vec!["192.0.2.2/24".into()],
        ..VethOptions::default()
    };
    let lab = Lab::new("per_queue_beside", &[options]);
    let path = lab.path("t.pcapng");
    let tap = kernel_is_at_least(6, 6).then_some("tap:r0");
    for port in tap.into_iter().chain(["packet:r0"]) {
        let running = lab.capture(&[port, "--workers", "2", "-w", text(&path), "--file-per-queue"]);
        let ping = ["-q", "-c", "50", "-i", "0.01", "192.0.2.2"];
        assert!(lab.left.command("ping").args(ping).status().unwrap().success());
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let account = ended.account();
        let traces = files(&account).iter().map(|file| read(Path::new(file["file"].as_str().unwrap())));
        let traces: Vec<_> = traces.collect();
        assert_eq!(traces.len(), account.0["ports"][0]["queues"].as_array().unwrap().len());
        let in_order =
            |trace: &wirecap_lab::Capture| trace.packets.is_sorted_by_key(|packet| packet.timestamp_ns);
        assert!(traces.iter().all(in_order), "{port}");
        let packets: u64 = traces.iter().map(|trace| trace.packets.len() as u64).sum();
        assert!(packets >= 100 && packets == account.written("packets"), "{port}: {packets}");
    }
}
