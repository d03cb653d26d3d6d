//! The length of a frame, as an XDP program finds it.
//!
//! ```text
//!   `xdp_buff.flags` is 0 ──► one buffer:               data_end - data
//!                  is not ──► several buffers, perhaps: bpf_xdp_get_buff_len (Linux 5.18)
//! ```
//!
//! The context says where the first buffer ends, and not whether there is another one. The helper knows, but
//! its call cost 8 ns on a processor whose kernel guards its returns against speculation. Since Linux 6.2 a
//! program can look into the kernel's own structure without a call: the verifier replaces
//! `bpf_cast_to_kern_ctx` by a move.
//!
//! Rule: no flag at all means one buffer, so the program need not know which flag stands for more. Whether
//! the kernel takes such a program is tried, since that depends on more than its version: the kernel may
//! interpret programs, or a security module may deny CAP_PERFMON.

use std::{fs, sync::OnceLock};

use super::{
    Program, ProgramKind, ProgramSpec,
    asm::Assembler,
    btf::{CAST, KernelFunction, Types, VMLINUX},
    insn::{Alu, Cond, Helper, Reg, Size},
    xdp_md,
};

/// How an XDP program finds the length of a frame that may lie in several buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLength {
    flags: Option<Flags>,
}

/// Where a program finds the flags of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flags {
    cast: KernelFunction,
    /// Their offset in `struct xdp_buff`, in bytes.
    at: i16,
}

impl FrameLength {
    /// Without a call for frames of one buffer, if the running kernel takes such programs from this thread;
    /// otherwise [by the helper](Self::by_helper). Loads a program to try it; the first call reads some
    /// megabytes.
    pub fn of_kernel() -> Self {
        static FLAGS: OnceLock<Flags> = OnceLock::new();
        let find = || {
            let flags = Flags::find(&fs::read(VMLINUX).ok()?)?;
            Some(*FLAGS.get_or_init(|| flags))
        };
        Self { flags: FLAGS.get().copied().or_else(find) }.if_accepted()
    }

    /// By a call of `bpf_xdp_get_buff_len`, which Linux has since 5.18.
    pub fn by_helper() -> Self {
        Self { flags: None }
    }

    /// By the helper, unless the kernel takes a program that does it in this way.
    fn if_accepted(self) -> Self {
        let accepted = self.flags.filter(|_| self.measuring(false).is_ok());
        Self { flags: accepted }
    }

    /// A program that returns the length of its frame.
    fn measuring(self, frags: bool) -> Result<Program, super::Error> {
        let mut asm = Assembler::new();
        asm.mov(Reg::R6, Reg::R1);
        self.emit(&mut asm);
        asm.exit();
        let code = asm.finish()?;
        Program::load(&ProgramSpec { frags, ..ProgramSpec::new(ProgramKind::Xdp, "wirecap_length", &code) })
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
    use wirecap_testing::kernel_is_at_least;

    use super::{
        super::{btf::tests::file_of, insn::Insn},
        *,
    };

    #[test]
    fn both_ways_find_the_length_of_one_buffer_and_of_several() {
        if !require_root("frame_length::both_ways_find_the_length_of_one_buffer_and_of_several") {
            return;
        }
        for length in [FrameLength::by_helper(), FrameLength::of_kernel()] {
            for (frags, longest) in [(false, 3_000), (true, 60_000)] {
                let program = length.measuring(frags).unwrap();
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
    fn kernels_with_the_cast_need_no_helper() {
        if !require_root("frame_length::kernels_with_the_cast_need_no_helper") {
            return;
        }
        let has_it = cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && kernel_is_at_least(6, 2);
        assert_eq!(FrameLength::of_kernel() != FrameLength::by_helper(), has_it);
    }

    #[test]
    fn only_a_frame_with_flags_reaches_the_helper() {
        let mut asm = Assembler::new();
        FrameLength { flags: Some(Flags { cast: KernelFunction { id: 1 }, at: 52 }) }.emit(&mut asm);
        asm.exit();
        let code = asm.finish().unwrap();
        let call = |source, number| {
            let is_it = |insn: &Insn| (insn.code(), insn.src(), insn.imm()) == (0x85, source, number);
            code.insns.iter().position(is_it).unwrap()
        };
        let (cast, helper) = (call(2, 1), call(0, Helper::XdpGetBuffLen as i32));
        let jump = &code.insns[helper - 2];
        assert_eq!((jump.code(), jump.off()), (0x05, 2), "the length is known: over the helper");
        let with_flags = &code.insns[cast + 2];
        assert_eq!((with_flags.code(), cast + 3 + with_flags.off() as usize), (0x55, helper - 1));
    }

    #[test]
    fn a_way_that_the_kernel_refuses_is_not_taken() {
        if !require_root("frame_length::a_way_that_the_kernel_refuses_is_not_taken") {
            return;
        }
        let cast = KernelFunction::find("xdp_do_redirect").unwrap().expect("drivers call it");
        let refused = FrameLength { flags: Some(Flags { cast, at: 52 }) };
        assert_eq!(refused.if_accepted(), FrameLength::by_helper());
    }

    #[test]
    fn the_flags_are_found_only_with_cast_and_structure() {
        let find = |cast: &str, structure: &str, flags: &str| {
            let strings = ["", cast, structure, flags, ""].join("\0");
            let structure_at = 2 + cast.len() as u32;
            let flags_at = structure_at + 1 + structure.len() as u32;
            let (int, with_one_member, function) = (1 << 24, (4 << 24) | 1, 12 << 24);
            let types: [&[u32]; 3] = [
                // 1: an integer of 4 bytes, 2: a structure with one behind four other bytes, 3: a function
                &[0, int, 4, 32],
                &[structure_at, with_one_member, 8, flags_at, 1, 32],
                &[1, function, 0],
            ];
            Flags::find(&file_of(types.concat(), strings.as_bytes()))
        };
        assert_eq!(find(CAST, "xdp_buff", "flags"), Some(Flags { cast: KernelFunction { id: 3 }, at: 4 }));
        assert_eq!(find("bpf_cast", "xdp_buff", "flags"), None);
        assert_eq!(find(CAST, "xdp_md", "flags"), None);
        assert_eq!(find(CAST, "xdp_buff", "flag"), None);
        for types in [&b""[..], b"nothing of the kind", &[0x9f, 0xeb, 1, 0]] {
            assert_eq!(Flags::find(types), None);
        }
    }
}
