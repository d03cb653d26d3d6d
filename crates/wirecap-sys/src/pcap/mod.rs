//! The edge to the real libpcap: its filter compiler, and its interpreter, which tests compare ours with
//! (feature `testing`).
//!
//! ```text
//!   library() ──dlopen, once──► Library ──compile(expression)──► Vec<Insn>
//!                                  └─────filter(&[Insn])───────► LibpcapFilter ──run(packet)──► what bpf_filter says
//! ```
//!
//! Rule: libpcap is loaded when it is first asked for, never linked. A program that
//! needs no filter starts on a machine that does not have it.

mod error;
mod insn;
#[cfg(feature = "testing")]
mod libpcap_filter;
mod library;

pub use error::Error;
pub use insn::Insn;
#[cfg(feature = "testing")]
pub use libpcap_filter::LibpcapFilter;
pub use library::{Library, library};
