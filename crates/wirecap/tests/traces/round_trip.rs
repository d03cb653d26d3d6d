//! Files of every kind come out as they went in, whatever the engine's settings.

use wirecap::{Capture, Diagnostic, PortSpec, port::fault::Faults, report::QueueMode};

use wirecap_lab::trace_bytes::{ORDERS, Order, PB, SPB, pad};

use crate::run::{DeliveredPacket, assert_same, expected, file, port, setups, to_the_end};

/// Variants of a pcap file: magic number, nanoseconds per unit of the second field of its times, extra bytes
/// in a record's header.
const MAGICS: [(u32, u64, usize); 3] =
    [(0xa1b2_c3d4, 1_000, 0), (0xa1b2_3c4d, 1, 0), (0xa1b2_cd34, 1_000, 8)];
/// Lengths of packets: zero and one byte, around one and several cells, and the longest on any wire.
const LENGTHS: [u32; 14] = [0, 1, 60, 1514, 1791, 1792, 1793, 3583, 3584, 3585, 9000, 17_920, 65_535, 65_557];

fn bytes(seed: u32, len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(7)) as u8).collect()
}

/// Packets of all lengths, some cut by a snap length, at times that also go back and stand still.
fn packets() -> Vec<DeliveredPacket> {
    let lengths = (0..40_u32).flat_map(|round| LENGTHS.map(|len| (round, len)));
    let packets = lengths.enumerate().map(|(number, (round, len))| {
        let seconds = if round % 3 == 2 { 5 } else { 1_000 + u64::from(round) };
        DeliveredPacket {
            port: 0,
            number: number as u64,
            timestamp_ns: seconds * 1_000_000_000 + number as u64 / 2 * 1_000,
            original_len: (len + if round % 2 == 1 { 77 } else { 0 }) as usize,
            outbound: None,
            data: bytes(number as u32, len),
        }
    });
    packets.collect()
}

fn pcap(order: Order, (magic, unit_ns, extra): (u32, u64, usize), packets: &[DeliveredPacket]) -> Vec<u8> {
    let mut file = order.pcap_header(magic, (2, 4), 0, 1);
    for packet in packets {
        let (seconds, ns) = (packet.timestamp_ns / 1_000_000_000, packet.timestamp_ns % 1_000_000_000);
        let lengths = (packet.data.len() as u32, packet.original_len as u32);
        file.extend(order.pcap_record(seconds as u32, (ns / unit_ns) as u32, lengths, &vec![0; extra]));
        file.extend(&packet.data);
    }
    file
}

/// Runs a file through all setups.
fn comes_out(name: &str, bytes: &[u8], expected: &[DeliveredPacket]) {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "trace", bytes);
    for (setup, builder) in [setups(64, 2), setups(256, 8)].concat() {
        let (got, report) = to_the_end(builder.port(port(&path)).open().unwrap());
        assert_same(&format!("{name}, {setup}"), &got, expected);
        let (port, total) = (&report.ports[0], report.total());
        assert_eq!((total.seen, total.delivered), (expected.len() as u64, expected.len() as u64));
        assert_eq!((port.error.is_none(), port.read_percent), (true, Some(100.0)));
        assert_eq!((port.driver.as_ref(), port.queues[0].mode), (None, QueueMode::Trace));
        assert_eq!(port.name, format!("trace:{}", path.display()));
    }
}

#[test]
fn pcap_of_every_magic_number_in_both_byte_orders() {
    let packets = packets();
    for order in ORDERS {
        for magic in MAGICS {
            comes_out(&format!("{order:?} {:#x}", magic.0), &pcap(order, magic, &packets), &packets);
        }
    }
}

/// Sections of both byte orders, interfaces with different units of time, packets in all three kinds of
/// blocks.
fn pcapng() -> (Vec<u8>, Vec<DeliveredPacket>) {
    let (mut file, mut packets) = (Vec::new(), Vec::<DeliveredPacket>::new());
    let mut expect = |timestamp_ns, original_len, outbound, data: Vec<u8>| {
        let number = packets.len() as u64;
        packets.push(DeliveredPacket { port: 0, number, timestamp_ns, original_len, outbound, data });
    };
    for order in [ORDERS, ORDERS].concat() {
        file.extend(order.section(&[order.option(1, b"a comment")]));
        let interfaces: [(Vec<u8>, u64); 3] = [
            (Vec::new(), 1_000),
            (order.option(9, &[9]), 1),
            ([order.option(9, &[3]), order.option(2, b"lo")].concat(), 1_000_000),
        ];
        for (options, _) in &interfaces {
            file.extend(order.interface(113, 0, std::slice::from_ref(options)));
        }
        file.extend(order.block(0xbad, &[vec![1; 40]]));
        for (index, len) in LENGTHS.into_iter().enumerate() {
            for (interface, (_, unit_ns)) in interfaces.iter().enumerate() {
                let (flags, outbound) =
                    [(None, None), (Some(1), Some(false)), (Some(2), Some(true))][index % 3];
                let options: Vec<Vec<u8>> =
                    flags.map(|flags| order.option(2, &order.u32(flags))).into_iter().collect();
                let data = bytes(index as u32, len);
                let ticks = 7_000_000 + index as u64;
                file.extend(order.packet(interface as u32, ticks, len + 3, &data, &options));
                expect(ticks * unit_ns, len as usize + 3, outbound, data);
            }
        }
        let data = bytes(9, 61);
        file.extend(order.block(SPB, &[order.u32(61), pad(&data)]));
        expect(0, 61, None, data);
        let data = bytes(8, 62);
        let head = [order.u16(1), order.u16(0), order.time(55), order.u32(62), order.u32(90)].concat();
        file.extend(order.block(PB, &[head, pad(&data)]));
        expect(55, 90, None, data);
    }
    (file, packets)
}

