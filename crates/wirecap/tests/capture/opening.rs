//! Attach modes, and their reports.

use std::{fs::OpenOptions, io::Write, thread};

use nix::{sys::stat::Mode, unistd::mkfifo};
use wirecap::{
    Capture, Diagnostic, Error, Modes, PortSpec,
    diagnostic::{ModeRefusal, PackingRefusal},
    report::{LengthLimit, LengthLimitPolicy, QueueMode},
};
use wirecap_file::{LINK_TYPE_ETHERNET, pcap};
use wirecap_lab::VethOptions;
use wirecap_traffic::FrameSpec;

use wirecap_testing::{
    check,
    crew::Crew,
    kernel_is_at_least, need_root, wait_until,
    wire::{Wire, give_it_a_chance},
};

#[test]
fn each_attach_mode_captures_and_is_reported() {
    need_root!("opening::each_attach_mode_captures_and_is_reported");
    let wire = Wire::with_queues("modes", 2);
    // Before Linux 6.3 the kernel does not say beforehand that the driver has no zero-copy.
    let (best, missing) =
        if kernel_is_at_least(6, 3) { (QueueMode::Packed, 1) } else { (QueueMode::Copy, 2) };
    for (modes, mode, fallbacks) in [
        (Modes::Best, best, missing),
        (Modes::Copy, QueueMode::Copy, 0),
        // It sees no VLAN tags.
        (Modes::Generic, QueueMode::Generic, 1),
    ] {
        let mut capture = wire.capture(Capture::builder().chunks_per_pool(8).modes(modes));
        let crew = Crew::eager(capture.take_workers());
        let mut sender = wire.packet_sender();
        let mut template = wirecap_traffic::Template::new(FrameSpec::default()).unwrap();
        (0..500).for_each(|sequence| sender.send(template.stamp(1, sequence)).unwrap());
        crew.wait_for(500);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        assert_eq!(check::account_closed(&report).delivered, 500, "{modes:?}");
        check::each_once(check::intact(&arrivals, FrameSpec::default()), 500, 0);
        assert!(report.ports[0].queues.iter().all(|queue| queue.mode == mode), "{modes:?}");
        assert_eq!(report.ports[0].fallbacks.len(), fallbacks, "{:?}", report.ports[0].fallbacks);
        let is_expected = |fallback: &Diagnostic| {
            matches!(
                fallback,
                Diagnostic::ModeUnavailable {
                    mode: QueueMode::ZeroCopy,
                    reason: ModeRefusal::NotOffered,
                    ..
                } | Diagnostic::ModeUnavailable {
                    reason: ModeRefusal::NotPacked(PackingRefusal::ZeroCopyNotKnown),
                    ..
                } | Diagnostic::VlanTagsNotPutBack { .. }
            )
        };
        assert!(report.ports[0].fallbacks.iter().all(is_expected), "{:?}", report.ports[0].fallbacks);
        assert_eq!((report.ports[0].name.as_str(), report.ports[0].driver.as_deref()), ("in0", Some("veth")));
    }
    let error = wire.try_capture(Capture::builder().modes(Modes::ZeroCopy)).unwrap_err();
    let is_zero_copy = |attempt: &Diagnostic| {
        matches!(attempt, Diagnostic::ModeUnavailable { mode: QueueMode::ZeroCopy, .. })
    };
    assert!(
        matches!(&error, Error::NoMode { attempts, .. } if attempts.iter().any(is_zero_copy)),
        "{error:?}"
    );
}

