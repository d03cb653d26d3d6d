//! A driver without zero-copy: wirecap falls back to copy and reports why, or fails if zero-copy is required.

use wirecap::{Diagnostic, Error, Modes, diagnostic::ModeRefusal, report::QueueMode};

use super::Case;
use crate::{
    machine::{CAPTURED, Machine},
    program,
};

pub(super) const CASES: [Case; 2] =
    [("fallback-reported", fallback_reported), ("zero-copy-required", zero_copy_required)];

fn fallback_reported(machine: &Machine) {
    let capture = machine.capture(machine.builder());
    let fallbacks = capture.report().ports[0].fallbacks.clone();
    let is_expected = |fallback: &Diagnostic| {
        matches!(
            fallback,
            Diagnostic::ModeUnavailable { mode: QueueMode::ZeroCopy, reason: ModeRefusal::NotOffered, .. }
        )
    };
    assert!(fallbacks.iter().any(is_expected), "{fallbacks:?}");
    machine.finish(capture);

    machine.ledger.note_start();
    let running = program::start(&["capture", &format!("xdp:{CAPTURED}"), "-R", "16", "--json"]);
    let expected = "zero-copy is not available: the driver does not offer it";
    assert!(running.said().contains(expected), "{}", running.said());
    let account = program::stop(running);
    super::command::assert_modes(machine, &account);
    machine.ledger.note_packets(super::command::delivered(&account));
}

fn zero_copy_required(machine: &Machine) {
    let error = machine.try_capture(machine.builder().modes(Modes::ZeroCopy)).unwrap_err();
    assert!(matches!(error, Error::NoMode { .. }), "{error}");

    let port = format!("xdp:{CAPTURED}");
    let ended = program::spawn(&["capture", &port, "-R", "16", "--require-zero-copy"]).wait();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(CAPTURED) && ended.stderr.contains("zero-copy is not available"),
        "{}",
        ended.stderr
    );
    println!("zero-copy-required: {}", ended.stderr.trim());
}
