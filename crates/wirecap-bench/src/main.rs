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
//! | the competitors | [`competitor`], [`child`], [`forwarder`], [`tcpdump`] |
//! | the network | [`bed`], [`sender`], [`wire`] |
//! | the predicted losses | [`predict`] |
//! | the output | [`record`], [`table`](wirecap_lab::table) |
//!
//! Rule: compare a figure only with figures of the same run, measured in turn with it, round by round.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod arguments;
mod bed;
mod child;
mod competitor;
mod forwarder;
mod machine;
mod predict;
mod record;
mod run;
mod scenario;
mod search;
mod sender;
mod stats;
mod tcpdump;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let result = match words.next().as_deref() {
        Some(child::COMMAND) => child::main(words),
        Some(child::xdp_count::COMMAND) => child::xdp_count::main(words),
        _ => scenario::run(arguments::parse()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wirecap-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
