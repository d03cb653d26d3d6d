//! Forwarding: two hosts connected only through our worker.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use wirecap::{Capture, Refusal, Transmitter, WaitOutcome, Worker, report::TransmitReport};
use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_sys::xsk::TransmitRings;
use wirecap_testing::{PacketSender, SendPath};

use wirecap_testing::{PATIENCE, check, need_root, wait_until};

/// left:l0 ── middle:m0 … m1 ── right:r0
struct Bridge {
    left: Namespace,
    middle: Namespace,
    right: Namespace,
    first: VethPair,
    second: VethPair,
}

impl Bridge {
    fn new(label: &str, mtu: u32) -> Self {
        let [left, middle, right] =
            ["left", "middle", "right"].map(|place| Namespace::new(&format!("{label}_{place}")).unwrap());
        let with = |address: &str| VethOptions {
            mtu,
            ipv6: true,
            addresses_a: vec![format!("192.0.2.{address}/24"), format!("fd00::{address}/64")],
            ..VethOptions::default()
        };
        let first = VethPair::new(&left, "l0", &middle, "m0", with("1")).unwrap();
        let second = VethPair::new(&right, "r0", &middle, "m1", with("2")).unwrap();
        wait_until("the addresses are usable", || {
            [&left, &right].iter().all(|host| host.ip(&["addr", "show", "tentative"]).unwrap().is_empty())
        });
        Self { left, middle, right, first, second }
    }

    /// A capture beside the right host.
    fn listen(&self) -> Capture {
        let open = || Capture::builder().port("packet:r0").workers(1).chunks_per_pool(4).open();
        self.right.enter(open).unwrap()
    }

    /// A sender on the left host.
    fn talker(&self) -> PacketSender {
        let ifindex = self.first.a().ifindex().unwrap();
        self.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap()
    }

    fn capture(&self, chunks: u32) -> Capture {
        let builder = Capture::builder().port("xdp:m0").port("xdp:m1").workers(1).transmit(256);
        self.middle.enter(|| builder.chunks_per_pool(chunks).open()).unwrap()
    }
}

/// Forwards everything from one port to the other, until `end`. Returns the number of packets of each port
/// that were forwarded.
fn bump(mut worker: Worker, mut transmitters: Vec<Transmitter>, end: &AtomicBool) -> [u64; 2] {
    let mut sent = [0, 0];
    loop {
        match worker.next_batch_within(Duration::from_millis(1)) {
            WaitOutcome::Batch(mut batch) => {
                let from = batch.port();
                let out = &mut transmitters[1 - from];
                for mut packet in batch.drain().expect("packets in cells") {
                    while let Err(refused) = packet.forward(out) {
                        assert_eq!(refused.reason, Refusal::Full);
                        packet = refused.packet;
                        out.flush().unwrap();
                    }
                    sent[from] += 1;
                }
                out.flush().unwrap();
            }
            WaitOutcome::Idle if end.load(Ordering::Relaxed) => break,
            WaitOutcome::Idle => transmitters.iter_mut().for_each(|out| out.flush().unwrap()),
            WaitOutcome::Ended => break,
        }
    }
    for out in &mut transmitters {
        assert!(out.finish(PATIENCE).unwrap(), "{out:?}");
    }
    sent
}

