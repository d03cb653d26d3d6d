//! Written files are read back unchanged: from our encoders, and built in both byte orders.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wirecap_file::pcapng::{self, Counters, InterfaceInfo, InterfaceStatistics, SectionInfo};
use wirecap_file::{PacketHeader, pcap};
use wirecap_lab::{Capture, CapturedPacket};

use wirecap_lab::trace_bytes::{ORDERS, Order};

/// A packet's header, its parts, and its interface: 0 or 1.
fn packet() -> impl Strategy<Value = (PacketHeader, Vec<Vec<u8>>)> {
    let options = (any::<Option<u32>>(), any::<Option<u64>>(), any::<Option<bool>>());
    let header = (any::<u64>(), any::<u32>(), 0..2_u32, options);
    (header, vec(vec(any::<u8>(), 0..200), 0..4)).prop_map(
        |((timestamp_ns, more, interface, (queue, packet_id, outbound)), parts)| {
            let whole: usize = parts.iter().map(Vec::len).sum();
            let original_len = (whole as u32).saturating_add(more % 3_000);
            (PacketHeader { timestamp_ns, original_len, interface, queue, packet_id, outbound }, parts)
        },
    )
}

/// The packet as it is read back when written with `snaplen`.
fn expected(header: &PacketHeader, parts: &[Vec<u8>], snaplen: u32, link_type: u16) -> CapturedPacket {
    let mut data = parts.concat();
    data.truncate(if snaplen == 0 { usize::MAX } else { snaplen as usize });
    CapturedPacket {
        interface: header.interface,
        link_type,
        timestamp_ns: Some(header.timestamp_ns),
        original_len: header.original_len,
        data,
        queue: header.queue,
        packet_id: header.packet_id,
        outbound: header.outbound,
        comments: Vec::new(),
    }
}

/// A text that an option can hold: absent and empty texts are the same, and trailing zero bytes are dropped.
fn text() -> impl Strategy<Value = Option<String>> {
    option::of("[^\0]{1,30}")
}

