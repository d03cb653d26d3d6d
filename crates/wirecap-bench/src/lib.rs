//! Benchmarks that compare wirecap with other capture programs: one generator, one machine, one run, tables
//! and raw figures.
//!
//! ```text
//!   arguments ─► scenario ─► competitor ─► run (child process) ──► JSON line ─┐
//!                   │                                                         ├─► stats, predict ─► table, record
//!                   └──────► bed (namespaces, veth, generator), sender ───────┘
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | the measurements, and their targets | [`scenario`] |
//! | the competitors | [`competitor`], [`child`], `forwarder`, `tcpdump` |
//! | the network | [`bed`], `sender`, [`wire`] |
//! | the machine | [`machine`], `cores` |
//! | the predicted losses | `predict` |
//! | the output | [`record`], [`table`](wirecap_lab::table) |
//!
//! Rule: compare a figure only with figures of the same run, measured in turn with it, round by round.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "programs for the terminal")]

pub mod arguments;
pub mod bed;
pub mod child;
pub mod competitor;
mod cores;
mod forwarder;
pub mod machine;
mod predict;
pub mod record;
pub mod run;
pub mod scenario;
mod search;
mod sender;
pub mod stats;
mod tcpdump;
pub mod wire;
