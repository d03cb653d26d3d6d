//! Command lines that clap refuses, with messages like all other errors.

use std::{error::Error as _, io::ErrorKind::BrokenPipe};

use clap::{
    Arg, Args, Command, CommandFactory,
    error::{ContextKind, ContextValue, ErrorKind},
};
use wirecap::config::nearest;
use wirecap_sys::netdev;

use super::{
    Flags,
    capture::{engine_flags::EngineFlags, habits},
};
use crate::{
    exit::Exit,
    flags::{INTERFACE, PoolFlags, WorkerFlags},
    print::{
        log::{self, LogFormat},
        stdio::{Stream, print_styled},
    },
};

/// The command whose flags users of tcpdump and dumpcap know.
const CAPTURE: &str = "capture";

/// Prints clap's answer to these arguments: help and version unchanged, errors in the form of all other
/// errors.
pub(crate) fn refuse(refused: &clap::Error, arguments: &[String]) -> Exit {
    if matches!(refused.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match print_styled(Stream::Stdout, &refused.render()) {
            // A reader that is gone has read enough.
            Err(cause) if cause.kind() != BrokenPipe => {
                let what = if refused.kind() == ErrorKind::DisplayHelp { "help" } else { "version" };
                fail!("cannot print the {what} on standard output: {cause}");
                Exit::Failed
            }
            _ => Exit::Fine,
        };
    }
    if asks_for_json(arguments) {
        log::set_format(LogFormat::Json);
    }
    if refused.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = print_styled(Stream::Stderr, &refused.render());
        return Exit::Usage;
    }
    fail!("{}", describe(refused, arguments));
    Exit::Usage
}

/// Whether messages are asked for as JSON, by a command line that may be wrong elsewhere.
fn asks_for_json(arguments: &[String]) -> bool {
    // The flags of `wirecap run` are followed by those of another program.
    if arguments.get(1).is_some_and(|command| command == "run") {
        return false;
    }
    let follows = arguments.windows(2).any(|words| words[0] == "--log" && words[1] == "json");
    follows || arguments.iter().any(|word| word == "--log=json")
}

/// What is wrong with the command line, in one line.
fn describe(refused: &clap::Error, arguments: &[String]) -> String {
    let context = |kind| refused.get(kind).map(ToString::to_string).unwrap_or_default();
    let (flag, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
    // `--mode <MODE>`: users know it as `--mode`.
    let name = flag.split([' ', '=', '[']).next().unwrap_or_default();
    let help = help(arguments);
    match (refused.kind(), refused.source()) {
        (ErrorKind::ValueValidation, Some(reason)) => format!("{name} {value}: {reason}"),
        (ErrorKind::InvalidValue, _) if value.is_empty() => format!("{name} takes a value: {flag}; {help}"),
        (ErrorKind::InvalidValue, _) => {
            let hint = match name == "--mode" && is_octal(&value) {
                true => "; permissions of files are set by --file-mode",
                false => "",
            };
            format!("{name} {value}: write one of {}{hint}", context(ContextKind::ValidValue))
        }
        (ErrorKind::UnknownArgument, _) => unknown_flag(name, arguments),
        (ErrorKind::InvalidSubcommand, _) => {
            let (given, command) = (context(ContextKind::InvalidSubcommand), Flags::command());
            let commands = command.get_subcommands().map(Command::get_name);
            let advice = match nearest(&given, commands) {
                _ if netdev::interface(&given).is_ok() => format!("did you mean wirecap {CAPTURE} {given}?"),
                Some(meant) => format!("did you mean {meant}?"),
                None => help,
            };
            format!("there is no command {given}; {advice}")
        }
        (ErrorKind::MissingRequiredArgument, _) => {
            let list = match lacks_interface(refused, arguments) {
                true => ", or wirecap interfaces for the interfaces",
                false => "",
            };
            format!("{} needs {flag}; {help}{list}", arguments.get(1).map_or("wirecap", String::as_str))
        }
        _ => format!("{}; {help}", condense(&refused.to_string())),
    }
}

fn is_octal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'7'))
}

/// The command that these arguments name.
fn command(arguments: &[String]) -> Option<Command> {
    Flags::command().find_subcommand(arguments.get(1)?).cloned()
}

/// Whether one of the arguments that are missing is an interface.
fn lacks_interface(refused: &clap::Error, arguments: &[String]) -> bool {
    let Some(ContextValue::Strings(missing)) = refused.get(ContextKind::InvalidArg) else { return false };
    let Some(mut command) = command(arguments) else { return false };
    // clap reports an argument as it displays the complete definition of one that is required.
    command.build();
    let is_interface = |argument: &&Arg| argument.get_value_names().is_some_and(|names| names == [INTERFACE]);
    let mut interfaces = command.get_arguments().filter(is_interface).cloned();
    interfaces.any(|interface| missing.contains(&interface.required(true).to_string()))
}

/// The advice if there is no better one.
fn help(arguments: &[String]) -> String {
    let command = command(arguments).map(|command| format!(" {}", command.get_name())).unwrap_or_default();
    format!("try wirecap{command} --help")
}

