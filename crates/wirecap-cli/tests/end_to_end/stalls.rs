//! Compares recorded times with the send times in the frames while a reader, a worker or the whole process is
//! stopped.
//!
//! ```text
//!   sent (in the frame) ≤ arrival ≤ recorded time ≤ arrival + the reported uncertainty
//! ```
//!
//! Rule: the only slack is for the sender, which may pause between reading the clock and sending.

use std::{
    io::Read,
    process::ChildStdout,
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use wirecap_lab::Capture;
use wirecap_lab::{VethOptions, require_root};
use wirecap_sys::clock::system_ns;
use wirecap_testing::{PacketSender, SendPath, kernel_is_at_least};
use wirecap_traffic::{FrameSpec, LiveOptions, Marks, Template};

use crate::lab::{Account, CommandOutput, Lab, RunningCommand, cores, read};

/// How long the sender may pause between reading the clock and sending, on a busy machine.
const SENDER_NS: u64 = 250_000_000;
/// Clocks of two programs on one machine differ by less than this.
const CLOCK_NS: u64 = 1_000_000;
/// How long a process is stopped.
const STOPPED: Duration = Duration::from_secs(2);

/// How long before their recorded times packets may have arrived, from the account, in nanoseconds.
fn uncertainty_ns(account: &Account) -> u64 {
    account.0["ports"][0]["timestamp"]["uncertainty"]["max_ns"].as_u64().unwrap_or(0)
}

/// Checks each packet's time, and returns the largest delay.
fn assert_within(capture: &Capture, frames: u64, uncertainty_ns: u64, what: &str) -> u64 {
    let marks =
        capture.packets.iter().filter_map(|packet| Some((Marks::read(&packet.data)?, packet.timestamp_ns?)));
    let (mut count, mut worst_ns) = (0, 0);
    for (Marks { sent_ns, sequence, .. }, time_ns) in marks {
        assert!(
            sent_ns <= time_ns + CLOCK_NS,
            "{what}, frame {sequence}: recorded at {time_ns}, before it was sent at {sent_ns}"
        );
        let late_ns = time_ns.saturating_sub(sent_ns);
        assert!(
            late_ns <= uncertainty_ns + SENDER_NS,
            "{what}, frame {sequence}: late by {late_ns} ns, reported {uncertainty_ns}"
        );
        worst_ns = worst_ns.max(late_ns);
        count += 1;
    }
    assert_eq!(count, frames, "{what}");
    worst_ns
}

/// The remarks about the times of the first interface, at the end of the file.
fn bounds(capture: &Capture) -> Vec<&str> {
    let comments = capture.statistics[0].comments.iter().map(String::as_str);
    comments.filter(|comment| comment.starts_with("timestamps: ")).collect()
}

/// Reads the whole output, a little at a time.
fn read_slowly(mut output: ChildStdout) -> Vec<u8> {
    let (mut bytes, mut some) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match output.read(&mut some).unwrap() {
            0 => return bytes,
            count => bytes.extend_from_slice(&some[..count]),
        }
        thread::sleep(Duration::from_millis(25));
    }
}

/// Takes a batch of so few packets that a slow reader soon stalls the workers, which encode packets in cells.
const CELLS: [&str; 6] = ["--xdp-mode", "copy", "-M", "16", "-R", "1024"];
/// A stall that a slow reader causes is longer, and a look at an idle queue far more frequent.
const STALL_NS: u64 = 10_000_000;

/// Half a second of traffic that takes a few seconds to be read.
#[test]
fn a_slow_reader_does_not_make_times_worse_than_reported() {
    if !require_root("a_slow_reader_does_not_make_times_worse_than_reported") {
        return;
    }
    const FRAMES: u64 = 6_000;
    let batch = ["--timestamp", "batch"];
    for (way, times) in [(&[][..], &[][..]), (&[], &batch), (&CELLS, &[]), (&CELLS, &batch)] {
        let arguments = [way, times].concat();
        let lab = Lab::with_queues("slowly", 4);
        let mut command = lab.right.command(crate::lab::WIRECAP);
        command.args([&["capture", "--json", "r0", "-w", "-"], &arguments[..]].concat());
        let mut running = RunningCommand::spawn_unread(command);
        let output = running.take_stdout();
        running.wait_for(crate::lab::READY);
        let reader = thread::spawn(|| read_slowly(output));
        let frame = FrameSpec { len: 508, ..FrameSpec::default() };
        let options = LiveOptions { frame, ..LiveOptions::default() };
        thread::scope(|scope| {
            for core in 0..cores() {
                let lab = &lab;
                scope.spawn(move || lab.send_at(Some(12_000), 0, core, FRAMES, options));
            }
        });
        let ended = running.stop();
        let bytes = reader.join().unwrap();
        let sent = FRAMES * cores() as u64;
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let account = ended.account_on_stderr();
        account.assert_lossless(sent);
        assert_eq!((account.written("packets"), account.written("out_of_order")), (sent, 0), "{arguments:?}");
        let capture = Capture::read(bytes.as_slice()).unwrap();
        let uncertainty_ns = uncertainty_ns(&account);
        assert_eq!(uncertainty_ns == 0, times.is_empty(), "{:#}", account.0);
        let stalls = !way.is_empty() && !times.is_empty();
        assert!(!stalls || uncertainty_ns > STALL_NS, "no worker stalled: {:#}", account.0);
        assert_within(&capture, sent, uncertainty_ns, &format!("{arguments:?}"));
        let said = bounds(&capture);
        assert_eq!(
            said.iter().any(|said| said.contains("with the time of a batch")),
            uncertainty_ns > 0,
            "{said:?}"
        );
    }
}

