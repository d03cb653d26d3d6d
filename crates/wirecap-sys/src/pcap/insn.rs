//! One classic BPF instruction, in the layout libpcap and the kernel share.

/// A classic BPF instruction: `struct bpf_insn` of `<pcap/bpf.h>`, `struct sock_filter` of
/// `<linux/filter.h>`.
///
/// Any value of the fields is allowed here; what makes sense is for a validator to say.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Insn {
    /// Operation code.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Constant, offset in bytes, slot or distance, as the operation has it.
    pub k: u32,
}

const _: () = assert!(size_of::<Insn>() == 8 && align_of::<Insn>() == 4);
const _: () = assert!(core::mem::offset_of!(Insn, jt) == 2 && core::mem::offset_of!(Insn, jf) == 3);
const _: () = assert!(core::mem::offset_of!(Insn, k) == 4);

impl Insn {
    /// An instruction from its four fields.
    pub const fn new(code: u16, jt: u8, jf: u8, k: u32) -> Self {
        Self { code, jt, jf, k }
    }
}
