//! `--copy-to`: another program gets the packets while they are written.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        ptrace,
        signal::Signal,
        stat::Mode,
        wait::{WaitPidFlag, waitpid},
    },
    unistd::{Pid, mkfifo},
};
use serde_json::Value;
use wirecap_lab::{Capture, VethOptions, VethPair, require_root};
use wirecap_testing::{PATIENCE, wait_until};
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::lab::{Lab, RunningCommand, assert_frames, read};

const FRAMES: u64 = 5_000;

#[test]
fn a_program_at_the_other_end_of_a_veth_gets_what_is_written() {
    if !require_root("a_program_at_the_other_end_of_a_veth_gets_what_is_written") {
        return;
    }
    let lab = Lab::with_queues("copied", 2);
    let pair = VethPair::new(&lab.right, "c0", &lab.right, "c1", VethOptions::default()).unwrap();
    let (written, copied) = (lab.path("x.pcapng"), lab.path("copy.pcap"));
    let mut tcpdump = lab.right.command("tcpdump");
    // All of them wait in its buffer, if need be.
    tcpdump.args(["-i", "c1", "-B", "65536", "-Q", "in", "-Z", "root", "-w", copied.to_str().unwrap()]);
    let listener = RunningCommand::spawn(tcpdump);
    listener.wait_for("listening on");
    let running = lab.capture(&["r0", "-R", "512", "-w", written.to_str().unwrap(), "--copy-to", "c0"]);
    for core in 0..2 {
        lab.send_at(Some(20_000), 0, core, FRAMES, LiveOptions::default());
    }
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    account.assert_lossless(2 * FRAMES);
    let report = &account.0["copied"];
    assert_eq!((&report["to"], &report["packets"]), (&"c0".into(), &(2 * FRAMES).into()), "{report:#}");
    let causes = report["dropped"].as_object().unwrap();
    assert!(causes.values().all(|packets| packets == 0), "{report:#}");
    listener.wait_for_bytes(&copied, 24 + (2 * FRAMES - 50) * 76);
    let said = listener.stop().stderr;
    assert!(said.contains(&format!("{} packets captured", 2 * FRAMES)), "{said}");
    let bytes = |capture: Capture| {
        let mut bytes: Vec<_> = capture.packets.into_iter().map(|packet| packet.data).collect();
        bytes.sort();
        bytes
    };
    assert!(bytes(read(&written)) == bytes(read(&copied)), "the same packets");

    // An interface that is down, and one that is captured.
    lab.right.ip(&["link", "set", "c0", "down"]).unwrap();
    let running = lab.capture(&["r0", "-w", written.to_str().unwrap(), "--copy-to", "c0"]);
    lab.send(0, 0, 100, LiveOptions::default());
    let account = running.stop().account();
    account.assert_lossless(100);
    assert_eq!((account.written("packets"), &account.0["copied"]["dropped"]["refused"]), (100, &100.into()));
    lab.right.ip(&["link", "property", "add", "dev", "r0", "altname", "mirror-port"]).unwrap();
    for name in ["r0", "mirror-port"] {
        let refused = lab.spawn(&["capture", "r0", "--copy-to", name]).wait();
        assert!(refused.code == Some(2) && refused.stderr.contains("that is captured"), "{refused:#?}");
    }
    drop(pair);
}

/// A thread of a process that is stopped while this value lives.
struct StoppedThread(Pid);

