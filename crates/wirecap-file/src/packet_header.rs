//! What is recorded about a packet besides its bytes, and how many of its bytes are kept.

/// The most bytes of one packet the encoders write, in bytes: the limit libpcap and Wireshark put on what
/// they read.
///
/// A longer packet is cut here, as by a snapshot length; its original length shows that.
pub const MAX_CAPTURED_LEN: u32 = 262_144;

/// What is recorded about a packet besides its bytes.
///
/// Classic pcap has room for `timestamp_ns` and `original_len` only; [`pcap::packet`](crate::pcap::packet)
/// leaves the rest out, so that one header serves both formats.
///
/// # Example
///
/// ```
/// use wirecap_file::PacketHeader;
///
/// let header = PacketHeader { timestamp_ns: 1_000_000_001, original_len: 1514, queue: Some(3), ..Default::default() };
/// assert_eq!(header.interface, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketHeader {
    /// When the packet was received, in nanoseconds since the Unix epoch.
    pub timestamp_ns: u64,
    /// Length on the wire, in bytes. A value below the number of bytes kept is raised to it.
    pub original_len: u32,
    /// The interface, counted from 0 in the order of the section's
    /// [`pcapng::interface`](crate::pcapng::interface) blocks.
    pub interface: u32,
    /// The receive queue the packet came in on (option `epb_queue`).
    pub queue: Option<u32>,
    /// A number that names the packet (option `epb_packetid`).
    pub packet_id: Option<u64>,
    /// Whether the packet was sent, not received, where that is known (bits 0 and 1 of option `epb_flags`).
    pub outbound: Option<bool>,
}

/// How many bytes of a packet in `parts` are kept under `snaplen` (bytes; 0 keeps all).
#[inline]
pub(crate) fn captured_len<'a>(parts: impl Iterator<Item = &'a [u8]>, snaplen: u32) -> usize {
    let limit = if snaplen == 0 { MAX_CAPTURED_LEN } else { snaplen.min(MAX_CAPTURED_LEN) };
    let whole = parts.fold(0_usize, |sum, part| sum.saturating_add(part.len()));
    whole.min(limit as usize)
}

/// Appends the first `captured_len` bytes of `parts`.
#[inline]
pub(crate) fn append_parts<'a>(
    out: &mut Vec<u8>,
    parts: impl Iterator<Item = &'a [u8]>,
    captured_len: usize,
) {
    let mut room = captured_len;
    for part in parts {
        let kept = &part[..part.len().min(room)];
        out.extend_from_slice(kept);
        room -= kept.len();
    }
    debug_assert_eq!(room, 0, "captured_len was computed from the same parts");
}
