//! Queues that are already captured, and names without a queue, are refused with a hint.

use std::{
    fs,
    sync::{Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

use wirecap::{
    Access, Builder, Capture, Error, HostUse, PassiveReason, PortSpec, QueueDevice, QueueWait, queue_devices,
};
use wirecap_lab::VethOptions;

use wirecap_testing::{CopySender, need_root, wait_until, wire::Wire};

/// Asserts that opening fails, with all of `words` in the message.
#[track_caller]
fn refused(wire: &Wire, port: &str, words: &[&str]) -> Error {
    let opened = wire.try_capture_of(port, Capture::builder().chunks_per_pool(4));
    let error = opened.map(drop).expect_err("the port cannot be opened");
    for word in words {
        assert!(error.to_string().contains(word), "no {word:?} in: {error}");
    }
    error
}

fn own_pid() -> String {
    format!("(pid {})", std::process::id())
}

#[test]
fn the_whole_interface_and_some_of_its_queues_exclude_each_other() {
    need_root!("queues_conflicts::the_whole_interface_and_some_of_its_queues_exclude_each_other");
    let wire = Wire::with_queues("exclude", 2);
    let open = |port: &str| wire.capture_of(port, Capture::builder().chunks_per_pool(4));
    let some = open("in0@1");
    let error = refused(&wire, "in0", &["receive queues of in0 are captured by", &own_pid(), "as in in0@0"]);
    assert!(matches!(error, Error::Shared { free: Some(0), .. }), "{error:?}");
    let other = open("in0@0");
    let error = refused(&wire, "in0", &["receive queues of in0 are captured by"]);
    assert!(matches!(error, Error::Shared { free: None, .. }), "{error:?}");
    drop(other);
    drop(some);
    let whole = open("in0");
    let error = refused(&wire, "in0@1", &["in0 is captured as a whole by", &own_pid()]);
    assert!(matches!(error, Error::TakenWhole { .. }), "{error:?}");
    refused(&wire, "in0", &["in0 is held by the XDP program wirecap", "; end that process"]);
    drop(whole);
    drop(open("in0@1"));
    let error =
        wire.inside.enter(|| Capture::builder().port("in0@0").port("in0").open()).map(drop).unwrap_err();
    assert!(error.to_string().contains("named twice"), "{error}");
    let error =
        wire.inside.enter(|| Capture::builder().port("in0@0-1").port("in0@1").open()).map(drop).unwrap_err();
    assert!(error.to_string().contains("in0@1 is named twice"), "{error}");
    wire.assert_given_back();
}

#[test]
fn a_captured_queue_is_refused_until_it_is_given_back() {
    need_root!("queues_conflicts::a_captured_queue_is_refused_until_it_is_given_back");
    let wire = Wire::with_queues("taken", 4);
    let open = |port: &str| wire.capture_of(port, Capture::builder().chunks_per_pool(4));
    let (first, second) = (open("in0@0"), open("in0@2-3"));
    let error = refused(&wire, "in0@1-2", &["in0@2 is captured by", &own_pid()]);
    assert!(matches!(error, Error::QueueTaken { queue: 2, .. }), "{error:?}");
    // The refusal has released queue 1.
    drop(open("in0@1"));
    drop(second);
    drop(open("in0@1-3"));
    drop(first);
    wire.assert_given_back();
}

/// The reported waits.
static WAITS: Mutex<Vec<QueueWait>> = Mutex::new(Vec::new());

/// A builder that reports to [`WAITS`].
fn reporting() -> Builder {
    Capture::builder().chunks_per_pool(4).on_wait(|wait| WAITS.lock().unwrap().push(wait.clone()))
}

#[test]
fn of_two_captures_that_start_together_the_loser_names_the_holder_at_once() {
    need_root!("queues_conflicts::of_two_captures_that_start_together_the_loser_names_the_holder_at_once");
    let wire = Wire::with_queues("atonce", 1);
    for port in ["in0@0", "in0"].repeat(4) {
        let (start, end) = (Barrier::new(2), Barrier::new(2));
        let attempt = || {
            start.wait();
            let begun = Instant::now();
            let opened = wire.inside.enter(|| Capture::builder().chunks_per_pool(4).port(port).open());
            let took = begun.elapsed();
            end.wait();
            (opened.map(drop), took)
        };
        let attempts =
            thread::scope(|scope| [0, 1].map(|_| scope.spawn(attempt)).map(|one| one.join().unwrap()));
        let losers: Vec<_> =
            attempts.iter().filter_map(|(opened, took)| Some((opened.as_ref().err()?, took))).collect();
        let [(error, took)] = losers[..] else { panic!("{port}: {attempts:?}") };
        if !error.to_string().contains(&own_pid()) {
            // A process that another test is just starting has our descriptors until it executes its program.
            let Error::QueueTaken { holder, .. } = error else { panic!("{port}: {error:?}") };
            let name = || fs::read_to_string(format!("/proc/{}/comm", holder.pid)).unwrap_or_default();
            wait_until("it executes its program", || name().trim_end() != holder.name);
        }
        assert!(*took < Duration::from_secs(2), "{port}: {took:?}");
    }
}

#[test]
fn opening_waits_for_a_queue_that_is_being_given_back_and_reports_that() {
    need_root!("queues_conflicts::opening_waits_for_a_queue_that_is_being_given_back_and_reports_that");
    let wire = Wire::with_queues("givenback", 2);
    let socket = wire.inside.enter(|| CopySender::open(wire.veth.b().ifindex().unwrap(), 1, 64).unwrap());
    let ending = thread::spawn(move || {
        wait_until("the capture waits", || !WAITS.lock().unwrap().is_empty());
        drop(socket);
    });
    drop(wire.capture_of("in0@1", reporting()));
    ending.join().unwrap();
    let waits = WAITS.lock().unwrap();
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert_eq!((waits[0].interface.as_str(), waits[0].queue), ("in0", 1));
}

#[test]
fn a_program_of_another_process_is_named() {
    need_root!("queues_conflicts::a_program_of_another_process_is_named");
    use wirecap_sys::bpf::{Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XDP_PASS, XdpMode};
    let wire = Wire::with_queues("foreign", 2);
    let mut asm = Assembler::new();
    asm.mov_imm(Reg::R0, XDP_PASS).exit();
    let insns = asm.finish().unwrap();
    let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "stranger", &insns)).unwrap();
    let ifindex = wire.veth.b().ifindex().unwrap();
    let link = wire.inside.enter(|| Link::attach_xdp(&program, ifindex, XdpMode::Native)).unwrap();
    refused(&wire, "in0@1", &["in0 is held by the XDP program stranger", &own_pid(), "; end that process"]);
    drop(link);
}