/// Ends the forwarding when it is dropped.
struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn two_hosts_talk_as_over_a_cable_and_all_cells_come_home() {
    need_root!("forward::two_hosts_talk_as_over_a_cable_and_all_cells_come_home");
    for mtu in [1_500, 9_000] {
        let bridge = Bridge::new("cable", mtu);
        let mut capture = bridge.capture(16);
        let end = AtomicBool::new(false);
        let (worker, transmitters) = (capture.take_workers().remove(0), capture.take_transmitters());
        assert_eq!(transmitters.len(), 2);
        let sent = thread::scope(|scope| {
            let forwarding = scope.spawn(|| bump(worker, transmitters, &end));
            // Even when an assertion fails: the scope waits for the thread.
            let ends = StopGuard(&end);
            let largest = (mtu - 28).to_string();
            for arguments in [
                ["-c", "50", "-i", "0.005", "-s", "56", "192.0.2.2"],
                ["-c", "50", "-i", "0.005", "-s", &largest, "192.0.2.2"],
                ["-c", "50", "-i", "0.005", "-s", "1000", "fd00::2"],
            ] {
                // Without -w, the last reply counts as lost if it takes longer than the interval.
                let ping =
                    bridge.left.command("ping").args(["-q", "-w", "60"]).args(arguments).output().unwrap();
                let said = String::from_utf8_lossy(&ping.stdout);
                let wrong = String::from_utf8_lossy(&ping.stderr);
                assert!(said.contains("50 received"), "MTU {mtu}: {said}{wrong}");
            }
            drop(ends);
            forwarding.join().unwrap()
        });
        assert!(sent[0] >= 150 && sent[1] >= 150, "{sent:?}");
        capture.stopper().stop();
        // A host may have sent something after the forwarding ended: that waits in a ring until the capture
        // is finished.
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!(account.lost.total(), account.lost.left_at_stop, "{report:#?}");
        check::pools_whole(&report);
        drop((bridge.first, bridge.second, bridge.right));
    }
}

#[test]
fn packets_can_be_changed_and_kept_and_a_full_ring_gives_them_back() {
    need_root!("forward::packets_can_be_changed_and_kept_and_a_full_ring_gives_them_back");
    let bridge = Bridge::new("change", 1_500);
    let builder = Capture::builder().port("xdp:m0").port("xdp:m1").workers(1).transmit(4);
    let mut capture = bridge.middle.enter(|| builder.chunks_per_pool(4).cells_per_chunk(64).open()).unwrap();
    let mut out = capture.take_transmitters().remove(1);
    assert_eq!((out.port(), out.queue(), out.room()), (1, 0, 4));
    let mut worker = capture.take_workers().remove(0);
    let mut far = bridge
        .right
        .enter(|| Capture::builder().port("packet:r0").workers(1).chunks_per_pool(4).open())
        .unwrap();
    let mut listener = far.take_workers().remove(0);

    let ifindex = bridge.first.a().ifindex().unwrap();
    let mut talker = bridge
        .left
        .enter(|| wirecap_testing::PacketSender::open(ifindex, wirecap_testing::SendPath::Queueing))
        .unwrap();
    for number in 0..6 {
        talker.send(&untagged(number)).unwrap();
    }
    let mut kept = Vec::new();
    wait_until("six packets", || {
        if let WaitOutcome::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) {
            let ours = batch.drain().unwrap().filter(|packet| packet.data()[12..14] == [0x88, 0xb5]);
            kept.extend(ours.map(wirecap::OwnedPacket::keep));
        }
        kept.len() == 6
    });
    let mut refused = 0;
    for mut packet in kept {
        let number = packet.data()[20];
        assert!(!packet.trim_front(100) && packet.prepend(4096).is_none(), "outside its cell");
        // A tag in front of the EtherType: the addresses move to the front, by four bytes.
        let addresses: [u8; 12] = packet.data()[..12].try_into().unwrap();
        packet.prepend(4).unwrap();
        packet.data_mut()[..12].copy_from_slice(&addresses);
        packet.data_mut()[12..16].copy_from_slice(&[0x81, 0, 0, number]);
        assert_eq!(packet.len(), 104);
        if number == 1 {
            // The addresses move back again.
            let addresses: [u8; 12] = packet.data()[..12].try_into().unwrap();
            packet.data_mut()[4..16].copy_from_slice(&addresses);
            assert!(packet.trim_front(4));
        }
        if let Err(not_sent) = packet.forward(&mut out) {
            assert_eq!((not_sent.reason, not_sent.packet.len()), (Refusal::Full, 104));
            refused += 1;
        }
    }
    assert_eq!((refused, out.in_flight(), out.packets()), (2, 4, 4), "the ring has four entries");
    assert!(out.finish(PATIENCE).unwrap());
    let tagged = |number: u8| {
        let mut frame = untagged(number);
        frame.splice(12..12, [0x81, 0, 0, number]);
        frame
    };
    let expected = [tagged(0), untagged(1), tagged(2), tagged(3)];
    let mut arrived = Vec::new();
    wait_until("four packets", || {
        if let WaitOutcome::Batch(batch) = listener.next_batch_within(Duration::ZERO) {
            arrived.extend(batch.packets().map(|packet| packet.data().to_vec()));
        }
        arrived.retain(|frame| expected.contains(frame));
        arrived.len() == 4
    });
    assert_eq!(arrived, expected);
    wait_until("all cells are home", || {
        let _ = worker.next_batch_within(Duration::ZERO);
        capture.report().pool_used_percent() == 0.0
    });
}

