//! The Enhanced Packet Block: the one block on the packet path.

use super::{BLOCK_FRAME_LEN, block, code, time_words};
use crate::packet_header::{PacketHeader, append_parts, captured_len};

/// Type, total length, interface, time, captured and original length: what stands before the packet's bytes.
const HEAD_LEN: usize = 28;
const FLAGS_OPTION_LEN: usize = 8;
const QUEUE_OPTION_LEN: usize = 8;
const PACKET_ID_OPTION_LEN: usize = 12;
const END_OPTION_LEN: usize = 4;
/// The padding is copied as one whole word of which the needless part is dropped again.
const PADDING_SLACK: usize = 4;

/// Appends one packet, which may come in several parts (a packet larger than a cell), cut to `snaplen` bytes
/// (0 keeps all, up to [`MAX_CAPTURED_LEN`](crate::MAX_CAPTURED_LEN)).
///
/// Costs one check for room, the copy, and some ten nanoseconds (`cargo bench -p wirecap-file`). The captured
/// length is the sum of the parts after the cut, so it cannot disagree with them; `parts` is walked twice,
/// hence `Clone`.
///
/// # Example
///
/// ```
/// use wirecap_file::{PacketHeader, pcapng};
///
/// let mut block = Vec::with_capacity(1 << 20);
/// let header = PacketHeader { timestamp_ns: 42, original_len: 6, queue: Some(1), ..Default::default() };
/// pcapng::packet(&mut block, &header, 0, [b"abc".as_slice(), b"def".as_slice()]);
/// assert_eq!(&block[28..34], b"abcdef");
/// ```
#[inline]
pub fn packet<'a, P>(out: &mut Vec<u8>, header: &PacketHeader, snaplen: u32, parts: P)
where
    P: IntoIterator<Item = &'a [u8], IntoIter: Clone>,
{
    let parts = parts.into_iter();
    let captured = captured_len(parts.clone(), snaplen);
    let padded = captured.next_multiple_of(4);
    // Lossless: captured_len() is at most MAX_CAPTURED_LEN.
    let total = (HEAD_LEN + padded + options_len(header) + 4) as u32;

    out.reserve(total as usize + PADDING_SLACK);
    let start = out.len();
    out.extend_from_slice(&head(header, total, captured as u32));
    append_parts(out, parts, captured);
    out.extend_from_slice(&[0; PADDING_SLACK]);
    out.truncate(start + HEAD_LEN + padded);
    append_options(out, header);
    out.extend_from_slice(&total.to_le_bytes());
    debug_assert_eq!(out.len() - start, total as usize);
}

#[inline]
fn options_len(header: &PacketHeader) -> usize {
    let flags = if header.outbound.is_some() { FLAGS_OPTION_LEN } else { 0 };
    let queue = if header.queue.is_some() { QUEUE_OPTION_LEN } else { 0 };
    let packet_id = if header.packet_id.is_some() { PACKET_ID_OPTION_LEN } else { 0 };
    let options = flags + queue + packet_id;
    if options > 0 { options + END_OPTION_LEN } else { 0 }
}

#[inline]
fn head(header: &PacketHeader, total: u32, captured: u32) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[0..4].copy_from_slice(&block::ENHANCED_PACKET.to_le_bytes());
    head[4..8].copy_from_slice(&total.to_le_bytes());
    head[8..12].copy_from_slice(&header.interface.to_le_bytes());
    head[12..20].copy_from_slice(&time_words(header.timestamp_ns));
    head[20..24].copy_from_slice(&captured.to_le_bytes());
    head[24..28].copy_from_slice(&header.original_len.max(captured).to_le_bytes());
    head
}

/// Arrays of constant length, so that each copy is a store or two and no call of `memcpy`.
#[inline]
fn append_options(out: &mut Vec<u8>, header: &PacketHeader) {
    if let Some(outbound) = header.outbound {
        let flags = 1 + u32::from(outbound);
        out.extend_from_slice(&option::<FLAGS_OPTION_LEN>(code::EPB_FLAGS, &flags.to_le_bytes()));
    }
    if let Some(queue) = header.queue {
        out.extend_from_slice(&option::<QUEUE_OPTION_LEN>(code::EPB_QUEUE, &queue.to_le_bytes()));
    }
    if let Some(packet_id) = header.packet_id {
        out.extend_from_slice(&option::<PACKET_ID_OPTION_LEN>(code::EPB_PACKET_ID, &packet_id.to_le_bytes()));
    }
    if header.outbound.is_some() || header.queue.is_some() || header.packet_id.is_some() {
        out.extend_from_slice(&[0; END_OPTION_LEN]);
    }
}

/// An option of `LEN` bytes: its code, the length of the value, the value.
#[inline]
fn option<const LEN: usize>(code: u16, value: &[u8]) -> [u8; LEN] {
    let mut option = [0; LEN];
    option[0..2].copy_from_slice(&code.to_le_bytes());
    option[2..4].copy_from_slice(&(value.len() as u16).to_le_bytes());
    option[4..].copy_from_slice(value);
    option
}

const _: () = assert!(HEAD_LEN + 4 == BLOCK_FRAME_LEN + 20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_follow_the_format() {
        let mut out = vec![0xee];
        let header = PacketHeader {
            interface: 2,
            timestamp_ns: 0x0102_0304_0506_0708,
            original_len: 60,
            queue: Some(7),
            packet_id: Some(9),
            outbound: Some(true),
        };
        packet(&mut out, &header, 5, [b"abc".as_slice(), b"defg"]);
        let expected = [
            &[0xee, 6, 0, 0, 0, 72, 0, 0, 0, 2, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 60, 0, 0, 0][..],
            b"abcde\0\0\0",
            &[2, 0, 4, 0, 2, 0, 0, 0],
            &[6, 0, 4, 0, 7, 0, 0, 0],
            &[5, 0, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 72, 0, 0, 0],
        ]
        .concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn every_length_and_every_choice_of_options_adds_up() {
        let data = [0xab; 70];
        for len in 0..data.len() {
            for choice in 0..8 {
                let mut out = Vec::new();
                let header = PacketHeader {
                    original_len: len as u32,
                    queue: (choice & 1 > 0).then_some(1),
                    packet_id: (choice & 2 > 0).then_some(1),
                    outbound: (choice & 4 > 0).then_some(false),
                    ..Default::default()
                };
                packet(&mut out, &header, 0, [&data[..len]]);
                let total = (out.len() as u32).to_le_bytes();
                assert_eq!((out.len() % 4, &out[4..8], &out[out.len() - 4..]), (0, &total[..], &total[..]));
                assert!(out[28 + len..28 + len.next_multiple_of(4)].iter().all(|&pad| pad == 0));
            }
        }
    }

    #[test]
    fn a_packet_takes_only_the_memory_it_needs() {
        let mut out = Vec::new();
        packet(&mut out, &PacketHeader::default(), 0, [[0; 100].as_slice()]);
        assert_eq!((out.len(), out.capacity()), (132, 132 + PADDING_SLACK));
    }

    #[test]
    fn encoding_into_a_vector_with_room_does_not_move_it() {
        let mut out = Vec::with_capacity(4096);
        let place = out.as_ptr();
        let header = PacketHeader { original_len: 64, queue: Some(0), ..Default::default() };
        while out.len() + 128 < out.capacity() {
            packet(&mut out, &header, 0, [[0_u8; 64].as_slice()]);
        }
        assert_eq!((out.as_ptr(), out.capacity()), (place, 4096));
    }
}
