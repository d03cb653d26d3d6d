//! Packing a packet that the kernel has in a socket buffer, with its VLAN tag.
//!
//! ```text
//!   beside the packet:  TPID, TCI ──────────────┐
//!   socket buffer:      MAC addresses │ type …  │    copied 4 bytes further behind, then
//!   record:             MAC addresses │ TPID │ TCI │ type …    the addresses moved to the front
//! ```
//!
//! See `struct __sk_buff` of <linux/bpf.h>.

use super::{record::HEADER_BYTES, stores};
use crate::bpf::{Alu, Assembler, Cond, Helper, Label, Reg, Size, sk_buff};

/// Both Ethernet addresses, in front of a tag.
const ADDRESSES_BYTES: i16 = 12;
const TAG_BYTES: i32 = 4;
/// The shortest packet that has a tag: an Ethernet header with it.
const MIN_TAGGED_BYTES: i32 = 18;

/// The length of the packet in R0, its tag included. The context is in R6; R1 is lost.
pub(super) fn emit_length(asm: &mut Assembler, tag: i16) {
    use Reg::{R0, R1, R6, R10};
    let untagged = asm.label();
    asm.load(Size::Word, R0, R6, sk_buff::LEN);
    asm.load(Size::Half, R1, R10, tag).jump_if(Cond::Eq, R1, 0, untagged);
    asm.alu64(Alu::Add, R0, TAG_BYTES);
    asm.bind(untagged);
}

/// Copies the first R7 bytes of the packet, its tag included, into the record at R0, which stays there. A
/// packet `may_be_short` if it may take the least room. Uses this `place` on the stack; R1 to R5 are lost.
pub(super) fn emit_copy(asm: &mut Assembler, tag: i16, place: i16, may_be_short: bool, broken: Label) {
    use Reg::{R0, R1, R2, R3, R4, R6, R7, R10};
    let (untagged, copied) = (asm.label(), asm.label());
    let data = HEADER_BYTES as i16;
    asm.load(Size::Half, R1, R10, tag).jump_if(Cond::Eq, R1, 0, untagged);
    asm.jump_if(Cond::Lt, R7, MIN_TAGGED_BYTES, broken).store(Size::Double, R10, place, R0);
    asm.mov(R3, R0).alu64(Alu::Add, R3, i32::from(data) + TAG_BYTES);
    asm.mov(R4, R7).alu64(Alu::Sub, R4, TAG_BYTES);
    asm.mov(R1, R6).mov_imm(R2, 0).call(Helper::SkbLoadBytes).jump_if(Cond::Ne, R0, 0, broken);
    asm.load(Size::Double, R0, R10, place);
    for at in (0..ADDRESSES_BYTES).step_by(4) {
        asm.load(Size::Word, R1, R0, data + at + TAG_BYTES as i16).store(Size::Word, R0, data + at, R1);
    }
    asm.load(Size::Half, R1, R10, tag).store(Size::Half, R0, data + ADDRESSES_BYTES, R1);
    // The number with its most significant byte first.
    asm.load(Size::Word, R1, R10, tag + 4).store(Size::Byte, R0, data + ADDRESSES_BYTES + 3, R1);
    asm.alu64(Alu::Rsh, R1, 8).store(Size::Byte, R0, data + ADDRESSES_BYTES + 2, R1);
    asm.jump(copied);

    asm.bind(untagged);
    if may_be_short {
        stores::emit_copy(asm, sk_buff::DATA, sk_buff::DATA_END, copied);
    }
    asm.store(Size::Double, R10, place, R0);
    asm.mov(R3, R0).alu64(Alu::Add, R3, i32::from(data)).mov(R4, R7);
    asm.mov(R1, R6).mov_imm(R2, 0).call(Helper::SkbLoadBytes).jump_if(Cond::Ne, R0, 0, broken);
    asm.load(Size::Double, R0, R10, place);
    asm.bind(copied);
}
