//! Forwarding: the other NIC sends each packet from the cell it was captured into.
//!
//! ```text
//!   eth1: sends, ──► wire ──► eth0: captures ──► the cell, one hop less, is lent to eth1's driver ──► wire ──► eth0 …
//!                             and the other way round: eth0 sends, eth1 captures, eth0 forwards
//! ```
//!
//! The two NICs are connected, so each receives what the other sends, and a frame makes one round per hop.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use wirecap::{Batch, Homes, Mode, Transmitter, WaitOutcome, Worker, report::TransmitReport};
use wirecap_sys::xsk::TransmitRings;
use wirecap_testing::{PacketSender, SendPath};
use wirecap_traffic::{FrameSpec, Template};

use super::Case;
use wirecap_testing::{PATIENCE, check};

use crate::machine::{CAPTURED, FLOWS, Machine, SENDER, Traffic};

pub(super) const CASES: [Case; 1] = [("forward", forwards)];

/// Rounds of each frame.
const HOPS: u8 = 6;
/// Frames from each side.
const FRAMES: u64 = 240;
/// Frames in flight at most.
const BURST: u64 = 12;
/// Offset of the remaining hops in a frame: the last byte of its source address.
const HOPS_AT: usize = 11;
/// Entries of each transmit ring.
const RING: u32 = 256;
const TICK: Duration = Duration::from_millis(1);

fn spec(hops: u8) -> FrameSpec {
    // The source must differ from the destination address: a bridge between the NICs would learn its port.
    FrameSpec { len: 700, source_mac: [2, 0, 0, 0, 1, hops], ..FrameSpec::default() }
}

/// Forwards the packets of all queues of both NICs, in one thread.
struct Forwarder {
    worker: Worker,
    /// By port.
    transmitters: [Vec<Transmitter>; 2],
    /// Frames without hops left, as received.
    arrived: Vec<Vec<u8>>,
    forwarded: u64,
    /// By port and number of the transmitter: address and length of each forwarded packet, as received.
    received: BTreeMap<(usize, usize), Vec<(u64, u32)>>,
    /// By ring: address and length of each entry in the rings that the kernel reads.
    lent: Vec<Vec<(u64, u32)>>,
    rings: TransmitRings,
}

impl Forwarder {
    /// Forwards the packets that arrive within [`TICK`].
    fn pump(&mut self) {
        if let WaitOutcome::Batch(batch) = self.worker.next_batch_within(TICK) {
            self.forward(batch);
        }
        for transmitter in self.transmitters.iter_mut().flatten() {
            transmitter.flush().unwrap();
        }
        let entries = self.rings.take().unwrap();
        self.lent.resize(entries.len(), Vec::new());
        for (lent, entries) in self.lent.iter_mut().zip(entries) {
            lent.extend(entries.into_iter().map(|entry| (entry.address, entry.len)));
        }
    }

    fn forward(&mut self, mut batch: Batch) {
        let (to, queue) = (1 - batch.port(), usize::from(batch.queue()));
        let lanes = &mut self.transmitters[to];
        let lane = queue % lanes.len();
        for mut packet in batch.drain().expect("packets are in cells") {
            let ours = packet.data().starts_with(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 1]);
            if !ours {
                continue;
            }
            if packet.data()[HOPS_AT] == 0 {
                self.arrived.push(packet.data().to_vec());
                continue;
            }
            let cells: Vec<u64> = packet.addresses().collect();
            assert_eq!(cells.len(), 1, "a packet is in one cell");
            self.received.entry((to, lane)).or_default().push((cells[0], packet.data().len() as u32));
            packet.data_mut()[HOPS_AT] -= 1;
            assert_eq!(packet.addresses().collect::<Vec<_>>(), cells, "the packet stays in its cell");
            if let Err(refused) = packet.forward(&mut lanes[lane]) {
                refused.wait(&mut lanes[lane], Duration::from_secs(5)).unwrap();
            }
            self.forwarded += 1;
        }
    }
}

