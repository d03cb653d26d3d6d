//! Room for metadata in front of a packet, as the XDP program makes it: what it writes there is read where
//! the packet is taken.
//!
//! ```text
//!   data_meta ──► │ this one │ what is behind it │ the packet ◄── data
//! ```
//!
//! Rule: it is written at a fixed distance from the packet, or not at all. Metadata that was there before
//! would put it elsewhere.

use wirecap_sys::bpf::{Alu, Assembler, Cond, Helper, Label, Reg, Size, xdp_md};

/// Makes room for `bytes` in front of the metadata that the packet already has, or jumps to `none`. The
/// context is in R6; R0 to R5 are lost, and all pointers into the packet.
pub(super) fn emit_room(asm: &mut Assembler, bytes: i32, none: Label) {
    asm.mov(Reg::R1, Reg::R6).mov_imm(Reg::R2, -bytes).call(Helper::XdpAdjustMeta);
    asm.jump_if(Cond::Ne, Reg::R0, 0, none);
}

/// Loads into R1 where the metadata begins, proven to be exactly `front` bytes in front of the packet, or
/// jumps to `elsewhere`. The context is in R6; R2 and R3 are lost.
pub(super) fn emit_place(asm: &mut Assembler, front: i32, elsewhere: Label) {
    use Reg::{R1, R2, R3, R6};
    asm.load(Size::Word, R1, R6, xdp_md::DATA_META).load(Size::Word, R2, R6, xdp_md::DATA);
    asm.mov(R3, R1).alu64(Alu::Add, R3, front).jump_if(Cond::Gt, R3, R2, elsewhere);
    asm.mov(R3, R1).alu64(Alu::Add, R3, front + 1).jump_if(Cond::Le, R3, R2, elsewhere);
}
