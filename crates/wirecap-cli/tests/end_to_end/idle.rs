//! A command that nothing comes to takes no CPU time.

use std::{thread, time::Duration};

use wirecap_lab::require_root;
use wirecap_testing::cpu_time::{cpu_seconds_of, least_share};

use crate::{
    forward::Cable,
    lab::{Lab, READY, RunningCommand},
};

/// Long enough for the resolution of the figure, a hundredth of a second.
const WINDOW: Duration = Duration::from_secs(3);
const MAX_SHARE: f64 = 0.01;

/// Requires that a command, once it runs, takes hardly any CPU time.
fn assert_idle(running: RunningCommand, what: &str) {
    running.wait_for(READY);
    // Until the effects of the start are over.
    thread::sleep(Duration::from_millis(200));
    // `ip netns exec` has become wirecap, so the process id is that of wirecap.
    let pid = running.pid();
    let share = least_share(|| cpu_seconds_of(pid), WINDOW, MAX_SHARE);
    assert!(share < MAX_SHARE, "{what}: {:.2} % of a core", share * 100.0);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{what}: {ended:#?}");
}

#[test]
fn a_capture_without_packets_takes_no_cpu_time() {
    if !require_root("a_capture_without_packets_takes_no_cpu_time") {
        return;
    }
    let lab = Lab::with_queues("idle", 4);
    // Small pools make short sleeps.
    for arguments in [&["r0"][..], &["r0", "--xdp-mode", "copy", "-M", "64", "-R", "4"]] {
        let running = lab.spawn(&[&["capture"], arguments].concat());
        assert_idle(running, &format!("capture {arguments:?}"));
    }
}

#[test]
fn a_cable_without_packets_takes_no_cpu_time() {
    if !require_root("a_cable_without_packets_takes_no_cpu_time") {
        return;
    }
    let cable = Cable::quiet("idlecable");
    assert_idle(cable.spawn(&["forward", "m0", "m1"]), "forward");
}