#[test]
fn a_large_mtu_without_several_parts_falls_back_to_generic_and_that_is_reported() {
    need_root!("opening::a_large_mtu_without_several_parts_falls_back_to_generic_and_that_is_reported");
    let wire = Wire::new("generic", VethOptions { mtu: 9000, ..VethOptions::default() });
    // With M = 8, a packet of 9,000 bytes could span more than two chunks.
    let mut capture = wire.capture(Capture::builder().cells_per_chunk(8));
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.packet_sender();
    sender.send(&[7; 60]).unwrap();
    sender.send(&[8; 9000]).unwrap();
    sender.send(&[9; 1792]).unwrap();
    crew.wait_for(2);
    capture.stopper().stop();
    let came: Vec<Vec<u8>> = crew.join().into_iter().map(|arrival| arrival.bytes).collect();
    assert_eq!(came, [vec![7; 60], vec![9; 1792]]);
    let report = capture.finish();
    let account = check::account_closed(&report);
    assert_eq!((account.seen, account.delivered, account.lost.too_long), (3, 2, 1));
    assert_eq!(report.ports[0].queues[0].mode, QueueMode::Generic);
    let fallbacks = &report.ports[0].fallbacks;
    let unavailable = fallbacks.iter().filter_map(|fallback| match fallback {
        Diagnostic::ModeUnavailable { mode, .. } => Some(*mode),
        _ => None,
    });
    let unavailable: Vec<_> = unavailable.collect();
    for mode in [QueueMode::ZeroCopy, QueueMode::Copy] {
        assert!(unavailable.contains(&mode), "{fallbacks:?}");
    }
    let limit = LengthLimit { bytes: 1792, beyond: LengthLimitPolicy::Lost };
    let too_long = |fallback: &Diagnostic| matches!(fallback, Diagnostic::PacketsTooLong { limit: of, .. } if *of == limit);
    assert!(fallbacks.iter().any(too_long), "{fallbacks:?}");
}

#[test]
fn a_captured_interface_is_refused_and_stays_captured() {
    need_root!("opening::a_captured_interface_is_refused_and_stays_captured");
    let wire = Wire::with_queues("twice", 1);
    let mut first = wire.capture(Capture::builder().chunks_per_pool(8));
    let crew = Crew::eager(first.take_workers());
    for modes in [Modes::Best, Modes::Generic] {
        let error = wire.try_capture(Capture::builder().modes(modes)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("another AF_XDP socket") || text.contains("is held by the XDP program"),
            "{text}"
        );
    }
    wire.queue_sender(0, FrameSpec::default()).send(100);
    crew.wait_for(100);
    first.stopper().stop();
    crew.join();
    assert_eq!(check::account_closed(&first.finish()).delivered, 100);
}

#[test]
fn another_program_on_the_interface_is_named_and_left_alone() {
    need_root!("opening::another_program_on_the_interface_is_named_and_left_alone");
    use wirecap_sys::bpf::{Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XDP_PASS, XdpMode};
    let wire = Wire::with_queues("foreign", 1);
    let mut asm = Assembler::new();
    asm.mov_imm(Reg::R0, XDP_PASS).exit();
    let insns = asm.finish().unwrap();
    let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "stranger", &insns)).unwrap();
    let ifindex = wire.veth.b().ifindex().unwrap();
    let link = wire.inside.enter(|| Link::attach_xdp(&program, ifindex, XdpMode::Native)).unwrap();
    let error = wire.try_capture(Capture::builder()).unwrap_err().to_string();
    assert!(error.contains("XDP program") && error.contains("in0"), "{error}");
    assert!(error.contains("stranger"), "the holder is named: {error}");
    assert!(wire.is_captured(), "the other program is still attached");
    drop(link);
    // A process that another test is just starting has our descriptors until it executes its program.
    wait_until("the other program is gone", || !wire.is_captured());
    drop(wire.capture(Capture::builder().chunks_per_pool(8)));
}

#[test]
fn nothing_is_changed_while_opening_waits_for_a_pipe() {
    need_root!("opening::nothing_is_changed_while_opening_waits_for_a_pipe");
    let wire = Wire::with_queues("looked", 1);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let pipe = PortSpec::Trace { path: path.clone() };
    let builder = Capture::builder().chunks_per_pool(8).port("in0").port(pipe);
    let looking = {
        let (builder, inside) = (builder.clone(), wire.inside.clone());
        thread::spawn(move || inside.enter(|| builder.prepare()))
    };
    give_it_a_chance();
    assert!(!looking.is_finished() && !wire.is_captured(), "no program writes yet");
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    let mut header = Vec::new();
    pcap::file_header(&mut header, LINK_TYPE_ETHERNET, 0);
    writer.write_all(&header).unwrap();
    let prepared = looking.join().unwrap().unwrap();
    let reserved = wire.inside.enter(|| prepared.reserve()).unwrap();
    assert!(!wire.is_captured(), "the interface is looked up, not opened");
    let capture = wire.inside.enter(|| reserved.open()).unwrap();
    assert!(wire.is_captured());
    drop(capture);
    wire.assert_given_back();
}
