//! Checksums that a sender has left to its NIC to compute, and that no NIC has.
//!
//! ```text
//!   host ── TCP checksum: that of the pseudo header alone ──► veth, virtio ──► XDP sees it so
//!                                                                └── a NIC would have computed the rest
//! ```
//!
//! Linux calls it `CHECKSUM_PARTIAL` (networking/checksum-offloads.rst): the field holds the sum of the
//! pseudo header, not complemented, and the sender on a wire adds the rest. Between two ends of a veth no one
//! adds it, so the packet arrives as it is, with a mark beside it that XDP does not see. Sent on by other
//! means it has no mark, and is wrong.
//!
//! Rule: only a field that holds exactly that sum is taken for such. One packet in 65,536 has it by chance;
//! if its checksum is right all the same, completing it changes nothing.

use super::{add, fold, never_zero, packet::field_of, pseudo_header, sum};
use crate::{
    bytes::{set_word, word},
    layout::{ETHERNET_LEN, IpLayout, Layout, protocol},
};

/// A checksum that has yet to be completed.
///
/// # Example
///
/// ```
/// use wirecap_headers::checksum::{self, PendingChecksum, Verdict};
///
/// // UDP from 192.0.2.1 to 192.0.2.2: the checksum is the sum of the pseudo header, 0x8420.
/// let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
/// frame.extend([0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0xf6, 0xca, 192, 0, 2, 1, 192, 0, 2, 2]);
/// frame.extend([0xc0, 0x00, 0x00, 0x35, 0x00, 0x0b, 0x84, 0x20, b'h', b'e', b'y']);
///
/// let pending = PendingChecksum::of_frame(&frame).unwrap();
/// let checksum = pending.complete([frame.as_slice()].into_iter()).unwrap();
/// assert!(pending.write(&mut frame, checksum));
/// assert_eq!(checksum::verify(&frame[14..]), Verdict::Right);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingChecksum {
    /// Where the transport header begins in the packet, and where what it carries ends.
    start: usize,
    end: usize,
    /// Where the checksum stands.
    field: usize,
    protocol: u8,
}

impl PendingChecksum {
    /// Finds the incomplete checksum of a packet. `data` is its first part, `ip` where its IP header lies.
    /// `None` if the packet has a complete checksum, or no checksum.
    pub fn of(data: &[u8], ip: &IpLayout) -> Option<Self> {
        let protocol = ip.protocol();
        if !matches!(protocol, protocol::TCP | protocol::UDP) || ip.is_fragment() || ip.is_source_routed(data)
        {
            return None;
        }
        let (start, end) = (ip.transport()?, ip.packet_end(data)?);
        let len = u32::try_from(end.checked_sub(start)?).ok()?;
        let field = start + field_of(ip.version(), protocol)?;
        let pseudo = pseudo_header(ip.source(data)?, ip.destination(data)?, protocol, len);
        (word(data, field)? == pseudo && field + 2 <= end).then_some(Self { start, end, field, protocol })
    }

    /// That of an Ethernet frame whose first part is `data`. A look at a few bytes shows that most frames
    /// have none, in some nanoseconds.
    #[inline]
    pub fn of_frame(data: &[u8]) -> Option<Self> {
        if is_plain_and_done(data) {
            return None;
        }
        Self::of(data, Layout::of(data)?.ip()?)
    }

    /// The checksum, from all parts of the packet in order; `None` if they end before the packet does.
    pub fn complete<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Option<u16> {
        let (mut at, mut total) = (0, 0);
        for part in parts {
            let (from, to) = (self.start.max(at), self.end.min(at + part.len()));
            if from < to {
                let part = sum(&part[from - at..to - at]);
                // What begins at an odd place counts with its bytes swapped (RFC 1071, section 2).
                total = add(total, if (from - self.start) % 2 == 0 { part } else { part.swap_bytes() });
            }
            at += part.len();
        }
        let checksum = !total;
        let is_udp = self.protocol == protocol::UDP;
        (at >= self.end).then_some(if is_udp { never_zero(checksum) } else { checksum })
    }

    /// Writes it into the first part. Returns whether that is long enough.
    #[must_use]
    pub fn write(&self, data: &mut [u8], checksum: u16) -> bool {
        set_word(data, self.field, checksum).is_some()
    }
}

/// Whether a frame is TCP or UDP right behind a plain IP header, without VLAN tag, options or fragments, and
/// has a complete checksum. `false` means unknown.
#[inline]
fn is_plain_and_done(data: &[u8]) -> bool {
    plain_v4(data).or_else(|| plain_v6(data)).is_some_and(|(pseudo, found)| pseudo != found)
}

/// The sum of the pseudo header, and what stands in the checksum field; `None` unless it is plain IPv4.
#[inline]
fn plain_v4(data: &[u8]) -> Option<(u16, u16)> {
    const IP: usize = ETHERNET_LEN;
    // As much as the checksum field of TCP, the one further behind, needs.
    let head: &[u8; IP + 20 + 18] = data.first_chunk()?;
    let field = match head[IP + 9] {
        protocol::TCP => IP + 20 + 16,
        protocol::UDP => IP + 20 + 6,
        _ => return None,
    };
    let is_whole = head[IP + 6] & 0x3f == 0 && head[IP + 7] == 0;
    if head[12..15] != [0x08, 0x00, 0x45] || !is_whole {
        return None;
    }
    let number = |at: usize| u32::from(u16::from_be_bytes([head[at], head[at + 1]]));
    let addresses = number(IP + 12) + number(IP + 14) + number(IP + 16) + number(IP + 18);
    let len = number(IP + 2).checked_sub(20)?;
    let pseudo = addresses + len + u32::from(head[IP + 9]);
    Some((fold(pseudo.into()), number(field) as u16))
}

