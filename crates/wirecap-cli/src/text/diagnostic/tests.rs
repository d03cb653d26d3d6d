use std::collections::BTreeSet;

use wirecap::{
    PassiveReason,
    diagnostic::{Cause, RssLoss},
    report::QueueMode,
};
use wirecap_sys::bpf::XdpMode;

use super::*;

fn cause() -> Cause {
    Cause { errno: Some(19), text: "no such device".into() }
}

/// At least one sample of each diagnostic.
fn samples() -> Vec<Diagnostic> {
    let mode =
        |reason| Diagnostic::ModeUnavailable { mode: QueueMode::ZeroCopy, several_cells: true, reason };
    let on_members = ModeRefusal::OnMembers { driver: "bonding".into() };
    let refusals = [ModeRefusal::NotOffered, ModeRefusal::NoRxHash, on_members, ModeRefusal::Failed(cause())];
    let refusals = refusals.into_iter().chain([ModeRefusal::NotPacked(PackingRefusal::Sending)]);
    let mut samples: Vec<_> = refusals.map(mode).collect();
    let limit = LengthLimit { bytes: 1_792, beyond: LengthLimitPolicy::Lost };
    let filter = |reason| Diagnostic::FilterNotInKernel { reason, interpreted: None, drops_unwanted: true };
    for recovery in [Recovery::Restored, Recovery::Failed(cause()), Recovery::Ended] {
        samples.push(Diagnostic::Detached { recovery: recovery.clone() });
        samples.push(Diagnostic::TapDetached { recovery: recovery.clone() });
        samples.push(Diagnostic::QueuesLost { queues: 3.into(), recovery });
    }
    for recovery in [RssRecovery::Restored, RssRecovery::Failed(RssLoss::SetByOthers)] {
        samples.push(Diagnostic::RssChanged { recovery });
    }
    for advice in [Advice::HugePages, Advice::NotInChildren, Advice::NotInCoreDumps] {
        samples.push(Diagnostic::MemoryAdviceRefused { advice, cause: cause() });
    }
    samples.extend([
        Diagnostic::Passive { reason: PassiveReason::NotEthernet { kind: "loopback".into() } },
        Diagnostic::NotTapped { reason: TapRefusal::NoTcx },
        Diagnostic::FewBlocks { blocks: 2, enough: 4 },
        Diagnostic::RingWithoutEffect,
        Diagnostic::XdpProgramFirst { program_id: 7, program: None },
        Diagnostic::XdpProgramAttached { program_id: 8, program: Some("drop".into()) },
        Diagnostic::SharedXdpMode { wanted: XdpMode::Native, shared: XdpMode::Generic },
        Diagnostic::SharedWithoutFrames,
        Diagnostic::PacketsTooLong { limit, reason: LengthLimitReason::SmallPool },
        filter(KernelRefusal::Loops),
        filter(KernelRefusal::NotPermitted),
        filter(KernelRefusal::Rejected(cause())),
        Diagnostic::FilterInterpreted { cause: cause() },
        Diagnostic::FilterDropsLongPackets,
        Diagnostic::FilterInboundOnly,
        Diagnostic::VlanTagsNotPutBack { cause: cause() },
        Diagnostic::VlanTagsMissing { interface: "in0".into() },
        Diagnostic::FarMemory { node: 1, cause: cause() },
        Diagnostic::OtherTimestamps { wanted: Timestamp::Batch, used: Timestamp::Kernel },
        Diagnostic::LeapSecondsExpired { until: "2026-06-28".into() },
        Diagnostic::LinkNotWatched { queues: true, cause: cause() },
        Diagnostic::EndNotAwaited,
        Diagnostic::LastBlockKept,
        Diagnostic::QueueDoesNotSend { queue: 1, transmit_queues: 1 },
        Diagnostic::HugePagesShort { needed: 128, reserved: 64, free: 3 },
        Diagnostic::ControlGroupUnseen { group: "/user.slice".into() },
        Diagnostic::QueuesNotCaptured { captured: 2, queues: 4 },
        Diagnostic::QueuesGone { queues: 1 },
        Diagnostic::Unstamped { source: Timestamp::Kernel, packets: 2 },
        Diagnostic::Untagged { packets: 2 },
        Diagnostic::PacketsCut { packets: 2 },
        Diagnostic::ClockSet { clock: wirecap::report::Clock::Monotonic },
        Diagnostic::StampingLeftOn { cause: cause() },
        Diagnostic::TracePacketsLost { packets: 2, longest: 3_000 },
    ]);
    samples
}

#[test]
fn every_diagnostic_has_a_text_and_a_line_in_the_book() {
    let manual = include_str!("../../../../../docs/book/reference/json.md");
    let codes: BTreeSet<_> = samples().iter().map(Diagnostic::code).collect();
    assert_eq!(codes, Diagnostic::CODES.iter().copied().collect(), "a sample of each");
    for sample in samples() {
        let text = describe(&sample);
        assert_ne!(text, sample.code().replace('_', " "), "the diagnostic has no text");
        assert!(manual.contains(&format!("| `{}` |", sample.code())), "{}", sample.code());
    }
    let section = manual.split("\n## Diagnostics\n").nth(1).unwrap().split("\n#").next().unwrap();
    // After the headings and the line below them.
    let rows = section.trim_start().lines().skip(2);
    let rows = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<_> = rows.collect();
    assert_eq!(documented, codes, "the book lists each code");
}

