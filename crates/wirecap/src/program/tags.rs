//! VLAN tags that the NIC has taken off, put back by the XDP program.
//!
//! ```text
//!   as the driver gives it:   │ MAC addresses │ type │ …                the tag beside it: asked for, or on veth read
//!   for filter and socket:    │ MAC addresses │ tag │ type │ …          4 bytes more, in the head room
//!   for the host's stack:     │ MAC addresses │ type │ …                as it came: the driver adds the tag to it, beside it
//! ```
//!
//! Rule: what leaves for the host leaves as it came. Its driver hands the tag to the host whatever the packet
//! holds, so a tag in both places would be two. A packet whose tag cannot be put back is counted and captured
//! as it is.
//!
//! See Documentation/networking/xdp-rx-metadata.rst (`bpf_xdp_metadata_rx_vlan_tag`, Linux 6.8).

use wirecap_sys::{
    bpf::{self, Alu, Assembler, Cond, Helper, KernelFunction, Label, Reg, Size, VethTag, xdp_md},
    netdev::Interface,
};

use crate::diagnostic::Cause;

/// What asks the driver for the tag that it has taken off a packet.
const RX_VLAN_TAG: &str = "bpf_xdp_metadata_rx_vlan_tag";

/// Bytes of a tag: its type (TPID) and its contents (TCI: priority and number).
const TAG_BYTES: i32 = 4;
/// Bytes of both addresses, behind which the tag is.
const ADDRESSES_BYTES: i16 = 12;
/// What a frame has at least: the addresses and a type.
const HEADER_BYTES: i32 = 14;

/// The stack above is free.
pub(crate) const STACK_START: i16 = -4;
/// Word on the stack: whether the packet has got a tag.
const IS_TAGGED: i16 = STACK_START - 4;
/// The tag on the stack: the type in network byte order, the contents in the machine's.
const TYPE: i16 = -16;
const CONTENTS: i16 = -14;
/// The stack below is free.
pub(crate) const STACK_END: i16 = -16;

/// `-ENODATA`: the packet had no tag.
const NO_TAG: i32 = -61;

/// How tags are put back on one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tags {
    origin: Origin,
    /// Bytes by which a packet is made longer: those of a tag.
    room: i32,
}

/// Where a program finds the tag that the driver has taken off a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// It asks the driver of this interface, to which it is bound.
    Driver { function: KernelFunction, ifindex: u32 },
    /// It looks where veth's driver keeps it.
    Veth(VethTag),
}

impl Tags {
    /// For an interface whose driver hands tags to XDP programs, and runs the program itself.
    ///
    /// # Errors
    /// Why the driver cannot be asked, where that is necessary.
    pub(crate) fn of(interface: &Interface) -> Result<Self, Cause> {
        let is_veth = interface.driver.as_ref().is_some_and(|driver| driver.name == "veth");
        match is_veth.then(VethTag::of_kernel).flatten() {
            Some(tag) => Ok(Self { origin: Origin::Veth(tag), room: TAG_BYTES }),
            None => Self::by_driver(interface),
        }
    }

    /// By a question to the driver, also on veth.
    pub(crate) fn by_driver(interface: &Interface) -> Result<Self, Cause> {
        match KernelFunction::find(RX_VLAN_TAG) {
            Ok(Some(function)) => Ok(Self::from_driver(function, interface.ifindex)),
            Ok(None) => Err(Cause::words("this kernel has no call for it (Linux 6.8)")),
            Err(error) => Err(error.into()),
        }
    }

    fn from_driver(function: KernelFunction, ifindex: u32) -> Self {
        Self { origin: Origin::Driver { function, ifindex }, room: TAG_BYTES }
    }

    /// The interface that the program must be bound to, if it asks the driver.
    pub(crate) fn bound_to(self) -> Option<u32> {
        match self.origin {
            Origin::Driver { ifindex, .. } => Some(ifindex),
            Origin::Veth(_) => None,
        }
    }

    /// For tests: packets can never be made longer.
    #[cfg(test)]
    pub(crate) fn without_room(self) -> Self {
        Self { room: 1 << 20, ..self }
    }

    /// For tests: the kernel refuses the program.
    #[cfg(test)]
    pub(crate) fn not_callable(interface: &Interface) -> Self {
        Self::from_driver(KernelFunction::find("xdp_do_redirect").unwrap().unwrap(), interface.ifindex)
    }

