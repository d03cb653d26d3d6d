//! Copying a short packet by loads and stores instead of a helper of the kernel, whose call costs more than
//! the copy of a short packet.
//!
//! ```text
//!   374 bytes:  │          256          │  64  │ 32 │ 22 │     the longest runs that leave something;
//!                                              │   32    │     then the last 32 bytes, which may overlap the run before
//! ```
//!
//! Rule: a packet that is shorter, longer or not in one piece is left to the helper. The verifier sees every
//! access compared with the end of the packet, once for a run.

use super::record::HEADER_BYTES;
use crate::bpf::{Alu, Assembler, Cond, Label, Reg, Size};

/// Lengths of runs, each half of the one before, so that each comes at most once in a packet. A run takes one
/// comparison with the packet's length and one with its end.
const RUNS: [i32; 6] = [1_024, 512, 256, 128, 64, SHORTEST];
/// The shortest run, the last one, and the shortest packet.
const SHORTEST: i32 = 32;
/// The longest packet that is copied in this way: one of Ethernet with its usual MTU and tags.
const MAX_BYTES: i32 = 1_536;
// Otherwise more than the last run could hold would be left.
const _: () = assert!(MAX_BYTES <= 2 * RUNS[0]);
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
    use Reg::{R0, R1, R2, R3, R4, R5, R6, R7};
    if !MAY_BE_UNALIGNED {
        return;
    }
    let (short, no) = (asm.label(), asm.label());
    asm.jump_if(Cond::Lt, R7, SHORTEST, no).jump_if(Cond::Gt, R7, MAX_BYTES, no);
    asm.load(Size::Word, R1, R6, data).load(Size::Word, R2, R6, data_end);
    // From R1 to R3; R4 bytes are left.
    asm.mov(R3, R0).mov(R4, R7).jump_if(Cond::Le, R4, 2 * SHORTEST, short);
    for run in RUNS {
        let shorter = asm.label();
        if run == SHORTEST {
            asm.bind(short);
        }
        asm.jump_if(Cond::Le, R4, run, shorter);
        asm.mov(R5, R1).alu64(Alu::Add, R5, run).jump_if(Cond::Gt, R5, R2, no);
        emit_run(asm, R1, R3, run);
        if run != SHORTEST {
            asm.alu64(Alu::Add, R1, run).alu64(Alu::Add, R3, run).alu64(Alu::Sub, R4, run);
        }
        asm.bind(shorter);
    }
    // From the front of the packet: the verifier would lose the bounds of a pointer that is moved back.
    asm.load(Size::Word, R1, R6, data).mov(R3, R7).alu64(Alu::Sub, R3, SHORTEST);
    asm.alu64(Alu::Add, R1, R3).mov(R4, R1).alu64(Alu::Add, R4, SHORTEST).jump_if(Cond::Gt, R4, R2, no);
    asm.alu64(Alu::Add, R3, R0);
    emit_run(asm, R1, R3, SHORTEST);
    asm.jump(copied);
    asm.bind(no);
}

/// Copies a run through R5, to behind the header at `to`.
fn emit_run(asm: &mut Assembler, from: Reg, to: Reg, bytes: i32) {
    for at in (0..bytes as i16).step_by(8) {
        asm.load(Size::Double, Reg::R5, from, at).store(Size::Double, to, HEADER_BYTES as i16 + at, Reg::R5);
    }
}
