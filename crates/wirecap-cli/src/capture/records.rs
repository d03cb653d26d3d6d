//! Where the records of encoded packets end.

use wirecap_file::Format;

/// The beginning of a block, up to a whole record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) packets: u64,
    pub(crate) bytes: usize,
}

/// The longest prefix of whole records that has at most so many packets and bytes.
pub(crate) fn prefix(format: Format, records: &[u8], most_packets: u64, most_bytes: usize) -> Prefix {
    let mut prefix = Prefix::default();
    while prefix.packets < most_packets {
        let Some(len) = record_len(format, &records[prefix.bytes..]) else { break };
        if prefix.bytes + len > most_bytes.min(records.len()) {
            break;
        }
        prefix.packets += 1;
        prefix.bytes += len;
    }
    prefix
}

/// Length in bytes of the record that `records` begin with. A pcapng block says its total length, a pcap
/// record the number of bytes that follow its header of 16.
fn record_len(format: Format, records: &[u8]) -> Option<usize> {
    let (at, header) = match format {
        Format::Pcapng => (4, 0),
        Format::Pcap => (8, 16),
    };
    let field = records.get(at..at + 4)?;
    Some(header + u32::from_le_bytes(field.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use wirecap_file::{PacketHeader, pcap, pcapng};

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
}
