//! Warnings about times, and how often they come.

use clap::Parser;
use wirecap::{Capture, port::null::NullPort};
use wirecap_sandbox::Sandbox;

use super::*;
use crate::{
    capture::known_interfaces::KnownInterfaces,
    commands::{Command, Flags},
};

fn times(flags: &str) -> Times {
    let words = ["wirecap", "capture", "eth0"].into_iter().chain(flags.split_whitespace());
    let Command::Capture(flags) = Flags::try_parse_from(words).expect("flags").command else {
        unreachable!()
    };
    let settings = flags.into_settings(|_| true).unwrap().settings;
    Times::new(
        &Plan::new(settings.capture, settings.output, KnownInterfaces::default(), Sandbox::off()).unwrap(),
    )
}

/// The report of a capture from memory, for tests to change.
fn report() -> Report {
    let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
    Capture::builder().port(port).chunks_per_pool(4).open().unwrap().report()
}

const KEPT: &str = "-w /dev/null";

#[test]
fn packets_without_a_stamp_cause_one_warning() {
    let mut report = report();
    let mut times = times("");
    (report.ports[0].timestamp.source, report.ports[0].timestamp.unstamped) = (Timestamp::Hardware, 7);
    let lines = times.warnings(&report);
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].to_string().contains("WARNING: null: 7 packets had no hardware timestamp and have the time"),
        "{lines:?}"
    );
    report.ports[0].timestamp.unstamped = 7_000;
    assert_eq!(times.warnings(&report), [], "once");
}

#[test]
fn packets_that_have_a_stamp_or_need_none_cause_no_warning() {
    for (source, count) in [(Timestamp::Kernel, 0), (Timestamp::Batch, 7)] {
        let mut report = report();
        (report.ports[0].timestamp.source, report.ports[0].timestamp.unstamped) = (source, count);
        let mut times = times("");
        assert_eq!(times.warnings(&report), [], "{source:?}");
    }
}

fn off_by(max_ns: u64) -> Option<Uncertainty> {
    Some(Uncertainty { packets: 1_000, p50_ns: 250_000, p99_ns: 1_250_000, max_ns })
}

#[test]
fn kept_batch_times_cause_a_warning_whenever_they_are_ten_times_worse() {
    let mut report = report();
    let (mut kept, mut counted_only) = (times(KEPT), times(""));
    let mut warned_at = Vec::new();
    for max_ns in [9, 11, 50, 109, 111, 1_109, 1_110, 3_900, 12_000].map(|ms| ms * 1_000_000) {
        report.ports[0].timestamp.uncertainty = off_by(max_ns);
        assert_eq!(counted_only.warnings(&report), []);
        let lines = kept.warnings(&report);
        assert!(
            lines.iter().all(|line| line.to_string().contains("--timestamp kernel stamps each")),
            "{lines:?}"
        );
        warned_at.extend(lines.iter().map(|_| max_ns / 1_000_000));
    }
    assert_eq!(warned_at, [11, 111, 1_110, 12_000]);
}

#[test]
fn a_clock_that_is_set_back_causes_a_warning_each_time() {
    let mut report = report();
    let mut kept = times(KEPT);
    for (set_back_ns, expected) in [(0, 0), (1_500_000_000, 1), (1_500_000_000, 0), (3_000_000_000, 1)] {
        report.ports[0].timestamp.set_back_ns = set_back_ns;
        let lines = kept.warnings(&report);
        assert_eq!(lines.len(), expected, "{lines:?}");
    }
}

#[test]
fn every_measured_bound_is_reported_at_the_end() {
    let report = report();
    let mut timestamp = report.ports[0].timestamp.clone();
    timestamp.error_bound_ns = Some(312);
    timestamp.uncertainty = off_by(3_912_345_678);
    timestamp.set_back_ns = 3_600_000_000_000;
    assert_eq!(
        bounds(&timestamp),
        [
            "1000 packets with the time of a batch may have arrived up to 4.0 s before it (half of them up to 250.0 µs, 99 % up to 1.3 ms)",
            "the system clock was set back by 3600.0 s, and the times of packets with it",
            "the clock was within 312 ns of the system clock",
        ]
    );
    assert_eq!(remarks(&timestamp), bounds(&timestamp)[..2], "all but the bound that always holds");
}
