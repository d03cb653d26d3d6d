//! Outputs: files, pipes, devices, and changes to them during the capture.

use std::{fs, io::Read, path::Path, process::Command, thread};

use nix::{
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use wirecap_lab::Capture;
use wirecap_lab::require_root;
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::lab::{Lab, assert_frames, by_queue, cores, partial, read};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_output_that_cannot_be_written_is_explained_before_anything_is_touched() {
    if !require_root("an_output_that_cannot_be_written_is_explained_before_anything_is_touched") {
        return;
    }
    let lab = Lab::with_queues("output", 1);
    let (missing, directory) = (lab.path("no/such/x.pcapng"), lab.path("directory.pcapng"));
    fs::create_dir(&directory).unwrap();
    for (path, hint) in [
        (text(&missing), "mkdir -p"),
        (text(&directory), "directory.pcapng/trace.pcapng"),
        ("/tmp", "name a file in it: /tmp/trace.pcapng"),
        ("/proc/x.pcapng", "cannot write"),
        ("/dev/full", "make room"),
    ] {
        let ended = lab.spawn(&["capture", "r0", "-w", path]).wait();
        assert_eq!((ended.code, ended.stdout.len()), (Some(1), 0), "{ended:#?}");
        let last = ended.stderr.lines().last().unwrap();
        assert!(last.starts_with("wirecap: cannot write ") && last.contains(hint), "{hint}: {ended:#?}");
    }
    let ended = lab.capture(&["r0", "-w", "/dev/null", "--duration", "100ms"]).wait();
    assert!(ended.code == Some(0) && ended.account().written("bytes") > 0, "{ended:#?}");
}

#[test]
fn a_file_past_the_page_cache_has_the_same_packets() {
    if !require_root("a_file_past_the_page_cache_has_the_same_packets") {
        return;
    }
    let lab = Lab::with_queues("direct", 2);
    // On a disk: not every file system in memory has direct writes.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["direct.pcapng", "direct.pcap"] {
        let path = directory.path().join(name);
        let running = lab.capture(&["r0", "-R", "256", "-w", text(&path), "--direct-io"]);
        let frame = FrameSpec { len: 1_000, ..FrameSpec::default() };
        for core in 0..cores() {
            lab.send(0, core, 40_000, LiveOptions { frame, ..LiveOptions::default() });
        }
        let (ended, sent) = (running.stop(), 40_000 * cores() as u64);
        let account = ended.account();
        account.assert_lossless(sent);
        assert_eq!(account.written("bytes"), fs::metadata(&path).unwrap().len());
        let capture = read(&path);
        assert_eq!((capture.packets.len() as u64, account.written("packets")), (sent, sent));
        if name.ends_with("ng") {
            by_queue(&capture.packets).values().for_each(|packets| assert_frames(packets, frame, usize::MAX));
        }
    }
    let refused = lab.spawn(&["capture", "r0", "-w", "/dev/null", "--direct-io"]).wait();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("only files") && refused.stderr.contains("--direct-io"), "{refused:#?}");
}

/// Blocks in front of them make sure of that, and no reader minds these.
#[test]
fn packed_packets_are_written_past_the_page_cache_from_where_they_lie() {
    if !require_root("packed_packets_are_written_past_the_page_cache_from_where_they_lie") {
        return;
    }
    const FRAMES: u64 = 4_000;
    const CHUNK_BYTES: usize = 512 << 10;
    let lab = Lab::with_queues("padded", 1);
    // On a disk: not every file system in memory has direct writes.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("padded.pcapng");
    let running = lab.capture(&["r0", "-w", text(&path), "--direct-io"]);
    let frame = FrameSpec { len: 1_000, ..FrameSpec::default() };
    // Whole chunks wait for it, so the file gets much of each at once.
    running.signal(Signal::SIGSTOP);
    lab.send(0, 0, FRAMES, LiveOptions { frame, ..LiveOptions::default() });
    running.signal(Signal::SIGCONT);
    let ended = running.stop();
    let account = ended.account();
    account.assert_lossless(FRAMES);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(account.written("bytes"), bytes.len() as u64);
    let (mut padding, mut at) = (0, 0);
    while at < bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        padding += usize::from(word(at) == 0x8000_0000);
        at += word(at + 4) as usize;
    }
    let chunks = FRAMES as usize * 1_000 / CHUNK_BYTES;
    assert!((1..=chunks + 2).contains(&padding), "{padding} for {chunks} chunks");
    let capture = read(&path);
    assert_frames(&capture.packets.iter().collect::<Vec<_>>(), frame, usize::MAX);
    assert_eq!(capture.packets.len() as u64, FRAMES);
    for (program, arguments) in [("tcpdump", ["--count", "-r"]), ("capinfos", ["-M", "-c"])] {
        let mut command = Command::new(program);
        let output = command.args(arguments).arg(&path).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("4000"), "{output:?}");
    }
}