#[test]
fn names_without_a_queue_are_refused() {
    need_root!("queues_conflicts::names_without_a_queue_are_refused");
    let addresses_b = vec!["192.0.2.2/24".into()];
    let wire = Wire::new("none", VethOptions { queues: 4, addresses_b, ..VethOptions::default() });
    refused(&wire, "xdp:in0@7", &["in0 has 4 receive queues, numbers 0 to 3", "no in0@7"]);
    refused(&wire, "xdp:in0@2-4", &["no in0@4"]);
    refused(&wire, "packet:in0@1", &["in0 is captured passively", "only AF_XDP can choose"]);
    let error = refused(&wire, "in0@1-2", &["only AF_XDP can choose"]);
    let Error::PassiveQueues { reason: Some(PassiveReason::InUse(uses)), .. } = error else {
        panic!("{error}")
    };
    assert!(matches!(&uses[..], [HostUse::Address { .. }, ..]), "{uses:?}");
    refused(&wire, "in0@if7", &["\"if7\" is no set of receive queues", "ip link"]);
    refused(&wire, "in1@0", &["no interface named \"in1\"", "did you mean \"in0\"?"]);
    let spec = PortSpec::Interface { name: "in0@1".into(), access: Access::Xdp, queues: None };
    let error = wire.inside.enter(|| Capture::builder().port(spec).open()).map(drop).unwrap_err();
    assert!(error.to_string().contains("no interface named \"in0@1\""), "{error}");
}

#[test]
fn queues_are_listed_as_devices_with_their_holders() {
    need_root!("queues_conflicts::queues_are_listed_as_devices_with_their_holders");
    let wire = Wire::with_queues("devices", 3);
    let list = || -> Vec<QueueDevice> { wire.inside.enter(|| queue_devices("in0")).unwrap() };
    let taken = || list().iter().map(|device| device.in_use.unwrap()).collect::<Vec<_>>();
    let names: Vec<_> = list().iter().map(|device| device.name.clone()).collect();
    assert_eq!(names, ["in0@0", "in0@1", "in0@2"]);
    assert_eq!(taken(), [false; 3]);
    let capture = wire.capture_of("in0@1", Capture::builder().chunks_per_pool(4));
    assert_eq!(taken(), [false, true, false]);
    // A child that another test has just forked has our descriptors until it executes its program.
    assert!(list()[1].pids.contains(&std::process::id()), "{:?}", list()[1].pids);
    drop(capture);
    wait_until("all queues are free", || taken() == [false; 3]);
    let _whole = wire.capture_of("in0", Capture::builder().chunks_per_pool(4));
    assert_eq!(taken(), [true; 3]);
    assert_eq!(wire.inside.enter(|| queue_devices("lo")).unwrap(), []);
}
