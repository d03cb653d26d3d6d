//! The VLAN tag beside a frame of a veth, as an XDP program reads it without asking the driver.
//!
//! ```text
//!   context ── cast ──► struct veth_xdp_buff
//!                         struct xdp_buff xdp
//!                         skb ─────────────────► struct sk_buff: vlan_proto, vlan_tci; both 0 if there is no tag
//!                          └ null: nothing is beside the frame
//! ```
//!
//! These are the fields that the driver looks at when it is asked (`veth_xdp_rx_vlan_tag` in
//! drivers/net/veth.c). But only a program that is bound to the device may ask, and the question costs time
//! (bench/README.md). Since Linux 6.3, `veth_xdp_buff` has a pointer to the socket buffer.
//!
//! Rule: only for programs that run in veth's driver. Elsewhere something else follows the `xdp_buff`, and
//! neither the verifier nor the kernel refuses the program there. The offsets are those of the type
//! information of the kernel and of veth, and whether the kernel takes such a program is tried, as for
//! [`FrameLength`](super::FrameLength).

use std::{fs, path::Path, sync::OnceLock};

use super::{
    Program, ProgramKind, ProgramSpec,
    asm::{Assembler, Label},
    btf::{CAST, KernelFunction, KernelStructure, Types, VMLINUX},
    error::Error,
    insn::{Alu, Cond, Reg, Size},
};

/// The types of the driver, if it is a module; else they are among those of the kernel.
const MODULE: &str = "/sys/kernel/btf/veth";
/// The kernel function that makes any address a pointer to a structure that a program may read.
const READ_ONLY_CAST: &str = "bpf_rdonly_cast";

/// How an XDP program in veth's driver reads the VLAN tag beside a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VethTag {
    cast: KernelFunction,
    read_only_cast: KernelFunction,
    sk_buff: KernelStructure,
    /// Offset of `skb` in `struct veth_xdp_buff`, in bytes.
    skb_at: i16,
    /// Offset of `vlan_proto` and `vlan_tci` in `struct sk_buff`, in bytes.
    tag_at: i16,
}

impl VethTag {
    /// If the running kernel takes such programs from this thread. Loads one to try it; the first call reads
    /// some megabytes.
    pub fn of_kernel() -> Option<Self> {
        static FOUND: OnceLock<VethTag> = OnceLock::new();
        let find = || {
            let module = if Path::new(MODULE).exists() { Some(fs::read(MODULE).ok()?) } else { None };
            let found = Self::find(&fs::read(VMLINUX).ok()?, module.as_deref())?;
            Some(*FOUND.get_or_init(|| found))
        };
        FOUND.get().copied().or_else(find).and_then(Self::if_accepted)
    }

    /// `None` unless the kernel takes a program that does it in this way.
    fn if_accepted(self) -> Option<Self> {
        self.load_trial().is_ok().then_some(self)
    }

    /// From the type information of the kernel, and that of the driver if it is a module.
    fn find(kernel: &[u8], module: Option<&[u8]>) -> Option<Self> {
        let kernel = Types::read(kernel)?;
        let driver = match module {
            Some(module) => Types::read_module(&kernel, module)?,
            None => kernel,
        };
        let tag_at = kernel.integer_member("sk_buff", "vlan_all", 4)?;
        let is_half_at = |member, at| kernel.integer_member("sk_buff", member, 2) == Some(at);
        if !is_half_at("vlan_proto", tag_at) || !is_half_at("vlan_tci", tag_at + 2) {
            return None;
        }
        if driver.structure_member("veth_xdp_buff", "xdp", "xdp_buff") != Some(0) {
            return None;
        }
        Some(Self {
            cast: kernel.function(CAST)?,
            read_only_cast: kernel.function(READ_ONLY_CAST)?,
            sk_buff: kernel.structure("sk_buff")?,
            skb_at: driver.pointer_member("veth_xdp_buff", "skb", "sk_buff")?.try_into().ok()?,
            tag_at: tag_at.try_into().ok()?,
        })
    }

    fn load_trial(self) -> Result<Program, Error> {
        let mut asm = Assembler::new();
        let untagged = asm.label();
        asm.mov(Reg::R6, Reg::R1);
        self.emit(&mut asm, untagged);
        asm.bind(untagged).mov_imm(Reg::R0, super::XDP_PASS).exit();
        let code = asm.finish()?;
        Program::load(&ProgramSpec {
            frags: true,
            ..ProgramSpec::new(ProgramKind::Xdp, "wirecap_tag", &code)
        })
    }

    /// Loads the tag into R1, its type in network byte order and behind it its contents in the machine's, as
    /// they lie in memory; or jumps to `untagged`. The context is in R6; R0 to R5 are lost. Only for a
    /// program that veth's driver runs: in generic mode, or on another device, what it reads is not a tag.
    pub fn emit(self, asm: &mut Assembler, untagged: Label) {
        use Reg::{R0, R1, R2, R6};
        asm.mov(R1, R6).call_kernel(self.cast);
        asm.mov(R1, R0).alu64(Alu::Add, R1, i32::from(self.skb_at));
        // The verifier does not know `struct veth_xdp_buff` if veth is a module. So `skb` is read as the
        // first member of a `struct sk_buff`, `next`, which is a pointer of the same type.
        asm.mov_imm(R2, self.sk_buff.id).call_kernel(self.read_only_cast);
        asm.load(Size::Double, R1, R0, 0).jump_if(Cond::Eq, R1, 0, untagged);
        asm.load(Size::Word, R1, R1, self.tag_at).jump_if(Cond::Eq, R1, 0, untagged);
    }
}

#[cfg(test)]
mod tests;
