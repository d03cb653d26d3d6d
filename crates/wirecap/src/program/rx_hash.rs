//! The NIC's hash of each packet over AF_XDP: the XDP program asks the driver and writes it in front of the
//! packet.
//!
//! ```text
//!   XDP program:  driver ──► hash and type ──► 8 bytes of metadata: right in front of the packet, or of its stamp
//!   reader:       Packet::rx_hash() ◄── the same bytes, when the packet is looked at
//! ```
//!
//! Rules: the driver is asked before anything is changed, since some (virtio_net) have the hash in the bytes
//! in front of the packet, where stamp and hash go. A packet that has none bears zeros there, and is counted.

use wirecap_sys::{
    bpf::{Alu, Assembler, Cond, KernelFunction, Label, Reg, Size},
    netdev::{Interface, RxMetadata},
};

use super::metadata;
use crate::{
    Error,
    diagnostic::NicDataRefusal,
    packet::rx_hash::{HASH_BYTES, IS_THERE},
};

/// What asks the driver for the hash of a packet (Linux 6.3).
const RX_HASH: &str = "bpf_xdp_metadata_rx_hash";
/// The driver's answer on the stack: the hash, and behind it the type. Both are 0 without an answer.
pub(super) const ANSWER: i16 = -32;
const ANSWER_TYPE: i16 = ANSWER + 4;
/// The stack below is free.
pub(crate) const STACK_END: i16 = ANSWER;
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

    /// Asks the driver, which is to be done before the packet is changed. The context is in R6; R0 to R5 are
    /// lost.
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

    /// Writes the answer in front of the `behind` bytes of metadata that the packet already has, or jumps to
    /// `unhashed`. The context is in R6; R0 to R5 are lost, and all pointers into the packet.
    pub(crate) fn emit_write(self, asm: &mut Assembler, behind: i32, unhashed: Label) {
        use Reg::{R1, R4, R10};
        metadata::emit_room(asm, HASH_BYTES, unhashed);
        metadata::emit_place(asm, behind + HASH_BYTES, unhashed);
        asm.load(Size::Double, R4, R10, ANSWER).store(Size::Double, R1, 0, R4);
        // Zeros are written nevertheless: the cell holds the hash of another packet.
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
    fn a_driver_without_hashes_is_named_with_the_reason() {
        let with = |rx_metadata| {
            let features = XdpFeatures { rx_metadata, ..XdpFeatures::default() };
            Interface { xdp_features: Some(features), ..netdev::interface("lo").unwrap() }
        };
        let metadata = |hash| Some(RxMetadata { hash, ..RxMetadata::default() });
        assert!(offered(&with(metadata(true))).is_ok());
        for (rx_metadata, expected) in
            [(metadata(false), NicDataRefusal::NoHash), (None, NicDataRefusal::NotKnown)]
        {
            let error = offered(&with(rx_metadata)).unwrap_err();
            let Error::NoRxHash { name, reason } = &error else { panic!("{error}") };
            assert_eq!((name.as_str(), reason), ("lo", &expected));
        }
    }
}
