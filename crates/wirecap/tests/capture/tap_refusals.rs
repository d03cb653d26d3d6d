//! What a tap cannot do, and where an interface is captured over AF_PACKET instead.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use wirecap::{
    Access, Builder, Diagnostic, Direction, Error, Fanout, HostUse, Modes, TapHook, Timestamp, XdpTapRefusal,
    diagnostic::TapRefusal, port::null::NullPort, report::QueueMode,
};
use wirecap_headers::checksum::{self, Verdict};
use wirecap_sys::cpu;
use wirecap_testing::{check, kernel_is_at_least, need_root, wire::Wire};

use crate::{
    passive::{addressed, all_spoken, talk},
    tap::{TappedPacket, all, builder, need_tap, programs, tap},
};

const CHUNK_BYTES: u64 = 128 << 10;

#[test]
fn what_a_tap_cannot_do_is_refused() {
    need_tap!("tap_refusals::what_a_tap_cannot_do_is_refused");
    let wire = Wire::with_queues("taprefused", 1);
    let refused = |builder: Builder| wire.try_capture_of("tap:in0", builder).map(drop).unwrap_err();
    assert!(matches!(refused(builder().modes(Modes::Copy)), Error::OnlyPassive { .. }));
    assert!(matches!(refused(builder().timestamp(Timestamp::Hardware)), Error::NoHardwareTimestamps { .. }));
    let small = TapRefusal::SmallChunks { least_bytes: 128 << 10 };
    for (builder, expected) in [
        (builder().cells_per_chunk(16), small),
        (builder().chunks_per_pool(1), TapRefusal::FewChunks),
        (builder().memory(cores() * CHUNK_BYTES), TapRefusal::FewChunks),
        (builder().workers(2).fanout(Fanout::Hash), TapRefusal::SeveralWorkers { fanout: Fanout::Hash }),
    ] {
        let error = refused(builder);
        assert!(matches!(&error, Error::NotTapped { reason, .. } if *reason == expected), "{error}");
    }
    assert!(programs(&wire).is_empty());
    let error = wire.try_capture_of("tap:in0@0", builder()).map(drop).unwrap_err();
    assert!(matches!(error, Error::PassiveQueues { access: Access::Tap, reason: None, .. }), "{error}");
}

#[test]
fn where_native_xdp_cannot_tap_the_error_says_why() {
    need_tap!("tap_refusals::where_native_xdp_cannot_tap_the_error_says_why");
    let wire = Wire::with_queues("taphook", 1);
    wire.inside.ip(&["link", "set", "dev", "lo", "up"]).unwrap();
    wire.inside.ip(&["link", "add", "br0", "type", "bridge"]).unwrap();
    wire.inside.ip(&["link", "set", "dev", "br0", "up"]).unwrap();
    let open = |port: &str| wire.try_capture_of(port, builder().tap_hook(TapHook::Xdp));
    let refusal = |port: &str| match open(port).map(drop).unwrap_err() {
        Error::NotTappedByXdp { reason, .. } => reason,
        error => panic!("{port}: {error}"),
    };
    assert!(matches!(refusal("tap:lo"), XdpTapRefusal::NotEthernet { .. }));
    let bridge = refusal("tap:br0");
    assert!(matches!(bridge, XdpTapRefusal::NotNative), "{bridge}");
    let first = open("tap:in0").unwrap();
    let second = refusal("tap:in0").to_string();
    assert!(second.contains("wirecap_tap") && second.contains("end that process"), "{second}");
    // It leaves every packet to others, so it is no reason for a warning.
    let beside = wire.capture_of("packet:in0", builder()).report();
    assert!(beside.ports[0].fallbacks.is_empty(), "{beside:#?}");
    let report = first.finish();
    assert_eq!(report.ports[0].tap_hook, Some(TapHook::Xdp));
}

#[test]
fn a_tap_is_named_as_use_and_a_ring_has_no_effect() {
    need_tap!("tap_refusals::a_tap_is_named_as_use_and_a_ring_has_no_effect");
    let wire = Wire::with_queues("tapuse", 1);
    let first = tap(&wire, builder().ring_entries(1024));
    assert_eq!(first.report().ports[0].fallbacks, [Diagnostic::RingWithoutEffect]);
    let second = wire.capture(builder());
    let uses = &second.report().ports[0].host_use;
    let [HostUse::IngressProgram { program, processes, .. }] = &uses[..] else { panic!("{uses:?}") };
    assert_eq!(program.as_deref(), Some("wirecap_tap"));
    assert!(processes.iter().any(|process| process.pid == std::process::id()), "{processes:?}");
}

fn cores() -> u64 {
    cpu::online_end().unwrap() as u64
}

