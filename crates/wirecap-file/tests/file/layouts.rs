//! Everything that the formats allow and our own encoders do not write.

use wirecap_file::pcapng::Counters;
use wirecap_file::{Format, Reader, Resolution};
use wirecap_lab::Capture;

use wirecap_lab::trace_bytes::{ISB, ORDERS, Order, PB, SPB, pad};

fn read(file: &[u8]) -> Capture {
    let capture = Capture::read(file).expect("a header");
    if let Some(damage) = capture.damage {
        panic!("{damage}");
    }
    capture
}

#[test]
fn pcap_of_every_magic_number_in_both_byte_orders() {
    for order in ORDERS {
        for (magic, ns, more) in [(0xa1b2_c3d4, 5_000, 0), (0xa1b2_3c4d, 5, 0), (0xa1b2_cd34_u32, 5_000, 8)] {
            let mut record = order.pcap_record(3, 5, (4, 90), b"");
            record.extend_from_slice(&vec![0xcc; more]);
            // The upper half of the link type word describes the frame check sequence.
            let header = order.pcap_header(magic, (2, 4), 65_535, 0x2400_0071);
            let capture = read(&[header, record, b"data".to_vec()].concat());
            assert_eq!((capture.format, capture.interfaces.len()), (Format::Pcap, 1));
            assert_eq!((capture.interfaces[0].link_type, capture.interfaces[0].snaplen), (113, 65_535));
            let digits = if magic == 0xa1b2_3c4d { 9 } else { 6 };
            assert_eq!(capture.interfaces[0].resolution, Resolution::PowerOfTen(digits));
            let packet = &capture.packets[0];
            assert_eq!((packet.timestamp_ns, packet.original_len), (Some(3_000_000_000 + ns), 90));
            assert_eq!((&packet.data[..], packet.link_type), (&b"data"[..], 113));
        }
    }
}

#[test]
fn pcap_before_version_2_4_has_its_lengths_swapped() {
    for (version, lengths) in
        [((2, 2), (90, 4)), ((2, 3), (90, 4)), ((2, 3), (4, 90)), ((543, 0), (90, 4)), ((2, 4), (4, 90))]
    {
        let order = Order::Big;
        let header = order.pcap_header(0xa1b2_c3d4, version, 96, 1);
        let capture = read(&[header, order.pcap_record(0, 0, lengths, b"data")].concat());
        assert_eq!((&capture.packets[0].data[..], capture.packets[0].original_len), (&b"data"[..], 90));
    }
}

#[test]
fn pcapng_sections_of_both_byte_orders_number_their_own_interfaces() {
    let mut file = Vec::new();
    for order in [Order::Little, Order::Big, Order::Big, Order::Little] {
        file.extend(order.section(&[
            order.option(4, b"app\0"),
            order.option(1, b"one"),
            order.option(1, b"two"),
        ]));
        file.extend(order.interface(1, 0, &[order.option(2, b"eth0"), order.option(9, &[9])]));
        file.extend(order.interface(101, 0, &[]));
        file.extend(order.packet(1, 2, 3, b"abc", &[]));
        file.extend(order.packet(0, 2, 3, b"abc", &[]));
    }
    let capture = read(&file);
    assert_eq!(capture.sections.len(), 4);
    assert_eq!(capture.sections[1].application.as_deref(), Some("app"));
    assert_eq!(capture.sections[1].comments, ["one", "two"]);
    let found: Vec<_> = capture.packets.iter().map(|p| (p.interface, p.link_type, p.timestamp_ns)).collect();
    let expected: Vec<_> =
        (0..4).flat_map(|s| [(s * 2 + 1, 101, Some(2_000)), (s * 2, 1, Some(2))]).collect();
    assert_eq!(found, expected);
    assert!(capture.interfaces.iter().enumerate().all(|(index, interface)| interface.id as usize == index));
}

#[test]
fn known_interface_options_are_read_and_odd_ones_are_skipped() {
    for order in ORDERS {
        let options = [
            order.option(2, b"eth0\0\0"),
            order.option(3, "Größe".as_bytes()),
            order.option(6, &[1, 2, 3, 4, 5, 6]),
            order.option(8, &order.u64(10_000_000_000)),
            order.option(8, b"odd"),
            order.option(9, &[0x80 | 10]),
            order.option(11, b"\0udp"),
            order.option(11, b"\x01bytecode"),
            order.option(12, b"Linux"),
            order.option(14, &order.u64((-3_i64) as u64)),
            order.option(15, b"ixgbe"),
            order.option(0x7fff, b"unheard of"),
            order.option(1, b"bad \xff utf-8"),
            order.option(0, b""),
            order.option(2, b"after the end"),
        ];
        let capture = read(&[order.section(&[]), order.interface(1, 96, &options)].concat());
        let interface = &capture.interfaces[0];
        assert_eq!(
            (interface.name.as_deref(), interface.description.as_deref()),
            (Some("eth0"), Some("Größe"))
        );
        assert_eq!((interface.mac, interface.speed_bps), (Some([1, 2, 3, 4, 5, 6]), Some(10_000_000_000)));
        assert_eq!((interface.resolution, interface.offset_s), (Resolution::PowerOfTwo(10), -3));
        assert_eq!((interface.filter.as_deref(), interface.os.as_deref()), (Some("udp"), Some("Linux")));
        assert_eq!((interface.hardware.as_deref(), interface.snaplen), (Some("ixgbe"), 96));
        assert_eq!(interface.comments, ["bad \u{fffd} utf-8"]);
    }
}

