//! The router's own Ethernet addresses: what packets to it have as their destination, and those from it as
//! their source.
//!
//! Rule: they are followed. The kernel answers ARP with the new address of an interface, so hosts send to it
//! once they have asked again. Until then their packets have the old one, and are not for the router.

use std::sync::atomic::{AtomicU64, Ordering};

use wirecap_headers::{MacAddress, SourceMac};

/// The Ethernet addresses of ports, by port.
#[derive(Debug)]
pub(crate) struct OwnMacs {
    /// INVARIANT: each is a [`SourceMac`], in the upper six bytes. Written by the resolver's thread, read by
    /// workers; pairs with nothing, since it guards no other memory.
    words: Box<[AtomicU64]>,
}

impl OwnMacs {
    pub(crate) fn new(macs: &[SourceMac]) -> Self {
        Self { words: macs.iter().map(|&mac| AtomicU64::new(word_of(mac))).collect() }
    }

    /// How many ports there are.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The address of a port.
    #[inline]
    pub(crate) fn of(&self, port: usize) -> SourceMac {
        let [a, b, c, d, e, f, ..] = self.words[port].load(Ordering::Relaxed).to_be_bytes();
        SourceMac::try_from(MacAddress([a, b, c, d, e, f])).expect("the invariant on the words")
    }

    /// The interface of a port has this address. One that no frame may come from is not used.
    pub(crate) fn set(&self, port: usize, mac: MacAddress) {
        if let (Some(word), Ok(mac)) = (self.words.get(port), SourceMac::try_from(mac)) {
            word.store(word_of(mac), Ordering::Relaxed);
        }
    }
}

fn word_of(mac: SourceMac) -> u64 {
    let [a, b, c, d, e, f] = mac.address().0;
    u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_followed_unless_no_frame_may_come_from_it() {
        let mac = |last| SourceMac::try_from(MacAddress([2, 0, 0, 0, 0xff, last])).unwrap();
        let macs = OwnMacs::new(&[mac(1), mac(2)]);
        assert_eq!((macs.of(0), macs.of(1), macs.len()), (mac(1), mac(2), 2));
        macs.set(1, mac(3).address());
        macs.set(0, MacAddress([0; 6]));
        macs.set(0, MacAddress([0xff; 6]));
        macs.set(7, mac(7).address());
        assert_eq!((macs.of(0), macs.of(1)), (mac(1), mac(3)));
    }
}
