//! The reference interpreter; tests compare every other back end with it.
//!
//! ```text
//!   A, X, memory[16] = 0        packet: what was captured        wirelen: what was on the wire
//!   instruction ──► instruction ──► … ──► return: bytes wanted, 0 = rejected
//! ```
//!
//! The rules, which are those of libpcap's `bpf_filter`:
//!
//! - A load that is not wholly inside the captured bytes ends with 0. Offsets do not wrap: X + k beyond 32
//!   bits is outside. So are the extensions of Linux sockets (`SKF_AD_OFF` = 0xfffff000 and more), which
//!   `bpf_filter` does not have either: see [`Program::bound_to`].
//! - Division and remainder by X = 0 end with 0.
//! - Shifts by X ≥ 32 leave 0, as in libpcap 1.10; eBPF and x86-64 by themselves would take them modulo 32.
//! - A run that jumps backward too often ends with 0: `rounds.rs` has the bound, and why `bpf_filter` would
//!   then never end.
//! - A slot that was not written reads as 0, as in libpcap 1.11; it is undefined before and refused by
//!   the kernel.

use wirecap_sys::machine_code::{Alu, Cond, MEMORY_SLOTS, rounds};

use crate::bytecode::{Instruction, Target};
use crate::program::Program;

impl Program {
    /// Runs the program on a packet of which `packet` was captured and which was `wirelen` bytes long.
    ///
    /// Returns how many bytes of it are wanted; 0 means that it does not match. About 1 ns an instruction, no
    /// more than `bpf_filter` takes (`cargo bench -p wirecap-filter`).
    pub fn run(&self, packet: &[u8], wirelen: u32) -> u32 {
        self.interpret(packet, wirelen, &mut 0).unwrap_or(0)
    }

    /// The same; `None` for packets on which it loops until it is cut off. With a filter of libpcap's
    /// (`protochain`), `bpf_filter` would never end on these.
    pub fn decide(&self, packet: &[u8], wirelen: u32) -> Option<u32> {
        let mut jumps_back = 0;
        match self.interpret(packet, wirelen, &mut jumps_back) {
            None if self.is_cut_off(jumps_back, packet) => None,
            wanted => Some(wanted.unwrap_or(0)),
        }
    }

    /// Whether a run jumps backward more often than any that ends.
    #[cold]
    #[inline(never)]
    fn is_cut_off(&self, jumps_back: u64, packet: &[u8]) -> bool {
        jumps_back > rounds(self.jumps_back(), packet.len())
    }

    /// What the program returns; `None` when an instruction rejects the packet, or after too many jumps
    /// backward.
    #[inline(always)]
    fn interpret(&self, packet: &[u8], wirelen: u32, jumps_back: &mut u64) -> Option<u32> {
        let code = self.code();
        let (mut a, mut x, mut memory) = (0, 0, [0; MEMORY_SLOTS]);
        let mut at: Target = 0;
        loop {
            let instruction = &code[usize::from(at)];
            // The last instruction is a return: whatever else there is has a next one.
            at = at.wrapping_add(1);
            match *instruction {
                Instruction::Byte(offset) => {
                    a = byte(packet, offset.into())?;
                    at = compare(code, a, at);
                }
                Instruction::Half(offset) => {
                    a = half(packet, offset.into())?;
                    at = compare(code, a, at);
                }
                Instruction::Word(offset) => {
                    a = word(packet, offset.into())?;
                    at = compare(code, a, at);
                }
                Instruction::ByteAtX(offset) => {
                    a = byte(packet, sum(x, offset))?;
                    at = compare(code, a, at);
                }
                Instruction::HalfAtX(offset) => {
                    a = half(packet, sum(x, offset))?;
                    at = compare(code, a, at);
                }
                Instruction::WordAtX(offset) => {
                    a = word(packet, sum(x, offset))?;
                    at = compare(code, a, at);
                }
                Instruction::HeaderLength(offset) => x = (byte(packet, offset.into())? & 0xf) << 2,
                Instruction::NextUnlessEqual { .. } | Instruction::NextIfEqual { .. } => {
                    at = compare(code, a, at - 1);
                }
                Instruction::JumpEqual { k, then, otherwise } => at = if a == k { then } else { otherwise },
                Instruction::JumpGreater { k, then, otherwise } => at = if a > k { then } else { otherwise },
                Instruction::JumpGreaterEqual { k, then, otherwise } => {
                    at = if a >= k { then } else { otherwise };
                }
                Instruction::JumpSet { k, then, otherwise } => at = if a & k != 0 { then } else { otherwise },
                Instruction::JumpIfX { cond, then, otherwise } => {
                    at = if holds(cond, a, x) { then } else { otherwise };
                }
                Instruction::Jump(target) => at = target,
                Instruction::JumpBack(target) => {
                    *jumps_back += 1;
                    if self.is_cut_off(*jumps_back, packet) {
                        return None;
                    }
                    at = target;
                }
                Instruction::LengthToA => a = wirelen,
                Instruction::LengthToX => x = wirelen,
                Instruction::ConstantToA(k) => a = k,
                Instruction::ConstantToX(k) => x = k,
                Instruction::SlotToA(slot) => a = memory[usize::from(slot)],
                Instruction::SlotToX(slot) => x = memory[usize::from(slot)],
                Instruction::AToSlot(slot) => memory[usize::from(slot)] = a,
                Instruction::XToSlot(slot) => memory[usize::from(slot)] = x,
                Instruction::AluK(alu, k) => a = compute(alu, a, k)?,
                Instruction::AluX(alu) => a = compute(alu, a, x)?,
                Instruction::Negate => a = a.wrapping_neg(),
                Instruction::AToX => x = a,
                Instruction::XToA => a = x,
                Instruction::Return(k) => return Some(k),
                Instruction::ReturnA => return Some(a),
            }
        }
    }
}

