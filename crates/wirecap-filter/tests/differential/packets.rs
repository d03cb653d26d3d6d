//! Packets made for the corpus: with its addresses and ports, in all encapsulations, whole, cut and damaged.

/// The captured bytes of a packet, and its length on the wire.
#[derive(Debug, Clone)]
pub struct Packet {
    pub bytes: Vec<u8>,
    pub wirelen: u32,
}

/// A reproducible sequence of numbers (SplitMix64).
#[derive(Debug)]
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

const MACS: [[u8; 6]; 5] =
    [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 0xfb]];
#[rustfmt::skip]
const IPV4: [[u8; 4]; 16] = [
    [10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 1], [10, 0, 0, 2], [10, 9, 0, 1], [10, 9, 0, 10], [192, 168, 1, 1],
    [192, 168, 1, 2], [192, 0, 2, 1], [131, 225, 2, 9], [172, 16, 5, 5], [224, 0, 0, 1], [224, 0, 0, 251],
    [255, 255, 255, 255], [0, 0, 0, 0], [127, 0, 0, 1],
];
const IPV6: [[u16; 8]; 7] = [
    [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1],
    [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2],
    [0x2001, 0xdb8, 0x8000, 7, 0, 0, 0, 3],
    [0xfe80, 0, 0, 0, 0, 0, 0, 1],
    [0xff02, 0, 0, 0, 0, 0, 0, 1],
    [0xff02, 0, 0, 0, 0, 0, 0, 0xfb],
    [0, 0, 0, 0, 0, 0, 0, 1],
];
#[rustfmt::skip]
const PROTOCOLS: [u8; 28] = [
    6, 6, 6, 6, 6, 17, 17, 17, 17, 1, 1, 58, 58, 132, 2, 0, 4, 9, 41, 43, 44, 47, 50, 51, 89, 103, 112, 255,
];
#[rustfmt::skip]
const PORTS: [u16; 32] = [
    80, 80, 53, 53, 443, 22, 21, 25, 67, 68, 110, 5060, 6003, 8080, 9001, 9001, 9005, 9010, 9028, 33440, 6081, 6081,
    0, 1, 5, 1023, 1024, 2905, 4999, 65535, 85, 20,
];
/// Types and LLC headers that are neither IP nor ARP.
const TYPES: [u16; 9] = [0x88cc, 0x9000, 0x6003, 0x6001, 0x6004, 0x6007, 0x809b, 0x8137, 0x80f3];
const LLC: [[u8; 3]; 9] = [
    [0x42, 0x42, 3],
    [0xaa, 0xaa, 3],
    [0xe0, 0xe0, 3],
    [0xfe, 0xfe, 3],
    [0xf0, 0xf0, 3],
    [0xfe, 0xfe, 0],
    [4, 4, 1],
    [6, 6, 0xbf],
    [0x42, 0x42, 9],
];

/// `count` packets, the same in every run.
pub fn generated(count: usize) -> Vec<Packet> {
    let mut draw = Draw(1);
    (0..count).map(|_| packet(&mut draw)).collect()
}

fn packet(draw: &mut Draw) -> Packet {
    let mut bytes = frame(draw, 0);
    if draw.one_in(12) {
        let at = draw.below(bytes.len().min(60));
        bytes[at] = draw.next() as u8;
    }
    let wirelen = bytes.len() as u32;
    if draw.one_in(6) {
        bytes.truncate(draw.below(bytes.len().min(90)));
    } else if draw.one_in(20) {
        bytes.truncate(14);
    }
    Packet { bytes, wirelen }
}

