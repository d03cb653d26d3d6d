//! Packets that the XDP program packs into blocks: the verifier of this kernel takes the program, and the
//! driver runs it.

use wirecap::{
    Diagnostic, Error, Modes, Timestamp,
    diagnostic::{ModeRefusal, PackingRefusal},
    report::QueueMode,
};
use wirecap_traffic::FrameSpec;

use super::Case;
use wirecap_testing::{check, crew::Crew, kernel_is_at_least};

use crate::machine::{FLOWS, Machine, assert_mode};

pub(super) const CASES: [Case; 1] = [("packed", packed)];

const FRAMES: u64 = 20 * FLOWS as u64;

fn packed(machine: &Machine) {
    let builder = || machine.builder().modes(Modes::Packed).cells_per_chunk(64);
    if !kernel_is_at_least(5, 18) {
        let error = machine.try_capture(builder()).map(drop).unwrap_err();
        let Error::NoMode { attempts, .. } = &error else { panic!("{error}") };
        assert!(attempts.iter().any(is_not_loaded), "{error}");
        println!("packed: {error}");
        return;
    }
    for (builder, len) in
        [(builder(), 60), (builder().timestamp(Timestamp::Kernel), 1514), (builder().filter("udp"), 61)]
    {
        let spec = FrameSpec { len, ..FrameSpec::default() };
        let mut capture = machine.capture_in_any_mode(builder);
        assert_mode(&capture.report().ports[0], "packed");
        let crew = Crew::eager(capture.take_workers());
        machine.traffic(spec).send(&capture, FRAMES);
        machine.wait_for(FRAMES, &crew, &capture);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = machine.finish(capture);
        check::in_order(&arrivals);
        check::each_once(check::intact(&arrivals, spec), FRAMES, 0);
        assert_eq!(check::account_closed(&report).lost.total(), 0);
    }
}

/// The verifier of the kernel refused the program.
fn is_not_loaded(attempt: &Diagnostic) -> bool {
    let Diagnostic::ModeUnavailable { mode: QueueMode::Packed, reason, .. } = attempt else { return false };
    matches!(reason, ModeRefusal::NotPacked(PackingRefusal::NotLoaded(_)))
}