proptest! {
    #[test]
    fn pcapng(packets in vec(packet(), 0..20), snaplen in prop_oneof![Just(0_u32), 1..300_u32]) {
        let mut file = Vec::new();
        pcapng::section_header(&mut file, &SectionInfo::default());
        pcapng::interface(&mut file, &InterfaceInfo { snaplen, ..Default::default() });
        pcapng::interface(&mut file, &InterfaceInfo { snaplen, link_type: 101, ..Default::default() });
        for (header, parts) in &packets {
            pcapng::packet(&mut file, header, snaplen, parts.iter().map(Vec::as_slice));
        }
        let capture = Capture::read(file.as_slice()).unwrap();
        prop_assert!(capture.damage.is_none());
        let link_type = |header: &PacketHeader| if header.interface == 0 { 1 } else { 101 };
        let written: Vec<_> = packets.iter().map(|(h, parts)| expected(h, parts, snaplen, link_type(h))).collect();
        prop_assert_eq!(capture.packets, written);
    }

    #[test]
    fn pcap(packets in vec(packet(), 0..20), snaplen in prop_oneof![Just(0_u32), 1..300_u32]) {
        let mut file = Vec::new();
        pcap::file_header(&mut file, 1, snaplen);
        let mut written = Vec::new();
        for (header, parts) in &packets {
            // Classic pcap has 32 bits of seconds, and no interface, queue or packet number.
            let timestamp_ns = header.timestamp_ns % (u64::from(u32::MAX) * 1_000_000_000);
            let header = PacketHeader { timestamp_ns, ..*header };
            pcap::packet(&mut file, &header, snaplen, parts.iter().map(Vec::as_slice));
            let kept = PacketHeader { interface: 0, queue: None, packet_id: None, outbound: None, ..header };
            written.push(expected(&kept, parts, snaplen, 1));
        }
        let capture = Capture::read(file.as_slice()).unwrap();
        prop_assert!(capture.damage.is_none());
        prop_assert_eq!(capture.packets, written);
    }

    #[test]
    fn descriptions(texts in vec(text(), 8), numbers in any::<(Option<u64>, Option<[u8; 6]>, u16, u32)>(),
                    comments in vec("[^\0]{1,30}", 0..3)) {
        let texts: Vec<_> = texts.iter().map(Option::as_deref).collect();
        let comments: Vec<&str> = comments.iter().map(String::as_str).collect();
        let section =
            SectionInfo { hardware: texts[0], os: texts[1], application: texts[2], comments: &comments };
        let info = InterfaceInfo {
            name: texts[3], description: texts[4], filter: texts[5], hardware: texts[6], os: texts[7],
            speed_bps: numbers.0, mac: numbers.1, link_type: numbers.2, snaplen: numbers.3, comments: &comments,
        };
        let mut file = Vec::new();
        pcapng::section_header(&mut file, &section);
        pcapng::interface(&mut file, &info);
        let capture = Capture::read(file.as_slice()).unwrap();
        prop_assert!(capture.damage.is_none());
        let read = &capture.sections[0];
        prop_assert_eq!(&texts[..3], [read.hardware.as_deref(), read.os.as_deref(), read.application.as_deref()]);
        prop_assert_eq!(&read.comments, &comments);
        let read = &capture.interfaces[0];
        prop_assert_eq!(&texts[3..5], [read.name.as_deref(), read.description.as_deref()]);
        prop_assert_eq!(&texts[5..], [read.filter.as_deref(), read.hardware.as_deref(), read.os.as_deref()]);
        prop_assert_eq!((read.speed_bps, read.mac, read.link_type, read.snaplen), numbers);
        prop_assert_eq!(&read.comments, &comments);
    }

    #[test]
    fn statistics(times in any::<(u64, Option<u64>, Option<u64>)>(), counted in any::<[Option<u64>; 5]>()) {
        let counters = Counters {
            received: counted[0],
            dropped_by_interface: counted[1],
            filter_accepted: counted[2],
            dropped_by_os: counted[3],
            delivered_to_user: counted[4],
        };
        let (timestamp_ns, start_ns, end_ns) = times;
        let comments = &["ring full: 3", "Verlust: größer"][..];
        let mut file = Vec::new();
        pcapng::section_header(&mut file, &SectionInfo::default());
        pcapng::interface(&mut file, &InterfaceInfo::default());
        let written = InterfaceStatistics { interface: 0, timestamp_ns, start_ns, end_ns, counters, comments };
        pcapng::interface_statistics(&mut file, &written);
        let capture = Capture::read(file.as_slice()).unwrap();
        prop_assert!(capture.damage.is_none());
        let read = &capture.statistics[0];
        prop_assert_eq!((read.timestamp_ns, read.start_ns, read.end_ns), (Some(timestamp_ns), start_ns, end_ns));
        prop_assert_eq!(read.counters, counters);
        prop_assert_eq!(&read.comments, comments);
    }

    #[test]
    fn either_byte_order_reads_the_same(packets in vec(packet(), 0..20)) {
        let read = ORDERS.map(|order| Capture::read(built(order, &packets).as_slice()).unwrap());
        let read_pcap = ORDERS.map(|order| Capture::read(built_pcap(order, &packets).as_slice()).unwrap());
        for capture in read.iter().chain(&read_pcap) {
            prop_assert!(capture.damage.is_none());
            prop_assert!(capture.packets.iter().map(|p| &p.data).eq(packets.iter().map(|(_, p)| p.concat()).collect::<Vec<_>>().iter()));
        }
        prop_assert_eq!(&read[0].packets, &read[1].packets);
        prop_assert_eq!(&read_pcap[0].packets, &read_pcap[1].packets);
    }
}

fn built(order: Order, packets: &[(PacketHeader, Vec<Vec<u8>>)]) -> Vec<u8> {
    let mut file = order.section(&[]);
    file.extend(order.interface(1, 0, &[order.option(9, &[9])]));
    for (header, parts) in packets {
        let options = [
            header.outbound.map_or(Vec::new(), |out| order.option(2, &order.u32(1 + u32::from(out)))),
            header.queue.map_or(Vec::new(), |queue| order.option(6, &order.u32(queue))),
            header.packet_id.map_or(Vec::new(), |id| order.option(5, &order.u64(id))),
        ];
        file.extend(order.packet(0, header.timestamp_ns, header.original_len, &parts.concat(), &options));
    }
    file
}

fn built_pcap(order: Order, packets: &[(PacketHeader, Vec<Vec<u8>>)]) -> Vec<u8> {
    let mut file = order.pcap_header(0xa1b2_3c4d, (2, 4), 0, 1);
    for (header, parts) in packets {
        let data = parts.concat();
        let seconds = header.timestamp_ns as u32;
        file.extend(order.pcap_record(seconds, 999_999_999, (data.len() as u32, header.original_len), &data));
    }
    file
}
