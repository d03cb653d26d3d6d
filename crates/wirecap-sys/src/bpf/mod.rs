//! A thin layer of our own over bpf(2): assemble a program, give it maps, load it, attach it, take it back.
//!
//! ```text
//!  Assembler ──finish──► Bytecode ──Program::load──► Program ──Link::attach_xdp──► Link
//!      ▲                              (verifier)         │                            │ drop = detached
//!      └── fd of ── Map ◄── read and written by ─────────┘                            ▼
//!                                                                              interface's XDP hook
//! ```
//!
//! Rule: every kernel object is owned by a value ([`Map`], [`Program`], [`Link`]) that holds its file
//! descriptor; a map also by the code that names it. Dropping a [`Link`] detaches the program, also when the
//! process is killed, so an interface never stays taken.
//!
//! Objects of other processes are found by their numbers ([`shared_map`], [`Link::of_program`]) and held like
//! our own.
//!
//! No compiler and no ELF file is needed: programs are put together at run time by [`Assembler`]. The
//! kernel's type information (BTF) is read only for programs that call a [`KernelFunction`], and for
//! [`FrameLength`] and [`VethTag`].
//!
//! ```no_run
//! use wirecap_sys::bpf::{Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XdpMode, XDP_PASS};
//!
//! let mut asm = Assembler::new();
//! asm.mov_imm(Reg::R0, XDP_PASS).exit();
//! let code = asm.finish()?;
//! let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "pass", &code))?;
//! let link = Link::attach_xdp(&program, 2, XdpMode::Native)?;
//! drop(link); // the interface is free again
//! # Ok::<(), wirecap_sys::bpf::Error>(())
//! ```

mod asm;
mod attr;
mod bound;
mod btf;
mod by_id;
mod bytecode;
mod error;
mod frame_length;
mod insn;
mod link;
mod map;
mod privilege;
mod program;
mod syscall;
mod tcx;
#[cfg(feature = "testing")]
mod test_run;
mod veth_tag;
mod xdp_mode;

/// Offsets of the fields of an XDP program's context, `struct xdp_md` of <linux/bpf.h>.
pub mod xdp_md {
    /// Where the packet begins.
    pub const DATA: i16 = 0;
    /// Where its first buffer ends.
    pub const DATA_END: i16 = 4;
    /// Where the metadata in front of it begin.
    pub const DATA_META: i16 = 8;
    /// By which receive queue it came.
    pub const RX_QUEUE_INDEX: i16 = 16;
}

/// Offsets of the fields of a classifier's context, `struct __sk_buff` of <linux/bpf.h>.
pub mod sk_buff {
    /// Its length in bytes.
    pub const LEN: i16 = 0;
    /// Whether a VLAN tag is kept beside the packet.
    pub const VLAN_PRESENT: i16 = 20;
    /// The tag's priority and number.
    pub const VLAN_TCI: i16 = 24;
    /// The tag's protocol, as on the wire.
    pub const VLAN_PROTO: i16 = 28;
    /// Where the packet begins.
    pub const DATA: i16 = 76;
    /// Where its first buffer ends.
    pub const DATA_END: i16 = 80;
    /// The socket that has sent it, a pointer to `bpf_sock`, or null.
    pub const SK: i16 = 168;
}

/// Offsets in `struct bpf_sock` that every program may read, and what is there.
pub mod bpf_sock {
    /// Its address family.
    pub const FAMILY: i16 = 4;
    /// The family of packet sockets.
    pub const AF_PACKET: i32 = libc::AF_PACKET;
}

pub use asm::{Assembler, Label};
pub use btf::KernelFunction;
pub use by_id::{SharedMap, holders_of_programs, program_holders, shared_map};
pub use bytecode::Bytecode;
pub use error::Error;
pub use frame_length::FrameLength;
#[cfg(feature = "testing")]
pub use insn::Insn;
pub use insn::{Alu, Cond, Helper, Operand, Reg, Size};
pub use link::{Link, XdpLink, link_holders, links};
pub use map::{Map, MapKind, MapSpec, PerCpuValues};
pub use privilege::{capabilities, may_attach_classifiers, may_calculate_addresses, reading_is_refused};
pub use program::{Program, ProgramKind, ProgramSpec};
pub use tcx::{has_tcx, ingress_programs};
#[cfg(feature = "testing")]
pub use test_run::TestRun;
pub use veth_tag::VethTag;
pub use xdp_mode::XdpMode;

/// Flag of [`Helper::RingbufOutput`]: wakes in any case.
pub const RING_FORCE_WAKEUP: i32 = 2;

/// XDP action: drop the packet and raise the `xdp_exception` tracepoint (a program's bug).
pub const XDP_ABORTED: i32 = 0;
/// XDP action: drop the packet.
pub const XDP_DROP: i32 = 1;
/// XDP action: give the packet to the host's network stack.
pub const XDP_PASS: i32 = 2;
/// XDP action: send the packet back out of the interface it came from.
pub const XDP_TX: i32 = 3;
/// XDP action: what [`Helper::Redirect`] and [`Helper::RedirectMap`] return on success.
pub const XDP_REDIRECT: i32 = 4;

/// What a classifier returns that leaves the decision to the next one (`TCX_NEXT`).
pub const TCX_NEXT: i32 = -1;
