//! When packets are sent.

use wirecap_lab::CapturedPacket;
use wirecap_lab::{require_root, skip};
use wirecap_testing::wait_until;

use super::{Sketch, even, figure, replayed, report, run, trace, write};
use crate::lab::{Lab, RunningCommand, WIRECAP};

/// From the first arrival to the last, by the receiver's clock.
fn span_ns(arrived: &[CapturedPacket]) -> u64 {
    arrived.last().unwrap().timestamp_ns.unwrap() - arrived[0].timestamp_ns.unwrap()
}

/// The span may be this much too short: the machine has two clocks, and the first packet may be late.
const SLACK_NS: u64 = 50_000_000;
/// No machine is this busy.
const MOST_NS: u64 = 5_000_000_000;

#[track_caller]
fn assert_takes(lab: &Lab, arguments: &[&str], expected_ns: u64) {
    let (report, arrived) = replayed(lab, arguments);
    let seconds_ns = (report["seconds"].as_f64().unwrap() * 1e9) as u64;
    assert!((expected_ns..expected_ns + MOST_NS).contains(&seconds_ns), "nothing departs early: {report:#}");
    let span = span_ns(&arrived);
    assert!(
        (expected_ns - SLACK_NS..expected_ns + MOST_NS).contains(&span),
        "{span} ns, not {expected_ns} ns"
    );
    assert_eq!(figure(&report, "/pacing/gaps"), arrived.len() as u64 - 1);
    let [p50, p99, max] =
        ["p50", "p99", "max"].map(|name| figure(&report, &format!("/pacing/gap_error_ns/{name}")));
    assert!(p50 <= p99 && p99 <= max, "{report:#}");
}

#[test]
fn the_recorded_speed_and_its_multiples_are_kept() {
    if !require_root("the_recorded_speed_and_its_multiples_are_kept") {
        return;
    }
    let lab = Lab::with_queues("speeds", 1);
    let path = write(&lab, "a.pcap", &even(501, 2_000_000));
    let file = path.to_str().unwrap();
    assert_takes(&lab, &[file], 1_000_000_000);
    assert_takes(&lab, &[file, "--speed", "10"], 100_000_000);
    assert_takes(&lab, &[file, "--speed", "0.5", "--count", "251"], 1_000_000_000);
    assert_takes(&lab, &[file, "--memory", "1M", "--queues", "0"], 1_000_000_000);
    // Five passes, and four gaps of 50 ms between them.
    assert_takes(&lab, &[file, "--speed", "10", "--loops", "5", "--loop-gap", "500ms"], 700_000_000);
    // All gaps are cut to a quarter.
    assert_takes(&lab, &[file, "--max-gap", "500us"], 250_000_000);
}

#[test]
fn rates_are_kept() {
    if !require_root("rates_are_kept") {
        return;
    }
    let lab = Lab::with_queues("rates", 1);
    let path = write(&lab, "a.pcap", &even(5_001, 1_000_000_000));
    let file = path.to_str().unwrap();
    assert_takes(&lab, &[file, "--pps", "10k"], 500_000_000);
    // Packets of 800 bits.
    assert_takes(&lab, &[file, "--bps", "8M"], 500_000_000);
    assert_takes(&lab, &[file, "--pps", "20k", "--loops", "2"], 500_050_000);
}

/// Sends arriving packets on at 10 Mbit/s, so the kernel gives the sender its cells back as late. Fails if
/// the kernel has no such queue.
fn slow_down(lab: &Lab) -> std::io::Result<()> {
    for arguments in [
        "link add slow type veth peer name end",
        "link add bridge type bridge",
        "link set r0 master bridge",
        "link set slow master bridge",
        "link set bridge up",
        "link set slow up",
        "link set end up",
    ] {
        lab.right.ip(&Vec::from_iter(arguments.split(' '))).unwrap();
    }
    // Until then, the bridge drops what arrives.
    wait_until("the bridge forwards", || {
        ["r0", "slow"].iter().all(|port| {
            let show = lab.right.command("ip").args(["-d", "link", "show", port]).output().unwrap();
            String::from_utf8_lossy(&show.stdout).contains("state forwarding")
        })
    });
    let arguments = "qdisc add dev slow root tbf rate 10mbit burst 5kb limit 8mb";
    let made = lab.right.command("tc").args(arguments.split(' ')).output()?;
    match made.status.success() {
        true => Ok(()),
        false => Err(std::io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned())),
    }
}

#[test]
fn a_slow_link_is_waited_for_as_long_as_it_sends() {
    const TEST: &str = "a_slow_link_is_waited_for_as_long_as_it_sends";
    if !require_root(TEST) {
        return;
    }
    let lab = Lab::with_queues("slowlink", 1);
    if let Err(cause) = slow_down(&lab) {
        return skip(TEST, &format!("the link cannot be slowed down: {cause}"));
    }
    // A full ring of these packets takes two and a half seconds.
    let path = write(&lab, "a.pcap", &trace((0..2_100).map(|_| Sketch { time_ns: 0, len: 1_514 })));
    let ended = run(&lab, &[path.to_str().unwrap(), "--top-speed"]);
    let report = report(&ended);
    assert_eq!((ended.code, figure(&report, "/packets")), (Some(0), 2_100), "{ended:#?}");
    assert!(report["seconds"].as_f64().unwrap() > 2.2, "the packets were not slowed down: {report:#}");
}

#[test]
fn a_terminal_gets_a_bar_with_the_time_left() {
    if !require_root("a_terminal_gets_a_bar_with_the_time_left") {
        return;
    }
    let lab = Lab::with_queues("replaybar", 1);
    let path = write(&lab, "a.pcap", &even(301, 10_000_000));
    let on_a_terminal = |more: &str| {
        let mut command = lab.left.command("script");
        let replay = format!("{WIRECAP} replay {} -i l0 {more}", path.display());
        command.args(["--quiet", "--flush", "--return", "--command", &replay, "/dev/null"]);
        let ended = RunningCommand::spawn(command).wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let screen = on_a_terminal("");
    let lines: Vec<_> = screen.split("\r\x1b[K").collect();
    let bars = &lines[1..lines.len() - 1];
    assert!(!bars.is_empty(), "{screen:?}");
    for bar in bars {
        assert!(bar.starts_with('[') && bar.contains(" %  ") && bar.contains(" left  "), "{bar:?}");
    }
    assert!(lines[0].contains("it will take 3.0 s"), "{screen:?}");
    assert!(lines[lines.len() - 1].starts_with("queue "), "{screen:?}");
    assert!(!on_a_terminal("--quiet --speed 3").contains('\x1b'));
}
