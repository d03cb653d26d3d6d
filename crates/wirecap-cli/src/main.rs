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
//! | what is in force: defaults, a file, flags | `settings` |
//! | what is checked before anything runs | `plan`; interfaces that were looked up: `known_interfaces` |
//! | a capture from start to end | `capture` |
//! | forwarding from port to port | `forward` |
//! | making traffic, and judging what arrived of it | `generate`, `verify` |
//! | trace files sent again | `replay` |
//! | the list of interfaces; what is said of how the host uses one | `interfaces`, `host_use` |
//! | signals, cores that may be used, threads made beforehand | `signals`, `cores`, `idle_thread` |
//! | what is given up on a signal while it starts | `step` |
//! | who can capture with this program | `privileges` |
//! | exit codes and how errors are printed | `exit` |
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
mod known_interfaces;
mod loss;
mod plan;
mod printable;
mod privileges;
mod replay;
mod settings;
mod signals;
mod stdio;
mod step;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod values;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use self::{
    capture::job::JustCapture,
    exit::{Exit, tell},
    flags::{Command, Flags},
    known_interfaces::KnownInterfaces,
    plan::Plan,
    settings::Settings,
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
    match command {
        Command::Capture(flags) => {
            let (print, mut interfaces) = (flags.settings.print_config, KnownInterfaces::default());
            let settings = flags.into_settings(|name| interfaces.look_up(name).is_ok())?;
            print_or_run(print, settings, |settings| {
                settings.check()?;
                capture(Plan::new(settings, interfaces)?, signals)
            })
        }
        Command::Forward(flags) => {
            let print = flags.settings.print_config;
            print_or_run(print, flags.into_settings()?, |settings| forward::run(settings, signals))
        }
        Command::Generate(flags) => {
            warn_unless(flags.send.quiet);
            generate::run(*flags, &signals)
        }
        Command::Replay(flags) => {
            warn_unless(flags.send.quiet);
            replay::run(&flags, &signals)
        }
        Command::Interfaces(_) => unreachable!("done before"),
    }
}

fn capture(plan: Plan, signals: Signals) -> Result<Exit> {
    let expected = plan.output.expect;
    match plan.output.verify {
        true => capture::run(plan, Verify::new(expected), signals),
        false => capture::run(plan, JustCapture, signals),
    }
}

/// Runs a command by its settings, or only prints them.
fn print_or_run<T: Settings>(print: bool, settings: T, run: impl FnOnce(T) -> Result<Exit>) -> Result<Exit> {
    if print {
        return settings::file::print(&settings).map(|()| Exit::Fine);
    }
    warn_unless(settings.output().quiet);
    run(settings)
}

fn warn_unless(quiet: bool) {
    if !quiet {
        privileges::warn_if_for_everyone();
    }
}
