//! A capturing process is killed: the kernel gives the interface back.

use std::{
    env,
    net::UdpSocket,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use wirecap::{Capture, Dispatch};
use wirecap_lab::VethOptions;

use wirecap_testing::{crew::Crew, need_root, wait_until, wire::Wire};

/// Set for the process that is killed: it runs this same test again.
const VICTIM: &str = "WIRECAP_TEST_VICTIM";
const TEST: &str = "killed::the_interface_of_a_killed_process_belongs_to_the_host_again";

#[test]
fn the_interface_of_a_killed_process_belongs_to_the_host_again() {
    if let Some(dispatch) = env::var_os(VICTIM) {
        capture_until_killed(if dispatch == "push" { Dispatch::Push } else { Dispatch::Pull });
    }
    need_root!("killed::the_interface_of_a_killed_process_belongs_to_the_host_again");
    for dispatch in ["pull", "push"] {
        let wire = Wire::new(
            "killed",
            VethOptions {
                queues: 2,
                addresses_a: vec!["192.0.2.1/24".into()],
                addresses_b: vec!["192.0.2.2/24".into()],
                ..VethOptions::default()
            },
        );
        assert!(host_hears(&wire), "the lab is in order");
        // Determined here: within the namespace of a test the path may differ.
        let program = env::current_exe().unwrap();
        let victim = || {
            let mut command = Command::new(&program);
            command.args(["--exact", TEST, "--nocapture"]).env(VICTIM, dispatch);
            command.stdout(Stdio::null()).spawn().unwrap()
        };
        let mut victim = wire.inside.enter(victim);
        wait_until("the victim captures", || wire.is_captured());

        victim.kill().unwrap();
        victim.wait().unwrap();
        let killed = Instant::now();
        wait_until("the XDP program is gone", || !wire.is_captured());
        assert!(killed.elapsed() < Duration::from_secs(1), "after {:?}", killed.elapsed());
        let after = wire.inside.enter(|| wirecap_sys::netdev::interface("in0")).unwrap();
        assert_eq!(after.promiscuity, 0);
        assert!(host_hears(&wire), "{dispatch}");

        // The interface can be captured again.
        drop(wire.inside.enter(|| Capture::builder().port("xdp:in0").open()).unwrap());
    }
}

fn capture_until_killed(dispatch: Dispatch) -> ! {
    let mut capture = Capture::builder().port("xdp:in0").dispatch(dispatch).open().unwrap();
    Crew::eager(capture.take_workers()).join();
    unreachable!("this capture is not stopped");
}

/// Whether a datagram from outside reaches the host's stack inside.
fn host_hears(wire: &Wire) -> bool {
    let listener = wire.inside.enter(|| UdpSocket::bind("192.0.2.2:9")).unwrap();
    let talker = wire.outside.enter(|| UdpSocket::bind("192.0.2.1:0")).unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    (0..100).any(|_| {
        talker.send_to(b"hello", "192.0.2.2:9").unwrap();
        let mut buffer = [0; 16];
        listener.recv(&mut buffer).is_ok_and(|len| &buffer[..len] == b"hello")
    })
}