/// Sends frames the way hosts do, for about `time`. Returns the number of frames.
fn send_for(sender: &mut PacketSender, template: &mut Template, first: u64, time: Duration) -> u64 {
    let (begun, mut sequence) = (Instant::now(), first);
    while begun.elapsed() < time {
        sender.send(template.stamp_at(sequence as u32 % 64, sequence, system_ns())).unwrap();
        sequence += 1;
        thread::sleep(Duration::from_millis(1));
    }
    sequence - first
}

/// Captures with the process stopped for a while as traffic continues. Returns the number of frames.
fn stopped_for_a_while(lab: &Lab, arguments: &[&str]) -> (u64, CommandOutput) {
    let running = lab.capture(arguments);
    let ifindex = lab.pairs[0].a().ifindex().unwrap();
    let mut sender = lab.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
    let mut template = Template::new(FrameSpec::default()).unwrap();
    let mut sent = 0;
    for (stopped, time) in [(false, 100), (true, STOPPED.as_millis() as u64), (false, 100)] {
        running.signal(if stopped { Signal::SIGSTOP } else { Signal::SIGCONT });
        sent += send_for(&mut sender, &mut template, sent, Duration::from_millis(time));
    }
    // Long enough for a warning to be due.
    thread::sleep(Duration::from_millis(1_200));
    (sent, running.stop())
}

#[test]
fn a_process_that_is_stopped_for_two_seconds_reports_its_uncertainty() {
    if !require_root("a_process_that_is_stopped_for_two_seconds_reports_its_uncertainty") {
        return;
    }
    // Beside the host the kernel closes a block every 5 ms, so two seconds take many blocks.
    let blocks = ["-M", "16", "-R", "1024"];
    for (port, source, sizes) in [
        ("r0", None, &[][..]),
        ("r0", Some("batch"), &[]),
        ("packet:r0", None, &blocks),
        ("tap:r0", None, &[]),
    ] {
        if port.starts_with("tap:") && !kernel_is_at_least(6, 6) {
            continue;
        }
        let lab = Lab::new("stopped", &[VethOptions { queues: 4, ..VethOptions::default() }]);
        let (path, what) = (lab.path("stopped.pcapng"), format!("{port}, {source:?}"));
        let asked = source.map_or(Vec::new(), |source| vec!["--timestamp", source]);
        let (sent, ended) =
            stopped_for_a_while(&lab, &[&[port, "-w", path.to_str().unwrap()], &asked[..], sizes].concat());
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let account = ended.account();
        assert_eq!(account.written("out_of_order"), 0, "{what}: {ended:#?}");
        let uncertainty_ns = uncertainty_ns(&account);
        let capture = read(&path);
        let worst_ns = assert_within(&capture, sent, uncertainty_ns, &what);
        let warning = "WARNING: r0: so far, packets may have arrived up to";
        let warned = ended.stderr.lines().any(|line| line.contains(warning));
        let least_ns = STOPPED.as_nanos() as u64 / 2;
        if source == Some("batch") {
            assert!(
                uncertainty_ns > least_ns && worst_ns > least_ns,
                "{what}: {worst_ns} of {uncertainty_ns}"
            );
            assert!(warned, "{ended:#?}");
        } else {
            assert!(uncertainty_ns == 0 && worst_ns < SENDER_NS && !warned, "{what}: {ended:#?}");
        }
        let promised = &capture.interfaces[0].comments;
        assert!(promised.iter().all(|comment| !comment.contains("within")), "{what}: {promised:?}");
    }
}
