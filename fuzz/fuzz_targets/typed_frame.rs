//! Frames with chosen EtherTypes, so that most inputs are IP packets.

/// Inserts the EtherTypes of `kind` after the MAC addresses in `rest`: those of IP, some after VLAN tags. The
/// last kind leaves the bytes unchanged.
pub fn with_type(kind: u8, rest: &[u8]) -> Vec<u8> {
    let (v4, v6, tag) = ([0x08, 0x00], [0x86, 0xdd], [0x81, 0x00, 0x00, 10]);
    let types: Vec<u8> = match kind % 6 {
        0 => v4.to_vec(),
        1 => v6.to_vec(),
        2 => [&tag[..], &v4].concat(),
        3 => [&tag[..], &v6].concat(),
        4 => [&tag[..], &[0x88, 0xa8, 0xe0, 20], &v4].concat(),
        _ => return rest.to_vec(),
    };
    let (macs, payload) = rest.split_at(rest.len().min(12));
    [macs, &types, payload].concat()
}
