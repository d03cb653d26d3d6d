//! The NIC's hash of each packet over AF_XDP: the XDP program asks the driver and writes it in front of the packet.
//!
//! ```text
//!   XDP program:  driver ──► hash and type ──► 8 bytes of metadata: right in front of the packet, or of its stamp
//!   who reads:    Packet::rx_hash() ◄── the same bytes, when the packet is looked at
//! ```
//!
//! Rules: the driver is asked before anything is changed, since some (virtio_net) have the hash in the bytes in front of the packet,
//! where stamp and hash go. A packet that has none bears zeros there, and is counted.

use wirecap_sys::{
    bpf::{Alu, Assembler, Cond, KernelFunction, Label, Reg, Size},
    netdev::{Interface, RxMetadata},
};

use super::metadata;
use crate::{Error, diagnostic::NicDataRefusal};

/// What asks the driver for the hash of a packet (Linux 6.3).
const RX_HASH: &str = "bpf_xdp_metadata_rx_hash";
/// Bytes of a hash and its type in front of the packet.
pub(crate) const HASH_BYTES: i32 = 8;
/// The driver's answer on the stack: the hash, and behind it the type.
const ANSWER: i16 = -32;
const ANSWER_TYPE: i16 = ANSWER + 4;
/// The stack below is free.
pub(crate) const STACK_END: i16 = ANSWER;
/// Bit of the type, none of the kernel's: there is a hash.
const IS_THERE: u32 = 1 << 31;

// `enum xdp_rss_hash_type` of <net/xdp.h>.
const OVER_IPV4: u16 = 1;
const OVER_IPV6: u16 = 1 << 1;
const OVER_PORTS: u16 = 1 << 3;

/// The hash by which the NIC has chosen the receive queue of a packet: see [`Builder::rx_hash`](crate::Builder::rx_hash).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RxHash {
    value: u32,
    type_bits: u16,
}

impl RxHash {
    /// The hash. Packets of one flow have the same; which function it is, and by which key, is the NIC's setting
    /// (`ethtool -x`).
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

    /// What it is over, as the bits of the kernel's `enum xdp_rss_hash_type` (include/net/xdp.h); 0 if the driver does not
    /// say.
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

/// How the packets of an interface get their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RxHashing {
    function: KernelFunction,
    pub(crate) ifindex: u32,
}

impl RxHashing {
    /// For an interface whose driver hands hashes to XDP programs.
    pub(crate) fn prepare(interface: &Interface) -> Result<Self, Error> {
        offered(interface)?;
        let function = KernelFunction::find(RX_HASH)
            .map_err(|source| Error::Program { name: interface.name.clone(), source })?;
        let function = function.ok_or_else(|| refusal(&interface.name, NicDataRefusal::NoCall))?;
        Ok(Self { function, ifindex: interface.ifindex })
    }

    /// Asks the driver, which is to be done before the packet is changed. The context is in R6; R0 to R5 are lost.
    pub(crate) fn emit_ask(self, asm: &mut Assembler) {
        use Reg::{R0, R1, R2, R3, R6, R10};
        let (none, done) = (asm.label(), asm.label());
        asm.store_imm(Size::Double, R10, ANSWER, 0);
        asm.mov(R1, R6);
        asm.mov(R2, R10).alu64(Alu::Add, R2, i32::from(ANSWER));
        asm.mov(R3, R10).alu64(Alu::Add, R3, i32::from(ANSWER_TYPE));
        asm.call_kernel(self.function);
        asm.jump_if32(Cond::Ne, R0, 0, none);
        asm.load(Size::Word, R1, R10, ANSWER_TYPE).alu32(Alu::Or, R1, IS_THERE as i32);
        asm.store(Size::Word, R10, ANSWER_TYPE, R1).jump(done);
        asm.bind(none).store_imm(Size::Double, R10, ANSWER, 0);
        asm.bind(done);
    }

    /// Writes the answer in front of the `behind` bytes of metadata that the packet has by now, or jumps to `unhashed`. The
    /// context is in R6; R0 to R5 are lost, and all pointers into the packet.
    pub(crate) fn emit_write(self, asm: &mut Assembler, behind: i32, unhashed: Label) {
        use Reg::{R1, R4, R10};
        metadata::emit_room(asm, HASH_BYTES, unhashed);
        metadata::emit_place(asm, behind + HASH_BYTES, unhashed);
        asm.load(Size::Double, R4, R10, ANSWER).store(Size::Double, R1, 0, R4);
        // Zeros are written all the same: the cell holds the hash of another packet.
        asm.jump_if(Cond::Eq, R4, 0, unhashed);
    }
}

/// Whether the driver of an interface hands hashes to XDP programs.
pub(crate) fn offered(interface: &Interface) -> Result<(), Error> {
    match interface.xdp_features.and_then(|features| features.rx_metadata) {
        Some(RxMetadata { hash: true, .. }) => Ok(()),
        Some(_) => Err(refusal(&interface.name, NicDataRefusal::NoHash)),
        None => Err(refusal(&interface.name, NicDataRefusal::NotKnown)),
    }
}

pub(crate) fn refusal(name: &str, reason: NicDataRefusal) -> Error {
    Error::NoRxHash { name: name.into(), reason }
}

#[cfg(test)]
mod tests {
    use wirecap_sys::netdev::{self, XdpFeatures};

    use super::*;

    #[test]
    fn what_the_program_writes_is_read() {
        let front = |value: u32, kind: u32| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&value.to_ne_bytes());
            bytes[4..].copy_from_slice(&kind.to_ne_bytes());
            RxHash::from_front(bytes)
        };
        assert_eq!(front(0, 0), None);
        let hash = front(0, IS_THERE).unwrap();
        assert!(hash.value() == 0 && !hash.is_over_addresses(), "of a frame that is no IP");
        let hash = front(0xdead_beef, IS_THERE | 0b1_1001).unwrap();
        assert_eq!((hash.value(), hash.type_bits()), (0xdead_beef, 0b1_1001));
        assert!(hash.is_over_addresses() && hash.is_over_ports());
        let hash = front(1, IS_THERE | 0b10).unwrap();
        assert!(hash.is_over_addresses() && !hash.is_over_ports());
    }

    #[test]
    fn a_driver_without_hashes_is_named_with_the_reason() {
        let with = |rx_metadata| {
            let features = XdpFeatures { rx_metadata, ..XdpFeatures::default() };
            Interface { xdp_features: Some(features), ..netdev::interface("lo").unwrap() }
        };
        let metadata = |hash| Some(RxMetadata { hash, ..RxMetadata::default() });
        assert!(offered(&with(metadata(true))).is_ok());
        for (rx_metadata, words) in [(metadata(false), "hands none"), (None, "Linux 6.7")] {
            let error = offered(&with(rx_metadata)).unwrap_err().to_string();
            assert!(error.starts_with("lo ") && error.contains(words), "{error}");
        }
    }
}
