//! The command `wirecap`.
//!
//! ```text
//!   arguments ─► flags ─► plan ─┬─► capture      ports ─► workers ─► writer ─► file
//!                               ├─► forward      ports ─► workers ─► ports, perhaps a file as well
//!                               ├─► generate     frames that can be told apart ─► transmit queues
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
//! | making traffic, and judging what arrived of it | `generate`, `verify` |
//! | trace files sent again | `replay` |
//! | the list of interfaces | `interfaces` |
//! | signals, and cores that may be used | `signals`, `cores` |
//! | exit codes and how errors are printed | `exit` |
//! | tables, and the line that says how it goes | `table`, `text`, `terminal` |
//! | standard output and standard error, which may have no room | `stdio`, `room` |
//! | what every JSON record begins with | `head` |
//! | packets that were lost, and what helps | `loss` |
#![forbid(unsafe_code)]

mod capture;
mod cores;
mod exit;
mod flags;
mod forward;
mod generate;
mod head;
mod interfaces;
mod loss;
mod plan;
mod replay;
mod room;
mod signals;
mod stdio;
mod table;
mod terminal;
mod text;
mod values;
mod verify;

use std::process::ExitCode;

use clap::Parser;
use wirecap_sys::netdev;

use self::{
    capture::job::JustCapture,
    exit::{Exit, tell},
    flags::{Command, Flags},
    plan::Plan,
    verify::Verify,
};

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(refused) => return exit::refuse(&refused).into(),
    };
    let outcome = match flags.command {
        Command::Capture(flags) => {
            let (verify, expected) = (flags.verify, flags.expect);
            Plan::new(*flags, |name| netdev::interface(name).is_ok()).and_then(|plan| match verify {
                true => capture::run(plan, Verify::new(expected)),
                false => capture::run(plan, JustCapture),
            })
        }
        Command::Forward(flags) => forward::run(*flags),
        Command::Generate(flags) => generate::run(*flags),
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