/// The same of IPv6.
#[inline]
fn plain_v6(data: &[u8]) -> Option<(u16, u16)> {
    const IP: usize = ETHERNET_LEN;
    let head: &[u8; IP + 40 + 8] = data.first_chunk()?;
    let field = match head[IP + 6] {
        protocol::TCP => IP + 40 + 16,
        protocol::UDP => IP + 40 + 6,
        _ => return None,
    };
    if head[12..14] != [0x86, 0xdd] || head[IP] >> 4 != 6 {
        return None;
    }
    let len = u64::from(u16::from_be_bytes([head[IP + 4], head[IP + 5]]));
    let addresses = u64::from(sum(&head[IP + 8..IP + 40]));
    Some((fold(addresses + len + u64::from(head[IP + 6])), word(data, field)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Layout,
        checksum::{self, Verdict},
    };

    /// A frame with a whole IPv4 or IPv6 packet whose transport checksum is partial, as Linux leaves it.
    fn partial(v6: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let header = if protocol == protocol::TCP { 20 } else { 8 };
        let len = header + payload.len();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([0x20; 32]);
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + len as u16).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
            let sum = checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let (start, mut transport) = (frame.len(), vec![7; header]);
        if protocol == protocol::UDP {
            transport[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        }
        frame.extend(transport);
        frame.extend(payload);
        let ip = *Layout::of(&frame).unwrap().ip().unwrap();
        let (source, destination) = (ip.source(&frame).unwrap(), ip.destination(&frame).unwrap());
        let pseudo = pseudo_header(source, destination, protocol, len as u32);
        let field = start + if protocol == protocol::TCP { 16 } else { 6 };
        frame[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        frame
    }

    proptest! {
        #[test]
        fn a_partial_checksum_is_completed_however_the_packet_is_split(
            v6: bool, tcp: bool, payload in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(60..400usize, 0..3),
        ) {
            let protocol = if tcp { protocol::TCP } else { protocol::UDP };
            let mut frame = partial(v6, protocol, &payload);
            // Ethernet padding does not count.
            frame.extend([0xee; 5]);
            let ip = *Layout::of(&frame).unwrap().ip().unwrap();
            let pending = PendingChecksum::of(&frame, &ip).expect("a pending checksum");
            prop_assert_eq!(PendingChecksum::of_frame(&frame), Some(pending));
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(frame.len())).collect();
            cuts.sort();
            let bounds: Vec<_> = [0].into_iter().chain(cuts).chain([frame.len()]).collect();
            let parts = bounds.windows(2).map(|bounds| &frame[bounds[0]..bounds[1]]);
            let checksum = pending.complete(parts).unwrap();
            prop_assert!(pending.write(&mut frame, checksum));
            prop_assert_eq!(checksum::verify(&frame[14..]), Verdict::Right);
            // The checksum is right, so completing it once more would not change it, if that were done at
            // all.
            let again = PendingChecksum::of(&frame, &ip).and_then(|pending| pending.complete([frame.as_slice()].into_iter()));
            prop_assert!(again.is_none_or(|again| again == checksum));
            prop_assert_eq!(PendingChecksum::of_frame(&frame), PendingChecksum::of(&frame, &ip));
        }

        #[test]
        fn any_bytes_are_accepted_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let slowly = Layout::of(&bytes).and_then(|layout| PendingChecksum::of(&bytes, layout.ip()?));
            prop_assert_eq!(PendingChecksum::of_frame(&bytes), slowly);
            if let Some(pending) = slowly {
                let _ = pending.complete([bytes.as_slice()].into_iter());
            }
        }
    }

    proptest! {
        #[test]
        fn the_quick_check_agrees_with_the_whole_layout(
            v6: bool, tcp: bool, payload in prop::collection::vec(any::<u8>(), 0..40),
            changes in prop::collection::vec((0..80usize, any::<u8>()), 0..3), cut in 0..120usize,
        ) {
            let mut frame = partial(v6, if tcp { protocol::TCP } else { protocol::UDP }, &payload);
            for (at, value) in changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            frame.truncate(cut.max(14));
            let slowly = Layout::of(&frame).and_then(|layout| PendingChecksum::of(&frame, layout.ip()?));
            prop_assert_eq!(PendingChecksum::of_frame(&frame), slowly);
        }
    }

    #[test]
    fn cut_packets_and_complete_checksums_are_left_alone() {
        let mut frame = partial(false, protocol::TCP, b"payload");
        let ip = *Layout::of(&frame).unwrap().ip().unwrap();
        let pending = PendingChecksum::of(&frame, &ip).unwrap();
        assert_eq!(pending.complete([&frame[..frame.len() - 1]].into_iter()), None, "cut short");
        frame[50] ^= 1;
        assert_eq!(PendingChecksum::of(&frame, &ip), None, "another checksum");
    }
}