#[test]
fn a_file_is_written_by_one_capture_at_a_time() {
    if !require_root("a_file_is_written_by_one_capture_at_a_time") {
        return;
    }
    let lab = Lab::new("one_writer", &[Default::default(), Default::default()]);
    let path = lab.path("one.pcapng");
    let running = lab.capture(&["r0", "-w", text(&path)]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    running.wait_for_bytes(&path, 1_000 * 60);
    let second = lab.spawn(&["capture", "r1", "-w", text(&path)]).wait();
    assert_eq!(second.code, Some(1), "{second:#?}");
    assert!(second.stderr.contains("another process is writing it"), "{second:#?}");
    lab.send(0, 0, 1_000, LiveOptions::default());
    running.stop().account().assert_lossless(2_000);
    assert_eq!(read(&path).packets.len(), 2_000);
    // The file is free again, and is replaced.
    lab.capture(&["r1", "-w", text(&path), "--duration", "100ms"]).wait().account();
    assert_eq!(read(&path).packets.len(), 0);
}

#[test]
fn a_pipe_is_waited_for_until_it_has_a_reader() {
    if !require_root("a_pipe_is_waited_for_until_it_has_a_reader") {
        return;
    }
    let lab = Lab::with_queues("fifo", 1);
    // A pipe's name says nothing about what is in it.
    let path = lab.path("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let running = lab.spawn(&["capture", "--json", "r0", "-w", text(&path)]);
    running.wait_for("waiting for a program that reads");
    let reader = thread::spawn({
        let path = path.clone();
        move || {
            let mut bytes = Vec::new();
            fs::File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        }
    });
    running.wait_for("wirecap: M = ");
    lab.send(0, 0, 3_000, LiveOptions::default());
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(3_000);
    let capture = Capture::read(reader.join().unwrap().as_slice()).unwrap();
    assert!(capture.damage.is_none());
    assert_frames(&capture.packets.iter().collect::<Vec<_>>(), FrameSpec::default(), usize::MAX);
    assert_eq!(capture.packets.len(), 3_000);
}

#[test]
fn a_signal_ends_the_wait_for_the_reader_of_a_pipe() {
    if !require_root("a_signal_ends_the_wait_for_the_reader_of_a_pipe") {
        return;
    }
    let lab = Lab::with_queues("unread", 1);
    let path = lab.path("pipe.pcap");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let running = lab.spawn(&["capture", "r0", "-w", text(&path)]);
        running.wait_for("waiting for a program that reads");
        running.signal(signal);
        let ended = running.wait();
        assert_eq!((ended.code, ended.stdout.len()), (Some(1), 0), "{ended:#?}");
        assert!(ended.stderr.contains("no program reads"), "{ended:#?}");
    }
}

#[test]
fn dev_stdout_is_standard_output() {
    if !require_root("dev_stdout_is_standard_output") {
        return;
    }
    let lab = Lab::with_queues("devstdout", 1);
    let running = lab.capture(&["r0", "-w", "/dev/stdout"]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    let ended = running.stop();
    ended.account_on_stderr().assert_lossless(1_000);
    let capture = Capture::read(ended.stdout.as_slice()).unwrap();
    assert!(capture.damage.is_none() && capture.packets.len() == 1_000);
}

#[test]
fn a_file_that_is_deleted_or_moved_while_it_is_written_is_reported() {
    if !require_root("a_file_that_is_deleted_or_moved_while_it_is_written_is_reported") {
        return;
    }
    let lab = Lab::with_queues("gone_file", 1);
    let (path, other) = (lab.path("a.pcapng"), lab.path("b.pcapng"));
    let running = lab.capture(&["r0", "-w", text(&path)]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    fs::rename(partial(&path), &other).unwrap();
    lab.send(0, 0, 1_000, LiveOptions::default());
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "nothing is lost: {ended:#?}");
    let words = format!(
        "was moved while it was written; the packets are in {}",
        text(&other.canonicalize().unwrap())
    );
    assert!(ended.stderr.contains(&words), "{ended:#?}");
    assert_eq!((path.exists(), read(&other).packets.len()), (false, 2_000));

    let running = lab.capture(&["r0", "-w", text(&path)]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    // Files are looked for once a second, also in silence.
    fs::remove_file(partial(&path)).unwrap();
    running.wait_for(&format!("they can be copied from /proc/{}/fd/", running.pid()));
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stderr.contains("was deleted while it was written; its 1000 packets are lost"),
        "{ended:#?}"
    );
    let account = ended.account();
    account.assert_lossless(1_000);
    assert_eq!((account.written("packets"), account.written("deleted")), (1_000, 1_000));
}

#[test]
fn a_pipe_whose_reader_ends_is_named() {
    if !require_root("a_pipe_whose_reader_ends_is_named") {
        return;
    }
    let lab = Lab::with_queues("broken", 1);
    let path = lab.path("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let running = lab.spawn(&["capture", "--json", "r0", "-w", text(&path)]);
    let reader = fs::File::open(&path).unwrap();
    running.wait_for("wirecap: M = ");
    drop(reader);
    lab.send_some(0, 0, 1_000);
    let ended = running.wait();
    let words = format!("cannot write {}: the program that read it has ended", text(&path));
    assert!(ended.code == Some(1) && ended.stderr.contains(&words), "{ended:#?}");
    assert_eq!(ended.account().written("packets"), 0);
}
