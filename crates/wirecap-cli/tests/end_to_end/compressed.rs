//! Compressed files: `-w x.pcapng.zst`, `x.pcap.lz4`.

use std::{fs, path::Path, process::Command};

use wirecap_lab::{Capture, require_root};
use wirecap_traffic::{FrameSpec, LiveOptions};

use super::tools::ask;
use crate::lab::{Lab, SmallDisk, WIRECAP, assert_frames, by_queue, partial};

const FRAMES: u64 = 20_000;

/// The trace in a compressed file, decompressed by its own program, and whether that found it whole.
fn decompressed(path: &Path) -> (Capture, bool) {
    let program = if path.to_string_lossy().contains(".zst") { "zstd" } else { "lz4" };
    let output = Command::new(program).arg("-dc").stdin(fs::File::open(path).unwrap()).output().unwrap();
    (Capture::read(output.stdout.as_slice()).unwrap(), output.status.success())
}

#[test]
fn a_compressed_file_has_the_same_packets_and_readers_know_it() {
    if !require_root("a_compressed_file_has_the_same_packets_and_readers_know_it") {
        return;
    }
    let lab = Lab::with_queues("compressed", 2);
    for name in ["x.pcapng.zst", "x.pcap.zst", "x.pcapng.lz4"] {
        let path = lab.path(name);
        let running = lab.capture(&["r0", "-R", "512", "-w", path.to_str().unwrap()]);
        for core in 0..2 {
            lab.send(0, core, FRAMES, LiveOptions::default());
        }
        let ended = running.stop();
        let account = ended.account();
        account.assert_lossless(2 * FRAMES);
        let len = path.metadata().unwrap().len();
        assert_eq!(account.written("bytes"), len, "{name}");
        assert!(len < 2 * FRAMES * 60 / 2, "{name}: {len} bytes");
        let (capture, is_whole) = decompressed(&path);
        assert!(is_whole && capture.damage.is_none(), "{name}: {:?}", capture.damage);
        assert_eq!(capture.packets.len() as u64, 2 * FRAMES);
        if name.contains("pcapng") {
            assert!(!capture.statistics.is_empty(), "the account is in it");
            for packets in by_queue(&capture.packets).values() {
                assert_frames(packets, FrameSpec::default(), usize::MAX);
            }
        }
        // Read as a port, too.
        let port = format!("trace:{}", path.display());
        let read = lab.spawn(&["capture", &port, "--json"]).wait();
        assert_eq!(read.code, Some(0), "{read:#?}");
        read.account().assert_lossless(2 * FRAMES);
        if let Some(text) = ask("capinfos", &["-M", "-c", path.to_str().unwrap()]) {
            assert!(text.lines().any(|line| line.ends_with(&format!(" {}", 2 * FRAMES))), "{name}: {text}");
        }
    }
}

/// While it is written, too: what has come is in the file.
#[test]
fn a_compressed_file_is_current_and_whole_on_a_full_disk() {
    if !require_root("a_compressed_file_is_current_and_whole_on_a_full_disk") {
        return;
    }
    let lab = Lab::with_queues("zfull", 1);
    let directory = lab.path("disk");
    let _disk = SmallDisk::mount(&directory);
    for (name, is_full) in
        [("x.pcapng.zst", false), ("x.pcapng.lz4", false), ("y.pcapng.zst", true), ("y.pcapng.lz4", true)]
    {
        let path = directory.join(name);
        let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
        lab.send(0, 0, 10, LiveOptions::default());
        running.wait_for_bytes(&path, 400);
        wirecap_testing::wait_until("ten packets are in it", || {
            decompressed(&partial(&path)).0.packets.len() == 10
        });
        if !is_full {
            running.stop().account().assert_lossless(10);
            continue;
        }
        let filler = directory.join("filler");
        fs::write(&filler, vec![7; 900_000]).unwrap();
        // What is compressed together later may be too long for the rest of the disk.
        lab.send(0, 0, 1_000, LiveOptions::default());
        wirecap_testing::wait_until("these are in it", || {
            decompressed(&partial(&path)).0.packets.len() == 1_010
        });
        lab.send(0, 0, 200_000, LiveOptions::default());
        let ended = running.wait();
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let (capture, is_whole) = decompressed(&partial(&path));
        assert!(is_whole && capture.damage.is_none(), "{:?}", capture.damage);
        assert!(!capture.statistics.is_empty(), "the account is in it");
        let written = ended.account().written("packets");
        assert!(written >= 1_010 && capture.packets.len() as u64 == written, "{written}");
        // Version 4.0 takes a second frame for damage.
        let file = partial(&path);
        if let Some(text) = ask("capinfos", &["-M", "-c", file.to_str().unwrap()]) {
            assert!(text.lines().any(|line| line.ends_with(&format!(" {written}"))), "{name}: {text}");
        }
        fs::remove_file(filler).unwrap();
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_compressed_file_without_room_for_the_account_is_whole() {
    if !require_root("a_compressed_file_without_room_for_the_account_is_whole") {
        return;
    }
    let lab = Lab::with_queues("zaccount", 1);
    for name in ["x.pcapng.zst", "x.pcapng.lz4"] {
        let path = lab.path(name);
        let capture = |limit: u64| {
            let mut command = lab.right.command("prlimit");
            command.args([
                &format!("--fsize={limit}"),
                WIRECAP,
                "capture",
                "r0",
                "--duration",
                "300ms",
                "-w",
            ]);
            command.arg(&path).output().unwrap()
        };
        assert_eq!(capture(1 << 20).status.code(), Some(0));
        let room = path.metadata().unwrap().len() - 10;
        fs::remove_file(&path).unwrap();
        let ended = capture(room);
        let message = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{message}");
        assert!(message.contains("File too large"), "{message}");
        let (capture, is_whole) = decompressed(&partial(&path));
        assert!(is_whole && capture.damage.is_none(), "{name}: {:?}", capture.damage);
        assert!(capture.statistics.is_empty() && capture.packets.is_empty());
    }
}

#[test]
fn a_series_and_the_files_of_queues_are_compressed_too() {
    if !require_root("a_series_and_the_files_of_queues_are_compressed_too") {
        return;
    }
    let lab = Lab::with_queues("zseries", 2);
    let directory = lab.path("files");
    fs::create_dir(&directory).unwrap();
    let name = directory.join("x.pcapng.zst");
    let running = lab.capture(&["r0", "-w", name.to_str().unwrap(), "--file-per-queue", "-b", "packets:300"]);
    for core in 0..2 {
        lab.send(0, core, 1_000, LiveOptions::default());
    }
    running.stop().account().assert_lossless(2_000);
    let mut packets = Vec::new();
    for queue in 0..2 {
        for number in 1..=4 {
            let path = directory.join(format!("x.{queue}_{number:05}.pcapng.zst"));
            let (capture, is_whole) = decompressed(&path);
            assert!(is_whole && capture.damage.is_none(), "{path:?}: {:?}", capture.damage);
            assert_eq!(capture.packets.len(), if number < 4 { 300 } else { 100 }, "{path:?}");
            packets.extend(capture.packets);
        }
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 8);
    for packets in by_queue(&packets).values() {
        assert_frames(packets, FrameSpec::default(), usize::MAX);
    }
    let refused = lab.spawn(&["capture", "r0", "-w", name.to_str().unwrap(), "--direct-io"]).wait();
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("but -w names a compressed one"), "{refused:#?}");
}