#[test]
fn packets_that_are_too_long_come_with_a_remedy() {
    let words = |reason, beyond| {
        let limit = LengthLimit { bytes: 1_792, beyond };
        describe(&Diagnostic::PacketsTooLong { limit, reason })
    };
    let small =
        words(LengthLimitReason::SmallChunks { cells_per_chunk: 1, least: 64 }, LengthLimitPolicy::Lost);
    assert!(small.ends_with("and M is 1; write -M 64"), "{small}");
    let whole = |cell_bytes| words(LengthLimitReason::NotSplit { cell_bytes }, LengthLimitPolicy::Lost);
    assert!(whole(2048).ends_with("; --cell-bytes 4096 has room for longer ones"));
    assert!(whole(4096).contains("multi-buffer"));
    let cut = words(LengthLimitReason::SmallBlocks { cells_per_chunk: 2 }, LengthLimitPolicy::Cut);
    assert!(cut.contains("will be cut: a block of M = 2 cells"), "{cut}");
    let segments = words(LengthLimitReason::LongSegments { longest: 150_022 }, LengthLimitPolicy::Cut);
    assert!(segments.contains("150022 bytes") && segments.ends_with("packet:NAME"), "{segments}");
}

#[test]
fn a_nic_that_would_cut_frames_is_named_with_the_cells_that_help() {
    let words = |cell_bytes| {
        let reason = ModeRefusal::ShortCells { driver: "igb".into(), cell_bytes, room: 1024, longest: 1522 };
        describe(&Diagnostic::ModeUnavailable { mode: QueueMode::ZeroCopy, several_cells: false, reason })
    };
    let refused = words(2048);
    assert!(refused.contains("1024 bytes of a frame") && refused.contains("up to 1522"), "{refused}");
    assert!(refused.contains("--cell-bytes 4096") && !words(4096).contains("--cell-bytes"), "{refused}");
}

#[test]
fn why_packets_are_not_packed_ends_with_the_flag_that_helps() {
    for (reason, end) in [
        (PackingRefusal::Sending, "packed is not available: packets in blocks cannot be sent"),
        (PackingRefusal::SmallBlocks { block_bytes: 65_536 }, "it takes 131072; raise -M"),
        (PackingRefusal::FewBlocks { blocks: 1 }, "it takes 2; raise -R or --memory"),
        (PackingRefusal::ZeroCopyNotKnown, "(Linux 6.3); --xdp-mode packed packs them all the same"),
        (PackingRefusal::ZeroCopyOffered, "its driver offers; --xdp-mode packed packs them all the same"),
        (PackingRefusal::NotLoaded(cause()), "needs Linux 5.18: no such device"),
    ] {
        let reason = ModeRefusal::NotPacked(reason);
        let refused = Diagnostic::ModeUnavailable { mode: QueueMode::Packed, several_cells: false, reason };
        let text = describe(&refused);
        assert!(text.ends_with(end), "{text:?} does not end with {end:?}");
    }
}

#[test]
fn why_an_interface_is_not_tapped_ends_with_the_flag_that_helps() {
    for (reason, remedy) in [
        (TapRefusal::SmallChunks { least_bytes: 131_072 }, "; raise -M"),
        (TapRefusal::FewChunks, "; raise -R or --memory"),
        (TapRefusal::OffloadsOff, "; tap:NAME taps it all the same"),
    ] {
        let text = describe(&Diagnostic::NotTapped { reason });
        assert!(text.ends_with(remedy), "{text}");
    }
}

#[test]
fn queues_that_are_not_captured_are_numbered() {
    let words = |captured, queues| describe(&Diagnostic::QueuesNotCaptured { captured, queues });
    assert!(words(2, 4).contains("4 receive queues now, of which 2 are captured: packets of queues 2-3 go"));
    assert!(words(1, 2).contains("of which 1 is captured: packets of queue 1 go"));
}

#[test]
fn a_change_by_another_program_is_reported_with_its_duration() {
    let words = |recovery| describe(&Diagnostic::Detached { recovery });
    assert!(words(Recovery::Restored).ends_with("until it was attached again about a second later"));
    let lasting = words(Recovery::Failed(cause()));
    assert!(
        lasting.ends_with("since then, because it cannot be attached again: no such device"),
        "{lasting}"
    );
    assert!(words(Recovery::Ended).ends_with("uncounted, from then to the end"));
    let tap = describe(&Diagnostic::TapDetached { recovery: Recovery::Ended });
    assert!(tap.ends_with("of the tap; packets were not captured, from then to the end"), "{tap}");
}

#[test]
fn an_xdp_program_without_a_name_comes_with_the_way_to_it() {
    let text = |program| describe(&Diagnostic::XdpProgramAttached { program_id: 8, program });
    assert!(text(Some("drop".into())).contains("the XDP program drop (id 8), which gets packets first"));
    assert!(text(Some("drop".into())).ends_with("are not captured"));
    assert!(
        text(None).ends_with(
            "`bpftool prog show id 8` names it; a tap of wirecap (wirecap_tap) takes and drops none"
        )
    );
}