    /// Before anything else: no packet has got a tag yet.
    pub(crate) fn emit_begin(self, asm: &mut Assembler) {
        asm.store_imm(Size::Word, Reg::R10, IS_TAGGED, 0);
    }

    /// Puts the packet's tag back if it had one, or jumps to `failed`. The context is in R6; R0 to R5 are
    /// lost, and all pointers into the packet.
    pub(crate) fn emit_put_back(self, asm: &mut Assembler, failed: Label, done: Label) {
        use Reg::{R0, R1, R2, R3, R4, R5, R6, R10};
        match self.origin {
            Origin::Driver { function, .. } => {
                asm.store_imm(Size::Double, R10, TYPE, 0);
                asm.mov(R1, R6);
                asm.mov(R2, R10).alu64(Alu::Add, R2, i32::from(TYPE));
                asm.mov(R3, R10).alu64(Alu::Add, R3, i32::from(CONTENTS));
                asm.call_kernel(function);
                asm.jump_if32(Cond::Eq, R0, NO_TAG, done);
                asm.jump_if32(Cond::Ne, R0, 0, failed);
            }
            Origin::Veth(tag) => {
                tag.emit(asm, done);
                asm.store(Size::Word, R10, TYPE, R1);
            }
        }
        bounds(asm, HEADER_BYTES, failed);
        asm.mov(R1, R6).mov_imm(R2, -self.room).call(Helper::XdpAdjustHead);
        asm.jump_if(Cond::Ne, R0, 0, failed);
        // It is longer now, so that the check never fails. The verifier wants to see it.
        let impossible = asm.label();
        bounds(asm, HEADER_BYTES + TAG_BYTES, impossible);
        asm.load(Size::Double, R3, R1, 4).load(Size::Word, R4, R1, 12);
        asm.load(Size::Half, R2, R10, TYPE).load(Size::Half, R5, R10, CONTENTS).be16(R5);
        asm.store(Size::Double, R1, 0, R3).store(Size::Word, R1, 8, R4);
        asm.store(Size::Half, R1, ADDRESSES_BYTES, R2).store(Size::Half, R1, ADDRESSES_BYTES + 2, R5);
        asm.store_imm(Size::Word, R10, IS_TAGGED, 1);
        asm.jump(done);
        abort(asm, impossible);
    }

    /// Makes a packet that leaves for the host what it was when it came. R0 to R5 are lost, and all pointers
    /// into the packet.
    pub(crate) fn emit_take_off(self, asm: &mut Assembler) {
        use Reg::{R0, R1, R2, R3, R4, R6, R10};
        let (as_it_came, impossible) = (asm.label(), asm.label());
        asm.load(Size::Word, R1, R10, IS_TAGGED).jump_if(Cond::Eq, R1, 0, as_it_came);
        bounds(asm, HEADER_BYTES + TAG_BYTES, impossible);
        asm.load(Size::Double, R3, R1, 0).load(Size::Word, R4, R1, 8);
        asm.store(Size::Double, R1, 4, R3).store(Size::Word, R1, 12, R4);
        asm.mov(R1, R6).mov_imm(R2, TAG_BYTES).call(Helper::XdpAdjustHead);
        // The first buffer holds a tag and a header, so that it is never too short for this.
        asm.jump_if(Cond::Eq, R0, 0, as_it_came);
        abort(asm, impossible);
        asm.bind(as_it_came);
    }
}

/// Loads where the packet begins into R1, and jumps if its first buffer has fewer than `bytes`.
fn bounds(asm: &mut Assembler, bytes: i32, shorter: Label) {
    use Reg::{R1, R2, R3, R6};
    asm.load(Size::Word, R1, R6, xdp_md::DATA).load(Size::Word, R2, R6, xdp_md::DATA_END);
    asm.mov(R3, R1).alu64(Alu::Add, R3, bytes).jump_if(Cond::Gt, R3, R2, shorter);
}

/// What cannot happen: shown by the kernel as a program's defect, and in the account as unexplained.
fn abort(asm: &mut Assembler, label: Label) {
    asm.bind(label).mov_imm(Reg::R0, bpf::XDP_ABORTED).exit();
}

#[cfg(test)]
mod tests;
