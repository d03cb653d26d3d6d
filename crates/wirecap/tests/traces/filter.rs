//! Filters on trace files: unwanted packets take no cell, and are in the account.

use wirecap::{Capture, Diagnostic, Error, Timestamp, port::null::NullPort, report::FilterPlace};
use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_filter::{DEFAULT_SNAPLEN, Filter};
use wirecap_traffic::{FrameSpec, Template};

use crate::run::{DeliveredPacket, assert_same, expected, file, port, setups, to_the_end};
use wirecap_testing::chains;

/// A pcap file of frames of several flows and sizes, some of them cut to 60 bytes.
fn frames(link_type: u16, skipped: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    pcap::file_header(&mut bytes, link_type, 0);
    for number in 0..2_000_u32 {
        let spec = FrameSpec { len: 80 + 7 * (number as usize % 800), ..FrameSpec::default() };
        let mut template = Template::new(spec).unwrap();
        let frame = &template.stamp(number % 50, number.into())[skipped..];
        let header = PacketHeader {
            timestamp_ns: number.into(),
            original_len: frame.len() as u32,
            ..PacketHeader::default()
        };
        pcap::packet(&mut bytes, &header, if number % 3 == 0 { 60 } else { 0 }, [frame]);
    }
    bytes
}

/// Replays with a filter, and compares with the interpreter's verdict on each packet.
fn check_wanted_packets(link_type: u16, data_link_type: u16, skipped: usize, expression: &str) {
    check_wanted_packets_of(&frames(link_type, skipped), data_link_type, expression);
}

/// The same with a file of 2,000 packets.
fn check_wanted_packets_of(bytes: &[u8], data_link_type: u16, expression: &str) {
    let packets = wirecap_lab::Capture::read(bytes).unwrap().packets;
    let filter = Filter::compile(expression, data_link_type, DEFAULT_SNAPLEN).unwrap();
    let wanted: Vec<_> =
        packets.iter().filter(|packet| filter.matches(&packet.data, packet.original_len)).cloned().collect();
    assert!(!wanted.is_empty() && wanted.len() < packets.len(), "{expression}: {}", wanted.len());
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "filtered.pcap", bytes);
    for (setup, builder) in setups(64, 2) {
        let (got, report) = to_the_end(builder.filter(expression).port(port(&path)).open().unwrap());
        assert_same(&format!("{expression}, {setup}"), &got, &expected(&wanted));
        let total = report.total();
        assert_eq!((total.seen, total.filtered), (2_000, 2_000 - wanted.len() as u64));
        let filter = report.ports[0].filter.as_ref().unwrap();
        assert_eq!((filter.expression.as_str(), filter.runs), (expression, FilterPlace::NativeCode));
    }
}

#[test]
fn only_wanted_packets_come_out_and_the_rest_is_in_the_account() {
    check_wanted_packets(LINK_TYPE_ETHERNET, 1, 0, "udp and ip[15] = 3 or ip[2:2] < 200");
    check_wanted_packets(LINK_TYPE_ETHERNET, 1, 0, "ip host 198.18.0.7");
    // The length is that on the wire, even for a packet that was cut.
    check_wanted_packets(LINK_TYPE_ETHERNET, 1, 0, "greater 3000");
    // Raw IP, for which libpcap's compiler uses another number than files do.
    check_wanted_packets(101, 12, 14, "ip host 198.18.0.7");
}

/// `protochain`, which loops; on some packets, `bpf_filter` would loop forever.
#[test]
fn chains_of_headers_are_followed() {
    let mut bytes = Vec::new();
    pcap::file_header(&mut bytes, LINK_TYPE_ETHERNET, 0);
    let frames = chains::frames(2_000);
    for (number, frame) in frames.iter().enumerate() {
        let original_len = frame.len() as u32;
        let header = PacketHeader { timestamp_ns: number as u64, original_len, ..PacketHeader::default() };
        pcap::packet(&mut bytes, &header, 0, [frame.as_slice()]);
    }
    for expression in ["ip6 protochain 17", "not ip6 protochain 6", "protochain 44 or link[-5] = 7"] {
        check_wanted_packets_of(&bytes, 1, expression);
    }
}

#[test]
fn a_filter_that_wants_nothing_reads_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "nothing.pcap", &frames(LINK_TYPE_ETHERNET, 0));
    for (_, builder) in setups(64, 2) {
        let (got, report) = to_the_end(builder.filter("arp").port(port(&path)).open().unwrap());
        assert_eq!((got, report.total().filtered), (Vec::<DeliveredPacket>::new(), 2_000));
    }
    let refused = Capture::builder().filter("tcp prot 80").port(port(&path)).open();
    assert!(matches!(refused, Err(Error::Filter(_))));
    for expression in ["inbound", "udp and not outbound", "ifindex 2"] {
        let refused = Capture::builder().filter(expression).port(port(&path)).open().unwrap_err().to_string();
        let is_reported =
            refused.contains(expression) && refused.contains("not supported when reading files");
        assert!(is_reported, "{refused}");
    }
}

#[test]
fn a_batch_does_not_wait_for_more_packets_among_many_unwanted_ones() {
    const UNWANTED: u32 = 50_000;
    let mut bytes = Vec::new();
    pcap::file_header(&mut bytes, LINK_TYPE_ETHERNET, 0);
    for number in 0..4 * (UNWANTED + 1) {
        let header =
            PacketHeader { timestamp_ns: number.into(), original_len: 14, ..PacketHeader::default() };
        let is_wanted = number % (UNWANTED + 1) == UNWANTED;
        pcap::packet(&mut bytes, &header, 0, [[u8::from(is_wanted); 14].as_slice()]);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "rare.pcap", &bytes);
    let mut capture =
        Capture::builder().chunks_per_pool(4).filter("ether[0] = 1").port(port(&path)).open().unwrap();
    let mut worker = capture.take_workers().remove(0);
    let lengths: Vec<_> = std::iter::from_fn(|| Some(worker.next_batch()?.len())).collect();
    // One turn reads 65,536 records.
    assert_eq!(lengths, [1, 1, 1, 1]);
}

#[test]
fn the_times_are_the_files_and_that_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "times.pcap", &frames(LINK_TYPE_ETHERNET, 0));
    for asked in [None, Some(Timestamp::File), Some(Timestamp::Kernel), Some(Timestamp::Hardware)] {
        let builder = Capture::builder().chunks_per_pool(4).port(port(&path));
        let builder = asked.map_or(builder.clone(), |asked| builder.timestamp(asked));
        let (got, report) = to_the_end(builder.open().unwrap());
        assert_eq!(got[5].timestamp_ns, 5);
        let port = &report.ports[0];
        assert_eq!((port.timestamp.source, port.timestamp.resolution_ns), (Timestamp::File, 1));
        let is_reported = port
            .fallbacks
            .iter()
            .any(|fallback| matches!(fallback, Diagnostic::OtherTimestamps { used: Timestamp::File, .. }));
        assert_eq!(is_reported, !matches!(asked, None | Some(Timestamp::File)), "{:?}", port.fallbacks);
    }
    let null = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 1 };
    let refused = Capture::builder().timestamp(Timestamp::File).port(null).open();
    assert!(matches!(refused, Err(Error::NoFile { .. })));
}
