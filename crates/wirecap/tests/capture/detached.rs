//! A program detached by force is attached again, and that is reported.

use wirecap::{Builder, Capture, Diagnostic, Modes, PortEvent, diagnostic::Recovery};
use wirecap_sys::{
    bpf::{Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XDP_PASS, XdpMode},
    netdev,
};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{
    check,
    crew::Crew,
    need_root, wait_until,
    wire::{QueueSender, Wire},
};

fn small() -> Builder {
    Capture::builder().chunks_per_pool(8)
}

/// The number of the program on the interface.
fn attached(wire: &Wire) -> u32 {
    wire.inside.enter(|| netdev::interface("in0")).unwrap().xdp_programs[0].program_id
}

/// Detaches whatever is attached, as `bpftool link detach` does.
fn detach(wire: &Wire) {
    Link::of_program(attached(wire)).unwrap().unwrap().detach().unwrap();
}

fn foreign() -> Program {
    let mut asm = Assembler::new();
    asm.mov_imm(Reg::R0, XDP_PASS).exit();
    Program::load(&ProgramSpec::new(ProgramKind::Xdp, "stranger", &asm.finish().unwrap())).unwrap()
}

/// Waits for the report that the program was detached; returns its recovery.
#[track_caller]
fn reported(capture: &mut Capture) -> Recovery {
    let mut found = None;
    wait_until("the detachment is reported", || {
        found = capture.events().into_iter().find_map(|event| match event {
            PortEvent::Warning { warning: Diagnostic::Detached { recovery }, .. } => Some(recovery),
            _ => None,
        });
        found.is_some()
    });
    found.unwrap()
}

/// Sends frames, and waits until `all` have arrived.
#[track_caller]
fn send(sender: &mut QueueSender, crew: &Crew, all: u64) {
    sender.send(100);
    crew.wait_for(all);
}

#[test]
fn a_program_detached_by_force_is_attached_again() {
    need_root!("detached::a_program_detached_by_force_is_attached_again");
    for modes in [Modes::Copy, Modes::Generic] {
        let wire = Wire::with_queues("forced", 1);
        let mut capture = wire.capture(small().modes(modes));
        let crew = Crew::eager(capture.take_workers());
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        send(&mut sender, &crew, 100);
        for round in 2..4 {
            detach(&wire);
            wire.assert_given_back();
            assert_eq!(reported(&mut capture), Recovery::Restored);
            send(&mut sender, &crew, 100 * round);
        }
        capture.stopper().stop();
        assert_eq!(crew.join().len(), 300);
        let report = capture.finish();
        assert_eq!(check::account_closed(&report).seen, 300);
        let [warning] = &report.ports[0].warnings[..] else { panic!("{:?}", report.ports[0].warnings) };
        assert_eq!(*warning, Diagnostic::Detached { recovery: Recovery::Restored });
        wire.assert_given_back();
    }
}

#[test]
fn a_faster_program_is_named_and_the_interface_is_taken_after_it() {
    need_root!("detached::a_faster_program_is_named_and_the_interface_is_taken_after_it");
    let wire = Wire::with_queues("faster", 1);
    let mut capture = wire.capture(small());
    let crew = Crew::eager(capture.take_workers());
    let (program, ifindex) = (foreign(), wire.veth.b().ifindex().unwrap());
    detach(&wire);
    let other = wire.inside.enter(|| Link::attach_xdp(&program, ifindex, XdpMode::Native)).unwrap();
    let Recovery::Failed(reason) = reported(&mut capture) else {
        panic!("an interface has no room for two programs")
    };
    assert!(reason.text.contains("stranger"), "{reason}");
    let warning = &capture.report().ports[0].warnings[0];
    assert!(matches!(warning, Diagnostic::Detached { recovery: Recovery::Failed(_) }), "{warning:?}");
    drop(other);
    assert_eq!(reported(&mut capture), Recovery::Restored);
    send(&mut wire.queue_sender(0, FrameSpec::default()), &crew, 100);
    capture.stopper().stop();
    crew.join();
    check::account_closed(&capture.finish());
}

