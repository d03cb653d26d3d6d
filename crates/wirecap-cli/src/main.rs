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
//! | the list of interfaces; what is said of how the host uses one | `interfaces`, `host_use` |
//! | signals, cores that may be used, threads made beforehand | `signals`, `cores`, `idle_thread` |
//! | what is given up on a signal while it starts | `step` |
//! | who can capture with this program | `privileges` |
//! | exit codes and how errors are printed | `exit`; suggestions for misspelt words: `nearness` |
//! | diagnostics, events and errors in words | `text` |
//! | tables, and the line that says how it goes | `table`, `terminal` |
//! | escaping of names and other foreign text | `printable` |
//! | standard output and standard error, which may have no room | `stdio` |
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
mod host_use;
mod idle_thread;
mod interfaces;
mod loss;
mod nearness;
mod plan;
mod printable;
mod privileges;
mod replay;
mod signals;
mod stdio;
mod step;
mod table;
mod terminal;
mod text;
mod values;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use wirecap_sys::netdev;

use self::{
    capture::job::JustCapture,
    exit::{Exit, tell},
    flags::{Command, Flags},
    plan::Plan,
    signals::Signals,
    verify::Verify,
};

/// The arguments of the command line; invalid UTF-8 is replaced.
fn arguments() -> Vec<String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(refused) => return exit::refuse(&refused, &arguments()).into(),
    };
    let exit = run(flags.command).unwrap_or_else(|error| {
        // Not the chain of causes: each message names its own already.
        tell(format_args!("wirecap: {}", text::error::describe(&error)));
        exit::code_of(&error)
    });
    exit.into()
}

fn run(command: Command) -> Result<Exit> {
    if let Command::Interfaces(flags) = &command {
        return interfaces::run(flags).map(|()| Exit::Fine);
    }
    // First of all: a signal that comes before ends the process, and says so by the signal, not by an exit code. And where SIGINT is
    // ignored from the start, as by jobs of a shell script, one that comes before is lost.
    let signals = Signals::listen()?;
    if !command.is_quiet() {
        privileges::warn_if_for_everyone();
    }
    match command {
        Command::Capture(flags) => {
            let (verify, expected) = (flags.verify, flags.expect);
            let plan = Plan::new(*flags, |name| netdev::interface(name).is_ok())?;
            match verify {
                true => capture::run(plan, Verify::new(expected), signals),
                false => capture::run(plan, JustCapture, signals),
            }
        }
        Command::Forward(flags) => forward::run(*flags, signals),
        Command::Generate(flags) => generate::run(*flags, &signals),
        Command::Replay(flags) => replay::run(&flags, &signals),
        Command::Interfaces(_) => unreachable!("done before"),
    }
}