#[test]
fn packets_in_a_row_are_changed_once_and_a_refused_one_comes_next() {
    need_root!("forward::packets_in_a_row_are_changed_once_and_a_refused_one_comes_next");
    const CHANGE: u8 = 100;
    let bridge = Bridge::new("row", 1_500);
    let builder = Capture::builder().port("xdp:m0").port("xdp:m1").workers(1).transmit(4);
    let mut capture = bridge.middle.enter(|| builder.chunks_per_pool(4).cells_per_chunk(64).open()).unwrap();
    let mut out = capture.take_transmitters().remove(1);
    let mut worker = capture.take_workers().remove(0);
    let far = || Capture::builder().port("packet:r0").workers(1).chunks_per_pool(4).open();
    let mut far = bridge.right.enter(far).unwrap();
    let mut listener = far.take_workers().remove(0);
    let ifindex = bridge.first.a().ifindex().unwrap();
    let talker = || wirecap_testing::PacketSender::open(ifindex, wirecap_testing::SendPath::Queueing);
    let mut talker = bridge.left.enter(talker).unwrap();
    for number in 0..6 {
        talker.send(&untagged(number)).unwrap();
    }
    wait_until("six packets wait", || capture.report().total().seen >= 6);

    let is_ours = |packet: &[u8]| packet.len() == 100 && packet[12..14] == [0x88, 0xb5];
    let change = |packet: &mut [u8]| {
        if is_ours(packet) {
            packet[20] += CHANGE;
        }
    };
    let (mut in_rows, mut bytes, mut refused, mut taken) = (0, 0, 0, 0);
    wait_until("all are forwarded", || {
        let WaitOutcome::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) else {
            return taken >= 6;
        };
        taken += batch.len();
        let mut drain = batch.drain().expect("packets in cells");
        loop {
            let row = drain.forward(&mut out, change);
            assert!(row.packets <= 4 && (row.packets > 0) == (row.first_timestamp_ns > 0), "{row:?}");
            (in_rows, bytes) = (in_rows + row.packets, bytes + row.bytes);
            let Some(mut packet) = drain.next() else { break };
            assert!(packet.data()[20] < CHANGE || !is_ours(packet.data()), "a refused packet is not changed");
            change(packet.data_mut());
            refused += 1;
            bytes += packet.len() as u64;
            while let Err(again) = packet.forward(&mut out) {
                assert_eq!(again.reason, Refusal::Full);
                packet = again.packet;
                out.flush().unwrap();
            }
        }
        out.flush().unwrap();
        false
    });
    assert!(refused > 0, "the ring has four entries");
    assert_eq!((out.packets(), out.bytes(), taken as u64), (in_rows + refused, bytes, in_rows + refused));
    assert!(out.finish(PATIENCE).unwrap());

    let expected: Vec<_> = (0..6)
        .map(|number| {
            let mut frame = untagged(number);
            change(&mut frame);
            frame
        })
        .collect();
    let mut arrived = Vec::new();
    wait_until("six packets arrived", || {
        if let WaitOutcome::Batch(batch) = listener.next_batch_within(Duration::ZERO) {
            arrived
                .extend(batch.packets().map(|packet| packet.data().to_vec()).filter(|frame| is_ours(frame)));
        }
        arrived.len() >= 6
    });
    assert_eq!(arrived, expected);
    wait_until("all cells are home", || {
        let _ = worker.next_batch_within(Duration::ZERO);
        capture.report().pool_used_percent() == 0.0
    });
}

