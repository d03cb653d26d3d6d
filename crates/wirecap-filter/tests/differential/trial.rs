//! A filter alone as an eBPF program: does this kernel accept it, and what does it return for a packet?
//!
//! ```text
//!   XDP:     R2, R3 = ctx->data, ctx->data_end   [R7 = bpf_xdp_get_buff_len(ctx)]   the filter   return a Verdict
//!   socket:  R6 = ctx                                                               the filter   return 0 or 1
//! ```

use wirecap_filter::ebpf::{Length, SocketSplice, Splice, translate, translate_for_socket};
use wirecap_filter::{Error, Program};
use wirecap_sys::bpf::{
    Assembler, Bytecode, Helper, Program as EbpfProgram, ProgramKind, ProgramSpec, Reg, Size, xdp_md,
};

/// What the program of [`trial`] returns. The numbers are XDP actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The packet does not match (`XDP_DROP`).
    Rejects = 1,
    /// The packet matches (`XDP_PASS`).
    Matches = 2,
    /// The bytes that would decide are not in the packet's first buffer (`XDP_TX`); with `frags` only.
    Beyond = 3,
}

impl Verdict {
    /// The verdict of this action.
    pub fn from_action(action: u32) -> Option<Self> {
        [Self::Rejects, Self::Matches, Self::Beyond].into_iter().find(|verdict| *verdict as u32 == action)
    }
}

/// Loads an XDP program that consists only of the filter; with `frags` for packets of several buffers (Linux
/// 5.18). Its test run is the filter's answer to a packet.
pub fn trial(program: &Program, frags: bool) -> Result<EbpfProgram, Error> {
    let insns = xdp_program(program, frags)?;
    let spec = ProgramSpec { frags, ..ProgramSpec::new(ProgramKind::Xdp, "wirecap_filter", &insns) };
    Ok(EbpfProgram::load(&spec)?)
}

/// The instructions of [`trial`].
pub fn xdp_program(program: &Program, frags: bool) -> Result<Bytecode, Error> {
    use Reg::{R0, R1, R2, R3, R6, R7};
    let mut asm = Assembler::new();
    let (matches, rejects) = (asm.label(), asm.label());
    let beyond = if frags { asm.label() } else { rejects };
    asm.mov(R6, R1);
    if frags {
        asm.call(Helper::XdpGetBuffLen).mov(R7, R0);
    }
    asm.load(Size::Word, R2, R6, xdp_md::DATA).load(Size::Word, R3, R6, xdp_md::DATA_END);
    let length = if frags { Length::Register(R7) } else { Length::FirstBuffer };
    translate(&mut asm, program, &Splice { matches, rejects, beyond, length, stack_end: 0 })?;
    for (label, verdict) in [(matches, Verdict::Matches), (rejects, Verdict::Rejects)] {
        asm.bind(label).mov_imm(R0, verdict as i32).exit();
    }
    if frags {
        asm.bind(beyond).mov_imm(R0, Verdict::Beyond as i32).exit();
    }
    Ok(asm.finish()?)
}

/// Loads a socket filter that consists only of the filter: its test run returns 1 for packets that match. The
/// kernel takes the first 14 bytes of a test packet for a link-level header, and runs the filter on the rest.
pub fn trial_for_socket(program: &Program) -> Result<EbpfProgram, Error> {
    let insns = socket_program(program)?;
    Ok(EbpfProgram::load(&ProgramSpec::new(ProgramKind::SocketFilter, "wirecap_filter", &insns))?)
}

/// The instructions of [`trial_for_socket`].
pub fn socket_program(program: &Program) -> Result<Bytecode, Error> {
    let mut asm = Assembler::new();
    let (matches, rejects) = (asm.label(), asm.label());
    asm.mov(Reg::R6, Reg::R1);
    translate_for_socket(&mut asm, program, &SocketSplice { matches, rejects, stack_end: 0 })?;
    for (label, result) in [(matches, 1), (rejects, 0)] {
        asm.bind(label).mov_imm(Reg::R0, result).exit();
    }
    Ok(asm.finish()?)
}
