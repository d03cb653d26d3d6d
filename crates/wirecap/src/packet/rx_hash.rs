//! The NIC's hash of a packet, as the XDP program has written it in front of the packet.

/// Bytes of a hash and its type in front of the packet.
pub(crate) const HASH_BYTES: i32 = 8;
/// Bit of the type that the kernel does not use: there is a hash.
pub(crate) const IS_THERE: u32 = 1 << 31;

// `enum xdp_rss_hash_type` of <net/xdp.h>.
const OVER_IPV4: u16 = 1;
const OVER_IPV6: u16 = 1 << 1;
const OVER_PORTS: u16 = 1 << 3;

/// The hash by which the NIC has chosen the receive queue of a packet: see
/// [`Builder::rx_hash`](crate::Builder::rx_hash).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RxHash {
    value: u32,
    type_bits: u16,
}

impl RxHash {
    /// The hash. Packets of one flow have the same; which function it is, and by which key, is the NIC's
    /// setting (`ethtool -x`).
    pub fn value(self) -> u32 {
        self.value
    }

    /// Whether it is over the addresses of IP, as far as the driver says.
    pub fn is_over_addresses(self) -> bool {
        self.type_bits & (OVER_IPV4 | OVER_IPV6) != 0 || self.is_over_ports()
    }

    /// Whether it is over the header of the transport, too: ports of TCP, UDP, SCTP.
    pub fn is_over_ports(self) -> bool {
        self.type_bits & OVER_PORTS != 0
    }

    /// What it is over, as the bits of the kernel's `enum xdp_rss_hash_type` (include/net/xdp.h); 0 if the
    /// driver does not say.
    pub fn type_bits(self) -> u16 {
        self.type_bits
    }

    pub(crate) fn new(value: u32, type_bits: u16) -> Self {
        Self { value, type_bits }
    }

    /// What the program has written in front of a packet.
    pub(crate) fn from_front(bytes: [u8; HASH_BYTES as usize]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let (value, kind) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        // All other bits are the kernel's, fewer than 16 so far.
        (kind & IS_THERE != 0).then_some(Self { value, type_bits: kind as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_the_program_writes_it() {
        let front = |value: u32, kind: u32| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&value.to_ne_bytes());
            bytes[4..].copy_from_slice(&kind.to_ne_bytes());
            RxHash::from_front(bytes)
        };
        assert_eq!(front(0, 0), None);
        let hash = front(0, IS_THERE).unwrap();
        assert!(hash.value() == 0 && !hash.is_over_addresses(), "a frame without IP");
        let hash = front(0xdead_beef, IS_THERE | 0b1_1001).unwrap();
        assert_eq!((hash.value(), hash.type_bits()), (0xdead_beef, 0b1_1001));
        assert!(hash.is_over_addresses() && hash.is_over_ports());
        let hash = front(1, IS_THERE | 0b10).unwrap();
        assert!(hash.is_over_addresses() && !hash.is_over_ports());
    }
}