impl StoppedThread {
    /// Stops the thread of this name.
    fn new(pid: u32, name: &str) -> Self {
        let is_named = |task: &PathBuf| fs::read_to_string(task.join("comm")).unwrap().trim_end() == name;
        let mut tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
        let task = tasks.find(is_named).unwrap_or_else(|| panic!("a thread {name}"));
        let thread = Pid::from_raw(task.file_name().unwrap().to_str().unwrap().parse().unwrap());
        ptrace::seize(thread, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(thread).unwrap();
        waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
        Self(thread)
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        ptrace::detach(self.0, None).unwrap();
    }
}

#[test]
fn copies_that_are_behind_or_too_long_are_dropped_and_counted() {
    if !require_root("copies_that_are_behind_or_too_long_are_dropped_and_counted") {
        return;
    }
    let lab = Lab::with_queues("behind", 1);
    let pair = VethPair::new(&lab.right, "c0", &lab.right, "c1", VethOptions::default()).unwrap();
    lab.right.ip(&["link", "set", "c0", "mtu", "500"]).unwrap();
    let written = lab.path("x.pcapng");
    let running = lab.capture(&["r0", "-R", "512", "-w", written.to_str().unwrap(), "--copy-to", "c0"]);
    let send = |frames, len| {
        let frame = FrameSpec { len, ..FrameSpec::default() };
        lab.send_at(Some(20_000), 0, 0, frames, LiveOptions { frame, ..LiveOptions::default() });
    };
    send(100, 1_000);
    send(10, 400);
    running.wait_for_bytes(&written, 100 * 1_032 + 10 * 432);
    // 16 MiB wait for the thread, and no more; the file gets all.
    const MANY: u64 = 50_000;
    let stopped = StoppedThread::new(running.pid(), "wirecap-copy");
    send(MANY, 400);
    running.wait_for_bytes(&written, 100 * 1_032 + (MANY + 10) * 432);
    drop(stopped);
    let ended = running.stop();
    let account = ended.account();
    account.assert_lossless(MANY + 110);
    let report = &account.0["copied"];
    let figure = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap();
    let behind = figure("/dropped/behind");
    let waiting = (16 << 20) / 400;
    assert!((MANY - waiting - 400..=MANY - waiting + 400).contains(&behind), "{report:#}");
    assert_eq!((figure("/dropped/too_long"), figure("/dropped/refused")), (100, 0), "{report:#}");
    assert_eq!(figure("/packets"), MANY + 10 - behind, "{report:#}");
    assert_eq!(account.written("packets"), MANY + 110);
    // In words.
    let running = lab.spawn(&["capture", "r0", "--copy-to", "c0"]);
    running.wait_for(crate::lab::READY);
    send(5, 1_000);
    let text = String::from_utf8(running.stop().stdout).unwrap();
    assert!(text.contains("0 packets copied to c0; 5 not: too long for it"), "{text}");
    drop(pair);
}

/// A capture that writes a file and a copy to a new pipe, and the reader of the copy.
fn capture_with_a_copy(lab: &Lab, file: &Path, pipe: &Path, flags: &[&str]) -> (RunningCommand, fs::File) {
    mkfifo(pipe, Mode::S_IRWXU).unwrap();
    let (file, copy) = (file.to_str().unwrap(), pipe.to_str().unwrap());
    let outputs = ["-w", file, "--copy-to", copy];
    let running = lab.spawn(&[&["capture", "--json", "r0"], flags, &outputs].concat());
    running.wait_for("waiting for a program that reads");
    let reader = fs::File::open(pipe).unwrap();
    running.wait_for(crate::lab::READY);
    (running, reader)
}

#[test]
fn a_copy_to_what_is_no_other_pipe_is_refused() {
    if !require_root("a_copy_to_what_is_no_other_pipe_is_refused") {
        return;
    }
    let lab = Lab::with_queues("nopipe", 1);
    let (pipe, file, none) = (lab.path("pipe"), lab.path("file"), lab.path("none"));
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    fs::write(&file, "as it was").unwrap();
    let directory = pipe.parent().unwrap();
    let refused = |outputs: &[&str]| {
        let mut command = lab.right.command(crate::lab::WIRECAP);
        command.args(["capture", "r0"]).args(outputs).current_dir(directory);
        RunningCommand::spawn(command).wait()
    };
    let x = ["-w", "x.pcapng", "--copy-to"];
    for (outputs, code, words) in [
        (&["-w", "./pipe", "--copy-to", pipe.to_str().unwrap()][..], 2, "are the same pipe"),
        (&["-w", "./new.pcapng", "--copy-to", "./new.pcapng"], 2, "are the same file"),
        (&[&x[..], &["./file"]].concat(), 1, "./file: that is not a named pipe"),
        (&[&x[..], &["./none"]].concat(), 1, "there is no such pipe; make it first: mkfifo ./none"),
        (&[&x[..], &["pipe"]].concat(), 1, "for the pipe of this name write --copy-to ./pipe"),
        (&["--copy-to", "./pipe"], 2, "copies what is written to one file: add -w FILE"),
        (&["--copy-to", "./pipe", "--print"], 2, "to one file: add -w FILE, and leave --print out"),
        (&[&x[..], &["./pipe", "--print"]].concat(), 2, "to one file: leave --print out"),
    ] {
        let ended = refused(outputs);
        assert!(ended.code == Some(code) && ended.stderr.contains(words), "{words}: {ended:#?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
    assert!(!none.exists() && !lab.path("x.pcapng.partial").exists());
}

#[test]
fn a_reader_of_a_pipe_gets_a_copy_and_never_delays_the_file() {
    if !require_root("a_reader_of_a_pipe_gets_a_copy_and_never_delays_the_file") {
        return;
    }
    const MANY: u64 = 400_000;
    let lab = Lab::with_queues("pipecopy", 1);
    let path = lab.path("x.pcapng");
    for stalls in [false, true] {
        // A pipe each: while another test starts a program, its child holds the reader for a moment.
        let pipe = lab.path(if stalls { "stalled" } else { "read" });
        let (running, mut reader) = capture_with_a_copy(&lab, &path, &pipe, &["-R", "2048"]);
        let frames = if stalls { MANY } else { FRAMES };
        let read_all = move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            Capture::read(bytes.as_slice()).unwrap()
        };
        lab.send(0, 0, frames, LiveOptions::default());
        running.wait_for_bytes(&path, frames * 92);
        let (ended, copy) = thread::scope(|scope| {
            let reading = scope.spawn(read_all);
            (running.stop(), reading.join().unwrap())
        });
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let account = ended.account();
        account.assert_lossless(frames);
        let not_copied = account.written("not_copied");
        assert_eq!(not_copied > 0, stalls, "{not_copied}");
        assert!(copy.damage.is_none());
        assert_eq!(copy.packets.len() as u64, frames - not_copied);
        let warned = ended.stderr.contains(&format!("{not_copied} packets were written but not copied to"));
        assert_eq!(warned, stalls, "{ended:#?}");
        let packets = read(&path).packets;
        assert_frames(&packets.iter().collect::<Vec<_>>(), FrameSpec::default(), usize::MAX);
        assert_eq!(packets.len() as u64, frames);
    }
}

#[test]
fn a_reader_that_closes_the_pipe_is_reported_and_the_file_is_whole() {
    if !require_root("a_reader_that_closes_the_pipe_is_reported_and_the_file_is_whole") {
        return;
    }
    let lab = Lab::with_queues("pipeclose", 1);
    let (path, pipe) = (lab.path("x.pcapng"), lab.path("pipe"));
    let (running, mut reader) = capture_with_a_copy(&lab, &path, &pipe, &[]);
    let copy = pipe.display();
    lab.send(0, 0, FRAMES, LiveOptions::default());
    running.wait_for_bytes(&path, FRAMES * 92);
    // It ends within a packet, and leaves the pipe full.
    let mut got = vec![0; 30_000];
    reader.read_exact(&mut got).unwrap();
    drop(reader);
    let got = Capture::read(got.as_slice()).unwrap().packets.len() as u64;
    let words = format!(
        "WARNING: no program reads {copy} any more, so nothing more is copied, even if one opens it again"
    );
    // Not the first frames if another test starts a program, whose child holds the reader for a moment.
    let (mut sent, begun) = (FRAMES, Instant::now());
    while !running.said().contains(&words) {
        assert!(begun.elapsed() < PATIENCE, "{}", running.said());
        lab.send(0, 0, FRAMES, LiveOptions::default());
        sent += FRAMES;
        thread::sleep(Duration::from_millis(50));
        running.wait_for_bytes(&path, sent * 92);
    }
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let not_copied = ended.account().written("not_copied");
    assert_eq!((got > 0, sent - not_copied), (true, got), "{ended:#?}");
    let words =
        format!("{not_copied} packets were written but not copied to {copy}: its reader had closed it");
    assert!(ended.stderr.contains(&words), "{ended:#?}");
    assert_eq!(read(&path).packets.len() as u64, sent);
}

#[test]
fn a_signal_gives_up_a_stopped_reader_of_a_copy_and_the_file_is_complete_before() {
    if !require_root("a_signal_gives_up_a_stopped_reader_of_a_copy_and_the_file_is_complete_before") {
        return;
    }
    let lab = Lab::with_queues("pipestop", 1);
    let (path, pipe) = (lab.path("x.pcapng"), lab.path("pipe"));
    let (running, mut reader) = capture_with_a_copy(&lab, &path, &pipe, &[]);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    wait_until("all is written", || {
        fs::metadata(lab.path("x.pcapng.partial")).is_ok_and(|file| file.len() >= FRAMES * 92)
    });
    let begun = Instant::now();
    running.signal(Signal::SIGINT);
    running.wait_for(&format!("still to be copied to {}, whose reader takes none", pipe.display()));
    assert_eq!(read(&path).packets.len() as u64, FRAMES, "the file has its name");
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "the reader's time was not over: {:?}",
        begun.elapsed()
    );
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let not_copied = ended.account().written("not_copied");
    assert!(0 < not_copied && not_copied < FRAMES, "{ended:#?}");
    let words = format!("{not_copied} packets were written but not copied to {}", pipe.display());
    assert!(ended.stderr.contains(&words), "{ended:#?}");
    let mut copied = Vec::new();
    reader.read_to_end(&mut copied).unwrap();
    let copied = Capture::read(copied.as_slice()).unwrap();
    assert_eq!(copied.packets.len() as u64, FRAMES - not_copied, "the reader goes on, and is at the end");
}

/// The IDS captures by the libpcap library; tcpdump takes its part.
#[test]
fn a_recorder_and_another_program_share_the_host_s_interface() {
    if !require_root("a_recorder_and_another_program_share_the_host_s_interface") {
        return;
    }
    let lab = Lab::with_queues("beside", 1);
    lab.right.ip(&["address", "add", "192.0.2.2/24", "dev", "r0"]).unwrap();
    lab.left.ip(&["address", "add", "192.0.2.1/24", "dev", "l0"]).unwrap();
    let (written, seen) = (lab.path("x.pcapng"), lab.path("seen.pcap"));
    let recorder = lab.capture(&["r0", "icmp", "-w", written.to_str().unwrap()]);
    let mut program = lab.right.command(crate::lab::WIRECAP);
    program.args([
        "run",
        "--",
        "tcpdump",
        "-i",
        "r0",
        "-U",
        "-Z",
        "root",
        "-w",
        seen.to_str().unwrap(),
        "icmp",
    ]);
    program.env("WIRECAP_LIBRARY", super::run::library());
    let program = RunningCommand::spawn(program);
    program.wait_for("listening on");
    let ping = lab.left.command("ping").args(["-q", "-c", "50", "-i", "0.01", "192.0.2.2"]).output().unwrap();
    assert!(ping.status.success(), "the host answers: {ping:?}");
    wait_until("tcpdump has all", || fs::metadata(&seen).is_ok_and(|file| file.len() >= 24 + 100 * 114));
    program.stop();
    let ended = recorder.stop();
    assert_eq!(ended.account().sum("delivered"), 100, "{ended:#?}");
    assert_eq!((read(&written).packets.len(), read(&seen).packets.len()), (100, 100));
}
