//! The command `wirecap`.
//!
//! ```text
//!   arguments ─► flags ─► plan ─┬─► capture      ports ─► workers ─► writer ─► file
//!                               ├─► forward      ports ─► workers ─► ports, perhaps a file as well
//!                               ├─► generate     numbered frames ─► transmit queues
//!                               ├─► replay       trace files ─► cells ─► transmit queues
//!                               ├─► profile      ports ─► workers ─► bins of time ─► imbalance, in words
//!                               ├─► handle       ports ─► workers ─► a filter N times, or a pace ─► dropped, sent on
//!                               ├─► run          a program ─► LD_PRELOAD
//!                               ├─► extcap       Wireshark ─► its sentences, or a capture
//!                               ├─► status, top, stop, rotate, set      a capture that runs, by its control socket
//!                               ├─► interfaces   a list of interfaces, and what XDP can do on each
//!                               └─► doctor       a snapshot of the machine ─► findings ─► settings
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | a command: its flags, what is checked before it runs, its report | `commands/NAME` |
//! | flags that several commands share; how values are parsed | `flags`, `values` |
//! | settings: defaults, a file, flags | `settings` |
//! | where settings come from: errors name flags, or keys and lines | `sources` |
//! | a capture from start to end, for every command that captures | `capture` |
//! | the control of a running capture, by other processes | `control` |
//! | metrics for Prometheus | `metrics` |
//! | clients of sockets, served beside a capture | `serve` |
//! | the texts of diagnostics, events, errors and losses | `text` |
//! | standard output and standard error, tables, lines | `print` |
//! | signals, threads, cores, privileges | `process` |
//! | messages about what happens, as values | `message` |
//! | exit codes | `exit` |
#![forbid(unsafe_code)]

#[macro_use]
mod exit;
#[macro_use]
mod print;

mod capture;
mod commands;
mod control;
mod flags;
mod message;
mod metrics;
mod process;
mod serve;
mod settings;
mod sources;
#[cfg(test)]
mod tests;
mod text;
mod values;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::Parser;

use self::{
    capture::known_interfaces::KnownInterfaces,
    commands::{
        Command, Flags, doctor, extcap, forward, generate, handle, help, interfaces,
        interfaces::InterfacesFlags, profile, refusal, replay, top, version,
    },
    exit::Exit,
    print::{log, stdio},
    process::{privileges, signals::Signals, step::Step},
    settings::{Settings, explain},
    sources::Sourced,
};

fn main() -> ExitCode {
    let arguments = extcap::with_command(env::args_os().collect());
    // For messages: invalid UTF-8 is replaced.
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(details) = version::asked(&words) {
        return exit_code(stdio::print_stdout("the version", &details).map(|()| Exit::Fine.into()));
    }
    if let Some(shown) = help::show(&words) {
        return shown;
    }
    let flags = match Flags::try_parse_from(arguments) {
        Ok(flags) => flags,
        Err(refused) => return refusal::refuse(&refused, &words).into(),
    };
    let settings_file = settings_file(&flags.command);
    let exit = match flags.command {
        Command::Run(flags) => commands::run::run(&flags),
        command => run(command).map(ExitCode::from),
    };
    match (exit, settings_file) {
        (Err(error), Some(file)) => wrong_settings(error, &file),
        (exit, _) => exit_code(exit),
    }
}

/// The file of settings that a command reads and does not print.
fn settings_file(command: &Command) -> Option<PathBuf> {
    let flags = match command {
        Command::Capture(flags) => &flags.settings,
        Command::Forward(flags) => &flags.settings,
        _ => return None,
    };
    flags.config.clone().filter(|_| !flags.print_config)
}

/// Reports an error of a command with a file of settings: the mistake may be in the file, while the message
/// names a flag.
fn wrong_settings(error: anyhow::Error, file: &Path) -> ExitCode {
    let is_placed = error.is::<exit::WrongFile>() || error.is::<exit::WrongSettings>();
    let may_be_of_file = exit::code_of(&error) == Exit::Usage && !is_placed;
    let code = exit_code(Err(error));
    if may_be_of_file && settings::file::has_settings(file) {
        note!("{} has settings, too; --print-config prints what they and the flags come to", file.display());
    }
    code
}

