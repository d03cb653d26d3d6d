//! Classic pcap, encoded: little-endian, timestamps in nanoseconds.
//!
//! ```text
//! file   ┌ magic a1b2c3d4 (µs) or a1b23c4d (ns) ┬ version 2.4 ┬ 0 ┬ 0 ┬ snaplen ┬ link type ┐  24 bytes
//! record ┌ seconds ┬ nanoseconds ┬ captured length ┬ original length ┬ bytes … ┐              16 bytes + data
//! ```
//!
//! One file, one link type; records follow each other without padding, which is why a damaged record ends the
//! file: there is nothing to find the next one by.

use crate::packet_header::{MAX_CAPTURED_LEN, PacketHeader, append_parts, captured_len};

pub(crate) const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
pub(crate) const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetzov's variant of old Linux distributions: 8 more bytes in each record header.
pub(crate) const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

pub(crate) const FILE_HEADER_LEN: usize = 24;
pub(crate) const RECORD_HEADER_LEN: usize = 16;
pub(crate) const MODIFIED_RECORD_HEADER_LEN: usize = 24;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
/// The last time that a record can have: 2106-02-07 06:28:15.999999999 UTC.
const LAST_TIMESTAMP_NS: u64 = (1 << 32) * NANOSECONDS_PER_SECOND - 1;

/// Appends the file header. It is written once, at the start of the file.
///
/// `snaplen` is the snapshot length in bytes that [`packet`] is called with; for 0 (everything is kept) the
/// header says [`MAX_CAPTURED_LEN`], since readers disagree about 0.
///
/// # Example
///
/// ```
/// let mut file = Vec::new();
/// wirecap_file::pcap::file_header(&mut file, wirecap_file::LINK_TYPE_ETHERNET, 0);
/// assert_eq!(file.len(), 24);
/// ```
pub fn file_header(out: &mut Vec<u8>, link_type: u16, snaplen: u32) {
    let snaplen = if snaplen == 0 { MAX_CAPTURED_LEN } else { snaplen };
    let mut header = [0; FILE_HEADER_LEN];
    header[0..4].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&snaplen.to_le_bytes());
    header[20..24].copy_from_slice(&u32::from(link_type).to_le_bytes());
    out.extend_from_slice(&header);
}

/// Appends one packet, which may come in several parts, cut to `snaplen` bytes (0 keeps all, up to
/// [`MAX_CAPTURED_LEN`]).
///
/// Costs one check for room and the copy. Of `header` the timestamp and the original length are recorded; the
/// format has no room for the rest, and its 32 bits of seconds end in February 2106: a later packet gets the
/// last time there is.
///
/// # Example
///
/// ```
/// use wirecap_file::{PacketHeader, pcap};
///
/// let mut file = Vec::new();
/// let header = PacketHeader { timestamp_ns: 1_500_000_000, original_len: 6, ..Default::default() };
/// pcap::packet(&mut file, &header, 4, [b"abc".as_slice(), b"def".as_slice()]);
/// assert_eq!(&file[16..], b"abcd");
/// ```
#[inline]
pub fn packet<'a, P>(out: &mut Vec<u8>, header: &PacketHeader, snaplen: u32, parts: P)
where
    P: IntoIterator<Item = &'a [u8], IntoIter: Clone>,
{
    let parts = parts.into_iter();
    let captured = captured_len(parts.clone(), snaplen);
    let original_len = header.original_len.max(captured as u32);
    let timestamp_ns = header.timestamp_ns.min(LAST_TIMESTAMP_NS);
    let seconds = (timestamp_ns / NANOSECONDS_PER_SECOND) as u32;
    let nanoseconds = (timestamp_ns % NANOSECONDS_PER_SECOND) as u32;

    let mut record = [0; RECORD_HEADER_LEN];
    record[0..4].copy_from_slice(&seconds.to_le_bytes());
    record[4..8].copy_from_slice(&nanoseconds.to_le_bytes());
    record[8..12].copy_from_slice(&(captured as u32).to_le_bytes());
    record[12..16].copy_from_slice(&original_len.to_le_bytes());

    out.reserve(RECORD_HEADER_LEN + captured);
    out.extend_from_slice(&record);
    append_parts(out, parts, captured);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_follow_the_format() {
        let mut out = Vec::new();
        file_header(&mut out, 1, 96);
        let header = PacketHeader {
            timestamp_ns: 0x0102_0304 * 1_000_000_000 + 7,
            original_len: 60,
            ..Default::default()
        };
        packet(&mut out, &header, 96, [b"abc".as_slice()]);
        let expected = [
            &[0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 96, 0, 0, 0, 1, 0, 0, 0][..],
            &[4, 3, 2, 1, 7, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0, b'a', b'b', b'c'],
        ]
        .concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn a_time_beyond_the_format_is_the_last_one_in_it() {
        for timestamp_ns in [LAST_TIMESTAMP_NS, LAST_TIMESTAMP_NS + 1, u64::MAX] {
            let mut out = Vec::new();
            packet(&mut out, &PacketHeader { timestamp_ns, ..Default::default() }, 0, [[].as_slice()]);
            assert_eq!(out[..8], [0xff, 0xff, 0xff, 0xff, 0xff, 0xc9, 0x9a, 0x3b], "{timestamp_ns}");
        }
    }

    #[test]
    fn a_packet_is_cut_at_the_snapshot_length_across_parts_and_at_the_limit() {
        for (snaplen, kept) in [(0, 10), (1, 1), (4, 4), (5, 5), (10, 10), (11, 10)] {
            let mut out = Vec::new();
            let parts = [b"0123".as_slice(), b"", b"456789"];
            packet(&mut out, &PacketHeader { original_len: 10, ..Default::default() }, snaplen, parts);
            assert_eq!(&out[16..], &b"0123456789"[..kept], "snaplen {snaplen}");
            assert_eq!(&out[8..16], &[kept as u8, 0, 0, 0, 10, 0, 0, 0]);
        }
        let mut out = Vec::new();
        let giant = vec![0; MAX_CAPTURED_LEN as usize + 1];
        packet(&mut out, &PacketHeader::default(), u32::MAX, [giant.as_slice()]);
        assert_eq!(out.len(), RECORD_HEADER_LEN + MAX_CAPTURED_LEN as usize);
    }

    #[test]
    fn a_packet_takes_only_the_memory_it_needs() {
        let mut out = Vec::new();
        packet(&mut out, &PacketHeader::default(), 0, [[0; 100].as_slice()]);
        assert_eq!((out.len(), out.capacity()), (116, 116));
    }

    #[test]
    fn an_original_length_below_the_captured_one_is_raised() {
        let mut out = Vec::new();
        packet(&mut out, &PacketHeader::default(), 0, [b"abc".as_slice()]);
        assert_eq!(&out[8..16], &[3, 0, 0, 0, 3, 0, 0, 0]);
    }
}
