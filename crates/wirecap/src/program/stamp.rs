//! The time of each packet, asked for by the XDP program and written in front of the packet.
//!
//! Rule: a packet that cannot be stamped is counted, and captured nevertheless. It has a stamp of 0, "none",
//! or what was in its cell before.

use wirecap_sys::bpf::{self, Assembler, Cond, Helper, KernelFunction, Label, Reg, Size};

use super::metadata;

/// Bytes of a stamp in front of the packet.
pub(crate) const STAMP_BYTES: i32 = 8;
/// The driver's answer on the stack.
const ANSWER: i16 = -16;

/// What the XDP program asks for the time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StampSource {
    /// A clock of the kernel.
    Clock(Helper),
    /// The driver of this interface.
    Driver { function: KernelFunction, ifindex: u32 },
}

impl StampSource {
    /// The interface that the program must be bound to, if it must.
    pub(crate) fn bound_to(self) -> Option<u32> {
        match self {
            StampSource::Clock(_) => None,
            StampSource::Driver { ifindex, .. } => Some(ifindex),
        }
    }

    /// Asks the driver, if it is asked, before the packet is changed: the answer is at `asked` on the stack.
    /// The context is in R6; R0 to R5 and R9 are lost.
    pub(crate) fn emit_ask(self, asm: &mut Assembler, asked: i16) {
        if let StampSource::Driver { function, .. } = self {
            emit_question(asm, function);
            asm.store(Size::Double, Reg::R10, asked, Reg::R9);
        }
    }

    /// Puts the time of the packet at `asked` on the stack, where the driver's answer is already: 0 if it has
    /// none. R0 to R5 are lost.
    pub(crate) fn emit_answer(self, asm: &mut Assembler, asked: i16) {
        if let StampSource::Clock(helper) = self {
            asm.call(helper).store(Size::Double, Reg::R10, asked, Reg::R0);
        }
    }

    /// Stamps the packet, or jumps to `unstamped`. The driver was `asked` before, or is asked now. The
    /// context is in R6; R0 to R5 and R9 are lost, and all pointers into the packet.
    pub(crate) fn emit(self, asm: &mut Assembler, unstamped: Label, asked: Option<i16>) {
        use Reg::{R0, R1, R9};
        metadata::emit_room(asm, STAMP_BYTES, unstamped);
        match self {
            StampSource::Clock(helper) => {
                asm.call(helper);
                asm.mov(R9, R0);
            }
            StampSource::Driver { function, .. } => match asked {
                Some(asked) => _ = asm.load(Size::Double, R9, Reg::R10, asked),
                None => emit_question(asm, function),
            },
        }
        metadata::emit_place(asm, STAMP_BYTES, unstamped);
        asm.store(Size::Double, R1, 0, R9);
        if let StampSource::Driver { .. } = self {
            // The stamp of 0 is written nevertheless: the cell holds one of another packet.
            asm.jump_if(Cond::Eq, R9, 0, unstamped);
        }
    }
}

/// Asks the driver for the time of the packet: in R9, 0 if it has none.
fn emit_question(asm: &mut Assembler, function: KernelFunction) {
    use Reg::{R0, R1, R2, R6, R9, R10};
    let has_answered = asm.label();
    asm.store_imm(Size::Double, R10, ANSWER, 0);
    asm.mov(R1, R6).mov(R2, R10).alu64(bpf::Alu::Add, R2, i32::from(ANSWER));
    asm.call_kernel(function);
    asm.load(Size::Double, R9, R10, ANSWER);
    asm.jump_if32(Cond::Eq, R0, 0, has_answered);
    asm.mov_imm(R9, 0);
    asm.bind(has_answered);
}
