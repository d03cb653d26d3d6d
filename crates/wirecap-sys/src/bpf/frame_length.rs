//! The length of a frame, as an XDP program finds it.
//!
//! ```text
//!   the kernel's structure of the frame has no flag ──► one buffer:     its end less its begin
//!                                       has one     ──► several, perhaps: `bpf_xdp_get_buff_len` (Linux 5.18)
//! ```
//!
//! The context says where the first buffer ends, and not whether there is another one. The helper knows, but
//! each call costs some 10 ns where the kernel guards its returns against speculation. Since Linux 6.2 a
//! program can look into the kernel's own structure, without a call: the verifier replaces
//! `bpf_cast_to_kern_ctx` by a move.
//!
//! Rule: no flag at all means one buffer, so that the program need not know which flag stands for more.

use std::{fs, sync::OnceLock};

use super::{
    asm::Assembler,
    btf::{KernelFunction, Types, VMLINUX},
    insn::{Alu, Cond, Helper, Reg, Size},
    may_calculate_addresses, xdp_md,
};

/// What gives a program the kernel's structure of its context.
const CAST: &str = "bpf_cast_to_kern_ctx";
/// Whether the kernel translates calls of its functions on this machine.
const HAS_KERNEL_CALLS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// How an XDP program finds the length of a frame that may lie in several buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLength {
    flags: Option<Flags>,
}

/// The flags of a frame in the kernel's structure of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flags {
    cast: KernelFunction,
    /// Where they are in `struct xdp_buff`, in bytes.
    at: i16,
}

impl FrameLength {
    /// The fastest way that the running kernel allows this thread. Reads some megabytes at the first call.
    pub fn of_kernel() -> Self {
        static FLAGS: OnceLock<Option<Flags>> = OnceLock::new();
        let flags = *FLAGS.get_or_init(|| Flags::find(&fs::read(VMLINUX).ok()?));
        // Without CAP_PERFMON the verifier refuses both a look into that structure and a difference of
        // addresses.
        Self { flags: flags.filter(|_| HAS_KERNEL_CALLS && may_calculate_addresses()) }
    }

    /// The way of all kernels that have frames of several buffers.
    pub fn by_helper() -> Self {
        Self { flags: None }
    }

    /// Loads the length into R0. The context is in R6; R1 to R5 are lost.
    pub fn emit(self, asm: &mut Assembler) {
        use Reg::{R0, R1, R6};
        let (of_several, known) = (asm.label(), asm.label());
        if let Some(Flags { cast, at }) = self.flags {
            asm.mov(R1, R6).call_kernel(cast);
            asm.load(Size::Word, R1, R0, at).jump_if(Cond::Ne, R1, 0, of_several);
            asm.load(Size::Word, R1, R6, xdp_md::DATA).load(Size::Word, R0, R6, xdp_md::DATA_END);
            asm.alu64(Alu::Sub, R0, R1).jump(known);
        }
        asm.bind(of_several).mov(R1, R6).call(Helper::XdpGetBuffLen);
        asm.bind(known);
    }
}

impl Flags {
    /// From the kernel's type information.
    fn find(types: &[u8]) -> Option<Self> {
        let types = Types::read(types)?;
        let at = types.integer_member("xdp_buff", "flags", 4)?;
        Some(Self { cast: types.function(CAST)?, at: at.try_into().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use wirecap_lab::require_root;

    use super::*;
    use crate::bpf::{Program, ProgramKind, ProgramSpec};

    /// A program that returns the length of its frame.
    fn measuring(length: FrameLength, frags: bool) -> Program {
        let mut asm = Assembler::new();
        asm.mov(Reg::R6, Reg::R1);
        length.emit(&mut asm);
        asm.exit();
        let code = asm.finish().unwrap();
        let spec = ProgramSpec { frags, ..ProgramSpec::new(ProgramKind::Xdp, "wirecap_length", &code) };
        Program::load(&spec).unwrap()
    }

    #[test]
    fn both_ways_find_the_length_of_one_buffer_and_of_several() {
        if !require_root("frame_length::both_ways_find_the_length_of_one_buffer_and_of_several") {
            return;
        }
        for length in [FrameLength::by_helper(), FrameLength::of_kernel()] {
            for (frags, longest) in [(false, 3_000), (true, 60_000)] {
                let program = measuring(length, frags);
                for bytes in [14, 60, 1_514, 3_000, 9_014, 60_000] {
                    if bytes <= longest {
                        let run = program.test_run(&vec![7; bytes], 1).unwrap();
                        assert_eq!(run.action as usize, bytes, "{length:?}, {frags}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_kernel_that_can_is_asked_without_a_call() {
        if !require_root("frame_length::a_kernel_that_can_is_asked_without_a_call") {
            return;
        }
        let can = HAS_KERNEL_CALLS && matches!(KernelFunction::find(CAST), Ok(Some(_)));
        assert_eq!(FrameLength::of_kernel() != FrameLength::by_helper(), can);
    }

    #[test]
    fn without_type_information_the_helper_is_asked() {
        for types in [&b""[..], b"nothing of the kind", &[0x9f, 0xeb, 1, 0]] {
            assert_eq!(Flags::find(types), None);
        }
    }
}
