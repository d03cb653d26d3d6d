//! Copying a short packet by loads and stores instead of a helper of the kernel, whose call costs more than
//! the copy of a short packet.
//!
//! ```text
//!   packet:  │ 32 bytes │ 32 bytes │ 32 b … │        groups from the front, as long as more than 32 bytes are left;
//!                              │  32 bytes   │        then the last 32 bytes, which may overlap the group before
//! ```
//!
//! Rule: a packet that is shorter, longer or not in one piece is left to the helper. The verifier sees every
//! access compared with the end of the packet.

use super::record::HEADER_BYTES;
use crate::bpf::{Alu, Assembler, Cond, Label, Reg, Size};

/// Bytes that are compared with the end of the packet at once.
const GROUP: i32 = 32;
/// The longest packet that is copied in this way: one of Ethernet with its usual MTU and tags.
const MAX_BYTES: i32 = 1_536;
/// Whether the kernel allows loads and stores at any address: elsewhere the verifier refuses them.
const MAY_BE_UNALIGNED: bool = cfg!(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64",
    target_arch = "s390x"
));

/// Copies the R7 bytes of the packet behind its header, which is at R0, and goes on at `copied`; or goes on
/// behind this code if it cannot. The context, which is in R6, has the begin and the end of the packet's
/// first piece at these offsets. R1 to R5 are lost.
pub(super) fn emit_copy(asm: &mut Assembler, data: i16, data_end: i16, copied: Label) {
    use Reg::{R0, R1, R2, R3, R4, R6, R7};
    if !MAY_BE_UNALIGNED {
        return;
    }
    let (last, no) = (asm.label(), asm.label());
    let to = HEADER_BYTES as i16;
    asm.jump_if(Cond::Lt, R7, GROUP, no).jump_if(Cond::Gt, R7, MAX_BYTES, no);
    asm.load(Size::Word, R1, R6, data).load(Size::Word, R2, R6, data_end);
    for at in (0..MAX_BYTES - GROUP).step_by(GROUP as usize) {
        asm.jump_if(Cond::Le, R7, at + GROUP, last);
        asm.mov(R3, R1).alu64(Alu::Add, R3, at + GROUP).jump_if(Cond::Gt, R3, R2, no);
        emit_group(asm, R1, at as i16, R0, to + at as i16);
    }
    asm.bind(last);
    asm.mov(R3, R7).alu64(Alu::Sub, R3, GROUP);
    asm.alu64(Alu::Add, R1, R3).mov(R4, R1).alu64(Alu::Add, R4, GROUP).jump_if(Cond::Gt, R4, R2, no);
    asm.alu64(Alu::Add, R3, R0);
    emit_group(asm, R1, 0, R3, to);
    asm.jump(copied);
    asm.bind(no);
}

/// Copies a group through R5.
fn emit_group(asm: &mut Assembler, from: Reg, from_at: i16, to: Reg, to_at: i16) {
    for at in (0..GROUP as i16).step_by(8) {
        asm.load(Size::Double, Reg::R5, from, from_at + at).store(Size::Double, to, to_at + at, Reg::R5);
    }
}
