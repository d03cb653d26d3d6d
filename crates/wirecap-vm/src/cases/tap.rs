//! Tapped interfaces: the verifier of this kernel takes both programs, and the host keeps its packets.

use wirecap::{Capture, Error, TapHook, diagnostic::TapRefusal, report::QueueMode};
use wirecap_testing::kernel_is_at_least;
use wirecap_traffic::FrameSpec;

use super::Case;
use crate::machine::{CAPTURED, FLOWS, Machine};

pub(super) const CASES: [Case; 1] = [("tap", tap)];

const FRAMES: u64 = 20 * FLOWS as u64;

fn tap(machine: &Machine) {
    // The host sends packets of its own.
    let builder =
        || Capture::builder().port(format!("tap:{CAPTURED}")).cells_per_chunk(64).filter("udp port 9");
    if !kernel_is_at_least(6, 6) {
        let error = builder().open().map(drop).unwrap_err();
        assert!(matches!(error, Error::NotTapped { reason: TapRefusal::NoTcx, .. }), "{error}");
        println!("tap: {error}");
        return;
    }
    for (hook, len) in [(TapHook::Tcx, 60), (TapHook::Tcx, 1514), (TapHook::Xdp, 61)] {
        let capture = builder().tap_hook(hook).open().unwrap();
        machine.wait_for_links();
        machine.spread();
        let is_tap = |mode| mode == QueueMode::Tap;
        assert!(capture.report().ports[0].queues.iter().all(|queue| is_tap(queue.mode)));
        machine.send_all(capture, FrameSpec { len, ..FrameSpec::default() }, FRAMES);
        machine.wait_for_links();
    }
}
