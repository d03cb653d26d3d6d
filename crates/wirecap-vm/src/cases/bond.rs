//! A bond, whose driver runs the program on its members: packets of a bond come in the one mode that does not
//! depend on that.

use wirecap::{Builder, Capture, Diagnostic, Error, Modes, diagnostic::ModeRefusal, report::QueueMode};
use wirecap_testing::wait_until;
use wirecap_traffic::FrameSpec;

use super::Case;
use crate::machine::{CAPTURED, FLOWS, Machine, run};

pub(super) const CASES: [Case; 1] = [("bond", bond)];

const FRAMES: u64 = 20 * FLOWS as u64;
/// Not bond0, which the module makes itself.
const BOND: &str = "bond1";

fn bond(machine: &Machine) {
    let queues = machine.captured.queues.to_string();
    run(
        "ip",
        &["link", "add", BOND, "numrxqueues", &queues, "type", "bond", "mode", "balance-rr", "miimon", "50"],
    );
    run("ip", &["link", "set", CAPTURED, "down"]);
    run("ip", &["link", "set", CAPTURED, "master", BOND]);
    run("ip", &["link", "set", BOND, "up"]);
    let has_carrier = || wirecap_sys::netdev::interface(BOND).is_ok_and(|bond| bond.carrier);
    wait_until("the bond has a carrier", has_carrier);

    // The host sends packets of its own.
    let builder = || Capture::builder().port(format!("xdp:{BOND}")).filter("udp port 9");
    for modes in [Modes::Copy, Modes::Packed] {
        let error = builder().modes(modes).open().map(drop).unwrap_err();
        println!("bond: {error}");
        assert!(matches!(error, Error::NoMode { .. } | Error::NotPacked { .. }), "{error}");
    }
    captures_all(machine, builder().cells_per_chunk(64).chunks_per_pool(8));

    run("ip", &["link", "del", BOND]);
    run("ip", &["link", "set", CAPTURED, "up"]);
    machine.wait_for_links();
    machine.spread();
}

fn captures_all(machine: &Machine, builder: Builder) {
    let capture = builder.open().unwrap();
    machine.wait_for_links();
    let port = &capture.report().ports[0];
    assert!(port.queues.iter().all(|queue| queue.mode == QueueMode::Generic), "{port:#?}");
    assert!(port.fallbacks.iter().any(is_on_members), "{:#?}", port.fallbacks);
    machine.send_all(capture, FrameSpec::default(), FRAMES);
}

fn is_on_members(fallback: &Diagnostic) -> bool {
    matches!(fallback, Diagnostic::ModeUnavailable { reason: ModeRefusal::OnMembers { .. }, .. })
}