/// The message for a flag that the command does not have. It omits clap's advice to write `-- --flag`, since
/// no interface has such a name, and clap's suggestion, which can be any flag with a few letters in common.
fn unknown_flag(name: &str, arguments: &[String]) -> String {
    let Some(command) = command(arguments) else { return flag_without_command(name, arguments) };
    if command.get_name() == "set" && is_engine_flag(name) {
        return format!("{name} cannot be changed while a capture runs; write -T PERCENT or --duration TIME");
    }
    let captures = command.get_name() == CAPTURE;
    if let Some(same) = same_flag(name, &command) {
        return format!("there is no flag {name}; did you mean --{same}?");
    }
    if let Some(long) = name.strip_prefix("--") {
        let known = command.get_arguments().filter_map(Arg::get_long);
        return match nearest(long, known) {
            Some(meant) if habits::instead_of(name).is_none() || !captures => {
                format!("there is no flag {name}; did you mean --{meant}?")
            }
            _ => unanswered(name, captures, arguments),
        };
    }
    // `-tcp[13]=2` is a filter, not the flag `-t` with a value.
    let is_filter = |argument: &&String| argument.starts_with(name) && argument.contains(['[', ' ', '(']);
    match arguments.iter().find(is_filter).filter(|_| captures) {
        Some(filter) => {
            format!("there is no flag {name}; a filter that begins with - is given with --filter '{filter}'")
        }
        None => unanswered(name, captures, arguments),
    }
}

/// The message for a flag in the place of a command, as in a command line of tcpdump.
fn flag_without_command(name: &str, arguments: &[String]) -> String {
    let commands = Flags::command();
    let named = arguments.iter().skip(1).filter_map(|word| commands.find_subcommand(word));
    let mut meant = named.chain(commands.find_subcommand(CAPTURE));
    match meant.find(|command| has_flag(command, name)) {
        Some(command) => {
            let command = command.get_name();
            format!("there is no flag {name} before a command; did you mean wirecap {command} {name}?")
        }
        None => unanswered(name, true, arguments),
    }
}

/// The flag of the command that another command calls so: one argument of several commands, such as the
/// number of workers, may have a name of its own in one.
fn same_flag(name: &str, command: &Command) -> Option<String> {
    let commands = Flags::command();
    let others = commands.get_subcommands().filter_map(|other| flag(other, name));
    let mut same = others.filter_map(|other| {
        command.get_arguments().find(|argument| argument.get_id() == other.get_id())?.get_long()
    });
    same.next().map(String::from)
}

/// The commands that have such a flag, as a user writes them.
fn owners(name: &str) -> Vec<String> {
    let commands = Flags::command();
    let owners =
        commands.get_subcommands().filter(|command| !command.is_hide_set() && has_flag(command, name));
    owners.map(|command| format!("wirecap {}", command.get_name())).collect()
}

fn has_flag(command: &Command, name: &str) -> bool {
    flag(command, name).is_some()
}

fn flag<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|flag| match name.strip_prefix("--") {
        Some(long) => {
            flag.get_long() == Some(long) || flag.get_all_aliases().is_some_and(|names| names.contains(&long))
        }
        None => flag.get_short().is_some_and(|short| name == format!("-{short}")),
    })
}

/// Whether a flag sets up the engine of a capture: pools, workers, modes.
fn is_engine_flag(name: &str) -> bool {
    let flags =
        PoolFlags::augment_args(EngineFlags::augment_args(WorkerFlags::augment_args(Command::default())));
    has_flag(&flags, name)
}

/// The message for a flag that nothing is like, but perhaps one of another program.
fn unanswered(name: &str, captures: bool, arguments: &[String]) -> String {
    match habits::instead_of(name).filter(|_| captures) {
        Some(instead) => format!("there is no flag {name}; {instead}"),
        None => {
            let owners = command(arguments).map(|_| owners(name)).unwrap_or_default();
            let (here, others) = match &owners[..] {
                [] => ("", String::new()),
                [one] => (" here", format!("{one} has one; ")),
                [one, other] => (" here", format!("{one} and {other} have one; ")),
                _ => (" here", String::new()),
            };
            format!("there is no flag {name}{here}; {others}{}", help(arguments))
        }
    }
}

