//! The filters of tcpdump: compiled by the real libpcap, run in three ways of our own.
//!
//! ```text
//!  "tcp port 80" ──libpcap──► classic BPF ──Program::new──► Program, validated
//!                 compile.rs               program.rs          │
//!                          ┌──────────────────┬────────────────┴─┐
//!                    interpret.rs          native.rs           ebpf/
//!                    the reference         machine code        spliced into the XDP program,
//!                    everywhere            x86-64              before a packet costs anything
//! ```
//!
//! Rule: all three return what libpcap's own `bpf_filter` returns, for every packet.
//! The tests hold them against it and against each other.
//!
//! | to read about | open |
//! |---|---|
//! | the language, and what libpcap makes of it | [`Filter`] |
//! | what a valid program is | [`Program`] |
//! | what each instruction means | [`Program::run`] |
//! | deciding in user space, by native code or the interpreter | [`UserFilter`] |
//! | which checks of the packet's length are needed where | `guard.rs` |
//! | what one filter matches and another does not | `except.rs` |
//! | why filters that loop come to an end | `rounds.rs` of `wirecap_sys::machine_code` |
//! | filters in the kernel | [`ebpf`] |
//!
//! VLAN tags are looked for in the packet, where AF_XDP and trace files have them. What libpcap takes from
//! the metadata of a Linux socket (`inbound`, `outbound`, `ifindex`) a socket filter has; elsewhere the
//! caller supplies it ([`Program::bound_to`]). Filters that loop (`protochain`) run in user space, and end
//! ([`Program::decide`]).
//!
//! ```no_run
//! use wirecap_filter::{Filter, NativeFilter, LINK_TYPE_ETHERNET};
//!
//! let filter = Filter::compile("tcp port 80 or tcp port 443", LINK_TYPE_ETHERNET, 262_144)?;
//! let packet = [0; 60];
//! assert!(!filter.matches(&packet, 60));
//! let native = NativeFilter::new(filter.program())?;
//! assert_eq!(native.matches(&packet, 60), 0);
//! # Ok::<(), wirecap_filter::Error>(())
//! ```

#![forbid(unsafe_code)]

mod bytecode;
mod compile;
mod decode;
pub mod ebpf;
mod error;
mod except;
mod guard;
mod interpret;
mod native;
mod program;
mod user;

pub use bytecode::MAX_INSNS;
pub use compile::{DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET};
pub use error::{Error, InsnError, shortened};
pub use native::NativeFilter;
pub use program::Program;
pub use user::UserFilter;
pub use wirecap_sys::machine_code::{Alu, Cond, MEMORY_SLOTS, Op, Operand, Origin, Register, Size};
pub use wirecap_sys::pcap::Insn;