fn forwards(machine: &Machine) {
    let builder = machine.builder().port(format!("xdp:{SENDER}")).mode(Mode::Basic).workers(1);
    let mut capture = machine.capture_in_cells(builder.homes(Homes::ByQueue).transmit(RING));
    drop(capture.events());
    let (of_sender, of_captured): (Vec<_>, Vec<_>) =
        capture.take_transmitters().into_iter().partition(|transmitter| transmitter.port() == 0);
    let mut forwarder = Forwarder {
        worker: capture.take_workers().remove(0),
        transmitters: [of_sender, of_captured],
        arrived: Vec::new(),
        forwarded: 0,
        received: BTreeMap::new(),
        lent: Vec::new(),
        rings: TransmitRings::of_process(RING).unwrap(),
    };
    for (from, ifindex) in [(SENDER, machine.sender.ifindex), (CAPTURED, machine.captured.ifindex)] {
        let mut sender = PacketSender::open(ifindex, SendPath::Direct).unwrap();
        let (mut template, mut last) = (Template::new(spec(HOPS)).unwrap(), Template::new(spec(0)).unwrap());
        forwarder.arrived.clear();
        for sequence in 0..FRAMES {
            sender.send(template.stamp(Traffic::flow_of(sequence, FLOWS), sequence)).unwrap();
            if (sequence + 1) % BURST == 0 {
                let begun = Instant::now();
                while forwarder.arrived.len() as u64 != sequence + 1 {
                    // A driver that resets its NIC for an XDP program takes the link down and up. The capture
                    // reports both as events, which this case ignores.
                    drop(capture.events());
                    forwarder.pump();
                    assert!(
                        begun.elapsed() < PATIENCE,
                        "{} of {} frames from {from} made their rounds in {PATIENCE:?}: {:#?} {:#?}\n{}",
                        forwarder.arrived.len(),
                        sequence + 1,
                        forwarder.transmitters,
                        capture.report().ports,
                        fs::read_to_string("/proc/net/dev").unwrap()
                    );
                }
            }
        }
        let mut expected: Vec<Vec<u8>> = (0..FRAMES)
            .map(|sequence| last.stamp(Traffic::flow_of(sequence, FLOWS), sequence).to_vec())
            .collect();
        expected.sort();
        forwarder.arrived.sort();
        assert!(forwarder.arrived == expected, "frames from {from} changed only in their hops");
    }
    for transmitter in forwarder.transmitters.iter_mut().flatten() {
        assert!(transmitter.finish(Duration::from_secs(10)).unwrap(), "{transmitter:?}");
        // Each completion of the kernel must name the address of a cell that was lent to it.
        assert_eq!(transmitter.unknown_completions(), 0, "{transmitter:?}");
    }
    let mut received: Vec<_> = std::mem::take(&mut forwarder.received).into_values().collect();
    let mut lent = std::mem::take(&mut forwarder.lent);
    // The rings cannot be matched to transmitters, so compare the sorted lists of their entries.
    lent.retain(|entries| !entries.is_empty());
    received.sort_unstable();
    lent.sort_unstable();
    assert!(lent == received, "the kernel sends from the captured cells: {lent:?} {received:?}");
    assert_eq!(forwarder.forwarded, 2 * FRAMES * u64::from(HOPS));
    let ports = capture.report().ports;
    let sums = |figure: fn(&TransmitReport) -> u64| -> Vec<u64> {
        ports.iter().map(|port| port.transmitted.iter().map(figure).sum()).collect()
    };
    assert_eq!(sums(|queue| queue.packets), [FRAMES * u64::from(HOPS); 2], "each NIC forwards its half");
    assert_eq!(sums(|queue| queue.copied_bytes), [0; 2], "sending copies nothing");
    assert_eq!(sums(|queue| queue.dropped.total()), [0; 2], "{ports:#?}");
    capture.stopper().stop();
    drop(forwarder);
    let report = machine.finish(capture);
    assert!(report.total().lost.total() == report.total().lost.left_at_stop, "{report:#?}");
    check::pools_whole(&report);
}