#[test]
fn pcapng_with_several_sections_interfaces_and_units_of_time() {
    let (file, packets) = pcapng();
    comes_out("pcapng", &file, &packets);
    let directory = tempfile::tempdir().unwrap();
    let path = self::file(&directory, "sll.pcapng", &file);
    let (_, report) = to_the_end(Capture::builder().port(port(&path)).open().unwrap());
    assert_eq!(report.ports[0].link_type, 113, "the link type of its interfaces");
}

#[test]
fn the_smallest_pools_take_packets_of_one_cell() {
    let packets: Vec<DeliveredPacket> =
        packets().into_iter().filter(|packet| packet.data.len() <= 1792).collect();
    let packets: Vec<DeliveredPacket> = packets
        .into_iter()
        .enumerate()
        .map(|(at, packet)| DeliveredPacket { number: at as u64, ..packet })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "small.pcap", &pcap(Order::Little, MAGICS[1], &packets));
    for (setup, builder) in [setups(1, 1), setups(1, 2), setups(8, 1)].concat() {
        let (got, report) = to_the_end(builder.port(port(&path)).open().unwrap());
        assert_same(&setup, &got, &packets);
        let fallbacks = &report.ports[0].fallbacks;
        assert!(
            fallbacks.iter().any(|fallback| matches!(fallback, Diagnostic::PacketsTooLong { .. })),
            "{fallbacks:?}"
        );
    }
}

#[test]
fn packets_too_long_for_the_pool_are_counted_and_reported() {
    let all = packets();
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "long.pcap", &pcap(Order::Big, MAGICS[1], &all));
    // One chunk: no packet may continue in a second one. Four cells: none may have more.
    for (cells_per_chunk, chunks_per_pool, longest) in [(64, 1, 1792), (4, 2, 4 * 1792)] {
        let fit: Vec<_> = all.iter().filter(|packet| packet.data.len() <= longest).cloned().collect();
        let fit: Vec<DeliveredPacket> = fit
            .into_iter()
            .enumerate()
            .map(|(at, packet)| DeliveredPacket { number: at as u64, ..packet })
            .collect();
        for (setup, builder) in setups(cells_per_chunk, chunks_per_pool) {
            let (got, report) = to_the_end(builder.port(port(&path)).open().unwrap());
            assert_same(&setup, &got, &fit);
            let (total, too_long) = (report.total(), (all.len() - fit.len()) as u64);
            assert_eq!((total.seen, total.lost.too_long), (all.len() as u64, too_long));
            let warnings = &report.ports[0].warnings;
            let lost = Diagnostic::TracePacketsLost { packets: too_long, longest: longest as u64 };
            assert_eq!(warnings[0], lost);
        }
    }
}

#[test]
fn the_longest_packets_of_files_fit_the_default_pool() {
    let longest = DeliveredPacket { data: bytes(3, 262_144), original_len: 262_144, ..packets()[0].clone() };
    let all: Vec<DeliveredPacket> =
        (0..5).map(|number| DeliveredPacket { number, ..longest.clone() }).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "longest.pcap", &pcap(Order::Little, MAGICS[1], &all));
    for cell_bytes in [2048, 4096] {
        let builder = Capture::builder().cell_bytes(cell_bytes).chunks_per_pool(2);
        let (got, report) = to_the_end(builder.port(port(&path)).open().unwrap());
        assert_same("longest", &got, &all);
        assert!(report.ports[0].fallbacks.is_empty());
    }
}

#[test]
fn a_faulty_trace_loses_nothing() {
    let packets = packets();
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "trouble.pcap", &pcap(Order::Little, MAGICS[0], &packets));
    let faults = Faults { seed: 7, stall: 3, short_batch: 3, starve: 3, foreign_cell: 3 };
    for (setup, builder) in setups(64, 3) {
        let inner = Box::new(port(&path));
        let (got, report) = to_the_end(builder.port(PortSpec::Fault { inner, faults }).open().unwrap());
        assert_same(&setup, &got, &packets);
        assert!(report.ports[0].queues[0].foreign > 0, "faults occurred");
    }
}

#[test]
fn a_port_is_made_from_its_name() {
    let spec = PortSpec::from("trace:/tmp/a:b.pcapng");
    assert_eq!(spec, PortSpec::Trace { path: "/tmp/a:b.pcapng".into() });
    assert_eq!(spec.name(), "trace:/tmp/a:b.pcapng");
}

#[test]
fn our_encoders_output_is_read() {
    use wirecap_file::{PacketHeader, pcapng};
    let mut bytes = Vec::new();
    pcapng::section_header(&mut bytes, &pcapng::SectionInfo::default());
    pcapng::interface(&mut bytes, &pcapng::InterfaceInfo::default());
    for number in 0..10_000_u64 {
        let header = PacketHeader { timestamp_ns: number, original_len: 100, ..PacketHeader::default() };
        pcapng::packet(&mut bytes, &header, 0, [number.to_be_bytes().as_slice()]);
    }
    let packets = wirecap_lab::Capture::read(bytes.as_slice()).unwrap().packets;
    assert_eq!(packets.len(), 10_000);
    comes_out("own", &bytes, &expected(&packets));
}