/// The host's own interface: AF_PACKET serves where memory is too little for a tap.
#[test]
fn little_memory_leads_to_af_packet() {
    need_tap!("tap_refusals::little_memory_leads_to_af_packet");
    let wire = addressed("taplittle");
    for (builder, chunks) in [
        (builder().chunks_per_pool(1), 1),
        // One chunk for the pool of each core.
        (builder().memory(cores() * CHUNK_BYTES), cores() as u32),
        // Less than that, and enough for the only socket.
        (builder().memory(CHUNK_BYTES), 1),
    ] {
        let mut capture = wire.capture_of("in0", builder);
        talk(&wire, 2);
        capture.stopper().stop();
        let captured = all(&mut capture).len() as u64;
        let report = capture.finish();
        check::account_closed(&report);
        // While the only block waits for a worker, the kernel has no other.
        assert!(all_spoken(2).len() as u64 <= captured + report.total().lost.no_free_block, "{report:#?}");
        assert_eq!(report.ports[0].queues[0].mode, QueueMode::Packet);
        assert_eq!(report.memory.chunks_per_pool, chunks);
        let reason = Diagnostic::NotTapped { reason: TapRefusal::FewChunks };
        let fallbacks = &report.ports[0].fallbacks;
        assert!(fallbacks.contains(&reason), "{fallbacks:?}");
        let few_blocks = Diagnostic::FewBlocks { blocks: chunks, enough: 4 };
        assert_eq!(fallbacks.contains(&few_blocks), chunks < 4, "{fallbacks:?}");
    }
    let enough = wire.capture_of("in0", builder().memory(cores() * 2 * CHUNK_BYTES));
    assert_eq!(enough.report().ports[0].queues[0].mode, QueueMode::Tap);
    drop(enough);
    let mixed = || builder().port(NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 });
    let both = wire.capture_of("in0", mixed().memory(cores() * CHUNK_BYTES));
    let modes: Vec<_> = both.report().ports.iter().map(|port| port.queues[0].mode).collect();
    assert_eq!(modes, [QueueMode::Memory, QueueMode::Packet]);
}

/// What the host sends is captured as the other end gets it, though the kernel has to finish it.
#[test]
fn where_offloads_are_off_the_host_s_packets_are_finished() {
    need_tap!("tap_refusals::where_offloads_are_off_the_host_s_packets_are_finished");
    const ETHERNET: usize = 14;
    const IPV4: [u8; 2] = [8, 0];
    const FRAME: usize = 1_514;
    let off = [Diagnostic::NotTapped { reason: TapRefusal::OffloadsOff }];
    for (settings, reasons) in [
        (["tx", "on", "tso", "on"], &[][..]),
        (["tx", "off", "tso", "off"], &off),
        (["tx", "on", "tso", "off"], &off),
    ] {
        let wire = addressed("tapoffloads");
        wire.inside.ethtool(&[&["-K", "in0"], &settings[..]].concat()).unwrap();
        let mut capture = wire.capture_of("in0", builder());
        let fallbacks = &capture.report().ports[0].fallbacks;
        let refusals = fallbacks.iter().filter(|fallback| matches!(fallback, Diagnostic::NotTapped { .. }));
        assert!(refusals.eq(reasons), "{settings:?}: {fallbacks:?}");
        assert_eq!(programs(&wire).is_empty(), !reasons.is_empty(), "{settings:?}");
        let listener = wire.outside.enter(|| TcpListener::bind("192.0.2.1:7")).unwrap();
        let mut talker = wire.inside.enter(|| TcpStream::connect("192.0.2.1:7")).unwrap();
        talker.write_all(&[7; 60_000]).unwrap();
        drop(talker);
        assert_eq!(listener.accept().unwrap().0.read_to_end(&mut Vec::new()).unwrap(), 60_000);
        capture.stopper().stop();
        let packets = all(&mut capture);
        let is_sent_ip =
            |packet: &&TappedPacket| packet.direction == Direction::Out && packet.bytes[12..14] == IPV4;
        let sent: Vec<_> = packets.iter().filter(is_sent_ip).map(|packet| &packet.bytes).collect();
        assert!(sent.len() > 3, "{settings:?}: {packets:?}");
        let are_cut = sent.iter().all(|frame| frame.len() <= FRAME);
        assert_eq!(are_cut, settings[3] == "off", "{settings:?}: segments");
        let are_complete = sent.iter().all(|frame| checksum::verify(&frame[ETHERNET..]) == Verdict::Right);
        assert_eq!(are_complete, settings[1] == "off", "{settings:?}: checksums");
        drop(capture);
        let asked = wire.capture_of("tap:in0", builder());
        assert_eq!(asked.report().ports[0].queues[0].mode, QueueMode::Tap, "{settings:?}");
    }
}
