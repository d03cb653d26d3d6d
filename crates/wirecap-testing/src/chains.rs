//! Frames with chains of IPv6 extension headers and authentication headers, for `protochain`.

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Every frame of this number has a chain that leads back into itself, on which `bpf_filter` loops forever.
pub const ENDLESS_EVERY: usize = 7;

/// Frames of TCP and UDP behind zero to four headers, in turn; some chains are endless.
pub fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(frame).collect()
}

fn frame(index: usize) -> Vec<u8> {
    let last = if index % 2 == 0 { UDP } else { TCP };
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if index % 3 == 0 {
        frame.extend([0x81, 0, 0, 5]);
    }
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 100]);
    if index % ENDLESS_EVERY == 0 {
        // The header's length of (8 + 2) × 4 bytes leads back to its own start.
        frame.extend([AUTHENTICATION, 64]);
        frame.extend([0xfd; 32]);
        frame.extend([AUTHENTICATION, 8]);
    } else {
        let headers = [HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT];
        let chain: Vec<u8> = headers.into_iter().take(index % 5).chain([last]).collect();
        frame.extend([chain[0], 64]);
        frame.extend([0xfd; 32]);
        for (words, next) in chain[1..].iter().enumerate() {
            // Headers of 8, 16, 24 and 32 bytes.
            frame.extend([*next, words as u8]);
            frame.resize(frame.len() + 6 + 8 * words, 0);
        }
    }
    frame.extend((index as u32).to_be_bytes());
    frame.resize(160, 0);
    frame
}
