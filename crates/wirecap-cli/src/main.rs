//! The command `wirecap`.
//!
//! ```text
//!   arguments ─► flags ─► plan ─┬─► capture      ports ─► workers ─► writer ─► file
//!                               ├─► forward      ports ─► workers ─► ports, perhaps a file as well
//!                               ├─► replay       trace files ─► cells ─► transmit queues
//!                               └─► interfaces   what there is, and what XDP can do on it
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | every flag, once; how values are read | `flags`, `values` |
//! | what is checked before anything runs | `plan` |
//! | a capture from start to end | `capture` |
//! | forwarding from port to port | `forward` |
//! | trace files sent again | `replay` |
//! | the list of interfaces | `interfaces` |
//! | exit codes and how errors are printed | `exit` |
#![forbid(unsafe_code)]

mod capture;
mod exit;
mod flags;
mod forward;
mod interfaces;
mod plan;
mod replay;
mod table;
mod values;

use std::process::ExitCode;

use clap::Parser;
use wirecap_sys::netdev;

use self::{
    capture::job::JustCapture,
    exit::{Exit, tell},
    flags::{Command, Flags},
    plan::Plan,
};

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(refused) => return exit::refuse(&refused).into(),
    };
    let outcome = match flags.command {
        Command::Capture(flags) => Plan::new(*flags, |name| netdev::interface(name).is_ok())
            .and_then(|plan| capture::run(plan, JustCapture)),
        Command::Forward(flags) => forward::run(*flags),
        Command::Replay(flags) => replay::run(&flags),
        Command::Interfaces(flags) => interfaces::run(&flags).map(|()| Exit::Fine),
    };
    let exit = outcome.unwrap_or_else(|error| {
        // Not the chain of causes: each message names its own already.
        tell(format_args!("wirecap: {error}"));
        exit::code_of(&error)
    });
    exit.into()
}