fn exit_code(exit: Result<ExitCode>) -> ExitCode {
    exit.unwrap_or_else(|error| {
        // Not the chain of causes: each message already names its own.
        fail!("{}", text::error::describe(&error));
        exit::code_of(&error).into()
    })
}

fn run(command: Command) -> Result<Exit> {
    match &command {
        Command::Interfaces(flags) => return interfaces::run(flags).map(|()| Exit::Fine),
        Command::Status(flags) => return commands::control::status::run(flags),
        Command::Stop(flags) => return commands::control::stop::run(flags),
        Command::Rotate(flags) => return commands::control::rotate::run(flags),
        Command::Set(flags) => return commands::control::set::run(flags),
        Command::Doctor(flags) => return doctor::run(flags),
        Command::Size(flags) => return commands::size::run(flags),
        _ => {}
    }
    // First of all: before this call a signal kills the process instead of ending it with an exit code, and
    // where SIGINT is ignored from the start, as in background jobs of a shell script, it is lost.
    let signals = Signals::listen()?;
    match command {
        Command::Capture(flags) if flags.list_interfaces => {
            interfaces::run(&InterfacesFlags::default()).map(|()| Exit::Fine)
        }
        Command::Capture(flags) => {
            flags.end_with.map(process::parent::end_with).transpose()?;
            let (print, mut interfaces) = (flags.settings.print_config, KnownInterfaces::default());
            let files =
                Step::reading_files(&[flags.settings.config.as_deref(), flags.filter_file.as_deref()]);
            let (settings, interfaces) = files.run(&signals, false, move || {
                (flags.into_settings(|name| interfaces.look_up(name).is_ok()), interfaces)
            })?;
            let Sourced { settings, sources } = settings?;
            let ended = match print {
                true => settings::file::print(&settings)
                    .and_then(|()| commands::capture::check(settings, &signals).map(|()| Exit::Fine)),
                false => {
                    announce(&settings);
                    commands::capture::run(settings, interfaces, signals)
                }
            };
            ended.map_err(|error| explain(error, &sources))
        }
        Command::Forward(flags) => {
            let print = flags.settings.print_config;
            let files = Step::reading_files(&[flags.settings.config.as_deref()]);
            let settings = files.run(&signals, false, move || flags.into_settings())?;
            let Sourced { settings, sources } = settings?;
            let ended = match print {
                true => settings::file::print(&settings)
                    .and_then(|()| forward::plan::check(settings, &signals).map(|()| Exit::Fine)),
                false => {
                    announce(&settings);
                    forward::run(settings, signals)
                }
            };
            ended.map_err(|error| explain(error, &sources))
        }
        Command::Generate(flags) => {
            warn_unless(flags.send.quiet);
            generate::run(*flags, &signals)
        }
        Command::Replay(flags) => {
            warn_unless(flags.send.quiet);
            replay::run(&flags, &signals)
        }
        Command::Profile(flags) => profile::run(*flags, signals),
        Command::Handle(flags) => handle::run(*flags, signals),
        Command::Extcap(flags) => extcap::run(*flags, signals),
        Command::Top(flags) => top::run(&flags, &signals),
        Command::Interfaces(_)
        | Command::Doctor(_)
        | Command::Size(_)
        | Command::Status(_)
        | Command::Stop(_)
        | Command::Rotate(_)
        | Command::Set(_)
        | Command::Run(_) => unreachable!("handled above"),
    }
}

/// Before a command runs with its settings.
fn announce(settings: &impl Settings) {
    log::set_format(settings.output().log);
    warn_unless(settings.output().quiet);
}

fn warn_unless(quiet: bool) {
    if !quiet {
        privileges::warn_if_for_everyone();
    }
}
