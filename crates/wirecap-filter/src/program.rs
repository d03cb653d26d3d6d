//! A valid classic BPF program.
//!
//! ```text
//!   Vec<Insn> ──validate──► Program: each instruction as an Op
//!                 └──► InsnError: which instruction, and why
//!   two programs ──except──► Program: what the one matches and the other does not                 except.rs
//! ```
//!
//! Rule: a [`Program`] needs no further check. Every jump stays inside, every slot exists, no constant
//! divisor is zero, no constant shift is 32 or more, and the last instruction is a return. That is
//! `bpf_validate`'s rule. Jumps may go backward, and a run still ends: see
//! [`rounds`](wirecap_sys::machine_code::rounds).

use wirecap_sys::machine_code::{Op, Origin, Register, jumps_back};
use wirecap_sys::pcap::Insn;

use crate::bytecode::{self, Instruction, MAX_INSNS};
use crate::decode::{decode, encode};
use crate::error::{Error, InsnError};

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
    /// INVARIANT: valid, and the last one is a return, so that running on to the next instruction never
    /// leaves the program.
    ops: Vec<Op>,
    /// INVARIANT: `ops`, flattened: what the interpreter runs.
    code: Box<[Instruction]>,
    /// Jumps that go backward.
    jumps_back: u32,
}

impl Program {
    /// Validates.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first instruction that is not valid, or for the whole if it is empty or too
    /// long.
    pub fn new(insns: Vec<Insn>) -> Result<Self, Error> {
        let len = insns.len();
        check_len(len)?;
        let decode =
            |(index, insn)| decode(insn, index, len).map_err(|reason| Error::Invalid { index, reason });
        let ops = insns.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
        Self::of_valid(ops)
    }

    /// The program of these valid instructions.
    ///
    /// # Errors
    /// They are too many, or do not end with a return.
    pub(crate) fn of_valid(ops: Vec<Op>) -> Result<Self, Error> {
        check_len(ops.len())?;
        match ops.last() {
            Some(Op::Return(_) | Op::ReturnA) => {
                let (code, jumps_back) = (bytecode::flatten(&ops), jumps_back(&ops));
                Ok(Self { ops, code, jumps_back })
            }
            _ => Err(Error::Invalid { index: ops.len() - 1, reason: InsnError::NoReturn }),
        }
    }

    /// The instructions as classic BPF, for others that run it; `None` if a conditional jump goes farther
    /// than its 255 instructions, which is so for no program that was given as such.
    pub fn insns(&self) -> Option<Vec<Insn>> {
        self.ops.iter().enumerate().map(|(index, op)| encode(op, index)).collect()
    }

    /// The instructions, understood.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The instructions, as the interpreter runs them.
    #[inline]
    pub(crate) fn code(&self) -> &[Instruction] {
        &self.code
    }

    /// Whether it jumps backward, as libpcap has it for `protochain`. Such programs run in user space only.
    pub fn loops(&self) -> bool {
        self.jumps_back > 0
    }

    /// Jumps in it that go backward.
    pub(crate) fn jumps_back(&self) -> u32 {
        self.jumps_back
    }

    /// Whether it asks for this.
    pub fn asks(&self, origin: Origin) -> bool {
        self.ops.contains(&Op::LoadOrigin(origin))
    }

    /// The program for packets of one type and one interface: where it asks for these, it is given them.
    ///
    /// ```
    /// use wirecap_filter::{Filter, LINK_TYPE_ETHERNET, Origin};
    ///
    /// const PACKET_HOST: u32 = 0;
    /// const PACKET_OUTGOING: u32 = 4;
    /// let filter = Filter::compile("outbound and ifindex 7", LINK_TYPE_ETHERNET, 96)?;
    /// assert!(filter.program().asks(Origin::PacketType));
    /// assert_eq!(filter.program().bound_to(PACKET_OUTGOING, 7).run(&[], 0), 96);
    /// assert_eq!(filter.program().bound_to(PACKET_HOST, 7).run(&[], 0), 0);
    /// assert_eq!(filter.program().run(&[], 0), 0, "it is not bound");
    /// # Ok::<(), wirecap_filter::Error>(())
    /// ```
    #[must_use]
    pub fn bound_to(&self, packet_type: u32, ifindex: u32) -> Self {
        let mut bound = self.clone();
        for op in &mut bound.ops {
            let value = match op {
                Op::LoadOrigin(Origin::PacketType) => packet_type,
                Op::LoadOrigin(Origin::Interface) => ifindex,
                _ => continue,
            };
            *op = Op::LoadConstant(Register::A, value);
        }
        bound.code = bytecode::flatten(&bound.ops);
        bound
    }
}

fn check_len(len: usize) -> Result<(), Error> {
    let is_valid = (1..=MAX_INSNS).contains(&len);
    is_valid.then_some(()).ok_or(Error::Invalid { index: 0, reason: InsnError::Length(len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETURN: Insn = Insn::new(0x06, 0, 0, 1);

    fn reason(insns: &[Insn]) -> (usize, InsnError) {
        match Program::new(insns.to_vec()).unwrap_err() {
            Error::Invalid { index, reason } => (index, reason),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_invalid_program_is_reported_with_the_place() {
        assert_eq!(reason(&[]), (0, InsnError::Length(0)));
        assert_eq!(reason(&vec![RETURN; MAX_INSNS + 1]), (0, InsnError::Length(MAX_INSNS + 1)));
        assert_eq!(reason(&[RETURN, Insn::new(0x07, 0, 0, 0)]), (1, InsnError::NoReturn));
        assert_eq!(reason(&[Insn::new(0x02, 0, 0, 16), RETURN]), (0, InsnError::Slot(16)));
        assert_eq!(reason(&[Insn::new(0x34, 0, 0, 0), RETURN]), (0, InsnError::DivisionByZero));
        assert_eq!(reason(&[Insn::new(0x94, 0, 0, 0), RETURN]), (0, InsnError::DivisionByZero));
        assert_eq!(reason(&[Insn::new(0x64, 0, 0, 32), RETURN]), (0, InsnError::Shift(32)));
        assert_eq!(reason(&[Insn::new(0x05, 0, 0, 1), RETURN]), (0, InsnError::Jump(2)));
        assert_eq!(reason(&[Insn::new(0x15, 0, 1, 0), RETURN]), (0, InsnError::Jump(2)));
        assert_eq!(reason(&[Insn::new(0x05, 0, 0, -2_i32 as u32), RETURN]), (0, InsnError::Jump(-1)));
    }

    /// All 65,536 codes: ours and libpcap's valid codes are the same.
    #[test]
    fn the_valid_codes_are_those_of_libpcap() {
        let libpcap = wirecap_sys::pcap::library().expect("these tests need libpcap");
        for code in 0..=u16::MAX {
            let insns = [Insn::new(code, 0, 0, 1), RETURN, RETURN, RETURN];
            let ours = Program::new(insns.to_vec()).is_ok();
            assert_eq!(ours, libpcap.filter(&insns).is_some(), "code {code:#x}");
        }
    }
}
