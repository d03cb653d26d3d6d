//! Programs that jump backward, and why each run of them ends.
//!
//! ```text
//!   rounds = jumps backward in the program × (captured bytes / 4 + 1)
//!   a jump backward is taken ──► rounds left? ── yes: one less, go on there ── no: the packet is rejected
//! ```
//!
//! libpcap compiles `protochain` to a loop over the headers of a packet: X is where the next one begins, A which it
//! is. Its `bpf_filter` goes round until it finds the protocol, a header that has no next one, or the end of the packet.
//! That may be never: behind an authentication header libpcap sets X to the header's length instead of adding it, so that
//! a packet of 60 bytes can send it back to where it was.
//!
//! **The rule that holds here:** what `bpf_filter` brings to an end is brought to the same end here, for all that libpcap
//! compiles. After a jump backward, A, X and the one slot of the loop follow from the bytes at the X before it, and
//! nothing else does: a jump that is taken twice from the same X has come round, and will for ever. X is a multiple
//! of four, as lengths of headers are, and inside of the packet, else the run ends. So a run that ends takes each jump
//! backward once for each multiple of four inside of the packet at the most, and who needs more rounds would never have
//! ended.
//!
//! Other programs with jumps backward, which no expression gives, have the same rounds, and are cut off there.

use super::op::Op;

/// X moves by multiples of so many bytes.
pub(super) const STEP_BYTES: u32 = 4;

/// Jumps that go backward.
pub fn jumps_back(ops: &[Op]) -> u32 {
    let back = |(index, op): &(usize, &Op)| matches!(op, Op::Jump(target) if target <= index);
    ops.iter().enumerate().filter(back).count() as u32
}

/// How often a program with `jumps_back` jumps backward may take them for a packet of which `captured` bytes are there.
pub fn rounds(jumps_back: u32, captured: usize) -> u64 {
    u64::from(jumps_back) * (captured as u64 / u64::from(STEP_BYTES) + 1)
}