fn untagged(number: u8) -> Vec<u8> {
    let mut frame = vec![number; 100];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// The report on the first transmit queue of a port.
fn transmitted(capture: &Capture, port: usize) -> TransmitReport {
    capture.report().ports[port].transmitted[0]
}

#[test]
fn packets_are_made_sent_and_come_home_to_their_allocator() {
    need_root!("forward::packets_are_made_sent_and_come_home_to_their_allocator");
    let bridge = Bridge::new("stock", 9_000);
    let builder = Capture::builder().port("xdp:m1").workers(1).transmit(64).allocators(1);
    let mut capture = bridge.middle.enter(|| builder.chunks_per_pool(2).cells_per_chunk(64).open()).unwrap();
    let mut out = capture.take_transmitters().remove(0);
    let mut allocator = capture.take_allocators().remove(0);
    assert!(capture.take_allocators().is_empty());
    let report = capture.report();
    let pools = report.ports[0].queues.len() as u64 + 1;
    assert_eq!(report.memory.cells_bytes, pools * 2 * 64 * 2048);
    let mut far = bridge.listen();
    let mut listener = far.take_workers().remove(0);

    assert!(allocator.packet(&[]).is_none() && allocator.packet(&vec![0; 64 * 1792 + 1]).is_none());
    // All 128 cells, three times over, in packets of one cell and of five; some packets cross the end of a
    // chunk.
    let mut sent = Vec::new();
    for number in 0..90_u8 {
        let mut frame = untagged(number);
        if number % 2 == 1 {
            frame.resize(8_500, number);
        }
        let mut packet = allocator.packet(&frame).unwrap_or_else(|| panic!("packet {number}: {allocator:?}"));
        assert_eq!((packet.len(), packet.number()), (frame.len(), number.into()));
        packet.append(3).unwrap().copy_from_slice(b"end");
        frame.extend(b"end");
        assert!(packet.trim_end(1) && !packet.trim_end(2000) && packet.append(2000).is_none());
        frame.pop();
        let whole: Vec<u8> = packet.parts().flatten().copied().collect();
        assert_eq!(whole, frame);
        packet.forward(&mut out).unwrap_or_else(|refused| panic!("packet {number}: {refused:?}"));
        assert!(out.finish(PATIENCE).unwrap(), "{out:?}");
        sent.push(frame);
    }
    assert_eq!(allocator.copied_bytes(), (45 * 100 + 45 * 8_500) as u64);
    let mut arrived = Vec::new();
    wait_until("all packets", || {
        if let WaitOutcome::Batch(batch) = listener.next_batch_within(Duration::ZERO) {
            let wholes = batch.packets().map(|packet| packet.parts().flatten().copied().collect::<Vec<u8>>());
            arrived.extend(wholes.filter(|frame| frame[12..14] == [0x88, 0xb5]));
        }
        arrived.len() == sent.len()
    });
    assert!(arrived == sent);
    // A used-up allocator returns no packet, and gets its cells back when they are dropped.
    let kept: Vec<_> = std::iter::from_fn(|| allocator.packet(&[0; 60])).collect();
    // All cells except those of the current chunk that were sent earlier: these come back with their chunk.
    assert!((65..=128).contains(&kept.len()), "{allocator:?}");
    drop(kept);
    assert!(allocator.packet(&[0; 60]).is_some());
}

#[test]
fn packets_captured_beside_the_host_are_forwarded_with_one_copy() {
    need_root!("forward::packets_captured_beside_the_host_are_forwarded_with_one_copy");
    let bridge = Bridge::new("copy", 1_500);
    let builder = Capture::builder().port("packet:m0").port("xdp:m1").workers(1).transmit(64).allocators(1);
    let mut capture = bridge.middle.enter(|| builder.chunks_per_pool(4).cells_per_chunk(64).open()).unwrap();
    let (mut out, mut allocator) =
        (capture.take_transmitters().remove(0), capture.take_allocators().remove(0));
    let mut worker = capture.take_workers().remove(0);
    let mut far = bridge.listen();
    let mut listener = far.take_workers().remove(0);
    let mut talker = bridge.talker();
    for number in 0..20 {
        talker.send(&untagged(number)).unwrap();
    }
    let (mut taken, mut bytes) = (0, 0);
    wait_until("twenty packets of a passive port", || {
        if let WaitOutcome::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) {
            if batch.port() == 0 {
                assert!(batch.drain().is_none(), "packets of a passive port are not in cells");
                for packet in batch.packets().filter(|packet| packet.data()[12..14] == [0x88, 0xb5]) {
                    let copy = allocator.copy_of(&packet).unwrap();
                    assert_eq!((copy.timestamp_ns(), copy.data()), (packet.timestamp_ns(), packet.data()));
                    copy.forward(&mut out).unwrap();
                    taken += 1;
                    bytes += packet.len();
                }
                out.flush().unwrap();
            }
        }
        taken == 20
    });
    assert_eq!(allocator.copied_bytes(), bytes as u64);
    let counted = transmitted(&capture, 1);
    assert_eq!(
        (counted.packets, counted.copied_bytes),
        (20, bytes as u64),
        "each packet was copied once: {counted:?}"
    );
    let mut arrived = Vec::new();
    wait_until("twenty packets", || {
        if let WaitOutcome::Batch(batch) = listener.next_batch_within(Duration::ZERO) {
            let ours = batch.packets().map(|packet| packet.data().to_vec());
            arrived.extend(ours.filter(|frame| frame[12..14] == [0x88, 0xb5]));
        }
        arrived.len() == 20
    });
    assert_eq!(arrived, (0..20).map(untagged).collect::<Vec<_>>());
}

