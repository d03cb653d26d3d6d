//! What stands in a dispatcher's table for a program that packs packets.
//!
//! ```text
//!   dispatcher: programs[rx_queue] ──► gate: tail call of inside[0] ──┬─► the program, its blocks
//!                                                                     └── the process has ended: to the host's stack
//! ```
//!
//! Rule: the table `inside` is held by this process alone. The kernel empties a table that no process holds,
//! so the program and its blocks go with the process, however it ends. An entry of the dispatcher's table
//! stays, and would keep them until another process captures the queue.

use wirecap_sys::bpf::{
    self, Assembler, Helper, Map, MapKind, Program, ProgramKind, ProgramSpec, Reg, XDP_PASS,
};

use super::array::array;

/// Name of the program in the kernel, and of its table.
const NAME: &str = "wirecap_gate";

/// A program that goes on as another one as long as this process lives.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) program: Program,
    /// Never read: it is held.
    _inside: Map,
}

impl Gate {
    /// A gate to `program`; `frags` says whether that takes packets of several buffers.
    pub(crate) fn to(program: &Program, frags: bool) -> Result<Self, bpf::Error> {
        let inside = array(MapKind::ProgArray, 4, 1, NAME)?;
        inside.set_program(0, program)?;
        let mut asm = Assembler::new();
        // The context is in R1.
        asm.load_map_fd(Reg::R2, &inside).mov_imm(Reg::R3, 0).call(Helper::TailCall);
        asm.mov_imm(Reg::R0, XDP_PASS).exit();
        let insns = asm.finish()?;
        let spec = ProgramSpec { frags, ..ProgramSpec::new(ProgramKind::Xdp, NAME, &insns) };
        Ok(Self { program: Program::load(&spec)?, _inside: inside })
    }
}