/// A message of clap in one line: the error and its tips, without the usage.
fn condense(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let message = text.split("\nUsage:").next().unwrap_or(text).split("\nFor more information").next();
    let lines = message.unwrap_or(text).lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn words(arguments: &str) -> Vec<String> {
        ["wirecap"].into_iter().chain(arguments.split_whitespace()).map(String::from).collect()
    }

    fn refusal(arguments: &str) -> String {
        let words = words(arguments);
        describe(&Flags::try_parse_from(&words).expect_err(arguments), &words)
    }

    #[test]
    fn a_refusal_is_one_line_in_our_own_words() {
        for (arguments, words) in [
            ("capture eth0 --mod basic", "there is no flag --mod; did you mean --mode?"),
            ("capture eth0 --foo", "there is no flag --foo; try wirecap capture --help"),
            ("capture eth0 --foo=3", "there is no flag --foo; try wirecap capture --help"),
            ("capture eth0 -T 101", "-T 101: write a number from 0 to 100, like -T 60"),
            ("capture eth0 -T -1", "-T -1: write a number from 0 to 100, like -T 60"),
            ("capture eth0 -M many", "-M many: write a whole number, like -M 256"),
            (
                "capture eth0 --count 1x",
                "--count 1x: write a number of packets from 1 on, like 1000, 10k or 5M",
            ),
            ("capture eth0 --mode fast", "--mode fast: write one of basic, advanced"),
            (
                "capture eth0 --mode 0640",
                "--mode 0640: write one of basic, advanced; permissions of files are set by --file-mode",
            ),
            ("capture eth0 --mode", "--mode takes a value: --mode <MODE>; try wirecap capture --help"),
            ("catpure eth0", "there is no command catpure; did you mean capture?"),
            ("sing", "there is no command sing; try wirecap --help"),
            ("list", "there is no command list; try wirecap --help"),
            ("lo -c 3", "there is no command lo; did you mean wirecap capture lo?"),
            ("-i eth0 -c 3", "there is no flag -i before a command; did you mean wirecap capture -i?"),
            (
                "--print eth0",
                "there is no flag --print before a command; did you mean wirecap capture --print?",
            ),
            ("-n", "there is no flag -n before a command; did you mean wirecap capture -n?"),
            ("-Y", "there is no flag -Y; try wirecap --help"),
            ("--nano", "there is no flag --nano; leave it out: files always have nanoseconds"),
            ("capture eth0 --rotate 5", "there is no flag --rotate; did you mean --rotate-size?"),
            ("capture eth0 --ring-files 5", "there is no flag --ring-files; try wirecap capture --help"),
            (
                "capture eth0 --interval=5",
                "there is no flag --interval here; wirecap profile and wirecap top have one; try wirecap capture --help",
            ),
            ("capture eth0 --threads 2", "there is no flag --threads; did you mean --workers?"),
            (
                "capture eth0 --pace 5k",
                "there is no flag --pace here; wirecap handle has one; try wirecap capture --help",
            ),
            (
                "generate -i eth0 --write x",
                "there is no flag --write here; wirecap capture and wirecap forward have one; try wirecap generate --help",
            ),
            (
                "forward a b --expect",
                "there is no flag --expect here; wirecap capture has one; try wirecap forward --help",
            ),
            (
                "capture eth0 -tcp[13]=2",
                "there is no flag -t; a filter that begins with - is given with --filter '-tcp[13]=2'",
            ),
            (
                "capture",
                "capture needs <IFACE>...; try wirecap capture --help, or wirecap interfaces for the interfaces",
            ),
            (
                "forward",
                "forward needs <IFACE>...; try wirecap forward --help, or wirecap interfaces for the interfaces",
            ),
            (
                "generate",
                "generate needs <IFACE>; try wirecap generate --help, or wirecap interfaces for the interfaces",
            ),
            ("replay", "replay needs <FILE>...; try wirecap replay --help"),
            ("replay -i eth0", "replay needs <FILE>...; try wirecap replay --help"),
            (
                "set sensor -R 500",
                "-R cannot be changed while a capture runs; write -T PERCENT or --duration TIME",
            ),
            ("set sensor --json", "there is no flag --json here; try wirecap set --help"),
            (
                "--log json forward a b",
                "there is no flag --log before a command; did you mean wirecap forward --log?",
            ),
            (
                "--workers 4 handle eth0",
                "there is no flag --workers before a command; did you mean wirecap handle --workers?",
            ),
            ("-i eth0 -w set", "there is no flag -i before a command; did you mean wirecap capture -i?"),
            ("--nonsense forward a b", "there is no flag --nonsense; try wirecap --help"),
            ("set sensor --foo", "there is no flag --foo; try wirecap set --help"),
            ("capture eth0 -Y", "there is no flag -Y; try wirecap capture --help"),
            (
                "capture eth0 -r x.pcap",
                "there is no flag -r; a trace file takes the place of an interface: wirecap capture trace:FILE -w out.pcapng",
            ),
            ("capture eth0 --nano", "there is no flag --nano; leave it out: files always have nanoseconds"),
            ("forward eth0 eth1 -r x.pcap", "there is no flag -r; try wirecap forward --help"),
        ] {
            assert_eq!(refusal(arguments), words, "{arguments}");
        }
        assert!(
            ["capture eth0 --log json -c 0", "capture --log=json"]
                .iter()
                .all(|line| asks_for_json(&words(line)))
        );
        for other in ["capture eth0 --log text -w json", "run --bad program --log json"] {
            assert!(!asks_for_json(&words(other)), "{other}");
        }
        // Other refusals are clap's, in one line.
        let line = refusal("capture eth0 --config a --config b");
        assert!(line.ends_with("; try wirecap capture --help"), "{line}");
        assert!(!line.contains('\n') && !line.contains("Usage"), "{line}");
    }
}