#[test]
fn packets_are_sent_from_where_they_were_captured() {
    need_root!("forward::packets_are_sent_from_where_they_were_captured");
    let bridge = Bridge::new("where", 1_500);
    // The size distinguishes these rings from those of concurrent tests.
    let builder = Capture::builder().port("xdp:m0").port("xdp:m1").workers(1).transmit(512);
    let mut capture = bridge.middle.enter(|| builder.chunks_per_pool(4).open()).unwrap();
    let mut out = capture.take_transmitters().remove(1);
    let mut rings = TransmitRings::of_process(512).unwrap();
    let mut worker = capture.take_workers().remove(0);
    let mut talker = bridge.talker();
    for number in 0..50 {
        talker.send(&untagged(number)).unwrap();
    }
    // Address and length of each packet: as received, and as in the rings that the kernel reads, one after
    // the other.
    let (mut received, mut lent) = (Vec::new(), Vec::<Vec<_>>::new());
    let mut sent = 0;
    wait_until("fifty packets", || {
        if let WaitOutcome::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) {
            // The address of each packet while it is read-only, then while it is owned, changed, kept, and in
            // the ring.
            let read: Vec<_> = batch.packets().map(|packet| packet.data().as_ptr()).collect();
            for (mut packet, at) in batch.drain().unwrap().zip(read) {
                let first = packet.addresses().next().unwrap();
                received.push((first, packet.data().len() as u32));
                packet.data_mut()[0] ^= 2;
                assert_eq!(packet.data().as_ptr(), at);
                let packet = packet.keep();
                assert_eq!((packet.data().as_ptr(), packet.addresses().next()), (at, Some(first)));
                let ours = packet.data()[12..14] == [0x88, 0xb5];
                packet.forward(&mut out).unwrap();
                sent += usize::from(ours);
            }
            out.flush().unwrap();
            let entries = rings.take().unwrap();
            lent.resize(entries.len(), Vec::new());
            for (lent, entries) in lent.iter_mut().zip(entries) {
                lent.extend(entries.into_iter().map(|entry| (entry.address, entry.len)));
            }
        }
        sent == 50
    });
    lent.retain(|entries| !entries.is_empty());
    assert_eq!(lent, [received], "the kernel gets the very cells that were captured");
    // The kernel names each sent cell by its address: every cell that it named was in flight, and all came
    // home.
    assert!(out.finish(PATIENCE).unwrap());
    assert_eq!((out.in_flight(), out.unknown_completions()), (0, 0));
    let counted = transmitted(&capture, 1);
    assert!(counted.bytes >= 50 * 100 && counted.copied_bytes == 0, "{counted:?}");
    wait_until("all cells are home", || {
        let _ = worker.next_batch_within(Duration::ZERO);
        capture.report().pool_used_percent() == 0.0
    });
}