#[test]
fn a_program_that_replaces_ours_is_replaced() {
    need_root!("detached::a_program_that_replaces_ours_is_replaced");
    for port in ["in0", "in0@0"] {
        let wire = Wire::with_queues("replaced", 1);
        let mut capture = wire.capture_of(port, small());
        let crew = Crew::eager(capture.take_workers());
        Link::of_program(attached(&wire)).unwrap().unwrap().update(&foreign()).unwrap();
        assert_eq!(reported(&mut capture), Recovery::Restored);
        send(&mut wire.queue_sender(0, FrameSpec::default()), &crew, 100);
        capture.stopper().stop();
        crew.join();
        check::account_closed(&capture.finish());
    }
}

#[test]
fn a_program_that_is_missing_at_the_end_is_reported() {
    need_root!("detached::a_program_that_is_missing_at_the_end_is_reported");
    let wire = Wire::with_queues("late", 2);
    let captures = [wire.capture_of("in0@0", small()), wire.capture_of("in0@1", small())];
    detach(&wire);
    for capture in captures {
        let report = capture.finish();
        let [warning] = &report.ports[0].warnings[..] else { panic!("{:?}", report.ports[0].warnings) };
        assert_eq!(*warning, Diagnostic::Detached { recovery: Recovery::Ended });
    }
    // A removed interface has its own message.
    let capture = wire.capture(small());
    drop(wire.veth);
    assert_eq!(capture.finish().ports[0].warnings, []);
}

#[test]
fn a_dispatcher_detached_by_force_is_attached_again_for_all() {
    need_root!("detached::a_dispatcher_detached_by_force_is_attached_again_for_all");
    let wire = Wire::with_queues("dispatch", 3);
    let mut first = wire.capture_of("in0@0", small());
    let mut second = wire.capture_of("in0@1", small());
    let crews = [Crew::eager(first.take_workers()), Crew::eager(second.take_workers())];
    let mut senders = [0, 1].map(|queue| wire.queue_sender(queue, FrameSpec::default()));
    let dispatcher = attached(&wire);
    detach(&wire);
    assert_eq!((reported(&mut first), reported(&mut second)), (Recovery::Restored, Recovery::Restored));
    assert_eq!(attached(&wire), dispatcher, "the dispatcher has the shared table");
    for (sender, crew) in senders.iter_mut().zip(&crews) {
        send(sender, crew, 100);
    }
    // The capture that has not attached the dispatcher holds it, too.
    drop(first);
    let mut third = wire.capture_of("in0@2", small());
    let crew = Crew::eager(third.take_workers());
    send(&mut wire.queue_sender(2, FrameSpec::default()), &crew, 100);
    send(&mut senders[1], &crews[1], 200);
    for capture in [second, third] {
        capture.stopper().stop();
        check::account_closed(&capture.finish());
    }
    crews.into_iter().chain([crew]).for_each(|crew| drop(crew.join()));
    wait_until("the last capture has given the interface back", || !wire.is_captured());
}

#[test]
fn the_dispatcher_of_a_newcomer_is_joined() {
    need_root!("detached::the_dispatcher_of_a_newcomer_is_joined");
    let wire = Wire::with_queues("newcomer", 2);
    let mut old = wire.capture_of("in0@0", small());
    let dispatcher = attached(&wire);
    detach(&wire);
    let mut new = wire.capture_of("in0@1", small());
    assert_ne!(attached(&wire), dispatcher);
    assert_eq!(reported(&mut old), Recovery::Restored);
    let crews = [Crew::eager(old.take_workers()), Crew::eager(new.take_workers())];
    for (queue, crew) in crews.iter().enumerate() {
        send(&mut wire.queue_sender(queue as u16, FrameSpec::default()), crew, 100);
    }
    for capture in [new, old] {
        capture.stopper().stop();
        check::account_closed(&capture.finish());
    }
    crews.into_iter().for_each(|crew| drop(crew.join()));
    wire.assert_given_back();
}