/// A frame; `depth` counts the frames around it.
fn frame(draw: &mut Draw, depth: u32) -> Vec<u8> {
    let mut frame = [draw.of(&MACS), draw.of(&MACS[..2])].concat();
    let (ethertype, payload) = network(draw, depth);
    match draw.below(16) {
        0 | 1 => tag(&mut frame, 0x8100, draw.of(&[1, 100, 100, 200, 4095])),
        2 | 3 => {
            tag(&mut frame, draw.of(&[0x8100, 0x88a8, 0x9100]), draw.of(&[100, 7]));
            tag(&mut frame, 0x8100, draw.of(&[200, 9]));
        }
        4 | 5 if matches!(ethertype, 0x800 | 0x86dd) => {
            if draw.one_in(4) {
                tag(&mut frame, 0x8100, 100);
            }
            return labelled(draw, frame, &payload);
        }
        6 | 7 if matches!(ethertype, 0x800 | 0x86dd) => {
            if draw.one_in(3) {
                tag(&mut frame, 0x8100, 7);
                tag(&mut frame, 0x8100, 7);
            }
            return session(draw, frame, ethertype, &payload);
        }
        8 => return link_control(draw, frame),
        _ => {}
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

fn tag(frame: &mut Vec<u8>, ethertype: u16, vlan: u16) {
    frame.extend(ethertype.to_be_bytes());
    frame.extend((vlan | 0x6000).to_be_bytes());
}

/// One to three MPLS labels in front of an IP packet.
fn labelled(draw: &mut Draw, mut frame: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    frame.extend(0x8847_u16.to_be_bytes());
    let depth = 1 + draw.below(3);
    let first: u32 = draw.of(&[16, 16, 100_000]);
    for level in 0..depth {
        let label = if level == 0 { first } else { 16 + level as u32 };
        frame.extend(((label << 12) | (u32::from(level + 1 == depth) << 8) | 64).to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// PPPoE, session or discovery.
fn session(draw: &mut Draw, mut frame: Vec<u8>, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    frame.extend(if draw.one_in(5) { 0x8863_u16 } else { 0x8864 }.to_be_bytes());
    frame.extend([0x11, 0, 0, draw.of(&[1, 1, 0x11])]);
    frame.extend((payload.len() as u16 + 2).to_be_bytes());
    frame.extend(if ethertype == 0x800 { 0x21_u16 } else { 0x57 }.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A length in place of the type, and LLC.
fn link_control(draw: &mut Draw, mut frame: Vec<u8>) -> Vec<u8> {
    let len = 3 + draw.below(60);
    frame.extend((len as u16).to_be_bytes());
    frame.extend(draw.of(&LLC));
    let rest = [[0, 0, 0].to_vec(), draw.of(&TYPES).to_be_bytes().to_vec(), draw.bytes(len)].concat();
    frame.extend(&rest[..len - 3]);
    frame
}

fn network(draw: &mut Draw, depth: u32) -> (u16, Vec<u8>) {
    match draw.below(16) {
        0..=7 => (0x800, ipv4(draw, depth)),
        8..=12 => (0x86dd, ipv6(draw, depth)),
        13 => (0x806, address_resolution(draw, 1)),
        14 => (0x8035, address_resolution(draw, 3)),
        _ => (draw.of(&TYPES), draw.bytes(50)),
    }
}

fn ipv4(draw: &mut Draw, depth: u32) -> Vec<u8> {
    let words = if draw.one_in(4) { 6 + draw.below(10) } else { 5 };
    let protocol = draw.of(&PROTOCOLS);
    let payload = transport(draw, protocol, depth);
    let fragment: u16 = draw.of(&[0, 0, 0, 0, 0x4000, 0x4000, 0x2000, 0x2064, 0x0064]);
    let total = (words * 4 + payload.len()) as u16;
    let mut packet = vec![0x40 | words as u8, draw.of(&[0, 0, 0xb8])];
    packet.extend(total.to_be_bytes());
    packet.extend(draw.bytes(2));
    packet.extend(fragment.to_be_bytes());
    packet.extend([draw.of(&[64, 64, 1, 128, 255]), protocol]);
    packet.extend(draw.bytes(2));
    packet.extend(draw.of(&IPV4));
    packet.extend(draw.of(&IPV4));
    packet.extend(draw.bytes(words * 4 - 20));
    packet.extend(payload);
    packet
}

fn ipv6(draw: &mut Draw, depth: u32) -> Vec<u8> {
    let protocol = draw.of(&PROTOCOLS);
    let mut payload = transport(draw, protocol, depth);
    let mut next_header = protocol;
    if draw.one_in(4) {
        for _ in 0..1 + draw.below(4) {
            let words = draw.of(&[0, 0, 1, 2, 4]);
            payload.splice(..0, extension(draw, next_header, words));
            next_header = draw.of(&[44, 0, 43, 60, 51]);
        }
    }
    let mut packet = vec![0x60, 0, 0, 1];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next_header, draw.of(&[64, 255, 1])]);
    for address in [draw.of(&IPV6), draw.of(&IPV6)] {
        packet.extend(address.iter().flat_map(|group| group.to_be_bytes()));
    }
    packet.extend(payload);
    packet
}

/// An extension header of 8 bytes and `words` times 8 bytes more; as an authentication header, it has a wrong
/// length.
fn extension(draw: &mut Draw, next_header: u8, words: usize) -> Vec<u8> {
    [vec![next_header, words as u8], draw.bytes(6 + 8 * words)].concat()
}

/// ARP and RARP differ in the type and the operation.
fn address_resolution(draw: &mut Draw, operation: u8) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation + draw.below(2) as u8];
    for _ in 0..2 {
        packet.extend(draw.of(&MACS));
        packet.extend(draw.of(&IPV4[..7]));
    }
    packet.resize(46, 0);
    packet
}

fn transport(draw: &mut Draw, protocol: u8, depth: u32) -> Vec<u8> {
    let (source, destination) = (draw.of(&PORTS), draw.of(&PORTS));
    let mut packet = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    match protocol {
        6 => {
            let words = draw.of(&[5, 5, 8, 15]);
            packet.extend(draw.bytes(8));
            packet.extend([words << 4, draw.of(&[2, 2, 0x12, 0x10, 0x18, 0x11, 4, 0x29, 0xc2])]);
            packet.extend(draw.of(&[[0, 9], [0xff, 0xff]]));
            packet.extend(draw.bytes(4 + usize::from(words - 5) * 4));
            packet.extend(draw.of(&[&b"GET / HTTP/1.1\r\n"[..], &[0x16, 3, 1], b"", b""]));
        }
        17 if destination == 6081 && depth == 0 => {
            packet.extend([0, 60, 0, 0, 0, 0, 0x65, 0x58, 0, 0, draw.below(2) as u8, 0]);
            packet.extend(frame(draw, depth + 1));
            return packet;
        }
        17 => {
            packet.extend([0, draw.of(&[8, 30, 200]), 0, 0, draw.of(&[0x80, 0x12]), 5, draw.of(&[0, 0x81])])
        }
        1 => packet = vec![draw.of(&[8, 0, 3, 11]), draw.of(&[0, 3, 4]), 0, 0],
        58 => packet = vec![draw.of(&[128, 129, 134, 135, 136]), draw.of(&[0, 1]), 0, 0],
        2 => packet = vec![draw.of(&[0x11, 0x16]), 0, 0, 0],
        _ => {}
    }
    let rest = draw.of(&[0, 6, 30, 80, 200, 1400]);
    packet.extend(draw.bytes(rest));
    packet
}
