//! ngrep, softflowd with nfdump's collector, and Python through ctypes.

use std::{collections::BTreeSet, fs, process::Command};

use nix::sys::signal::Signal;
use wirecap_testing::{wait_or_explain, wait_until};
use wirecap_traffic::FrameSpec;

use crate::{
    frames::{LAST, frame, mixture},
    rig::{Library, PORT, Rig, same},
};

const FLOWS: u32 = 20;

#[test]
fn ngrep_finds_packets_by_their_content() {
    need_program!("ngrep_finds_packets_by_their_content", "ngrep", "ngrep");
    let rig = Rig::new("ngrep");
    let frames: Vec<_> = (0..200).map(marked).collect();
    let printed = same("ngrep", |library| {
        let arguments = ["-d", PORT, "-l", "-q", "-n", "20", "-W", "byline", "needle", "udp and port 9"];
        let program = rig.spawn(library, "ngrep", &arguments);
        program.wait_for_output(": needle");
        rig.send(&frames);
        program.succeed()
    });
    assert_eq!(printed.matches("needle number").count(), 20, "{printed}");
}

/// One frame in ten has words in it.
fn marked(sequence: u64) -> Vec<u8> {
    let mut frame = frame(FrameSpec { len: 120, ..FrameSpec::default() }, sequence as u32 % 4, sequence);
    if sequence % 10 == 0 {
        let words = format!("needle number {sequence:06}");
        frame[70..70 + words.len()].copy_from_slice(words.as_bytes());
    }
    frame
}

/// Flows of different lengths, which softflowd counts, sends to nfcapd, and nfdump prints. With libpcap
/// softflowd gets packets only once they fill a block of the kernel's buffer, so there is nothing to compare.
#[test]
fn softflowd_exports_the_flows_to_a_collector() {
    need_program!("softflowd_exports_the_flows_to_a_collector", "softflowd", "softflowd");
    need_program!("softflowd_exports_the_flows_to_a_collector", "nfcapd", "nfdump");
    let rig = Rig::new("softflowd");
    let directory = rig.path("flows");
    fs::create_dir(&directory).unwrap();
    let path = directory.to_str().unwrap();
    let collector = ["-w", path, "-b", "127.0.0.1", "-p", "9995", "-t", "3600"];
    let collector = rig.spawn(Library::System, "nfcapd", &collector);
    collector.running.wait_for("Startup");
    let (control, pid) = (rig.path("softflowd.ctl"), rig.path("softflowd.pid"));
    let (control, pid) = (control.to_str().unwrap(), pid.to_str().unwrap());
    let arguments = ["-i", PORT, "-n", "127.0.0.1:9995", "-v", "9", "-d", "-p", pid, "-c", control];
    let exporter = rig.spawn(Library::Wirecap, "softflowd", &arguments);
    exporter.running.wait_for("data collection");
    // Flow n has n + 1 packets.
    let frames: Vec<_> = (0..FLOWS)
        .flat_map(|flow| (0..=u64::from(flow)).map(move |sequence| (flow, sequence)))
        .map(|(flow, sequence)| frame(FrameSpec { len: 200, ..FrameSpec::default() }, flow, sequence))
        .collect();
    rig.send(&frames);
    let processed = format!("Packets processed: {}\n", frames.len());
    wait_or_explain(|| ask(control, "statistics"), || ask(control, "statistics").contains(&processed));
    ask(control, "shutdown");
    exporter.wait();
    wait_until("the collector has read everything", || has_empty_queues(&rig));
    collector.running.signal(Signal::SIGTERM);
    collector.wait();

    let format = "fmt:%pr %sa %sp %da %dp %pkt %byt";
    let nfdump = Command::new("nfdump").args(["-R", path, "-q", "-N", "-o", format]).output().unwrap();
    assert!(nfdump.status.success(), "{nfdump:?}");
    let text = String::from_utf8(nfdump.stdout).unwrap();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let flows: BTreeSet<_> = text.lines().map(words).filter(|line| !line.is_empty()).collect();
    let expected = (0..FLOWS).map(|flow| {
        let packets = flow + 1;
        format!("17 198.18.0.{flow} 1024 198.19.0.1 9 {packets} {}", packets * 186)
    });
    assert_eq!(flows, expected.collect(), "{text}");
}

/// What softflowd answers.
fn ask(control: &str, what: &str) -> String {
    let output = Command::new("softflowctl").args(["-c", control, what]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Whether every UDP socket inside has been read.
fn has_empty_queues(rig: &Rig) -> bool {
    let output = rig.wire.inside.command("cat").arg("/proc/net/udp").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // The fifth word is what waits to be sent, and to be read.
    text.lines().skip(1).all(|line| line.split_whitespace().nth(4).unwrap().ends_with(":00000000"))
}

/// Ten lines that capture.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/capture.py");

#[test]
fn python_captures_through_ctypes() {
    need_program!("python_captures_through_ctypes", "python3", "python3");
    let rig = Rig::new("python");
    let frames = mixture(100);
    assert!(LAST.ends_with("99"));
    let printed = same("python", |library| {
        let program = rig.spawn(library, "python3", &[PYTHON, PORT]);
        program.running.wait_for("ready");
        rig.send(&frames);
        program.succeed()
    });
    assert_eq!(printed.lines().count(), 99, "{printed}");
}
