//! Forwarding: two hosts that are connected only through a worker of ours.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use wirecap::{Capture, Next, Refusal, Transmitter, Worker};
use wirecap_lab::{Namespace, VethOptions, VethPair};

use crate::support::{PATIENCE, check, need_root, wait_until};

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

    fn capture(&self, chunks: u32) -> Capture {
        let builder = Capture::builder().port("xdp:m0").port("xdp:m1").workers(1).transmit(256);
        self.middle.enter(|| builder.chunks_per_pool(chunks).open()).unwrap()
    }
}

/// Forwards everything from one port to the other, until `end`. Returns how many packets of each port were sent on.
fn bump(mut worker: Worker, mut transmitters: Vec<Transmitter>, end: &AtomicBool) -> [u64; 2] {
    let mut sent = [0, 0];
    loop {
        match worker.next_batch_within(Duration::from_millis(1)) {
            Next::Batch(mut batch) => {
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
            Next::Idle if end.load(Ordering::Relaxed) => break,
            Next::Idle => transmitters.iter_mut().for_each(|out| out.flush().unwrap()),
            Next::Ended => break,
        }
    }
    for out in &mut transmitters {
        assert!(out.finish(PATIENCE).unwrap(), "{out:?}");
    }
    sent
}

/// Ends the forwarding when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn two_hosts_talk_as_if_by_a_cable_and_all_cells_come_home() {
    need_root!("forward::two_hosts_talk_as_if_by_a_cable_and_all_cells_come_home");
    for mtu in [1_500, 9_000] {
        let bridge = Bridge::new("cable", mtu);
        let mut capture = bridge.capture(16);
        let end = AtomicBool::new(false);
        let (worker, transmitters) = (capture.take_workers().remove(0), capture.take_transmitters());
        assert_eq!(transmitters.len(), 2);
        let sent = thread::scope(|scope| {
            let forwarding = scope.spawn(|| bump(worker, transmitters, &end));
            // Also when an assertion fails: the scope waits for the thread.
            let ends = Ends(&end);
            let largest = (mtu - 28).to_string();
            for arguments in [
                ["-c", "50", "-i", "0.005", "-s", "56", "192.0.2.2"],
                ["-c", "50", "-i", "0.005", "-s", &largest, "192.0.2.2"],
                ["-c", "50", "-i", "0.005", "-s", "1000", "fd00::2"],
            ] {
                let ping = bridge.left.command("ping").arg("-q").args(arguments).output().unwrap();
                let said = String::from_utf8_lossy(&ping.stdout);
                let wrong = String::from_utf8_lossy(&ping.stderr);
                assert!(said.contains("50 received"), "MTU {mtu}: {said}{wrong}");
            }
            drop(ends);
            forwarding.join().unwrap()
        });
        assert!(sent[0] >= 150 && sent[1] >= 150, "{sent:?}");
        capture.stopper().stop();
        wait_until("all cells are home", || capture.report().pool_used_percent() == 0.0);
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!(account.lost.total(), account.lost.left_at_stop, "{report:#?}");
        check::pools_whole(&report);
        drop((bridge.first, bridge.second, bridge.right));
    }
}

#[test]
fn packets_can_be_changed_kept_and_are_given_back_when_the_ring_is_full() {
    need_root!("forward::packets_can_be_changed_kept_and_are_given_back_when_the_ring_is_full");
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
        .enter(|| wirecap_traffic::PacketSender::open(ifindex, wirecap_traffic::SendPath::Queueing))
        .unwrap();
    for number in 0..6 {
        talker.send(&untagged(number)).unwrap();
    }
    let mut kept = Vec::new();
    wait_until("six packets", || {
        if let Next::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) {
            let ours = batch.drain().unwrap().filter(|packet| packet.data()[12..14] == [0x88, 0xb5]);
            kept.extend(ours.map(wirecap::OwnedPacket::keep));
        }
        kept.len() == 6
    });
    let mut refused = 0;
    for mut packet in kept {
        let number = packet.data()[20];
        assert!(!packet.trim_front(100) && packet.prepend(4096).is_none(), "not within its cell");
        // A tag in front of the EtherType: the addresses move to the front, by four bytes.
        let addresses: [u8; 12] = packet.data()[..12].try_into().unwrap();
        packet.prepend(4).unwrap();
        packet.data_mut()[..12].copy_from_slice(&addresses);
        packet.data_mut()[12..16].copy_from_slice(&[0x81, 0, 0, number]);
        assert_eq!(packet.len(), 104);
        if number == 1 {
            // And back again.
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
        if let Next::Batch(batch) = listener.next_batch_within(Duration::ZERO) {
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
fn packets_in_a_row_are_changed_once_and_what_is_refused_comes_next() {
    need_root!("forward::packets_in_a_row_are_changed_once_and_what_is_refused_comes_next");
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
    let talker = || wirecap_traffic::PacketSender::open(ifindex, wirecap_traffic::SendPath::Queueing);
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
        let Next::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) else { return taken >= 6 };
        taken += batch.len();
        let mut drain = batch.drain().expect("packets in cells");
        loop {
            let row = drain.forward(&mut out, change);
            assert!(row.packets <= 4 && (row.packets > 0) == (row.first_timestamp_ns > 0), "{row:?}");
            (in_rows, bytes) = (in_rows + row.packets, bytes + row.bytes);
            let Some(mut packet) = drain.next() else { break };
            assert!(packet.data()[20] < CHANGE || !is_ours(packet.data()), "not changed: it was refused");
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
        if let Next::Batch(batch) = listener.next_batch_within(Duration::ZERO) {
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
