//! The queue that sends a packet: the packet arrives in the queue of the same number at the other end of a
//! veth pair.

use wirecap_lab::require_root;

use super::{Sketch, assert_same, frame, replayed, trace, write};
use crate::lab::Lab;

const QUEUES: u32 = 4;
const PACKETS: usize = 400;

/// The queue that each packet arrived in, by packet number.
fn arrived_in(lab: &Lab, arguments: &[&str]) -> Vec<u32> {
    let (_, arrived) = replayed(lab, arguments);
    assert_eq!(arrived.len(), PACKETS);
    let mut queues = vec![None; PACKETS];
    for packet in &arrived {
        let number = (0..PACKETS).find(|&number| packet.data == frame(number, 60 + number)).unwrap();
        assert_eq!(queues[number].replace(packet.queue.unwrap()), None, "packet {number} came twice");
    }
    queues.into_iter().map(Option::unwrap).collect()
}

fn lab(label: &str) -> (Lab, String) {
    let lab = Lab::with_queues(label, QUEUES);
    let sketches = (0..PACKETS).map(|number| Sketch { time_ns: number as u64 * 1_000, len: 60 + number });
    let path = write(&lab, "a.pcap", &trace(sketches));
    (lab, path.to_str().unwrap().into())
}

#[test]
fn packets_leave_by_the_requested_queue() {
    if !require_root("packets_leave_by_the_requested_queue") {
        return;
    }
    let (lab, file) = lab("placed");
    let in_turn =
        |queues: &[u32]| -> Vec<u32> { (0..PACKETS).map(|number| queues[number % queues.len()]).collect() };
    assert_eq!(arrived_in(&lab, &[&file]), vec![0; PACKETS]);
    assert_eq!(arrived_in(&lab, &[&file, "--queues", "2"]), vec![2; PACKETS]);
    assert_eq!(arrived_in(&lab, &[&file, "--queues", "round-robin"]), in_turn(&[0, 1, 2, 3]));
    assert_eq!(arrived_in(&lab, &[&file, "--queues", "round-robin:1,3", "--pps", "100k"]), in_turn(&[1, 3]));

    let wanted: Vec<u32> = (0..PACKETS as u32).map(|number| number * number % 3 + 1).collect();
    let lines: Vec<String> = wanted.iter().map(|queue| format!("{queue} # a queue\n")).collect();
    let side = write(&lab, "side.txt", lines.concat().as_bytes());
    let place = format!("file:{}", side.display());
    assert_eq!(arrived_in(&lab, &[&file, "--queues", &place]), wanted);
    assert_eq!(arrived_in(&lab, &[&file, "--queues", &place, "--memory", "1M"]), wanted);
}

#[test]
fn both_directions_of_a_connection_leave_by_one_queue() {
    if !require_root("both_directions_of_a_connection_leave_by_one_queue") {
        return;
    }
    let lab = Lab::with_queues("flows", QUEUES);
    let packet = |flow: u8, back: bool| {
        let (mut addresses, mut ports) = ([[10, 0, 0, 1], [10, 0, 1, flow]], [[0x30, flow], [0, 80]]);
        if back {
            addresses.reverse();
            ports.reverse();
        }
        let mut bytes = frame(0, 12);
        bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
        bytes.extend(addresses.concat());
        bytes.extend(ports.concat());
        bytes.resize(60, 0);
        bytes
    };
    let packets: Vec<_> = (0..100).flat_map(|flow| [packet(flow, false), packet(flow, true)]).collect();
    let mut file = Vec::new();
    wirecap_file::pcap::file_header(&mut file, wirecap_file::LINK_TYPE_ETHERNET, 0);
    for bytes in &packets {
        wirecap_file::pcap::packet(&mut file, &wirecap_file::PacketHeader::default(), 0, [bytes.as_slice()]);
    }
    let path = write(&lab, "flows.pcap", &file);
    let (report, arrived) = replayed(&lab, &[path.to_str().unwrap(), "--top-speed", "--queues", "flow"]);
    let queue_of =
        |bytes: &Vec<u8>| arrived.iter().find(|packet| packet.data == *bytes).unwrap().queue.unwrap();
    for pair in packets.chunks(2) {
        assert_eq!(queue_of(&pair[0]), queue_of(&pair[1]));
    }
    for queue in report["queues"].as_array().unwrap() {
        assert!(queue["packets"].as_u64().unwrap() > 20, "all queues are used: {report:#}");
    }
    // Within a queue, packets are in order.
    for queue in 0..QUEUES {
        let arrived: Vec<_> = arrived.iter().filter(|packet| packet.queue == Some(queue)).cloned().collect();
        assert_same(&arrived, packets.iter().filter(|bytes| queue_of(bytes) == queue).map(Vec::as_slice));
    }
}
