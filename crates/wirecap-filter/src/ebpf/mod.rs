//! A filter as a piece of an XDP program, so that unwanted packets cost nothing.
//!
//! ```text
//!   the caller's program                     the filter, by translate()
//!   ────────────────────                     ──────────────────────────
//!   R2 = data, R3 = data_end    ──────────►  A = R0, X = R1, slots on the stack
//!                                             data + n > data_end? ──► beyond
//!                                             load, compute, branch
//!   matches:   redirect         ◄───────────  return not 0
//!   rejects:   count, pass on   ◄───────────  return 0
//!   beyond:    see below        ◄───────────  a load outside of the packet's first buffer
//! ```
//!
//! **Registers:** R0 to R5 are the filter's, R6 to R9 and the stack outside of its slots stay as they are. No
//! helper is called.
//!
//! **Packets of several buffers** (jumbo frames): direct access sees the first buffer only. What the filter
//! would read behind it is for user space to look at: `beyond` of a program with `frags` lets such packets
//! through, undecided. Packets that are too short for what the filter wants to see are rejected all the same.
//! In a program without `frags` the first buffer is the packet, and `beyond` is the same as `rejects`.
//!
//! **Length on the wire** is that of the packet as XDP sees it: `data_end - data`, or that of all buffers, in
//! a register the caller names.
//!
//! **Privilege:** headers of variable length and `len` take arithmetic on packet addresses, which the
//! verifier allows with CAP_PERFMON only, beside the CAP_BPF and CAP_NET_ADMIN that loading takes. Filters of
//! constant offsets need no more than that, unless they exclude another filter (`Program::except`), which
//! takes `len`.
//!
//! Rule: what the verifier has to know is in the code. A constant offset is below a check of `data_end` that
//! dominates it, merged by the guards; X is compared with a constant before it is added to a pointer, and the
//! sum with `data_end` before it is read. Nothing newer than the 32-bit comparisons of Linux 5.1 is used;
//! `frags`, and how the caller finds the length of all buffers, are of 5.18 or newer and the caller's choice.

mod body;
mod emit;
mod socket;

use wirecap_sys::bpf::{Assembler, Label, Reg};

use crate::error::Error;
use crate::program::Program;

pub use socket::translate_for_socket;

/// The greatest end of a load from the packet's start or from X that is translated, in bytes: eBPF names
/// offsets with 15 bits.
pub const MAX_OFFSET: u32 = 0x7fff;

/// Bytes of stack the filter's slots take.
pub const STACK_BYTES: i16 = 4 * wirecap_sys::machine_code::MEMORY_SLOTS as i16;

/// Where the length on the wire comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// `data_end - data`: programs without `frags`.
    FirstBuffer,
    /// This register, one of R6 to R9, holds it: the length of all buffers.
    Register(Reg),
}

/// How a filter is joined to the program around it.
#[derive(Debug, Clone, Copy)]
pub struct Splice {
    /// Goes on here when the packet matches.
    pub matches: Label,
    /// Goes on here when it does not.
    pub rejects: Label,
    /// Goes on here when the filter wants to see bytes that are not in the first buffer.
    pub beyond: Label,
    /// Length of the packet on the wire.
    pub length: Length,
    /// The filter's slots are the [`STACK_BYTES`] bytes of the stack up to R10 + this: 0 or a negative
    /// multiple of 8.
    pub stack_end: i16,
}

/// Where a filter in a socket filter goes on.
#[derive(Debug, Clone, Copy)]
pub struct SocketSplice {
    /// When the packet matches.
    pub matches: Label,
    /// When it does not. Not the only way out: where the filter looks beyond the packet's end, the program
    /// ends at once and returns 0.
    pub rejects: Label,
    /// The filter's slots are the [`STACK_BYTES`] bytes of the stack up to R10 + this: 0
    /// or a negative multiple of 8.
    pub stack_end: i16,
}

/// Appends the filter to a program in which R2 is `data` and R3 is `data_end`. It leaves through the labels
/// only.
///
/// XDP does not know what a socket knows ([`Origin`](crate::Origin)): a program that asks is bound beforehand
/// ([`Program::bound_to`]), or rejects.
///
/// # Errors
/// [`Error::OffsetTooFar`] for filters that look farther than [`MAX_OFFSET`], [`Error::Loops`] for those that
/// jump backward; run those in user space. The assembler and the verifier may refuse the whole program when
/// it is finished and loaded.
///
/// # Panics
/// If the slots are not on the stack or not aligned, or `length` is a register of the filter's: a mistake of
/// the caller.
pub fn translate(asm: &mut Assembler, program: &Program, splice: &Splice) -> Result<(), Error> {
    emit::program(asm, program, splice)
}

#[cfg(test)]
mod tests;
