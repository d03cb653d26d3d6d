//! Frames that tests send.

use wirecap_traffic::{FrameSpec, IpVersion, Template, Transport};

/// A frame of this kind, with this flow and sequence number.
pub fn frame(spec: FrameSpec, flow: u32, sequence: u64) -> Vec<u8> {
    Template::new(spec).unwrap().stamp(flow, sequence).to_vec()
}

/// UDP over IPv4, `len` bytes long.
pub fn udp(len: usize, sequence: u64) -> Vec<u8> {
    frame(FrameSpec { len, ..FrameSpec::default() }, 0, sequence)
}

/// The destination of the last frame of a mixture, as programs print it.
pub const LAST: &str = "02:00:00:00:00:99";

/// `count` frames of UDP, TCP, IPv4, IPv6, of 64 to 1514 bytes; the last is UDP over IPv4, to [`LAST`].
pub fn mixture(count: u64) -> Vec<Vec<u8>> {
    mixed(count, false)
}

/// The same, some with a VLAN tag.
pub fn mixture_with_tags(count: u64) -> Vec<Vec<u8>> {
    mixed(count, true)
}

fn mixed(count: u64, has_tags: bool) -> Vec<Vec<u8>> {
    let kind = |sequence: u64| {
        let left = count - 1 - sequence;
        let ip = if left % 3 == 2 { IpVersion::V6 } else { IpVersion::V4 };
        let transport = if left % 4 == 3 { Transport::Tcp } else { Transport::Udp };
        let vlan = (has_tags && left % 5 == 4).then_some(7);
        let spec = FrameSpec { ip, transport, vlan, ..FrameSpec::default() };
        let len = (64 + (sequence * 97) % 1451) as usize;
        let last_byte = if left == 0 { 0x99 } else { 2 };
        // A VLAN tag is not part of the MTU.
        FrameSpec { len: len.max(spec.len_min()), destination_mac: [2, 0, 0, 0, 0, last_byte], ..spec }
    };
    (0..count).map(|sequence| frame(kind(sequence), sequence as u32 % 3, sequence)).collect()
}
