//! Programs that jump backward, and why each run of them ends.
//!
//! ```text
//!   rounds = jumps backward in the program × (captured bytes / 4 + 1)
//!   a jump backward is taken ──► rounds left? ── yes: one less, go on there ── no: the packet is rejected
//! ```
//!
//! libpcap compiles `protochain` to a loop over the headers of a packet: X is where the next header begins, A
//! is its protocol. Its `bpf_filter` loops until it finds the protocol, a header without a next one, or the
//! end of the packet. That may never happen: behind an authentication header libpcap sets X to the header's
//! length instead of adding it, so a packet of 60 bytes can send the loop back to where it was.
//!
//! Rule: for all that libpcap compiles, a run that ends in `bpf_filter` ends the same way here. After a jump
//! backward, A, X and the one slot of the loop depend on nothing but the bytes at the earlier X: a jump that
//! is taken twice from the same X repeats forever. X is a multiple of four, as lengths of headers are, and
//! inside the packet, else the run ends. So a run that ends takes each jump backward at most once for each
//! multiple of four inside the packet, and a run that needs more rounds would never end.
//!
//! Other programs with jumps backward, which no expression yields, have the same number of rounds, and are
//! cut off there.

use super::op::Op;

/// X moves by multiples of this number of bytes.
pub(super) const STEP_BYTES: u32 = 4;

/// Jumps that go backward.
pub fn jumps_back(ops: &[Op]) -> u32 {
    let back = |(index, op): &(usize, &Op)| matches!(op, Op::Jump(target) if target <= index);
    ops.iter().enumerate().filter(back).count() as u32
}

/// How often a program with `jumps_back` jumps backward may take them for a packet with `captured` bytes.
pub fn rounds(jumps_back: u32, captured: usize) -> u64 {
    u64::from(jumps_back) * (captured as u64 / u64::from(STEP_BYTES) + 1)
}
