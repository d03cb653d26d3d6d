//! A valid classic BPF program.
//!
//! ```text
//!   Vec<Insn> ──validate──► Program: the instructions, and each of them as an Op
//!                 └──► Invalid: which instruction, and why
//! ```
//!
//! **The rule that holds here:** whoever has a [`Program`] need not check it again. Every jump goes forward and
//! inside, every slot exists, no constant divisor is zero, no constant shift is 32 or more, and every path ends
//! in a return. That is `bpf_validate`'s rule with one addition: no loops, as in the kernel.

use wirecap_sys::pcap::Insn;

use crate::error::{Error, Invalid};
use crate::op::Op;

/// Slots of scratch memory (`BPF_MEMWORDS`).
pub const MEMORY_SLOTS: usize = 16;

/// The longest program that is taken: 16 times what the kernel takes, so that what is too long for it still
/// runs in user space.
pub const MAX_INSNS: usize = 1 << 16;

/// A validated classic BPF program.
///
/// ```
/// use wirecap_filter::{Insn, Program};
///
/// let ipv4 = Program::new(vec![
///     Insn::new(0x28, 0, 0, 12),    // ldh [12]
///     Insn::new(0x15, 0, 1, 0x800), // jeq #0x800, next, skip one
///     Insn::new(0x06, 0, 0, 96),    // ret #96
///     Insn::new(0x06, 0, 0, 0),     // ret #0
/// ])?;
/// assert_eq!(ipv4.run(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], 14), 96);
/// assert_eq!(ipv4.run(&[0; 14], 14), 0);
/// # Ok::<(), wirecap_filter::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    insns: Vec<Insn>,
    /// INVARIANT: as long as `insns`, and the last one is a return, so that running on to the next instruction
    /// never leaves the program.
    ops: Vec<Op>,
}

impl Program {
    /// Validates.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first instruction that is not valid, or for the whole if it is empty or too
    /// long.
    pub fn new(insns: Vec<Insn>) -> Result<Self, Error> {
        let len = insns.len();
        if len == 0 || len > MAX_INSNS {
            return Err(Error::Invalid { index: 0, reason: Invalid::Length { len } });
        }
        let decode =
            |(index, insn)| Op::decode(insn, index, len).map_err(|reason| Error::Invalid { index, reason });
        let ops: Vec<Op> = insns.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
        match ops.last() {
            Some(Op::Return(_) | Op::ReturnA) => Ok(Self { insns, ops }),
            _ => Err(Error::Invalid { index: len - 1, reason: Invalid::NoReturn }),
        }
    }

    /// The instructions, as they were given.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// The instructions, understood.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETURN: Insn = Insn::new(0x06, 0, 0, 1);

    fn reason(insns: &[Insn]) -> (usize, Invalid) {
        match Program::new(insns.to_vec()).unwrap_err() {
            Error::Invalid { index, reason } => (index, reason),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_is_not_valid_is_told_with_its_place() {
        assert_eq!(reason(&[]), (0, Invalid::Length { len: 0 }));
        assert_eq!(reason(&vec![RETURN; MAX_INSNS + 1]), (0, Invalid::Length { len: MAX_INSNS + 1 }));
        assert_eq!(reason(&[RETURN, Insn::new(0x07, 0, 0, 0)]), (1, Invalid::NoReturn));
        assert_eq!(reason(&[Insn::new(0x02, 0, 0, 16), RETURN]), (0, Invalid::Slot { slot: 16 }));
        assert_eq!(reason(&[Insn::new(0x34, 0, 0, 0), RETURN]), (0, Invalid::DivisionByZero));
        assert_eq!(reason(&[Insn::new(0x94, 0, 0, 0), RETURN]), (0, Invalid::DivisionByZero));
        assert_eq!(reason(&[Insn::new(0x64, 0, 0, 32), RETURN]), (0, Invalid::Shift { bits: 32 }));
        assert_eq!(reason(&[Insn::new(0x05, 0, 0, 1), RETURN]), (0, Invalid::Jump { target: 2 }));
        assert_eq!(reason(&[Insn::new(0x15, 0, 1, 0), RETURN]), (0, Invalid::Jump { target: 2 }));
        assert_eq!(reason(&[Insn::new(0x05, 0, 0, -1_i32 as u32), RETURN]), (0, Invalid::Loop));
    }

    /// All 65,536 codes: the same are valid here and there.
    #[test]
    fn the_same_codes_are_valid_as_in_libpcap() {
        let libpcap = wirecap_sys::pcap::library().expect("these tests need libpcap");
        for code in 0..=u16::MAX {
            let insns = [Insn::new(code, 0, 0, 1), RETURN, RETURN, RETURN];
            let ours = Program::new(insns.to_vec()).is_ok();
            assert_eq!(ours, libpcap.judge(&insns).is_some(), "code {code:#x}");
        }
    }
}