#[test]
fn times_follow_the_resolution_and_the_offset_of_their_interface() {
    for order in ORDERS {
        let offset = order.option(14, &order.u64(1_000));
        let file = [
            order.section(&[]),
            order.interface(1, 0, &[]),
            order.interface(1, 0, &[order.option(9, &[3]), offset.clone()]),
            order.interface(1, 0, &[order.option(9, &[0x80 | 4]), offset]),
            order.interface(1, 0, &[order.option(9, &[0])]),
            order.packet(0, 7, 0, b"", &[]),
            order.packet(1, 7, 0, b"", &[]),
            order.packet(2, 24, 0, b"", &[]),
            order.packet(3, u64::MAX, 0, b"", &[]),
        ];
        let times: Vec<_> = read(&file.concat()).packets.iter().map(|packet| packet.timestamp_ns).collect();
        assert_eq!(times, [Some(7_000), Some(1_000_007_000_000), Some(1_001_500_000_000), None]);
    }
}

/// The option of a time has eight bytes; any other length is ignored.
#[test]
fn a_time_of_another_length_is_ignored() {
    for order in ORDERS {
        for code in [2, 3] {
            let odd = [order.option(code, &order.u32(1)), order.option(code, &[0xff; 12])].concat();
            let statistics = [order.u32(0), order.time(9), odd].concat();
            let file = [order.section(&[]), order.interface(1, 0, &[]), order.block(ISB, &[statistics])];
            let capture = read(&file.concat());
            assert_eq!((capture.statistics[0].start_ns, capture.statistics[0].end_ns), (None, None));
        }
    }
}

#[test]
fn a_reader_lists_the_interfaces_read_so_far() {
    let file = [Order::Little.section(&[]), Order::Little.interface(113, 7, &[])].concat();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    assert!(reader.interfaces().is_empty());
    while reader.next().unwrap().is_some() {}
    let known: Vec<_> = reader.interfaces().iter().map(|known| (known.link_type, known.snaplen)).collect();
    assert_eq!(known, [(113, 7)]);
}

#[test]
fn simple_obsolete_and_unknown_blocks() {
    for order in ORDERS {
        let obsolete = [order.u16(0), order.u16(9), order.time(7), order.u32(3), order.u32(60), pad(b"old")];
        let file = [
            order.section(&[]),
            order.block(0x0bad, &[b"custom!!".to_vec()]),
            order.interface(1, 6, &[]),
            order.block(SPB, &[order.u32(5), pad(b"short")]),
            order.block(0x8000_0001, &[]),
            order.block(SPB, &[order.u32(90), pad(b"cut at")]),
            order.block(PB, &[obsolete.concat(), order.option(2, &[0; 4]), order.option(1, b"note")]),
            order.block(4, &[vec![0xff; 100]]),
        ];
        let capture = read(&file.concat());
        let found: Vec<_> =
            capture.packets.iter().map(|p| (&p.data[..], p.original_len, p.timestamp_ns)).collect();
        assert_eq!(found, [(&b"short"[..], 5, None), (b"cut at", 90, None), (b"old", 60, Some(7_000))]);
        assert_eq!(capture.packets[2].comments, ["note"]);
    }
}

#[test]
fn packet_options_and_statistics_in_both_byte_orders() {
    for order in ORDERS {
        let counter = |code, value| order.option(code, &order.u64(value));
        let packet = [
            order.option(2, &order.u32(1)),
            order.option(5, &order.u64(1 << 40)),
            order.option(1, b"first"),
            order.option(6, &order.u32(17)),
            order.option(1, b"second"),
        ];
        let statistics = [
            [order.u32(1), order.time(9)].concat(),
            [order.option(2, &order.u32(1)), order.option(3, &[0xff; 12])].concat(),
            [order.option(2, &order.time(1 << 33)), order.option(3, &order.time(2))].concat(),
            [counter(4, 10), counter(5, 20), counter(6, 30), counter(7, 40), counter(8, 50)].concat(),
            order.option(1, b"all there"),
        ];
        let file = [
            order.section(&[]),
            order.interface(1, 0, &[order.option(9, &[9])]),
            order.interface(1, 0, &[order.option(9, &[9])]),
            order.packet(0, 1, 9, b"x", &packet),
            order.block(ISB, &statistics),
        ];
        let capture = read(&file.concat());
        let packet = &capture.packets[0];
        assert_eq!((packet.queue, packet.packet_id), (Some(17), Some(1 << 40)));
        assert_eq!(packet.comments, ["first", "second"]);
        let statistics = &capture.statistics[0];
        assert_eq!(
            (statistics.interface, statistics.timestamp_ns, statistics.start_ns, statistics.end_ns),
            (1, Some(9), Some(1 << 33), Some(2))
        );
        let counters = Counters {
            received: Some(10),
            dropped_by_interface: Some(20),
            filter_accepted: Some(30),
            dropped_by_os: Some(40),
            delivered_to_user: Some(50),
        };
        assert_eq!(
            (statistics.counters, &statistics.comments[..]),
            (counters, &["all there".to_owned()][..])
        );
    }
}
