//! Stamps by the driver, as far as a veth pair supports them: it has the call, but no clock.

use wirecap_lab::{require_root, skip};
use wirecap_sys::{
    bpf::{self, Assembler, Program, ProgramKind, ProgramSpec, Reg},
    clock::system_ns,
};

use super::*;
use crate::{
    Diagnostic, Modes,
    packet::ChunkReader,
    port::{
        lab::{Lab, OpenEnd},
        xdp::attempt::ProgramFeatures,
    },
    program::{rx_hash::RxHashing, tags::Tags},
    report::QueueMode,
};

const FRAMES: u64 = 30;

/// Opens the end as if its driver had a clock that shows the kernel's time; with `more`, tags and hashes are
/// read from the driver, too.
fn open(lab: &Lab, modes: Modes, more: bool) -> Result<OpenEnd, Error> {
    lab.open(modes, move |interface| {
        let stamping = Stamping::by_driver(interface, Ok(ClockSource::Monotonic))?;
        let tags = Tags::of(interface).ok().filter(|_| more);
        let tags = tags.ok_or(None);
        let hashing = RxHashing::prepare(interface).ok().filter(|_| more);
        Ok(ProgramFeatures { stamping: Some(stamping), tags, hashing })
    })
}

/// Whether the test may run and this kernel lets programs query drivers.
fn can_ask_drivers(test: &str) -> bool {
    if !require_root(test) {
        return false;
    }
    let can = matches!(KernelFunction::find(RX_TIMESTAMP), Ok(Some(_)));
    if !can {
        skip(test, "this kernel has no call that asks drivers for times (Linux 6.3), or no type information");
    }
    can
}

/// The driver answers that it has no time: each packet is captured, counted, and gets the time of the batch.
#[test]
fn packets_that_the_driver_does_not_stamp_are_counted_and_kept() {
    if !can_ask_drivers("stamp::packets_that_the_driver_does_not_stamp_are_counted_and_kept") {
        return;
    }
    for modes in [Modes::Copy, Modes::Packed] {
        for more in [false, true] {
            packets_that_the_driver_does_not_stamp(modes, more);
        }
    }
}

fn packets_that_the_driver_does_not_stamp(modes: Modes, more: bool) {
    let lab = Lab::new("stampdrv");
    let mut opened = open(&lab, modes, more).unwrap();
    assert_eq!(matches!(opened.reader, ChunkReader::Packed { .. }), modes == Modes::Packed);
    let is_of_tags = |fallback: &Diagnostic| matches!(fallback, Diagnostic::VlanTagsNotPutBack { .. });
    assert!(!opened.port.report.fallbacks.iter().any(is_of_tags), "{:?}", opened.port.report.fallbacks);
    let frame = [[2; 6], [4; 6], [0x55; 6]].concat();
    lab.send((0..FRAMES).map(|_| frame.clone()));
    let now_ns = system_ns();
    let received = opened.receive(FRAMES as u32, now_ns);
    let expected = (now_ns..now_ns + FRAMES).map(|time_ns| (time_ns, frame.clone()));
    assert_eq!(received, expected.collect::<Vec<_>>());
    let OpenEnd { port, mut queue, .. } = opened;
    let counts = queue.counts();
    assert_eq!((counts.seen, counts.unstamped), (FRAMES, FRAMES));
    assert_eq!((counts.no_free_cell, counts.no_free_block), (0, 0));
    let report = port.report.timestamp;
    assert_eq!(report.source, Timestamp::Hardware);
    assert!(queue.stamp_clock().is_some_and(|clock| !clock.was_set()));
}

#[test]
fn a_program_that_asks_the_driver_does_not_run_in_generic_mode() {
    if !can_ask_drivers("stamp::a_program_that_asks_the_driver_does_not_run_in_generic_mode") {
        return;
    }
    let error = open(&Lab::new("stampgdr"), Modes::Generic, false).map(drop).unwrap_err();
    let Error::NoMode { attempts, .. } = &error else { panic!("{error}") };
    let [Diagnostic::ModeUnavailable { mode, .. }] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!(*mode, QueueMode::Generic);
}

#[test]
fn a_lack_of_hardware_times_is_named() {
    let all = StampAbilities { hardware: true, all_packets: true, software: true, clock: Some(2) };
    let metadata = |timestamp| Some(RxMetadata { timestamp, ..RxMetadata::default() });
    assert_eq!(clock_number(metadata(true), all), Ok(2));
    assert_eq!(clock_number(None, all), Ok(2), "older kernels do not report what a driver has");
    let software = StampAbilities { software: true, ..StampAbilities::default() };
    for (metadata, abilities, expected) in [
        (metadata(true), software, NicDataRefusal::SoftwareOnly),
        (metadata(true), StampAbilities::default(), NicDataRefusal::NotStamped),
        (metadata(false), all, NicDataRefusal::NoTime),
        (metadata(true), StampAbilities { all_packets: false, ..all }, NicDataRefusal::PtpOnly),
        (metadata(true), StampAbilities { clock: None, ..all }, NicDataRefusal::ClockNotKnown),
    ] {
        assert_eq!(clock_number(metadata, abilities), Err(expected));
    }
}

/// A stamp is directly in front of the packet, where the queue looks for it, or the packet has no stamp.
#[test]
fn earlier_metadata_leaves_no_place_for_a_stamp() {
    if !require_root("stamp::earlier_metadata_leaves_no_place_for_a_stamp") {
        return;
    }
    for (metadata_bytes, expected) in [(0, bpf::XDP_PASS), (4, bpf::XDP_DROP), (32, bpf::XDP_DROP)] {
        let interface = netdev::interface("lo").unwrap();
        let stamping = Stamping::kernel(&interface).unwrap();
        let mut asm = Assembler::new();
        let unstamped = asm.label();
        asm.mov(Reg::R6, Reg::R1).mov_imm(Reg::R2, -metadata_bytes).call(Helper::XdpAdjustMeta);
        stamping.asked.emit(&mut asm, unstamped, None);
        asm.mov_imm(Reg::R0, bpf::XDP_PASS).exit();
        asm.bind(unstamped).mov_imm(Reg::R0, bpf::XDP_DROP).exit();
        let insns = asm.finish().unwrap();
        let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "stamps", &insns)).unwrap();
        let run = program.test_run(&[0x55; 60], 1).unwrap();
        assert_eq!(run.action, expected as u32, "behind {metadata_bytes} bytes");
    }
}
