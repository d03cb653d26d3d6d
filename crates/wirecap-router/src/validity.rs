//! Whether a packet's IP header makes sense, which a router has to know before it looks at anything else.
//!
//! ```text
//!   frame ─► IP header, whole, of the version the EtherType says ─► checksum ─► length ─► strict source route ─► valid
//!                                └─ BadHeader                          └─ BadChecksum  └─ BadLength └─ StrictSourceRoute
//! ```
//!
//! Rule: a packet that fails is discarded. Only one with a strict source route is worth an ICMP error: a
//! damaged one may have any sender (RFC 1812, section 5.2.2; RFC 8200, sections 3 and 4.5, for lengths of
//! IPv6, which has no checksum).

use wirecap_headers::{IpLayout, IpVersion, Layout, checksum};

use crate::DropCause;

/// The IP header, if it is valid; `data` is the first part of a frame of `frame_len` bytes, which is for
/// another address than the router's. Takes some ten nanoseconds with IPv4, for the checksum.
///
/// # Errors
/// Why the frame is to be discarded.
///
/// # Example
///
/// ```
/// use wirecap_headers::Layout;
/// use wirecap_router::{DropCause, valid_ip};
///
/// let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
/// frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0xf6, 0xd5, 192, 0, 2, 1, 192, 0, 2, 2]);
/// assert!(valid_ip(&Layout::of(&frame).unwrap(), &frame, frame.len()).is_ok());
///
/// frame[22] = 63; // another TTL
/// let layout = Layout::of(&frame).unwrap();
/// assert_eq!(valid_ip(&layout, &frame, frame.len()), Err(DropCause::BadChecksum));
/// ```
pub fn valid_ip<'l>(layout: &'l Layout, data: &[u8], frame_len: usize) -> Result<&'l IpLayout, DropCause> {
    let ip = layout.ip().ok_or(DropCause::BadHeader)?;
    if ip.version() == IpVersion::V4 {
        let header = data.get(ip.start()..ip.start() + ip.header_len()).ok_or(DropCause::BadHeader)?;
        if checksum::sum(header) != 0xffff {
            return Err(DropCause::BadChecksum);
        }
    }
    let end = ip.claimed_end(data).ok_or(DropCause::BadLength)?;
    if end < ip.start() + ip.header_len() || end > frame_len {
        return Err(DropCause::BadLength);
    }
    if ip.is_strictly_source_routed(data) {
        return Err(DropCause::StrictSourceRoute);
    }
    Ok(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

    /// IPv4 with these options and 8 bytes after them; its checksum covers the change.
    fn v4(options: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
        let len = 28 + options.len() as u8;
        let words = 0x45 + (options.len() / 4) as u8;
        let mut packet = vec![words, 0, 0, len, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
        packet.extend(options);
        packet.extend([7; 8]);
        change(&mut packet);
        let header_len = (usize::from(packet[0] & 15) * 4).clamp(20, packet.len());
        let checksum = checksum::of(&packet[..header_len]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        [&MACS[..], &[0x08, 0x00], &packet].concat()
    }

    fn v6(len: u16) -> Vec<u8> {
        let [high, low] = len.to_be_bytes();
        let header = [0x60, 0, 0, 0, high, low, 17, 64];
        [&MACS[..], &[0x86, 0xdd], &header, &[0x20; 32], &[7; 8]].concat()
    }

    fn found(frame: &[u8]) -> Result<(), DropCause> {
        valid_ip(&Layout::of(frame).unwrap(), frame, frame.len()).map(drop)
    }

    #[test]
    fn whole_packets_are_valid_even_padded_or_seen_in_part() {
        for frame in [v4(&[], |_| {}), v4(&[1; 40], |_| {}), v6(8), v6(0)] {
            assert_eq!(found(&frame), Ok(()));
            let padded = [&frame[..], &[0; 6]].concat();
            assert_eq!(found(&padded), Ok(()));
            let layout = Layout::of(&frame).unwrap();
            assert!(valid_ip(&layout, &frame[..frame.len() - 8], frame.len()).is_ok());
        }
        // A packet that is only a header.
        assert_eq!(found(&v4(&[1; 8], |packet| packet[3] = 28)), Ok(()));
    }

    #[test]
    fn each_defect_has_its_drop_cause() {
        for (change, expected) in [
            ((|packet| packet[0] = 0x44) as fn(&mut [u8]), DropCause::BadHeader),
            (|packet| packet[0] = 0x4f, DropCause::BadHeader),
            (|packet| packet[0] = 0x55, DropCause::BadHeader),
            (|packet| packet[0] = 0x65, DropCause::BadHeader),
            (|packet| packet[3] = 19, DropCause::BadLength),
            (|packet| packet[3] = 0, DropCause::BadLength),
            (|packet| packet[3] = 29, DropCause::BadLength),
            (|packet| packet[2] = 0xff, DropCause::BadLength),
        ] {
            let frame = v4(&[], change);
            assert_eq!(found(&frame), Err(expected), "{frame:02x?}");
        }
        // A packet shorter than its header with options.
        assert_eq!(found(&v4(&[1; 8], |packet| packet[3] = 27)), Err(DropCause::BadLength));
        for at in 14..34 {
            let mut frame = v4(&[], |_| {});
            frame[at] ^= 0x08;
            assert!(found(&frame).is_err(), "byte {at}");
        }
        assert_eq!(found(&v6(9)), Err(DropCause::BadLength));
        assert_eq!(found(&v6(0xffff)), Err(DropCause::BadLength));
        let mut other = v6(8);
        other[14] = 0x45;
        assert_eq!(found(&other), Err(DropCause::BadHeader));
        for whole in [v4(&[], |_| {}), v6(8)] {
            for len in 14..whole.len() - 8 {
                assert_eq!(found(&whole[..len]), Err(DropCause::BadHeader), "cut after {len} bytes");
            }
            assert_eq!(found(&whole[..whole.len() - 1]), Err(DropCause::BadLength));
        }
    }

    #[test]
    fn a_strict_source_route_is_found_anywhere_in_the_options() {
        let route = |kind: u8, pointer: u8| [kind, 7, pointer, 10, 0, 0, 1];
        for (options, expected) in [
            ([&route(137, 4)[..], &[0]].concat(), Err(DropCause::StrictSourceRoute)),
            // Used up; after other options; longer than its room.
            ([&route(137, 8)[..], &[1]].concat(), Err(DropCause::StrictSourceRoute)),
            ([&[1, 148, 4, 0, 0][..], &route(137, 4)].concat(), Err(DropCause::StrictSourceRoute)),
            ([&[1; 10][..], &[137, 40]].concat(), Err(DropCause::StrictSourceRoute)),
            ([&route(131, 4)[..], &[0]].concat(), Ok(())),
            // After the end of the options, or inside another one.
            ([&[0][..], &route(137, 4)].concat(), Ok(())),
            (vec![68, 8, 137, 0, 137, 7, 4, 10], Ok(())),
            (vec![1, 1, 1, 7, 0, 137, 3, 4], Ok(())),
        ] {
            assert_eq!(found(&v4(&options, |_| {})), expected, "{options:?}");
        }
    }
}
