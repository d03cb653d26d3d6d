//! Where the records of encoded packets end, and which time they have.

use wirecap_file::Format;

use super::order::Span;

/// The beginning of a block, up to a whole record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prefix {
    pub packets: u64,
    pub bytes: usize,
}

/// The longest prefix of whole records that has at most so many packets and bytes.
pub fn prefix(format: Format, records: &[u8], most_packets: u64, most_bytes: usize) -> Prefix {
    let mut prefix = Prefix::default();
    while prefix.packets < most_packets {
        let Some(Record { len, .. }) = first(format, &records[prefix.bytes..]) else { break };
        if prefix.bytes + len > most_bytes.min(records.len()) {
            break;
        }
        prefix.packets += 1;
        prefix.bytes += len;
    }
    prefix
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its length, in bytes.
    pub len: usize,
    /// Its time, in nanoseconds since 1970 (UTC).
    pub time_ns: u64,
}

/// What `records` begin with.
///
/// ```text
///   pcapng   type │ length │ interface │ time: high word │ low word │ …      the length of all of it
///   pcap     seconds │ nanoseconds │ length │ original length │ bytes        that of the bytes
/// ```
#[inline]
pub fn first(format: Format, records: &[u8]) -> Option<Record> {
    match format {
        Format::Pcapng => {
            let head: &[u8; 20] = records.first_chunk()?;
            let time_ns = (u64::from(word(head, 12)) << 32) | u64::from(word(head, 16));
            Some(Record { len: word(head, 4) as usize, time_ns })
        }
        Format::Pcap => {
            let head: &[u8; 16] = records.first_chunk()?;
            let time_ns = u64::from(word(head, 0)) * 1_000_000_000 + u64::from(word(head, 4));
            Some(Record { len: head.len() + word(head, 8) as usize, time_ns })
        }
    }
}

#[inline]
fn word<const LEN: usize>(head: &[u8; LEN], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

/// The records, in order. What is no whole record ends them.
pub fn each(format: Format, mut records: &[u8]) -> impl Iterator<Item = Record> {
    std::iter::from_fn(move || {
        let record = first(format, records)?;
        records = records.get(record.len..)?;
        Some(record)
    })
}

/// Records one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub prefix: Prefix,
    pub span: Span,
}

/// The longest prefix of records none of which is later than `limit_ns`.
pub fn run_until(format: Format, records: &[u8], limit_ns: u64) -> Run {
    let mut run = Run { prefix: Prefix::default(), span: Span::EMPTY };
    for record in each(format, records).take_while(|record| record.time_ns <= limit_ns) {
        run.prefix.packets += 1;
        run.prefix.bytes += record.len;
        run.span.append(Span::of(record.time_ns));
    }
    run
}

#[cfg(test)]
mod tests {
    use wirecap_file::{PacketHeader, pcap, pcapng};

    use super::super::block::Records;
    use super::*;

    #[test]
    fn a_prefix_ends_with_a_whole_record() {
        for format in [Format::Pcap, Format::Pcapng] {
            let (mut records, mut ends) = (Vec::new(), vec![0]);
            for len in [60, 61, 0, 1514] {
                let data = vec![0xff; len];
                let header = PacketHeader { queue: Some(1), ..PacketHeader::default() };
                match format {
                    Format::Pcap => pcap::packet(&mut records, &header, 0, [data.as_slice()]),
                    Format::Pcapng => pcapng::packet(&mut records, &header, 0, [data.as_slice()]),
                }
                ends.push(records.len());
            }
            for bytes in 0..=records.len() + 1 {
                let packets = ends.iter().filter(|&&end| end <= bytes).count() - 1;
                let expected = Prefix { packets: packets as u64, bytes: ends[packets] };
                assert_eq!(prefix(format, &records, u64::MAX, bytes), expected);
            }
            for (packets, &end) in ends.iter().enumerate() {
                let expected = Prefix { packets: packets as u64, bytes: end };
                assert_eq!(prefix(format, &records, packets as u64, usize::MAX), expected);
            }
        }
    }

    #[test]
    fn a_run_ends_before_the_first_record_that_is_later() {
        let times = [7, 5_000_000_001, 4_000_000_000_000_000_007, 8];
        for format in [Format::Pcap, Format::Pcapng] {
            let records = Records::of_times(format, &times);
            let found: Vec<_> = each(format, &records.bytes).map(|record| record.time_ns).collect();
            assert_eq!(found, times);
            for (limit_ns, packets) in [(6, 0), (7, 1), (5_000_000_000, 1), (5_000_000_001, 2), (u64::MAX, 4)]
            {
                let run = run_until(format, &records.bytes, limit_ns);
                let bytes = each(format, &records.bytes).take(packets).map(|record| record.len).sum();
                assert_eq!(run.prefix, Prefix { packets: packets as u64, bytes });
                assert_eq!(
                    (run.span.sorted, run.span.first_ns),
                    (packets < 4, if packets > 0 { 7 } else { u64::MAX })
                );
            }
        }
    }
}
