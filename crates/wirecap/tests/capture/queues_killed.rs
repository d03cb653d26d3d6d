//! Processes that share an interface are killed: the others continue, and queues without a process go to the
//! host.

use std::{env, net::UdpSocket, time::Duration};

use wirecap::{Builder, Capture, Modes, queue_devices};
use wirecap_lab::VethOptions;
use wirecap_sys::{bpf::Program, netdev};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, kernel_is_at_least, need_root, wait_until, wire::Wire};

use crate::{
    killed::programs_of,
    victim::{Victim, capture_until_killed},
};

/// Set to the captured port for the process that is killed: it runs this same test again.
const VICTIM: &str = "WIRECAP_TEST_QUEUES_VICTIM";
/// Set for one that packs packets.
const PACKS: &str = "WIRECAP_TEST_QUEUES_VICTIM_PACKS";
const TEST: &str =
    "queues_killed::a_killed_process_leaves_the_queues_of_others_alone_and_its_own_to_the_host";

/// Starts a process that captures a port until it is killed.
fn victim(wire: &Wire, port: &str) -> Victim {
    Victim::start(wire, TEST, &[(VICTIM, port)])
}

/// With such a small M, frames longer than a cell are not split, but counted as lost.
fn victim_of(port: &str) -> Builder {
    match env::var_os(PACKS) {
        Some(_) => Capture::builder().port(port).modes(Modes::Packed).chunks_per_pool(16),
        None => Capture::builder().port(port).cells_per_chunk(8).chunks_per_pool(64),
    }
}

#[test]
fn a_killed_process_leaves_the_queues_of_others_alone_and_its_own_to_the_host() {
    if let Some(port) = env::var_os(VICTIM) {
        capture_until_killed(victim_of(port.to_str().unwrap()));
    }
    need_root!("queues_killed::a_killed_process_leaves_the_queues_of_others_alone_and_its_own_to_the_host");
    // With this MTU the victim would count long frames as lost if it were alive.
    let addresses_b = vec!["198.19.0.1/15".into()];
    let wire =
        Wire::new("orphan", VethOptions { queues: 3, mtu: 3_000, addresses_b, ..VethOptions::default() });
    let mac = wire.inside.enter(|| netdev::interface("in0")).unwrap().mac.unwrap().0;
    let frame = |len| FrameSpec { len, destination_mac: mac, ..FrameSpec::default() };
    let small = || Capture::builder().chunks_per_pool(8);

    let mut founder = victim(&wire, "xdp:in0@0");
    let mut capture = wire.capture_of("xdp:in0@1-2", small());
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.queue_sender(1, frame(60));
    sender.send(100);
    founder.kill();
    sender.send(100);
    crew.wait_for(200);

    // The victim's entry is still in the table; the host gets its packets, even long frames.
    let hears = host_listener(&wire);
    for (queue, len) in [(0, 60), (0, 3_014)] {
        let mut sender = wire.queue_sender(queue, frame(len));
        wait_until("the host hears", || {
            sender.send(1);
            hears()
        });
    }
    let devices = wire.inside.enter(|| queue_devices("in0")).unwrap();
    assert_eq!(
        devices.iter().map(|device| device.in_use).collect::<Vec<_>>(),
        [Some(false), Some(true), Some(true)]
    );

    // A successor takes the queue.
    let mut successor = wire.capture_of("xdp:in0@0", small());
    let successors = Crew::eager(successor.take_workers());
    wire.queue_sender(0, frame(60)).send(100);
    sender.send(100);
    successors.wait_for(100);
    crew.wait_for(300);
    for (capture, crew, packets) in [(successor, successors, 100), (capture, crew, 300)] {
        capture.stopper().stop();
        assert_eq!(crew.join().len(), packets);
        assert_eq!(check::account_closed(&capture.finish()).lost.total(), 0);
    }
    wire.assert_given_back();

    // All processes are killed: nothing is left.
    let mut victims = [victim(&wire, "xdp:in0@2"), victim(&wire, "xdp:in0@0-1")];
    victims.iter_mut().for_each(Victim::kill);
    wait_until("the dispatcher is gone", || !wire.is_captured());
    assert_eq!(wire.inside.enter(|| netdev::interface("in0")).unwrap().promiscuity, 0);
    let mut sender = wire.queue_sender(2, frame(60));
    wait_until("the host hears", || {
        sender.send(1);
        hears()
    });
    drop(wire.capture_of("xdp:in0", small()));
}

/// The kernel keeps its entry in the dispatcher's table, and nothing else: not its blocks.
#[test]
fn the_blocks_of_a_killed_process_are_given_back_while_others_capture() {
    need_root!("queues_killed::the_blocks_of_a_killed_process_are_given_back_while_others_capture");
    if !kernel_is_at_least(5, 18) {
        let reason = "this kernel has no bpf_xdp_load_bytes (Linux 5.18)";
        return wirecap_lab::skip(
            "queues_killed::the_blocks_of_a_killed_process_are_given_back_while_others_capture",
            reason,
        );
    }
    let wire = Wire::new("orphpack", VethOptions { queues: 2, ..VethOptions::default() });
    let mut capture = wire.capture_of("xdp:in0@1", Capture::builder().chunks_per_pool(8));
    let crew = Crew::eager(capture.take_workers());
    let mut victim = Victim::start(&wire, TEST, &[(VICTIM, "xdp:in0@0"), (PACKS, "1")]);
    let program = capture_program_of(victim.id());
    victim.kill();
    // The blocks go with the program.
    wait_until("the program is gone", || Program::name_by_id(program).is_err());
    let mut sender = wire.queue_sender(1, FrameSpec::default());
    sender.send(100);
    crew.wait_for(100);
    // A successor finds the queue free.
    let mut successor = wire.capture_of("xdp:in0@0", Capture::builder().chunks_per_pool(8));
    let successors = Crew::eager(successor.take_workers());
    wire.queue_sender(0, FrameSpec::default()).send(100);
    successors.wait_for(100);
    for (capture, crew) in [(successor, successors), (capture, crew)] {
        capture.stopper().stop();
        assert_eq!(crew.join().len(), 100);
        assert_eq!(check::account_closed(&capture.finish()).lost.total(), 0);
    }
    wire.assert_given_back();
}

/// The number of the program by which a process captures.
fn capture_program_of(pid: u32) -> u32 {
    let captures = programs_of(pid)
        .into_iter()
        .filter(|&id| Program::name_by_id(id).is_ok_and(|name| name == "wirecap"));
    // The first one packs; the other takes its place at the end.
    captures.min().unwrap()
}

/// Returns a function that reports whether one of our frames has reached the host since its last call.
fn host_listener(wire: &Wire) -> impl Fn() -> bool {
    let listener = wire.inside.enter(|| UdpSocket::bind("198.19.0.1:9")).unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    move || {
        let mut buffer = [0; 4096];
        let mut heard = false;
        while listener.recv(&mut buffer).is_ok_and(|len| len >= 12) {
            heard = true;
        }
        heard
    }
}
