//! A capture under a service manager, here a socket that receives what it is notified of.

use std::{io::ErrorKind, os::unix::net::UnixDatagram, time::Duration};

use wirecap_lab::require_root;
use wirecap_testing::wait_until;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, RunningCommand, WIRECAP};

#[test]
fn a_service_manager_is_notified_of_the_start_the_state_and_the_end() {
    if !require_root("a_service_manager_is_notified_of_the_start_the_state_and_the_end") {
        return;
    }
    let lab = Lab::with_queues("notify", 1);
    let path = lab.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let receive = || {
        let mut bytes = [0; 4096];
        let len = loop {
            match socket.recv(&mut bytes) {
                // A signal, for instance one that another test in this process has arranged.
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                received => break received.unwrap(),
            }
        };
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "--json", "--control", "off"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let running = RunningCommand::spawn(command);
    assert!(receive().starts_with("READY=1\n"));
    // Ready means that no packet is missed. The next status follows the first one after five seconds.
    wait_until("the first status comes", || receive().starts_with("STATUS="));
    lab.send(0, 0, 1_000, LiveOptions::default());
    let mut watchdogs = 0;
    wait_until("the status has the packets", || {
        let text = receive();
        watchdogs += u32::from(text == "WATCHDOG=1");
        text.starts_with("STATUS=") && text.contains("1000 packets")
    });
    assert!(watchdogs >= 5, "{watchdogs} in some five seconds");
    let ended = {
        running.signal(nix::sys::signal::Signal::SIGTERM);
        wait_until("the end is notified", || receive().starts_with("STOPPING=1\n"));
        running.wait()
    };
    ended.account().assert_lossless(1_000);
}
