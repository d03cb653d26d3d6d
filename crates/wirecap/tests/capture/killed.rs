//! A capturing process is killed: the kernel gives the interface back.

use std::{
    env, fs,
    net::UdpSocket,
    time::{Duration, Instant},
};

use wirecap::{Builder, Capture, Dispatch, TapHook};
use wirecap_lab::VethOptions;
use wirecap_sys::{bpf::Program, netdev};

use wirecap_testing::{kernel_is_at_least, need_root, wait_until, wire::Wire};

use crate::{
    tap,
    victim::{Victim, capture_until_killed},
};

/// Set to its way for the process that is killed: it runs this same test again.
const VICTIM: &str = "WIRECAP_TEST_VICTIM";
const TEST: &str = "killed::the_interface_of_a_killed_process_belongs_to_the_host_again";

/// How a process captures.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    builder: fn() -> Builder,
    /// Whether the host keeps its packets.
    taps: bool,
}

const WAYS: [Way; 4] = [
    Way { name: "pull", builder: || take(Dispatch::Pull), taps: false },
    Way { name: "push", builder: || take(Dispatch::Push), taps: false },
    Way { name: "tap", builder: || tap::builder().port("tap:in0"), taps: true },
    Way { name: "XDP", builder: || tap::builder().port("tap:in0").tap_hook(TapHook::Xdp), taps: true },
];

fn take(dispatch: Dispatch) -> Builder {
    Capture::builder().port("xdp:in0").dispatch(dispatch)
}

#[test]
fn the_interface_of_a_killed_process_belongs_to_the_host_again() {
    if let Ok(name) = env::var(VICTIM) {
        let way = WAYS.into_iter().find(|way| way.name == name).unwrap();
        capture_until_killed((way.builder)());
    }
    need_root!("killed::the_interface_of_a_killed_process_belongs_to_the_host_again");
    // Taps need TCX.
    let ways = WAYS.into_iter().filter(|way| !way.taps || kernel_is_at_least(6, 6));
    for Way { name: way, builder, taps } in ways {
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
        let mut victim = Victim::start(&wire, TEST, &[(VICTIM, way)]);
        assert!(is_captured(&wire), "{way}");
        assert!(!taps || host_hears(&wire), "{way}");

        let programs = programs_of(victim.id());
        assert!(!programs.is_empty(), "{way}");
        victim.kill();
        let killed = Instant::now();
        wait_until("the interface is free", || !is_captured(&wire));
        assert!(killed.elapsed() < Duration::from_secs(1), "{way}: after {:?}", killed.elapsed());
        let after = wire.inside.enter(|| netdev::interface("in0")).unwrap();
        assert_eq!(after.promiscuity, 0);
        assert!(host_hears(&wire), "{way}");
        // What is attached to the other direction, too, and with it the memory that it writes to.
        let is_gone = |&program: &u32| Program::name_by_id(program).is_err();
        wait_until("the programs are gone", || programs.iter().all(is_gone));

        // The interface can be captured again.
        drop(wire.inside.enter(|| builder().open()).unwrap());
    }
}

/// Whether a program of wirecap is on what comes in, whichever way it captures.
fn is_captured(wire: &Wire) -> bool {
    wire.is_captured() || !tap::programs(wire).is_empty()
}

/// The numbers of the programs that a process has.
pub(crate) fn programs_of(pid: u32) -> Vec<u32> {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let number =
        |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    files.filter_map(|file| number(fs::read_to_string(file.ok()?.path()).ok()?)).collect()
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
