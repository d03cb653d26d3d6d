//! The Toeplitz hash, as Microsoft's specification of RSS defines it.
//!
//! ```text
//!   key    k0 k1 k2 …             a window of 32 bits slides over the key, one bit to the right for each bit of the input;
//!   input  b0 b1 b2 …             the hash is the XOR of the windows at which the input has a 1
//! ```
//!
//! The hash is linear, so that of an input is the XOR of those of its bytes, each alone in its place: 256
//! values for each place are computed once.

use super::{fields::MAX_INPUT, key::RssKey};

/// The hash by one key.
#[derive(Clone)]
pub struct Toeplitz {
    /// By the place of a byte in the input, by its value.
    places: Box<[[u32; 256]]>,
}

impl Toeplitz {
    /// By this key.
    pub fn new(key: &RssKey) -> Self {
        let place = |place: usize| {
            let windows: [u32; 8] = std::array::from_fn(|bit| window(key.bytes(), place * 8 + bit));
            std::array::from_fn(|byte| {
                let is_set = |bit: &usize| byte >> (7 - bit) & 1 == 1;
                (0..8).filter(is_set).fold(0, |hash, bit| hash ^ windows[bit])
            })
        };
        Self { places: (0..MAX_INPUT).map(place).collect() }
    }

    /// The hash of an input, of which at most the first 36 bytes count: addresses and ports of IPv6.
    pub fn of(&self, input: &[u8]) -> u32 {
        input.iter().zip(&self.places).fold(0, |hash, (&byte, place)| hash ^ place[usize::from(byte)])
    }
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

/// The 32 bits of the key that begin at a bit.
fn window(key: &[u8], from: usize) -> u32 {
    let bit = |bit: usize| key.get(bit / 8).map_or(0, |byte| u32::from(byte >> (7 - bit % 8) & 1));
    (from..from + 32).fold(0, |window, at| window << 1 | bit(at))
}
