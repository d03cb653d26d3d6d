//! A filter as a piece of a socket filter, for packets of which the kernel has made socket buffers.
//!
//! ```text
//!   the caller's program                     the filter, by translate_for_socket()
//!   R6 = the buffer            ──────────►   A = R0, X = R7, slots on the stack
//!                                             A = [k], A = [x + k]: the kernel looks, in all fragments
//!   matches, rejects           ◄───────────  return not 0, return 0
//!   the program ends with 0    ◄───────────  a load outside of the packet
//! ```
//!
//! | classic | eBPF |
//! |---|---|
//! | `[k]`, `[x + k]` | `BPF_LD \| BPF_ABS`, `BPF_LD \| BPF_IND`: R0 from R6, R1 to R5 are lost |
//! | `4 * ([k] & 0xf)` | the same into X; R8 keeps A |
//! | `len` | the length of the buffer |
//! | what the socket knows ([`Origin`]) | a field of the context |

use wirecap_sys::bpf::{Alu as EbpfAlu, Assembler, Cond as EbpfCond, Reg, Size as EbpfSize};
use wirecap_sys::machine_code::{Op, Origin, Size};

use super::SocketSplice;
use super::body::{A, Body, width};
use crate::error::Error;
use crate::guard::{Runner, guards};
use crate::program::Program;

const X: Reg = Reg::R7;
const SAVED: Reg = Reg::R8;
const BUFFER: Reg = Reg::R6;
// Offsets in `struct __sk_buff` of <linux/bpf.h>.
const SKB_LEN: i16 = 0;
const SKB_PACKET_TYPE: i16 = 4;
const SKB_IFINDEX: i16 = 40;
/// No buffer is longer, in bytes. An X beyond is outside of the packet; the kernel would take very large
/// offsets for names of other things (`SKF_AD_OFF`).
const MAX_BUFFER_BYTES: i32 = 1 << 24;

/// Appends the filter to a socket filter in which R6 is the context. R0 to R5, R7 and R8 are the filter's; R9
/// and the stack outside of its slots stay as they are.
///
/// The packet begins with its link-level header, as on sockets of the type `SOCK_RAW`. A VLAN tag that the
/// kernel has taken out of it is not seen; the caller decides what becomes of such packets.
///
/// # Errors
/// [`Error::Loops`] for filters that jump backward; run those in user space.
///
/// # Panics
/// If the slots are not on the stack or not aligned: a mistake of the caller.
pub fn translate_for_socket(
    asm: &mut Assembler,
    program: &Program,
    splice: &SocketSplice,
) -> Result<(), Error> {
    let guards = guards(program, Runner::SOCKET);
    let mut body = Body::new(asm, X, program, *splice)?;
    // The verifier refuses code that no path leads to; jumps that are never taken make it content.
    for label in [splice.matches, splice.rejects] {
        body.asm.jump_if32(EbpfCond::Ne, A, 0, label);
    }
    body.program(&guards, |_, _| (), look);
    Ok(())
}

/// A look at the packet, or at what is known of it.
fn look(body: &mut Body<'_>, op: &Op) {
    match *op {
        Op::LoadAbsolute { size, offset } => load(body, size, None, offset),
        Op::LoadIndirect { size, offset } => load(body, size, Some(X), offset),
        Op::LoadHeaderLength { offset } => {
            body.asm.mov(SAVED, A);
            load(body, Size::Byte, None, offset);
            body.asm.alu32(EbpfAlu::And, A, 0xf).alu32(EbpfAlu::Lsh, A, 2);
            body.asm.mov(X, A).mov(A, SAVED);
        }
        Op::LoadLength(register) => {
            let into = body.register(register);
            body.asm.load(EbpfSize::Word, into, BUFFER, SKB_LEN);
        }
        Op::LoadOrigin(origin) => {
            let field = match origin {
                Origin::PacketType => SKB_PACKET_TYPE,
                Origin::Interface => SKB_IFINDEX,
            };
            body.asm.load(EbpfSize::Word, A, BUFFER, field);
        }
        _ => unreachable!("all else was done"),
    }
}

/// Into A. A guard rejects where `offset` is beyond any buffer.
fn load(body: &mut Body<'_>, size: Size, from: Option<Reg>, offset: u32) {
    match from {
        Some(register) => {
            body.asm.jump_if32(EbpfCond::Ge, register, MAX_BUFFER_BYTES, body.exits.rejects);
            body.asm.load_packet_from(width(size), register, offset as i32);
        }
        None => _ = body.asm.load_packet(width(size), offset as i32),
    }
}
