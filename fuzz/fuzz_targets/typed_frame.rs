//! Frames whose EtherType is chosen, so that most inputs are packets of IP.

/// A frame of these bytes with the types of a `kind` between its addresses and the rest: IP, some behind VLAN
/// tags, or the bytes as they are.
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
    let (macs, behind) = rest.split_at(rest.len().min(12));
    [macs, &types, behind].concat()
}