/// Where the comparisons of A lead that begin at `at`, if there are any: nearly every load is followed by
/// one, and `or` makes chains of them. A branch for each predicts better than a dispatch.
#[inline(always)]
fn compare(code: &[Instruction], a: u32, mut at: Target) -> Target {
    loop {
        match code[usize::from(at)] {
            Instruction::NextUnlessEqual { k, then } if a == k => return then,
            Instruction::NextUnlessEqual { .. } => at += 1,
            Instruction::NextIfEqual { k, .. } if a == k => return at + 1,
            Instruction::NextIfEqual { otherwise, .. } => at = otherwise,
            _ => return at,
        }
    }
}

/// X + an offset, which does not wrap.
#[inline(always)]
fn sum(x: u32, offset: u32) -> u64 {
    u64::from(x) + u64::from(offset)
}

#[inline(always)]
fn byte(packet: &[u8], offset: u64) -> Option<u32> {
    load::<1>(packet, offset).map(|[byte]| byte.into())
}

#[inline(always)]
fn half(packet: &[u8], offset: u64) -> Option<u32> {
    load(packet, offset).map(|bytes| u16::from_be_bytes(bytes).into())
}

#[inline(always)]
fn word(packet: &[u8], offset: u64) -> Option<u32> {
    load(packet, offset).map(u32::from_be_bytes)
}

/// Bytes of the packet, wholly inside.
#[inline(always)]
fn load<const BYTES: usize>(packet: &[u8], offset: u64) -> Option<[u8; BYTES]> {
    packet.get(usize::try_from(offset).ok()?..)?.first_chunk().copied()
}

/// Whether A and X compare like this.
#[inline(always)]
fn holds(cond: Cond, a: u32, x: u32) -> bool {
    match cond {
        Cond::Eq => a == x,
        Cond::Gt => a > x,
        Cond::Ge => a >= x,
        Cond::Set => a & x != 0,
    }
}

/// `a op b`; `None` for a division by zero.
#[inline(always)]
fn compute(alu: Alu, a: u32, b: u32) -> Option<u32> {
    Some(match alu {
        Alu::Add => a.wrapping_add(b),
        Alu::Sub => a.wrapping_sub(b),
        Alu::Mul => a.wrapping_mul(b),
        Alu::Div => a.checked_div(b)?,
        Alu::Mod => a.checked_rem(b)?,
        Alu::Or => a | b,
        Alu::And => a & b,
        Alu::Xor => a ^ b,
        Alu::Lsh => a.checked_shl(b).unwrap_or(0),
        Alu::Rsh => a.checked_shr(b).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NativeFilter;
    use wirecap_sys::pcap::Insn;

    /// Jumps backward `times` times, whatever the packet, and returns 7.
    fn counting(times: u32) -> Program {
        let back = -5_i32 as u32;
        let count =
            [(0x60, 0, 0), (0x15, 3, times), (0x04, 0, 1), (0x02, 0, 0), (0x05, 0, back), (0x06, 0, 7)];
        Program::new(count.map(|(code, jt, k)| Insn::new(code, jt, 0, k)).to_vec()).unwrap()
    }

    /// Two loops one behind the other, each of which jumps backward `times` times.
    fn counting_twice(times: u32) -> Program {
        let back = -5_i32 as u32;
        let count =
            |slot| [(0x60, 0, slot), (0x15, 3, times), (0x04, 0, 1), (0x02, 0, slot), (0x05, 0, back)];
        let insns = [0, 1].into_iter().flat_map(count).chain([(0x06, 0, 7)]);
        Program::new(insns.map(|(code, jt, k)| Insn::new(code, jt, 0, k)).collect()).unwrap()
    }

    #[test]
    fn each_jump_backward_has_rounds_of_its_own() {
        let packet = [0; 60];
        assert_eq!(counting_twice(60 / 4 + 1).decide(&packet, 60), Some(7));
        assert_eq!(counting_twice(60 / 4 + 2).decide(&packet, 60), None);
    }

    #[test]
    fn the_last_allowed_round_runs_and_none_after_it() {
        for len in [0, 3, 4, 8, 60] {
            let packet = vec![0; len];
            let most = len as u32 / 4 + 1;
            assert_eq!(counting(most).decide(&packet, 60), Some(7), "{len}");
            assert_eq!(counting(most + 1).decide(&packet, 60), None, "{len}");
            for times in [most, most + 1] {
                let native = NativeFilter::new(&counting(times)).unwrap();
                assert_eq!(native.matches(&packet, 60), counting(times).run(&packet, 60), "{len}, {times}");
            }
        }
    }
}
