//! A capture under a service manager, here a socket that receives what it is notified of.

use std::{io::ErrorKind, os::unix::net::UnixDatagram, time::Duration};

use wirecap_lab::require_root;
use wirecap_testing::wait_until;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, READY, RunningCommand, WIRECAP};

/// The next notification; `None` if none comes within the time.
fn receive(socket: &UnixDatagram, within: Duration) -> Option<String> {
    socket.set_read_timeout(Some(within)).unwrap();
    let mut bytes = [0; 4096];
    let len = loop {
        match socket.recv(&mut bytes) {
            // A signal, for instance one that another test in this process has arranged.
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => return None,
            received => break received.unwrap(),
        }
    };
    Some(String::from_utf8(bytes[..len].to_vec()).unwrap())
}

/// Else `systemctl stop` would wait for it for ever.
#[test]
fn a_service_manager_is_not_asked_to_wait_for_an_output_that_hangs() {
    if !require_root("a_service_manager_is_not_asked_to_wait_for_an_output_that_hangs") {
        return;
    }
    let lab = Lab::with_queues("hung", 1);
    let path = lab.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "-w", "-", "--control", "off"]).env("NOTIFY_SOCKET", &path);
    let mut running = RunningCommand::spawn_unread(command);
    running.wait_for(READY);
    let unread = running.take_stdout();
    lab.send(0, 0, 10_000, LiveOptions::default());
    running.signal(nix::sys::signal::Signal::SIGTERM);
    let next = |within| receive(&socket, Duration::from_secs(within));
    wait_until("the end is notified", || next(60).is_some_and(|text| text.starts_with("STOPPING=1\n")));
    let mut extensions = 0;
    while let Some(text) = next(15) {
        assert_eq!(text, "EXTEND_TIMEOUT_USEC=30000000");
        extensions += 1;
        // One each five seconds, and no more after a minute.
        assert!(extensions <= 14, "it is still asked to wait");
    }
    assert!(extensions >= 10, "{extensions} in a minute");
    running.wait_for(
        "WARNING: standard output has accepted nothing for 60 s: the service manager is not asked to wait any more, \
         and may end wirecap in 30 s; what is not written then is lost",
    );
    drop(unread);
    assert_eq!(running.wait().code, Some(1));
}

#[test]
fn a_service_manager_is_notified_of_the_start_the_state_and_the_end() {
    if !require_root("a_service_manager_is_notified_of_the_start_the_state_and_the_end") {
        return;
    }
    let lab = Lab::with_queues("notify", 1);
    let path = lab.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let receive = || receive(&socket, Duration::from_secs(60)).expect("a notification");
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
