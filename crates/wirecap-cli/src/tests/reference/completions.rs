//! Completions for shells, by clap_complete; the names of interfaces and programs are those of the machine.
//!
//! ```text
//!   flags ─► a token for each value ─► clap_complete ─► the shell's own way to list such values
//! ```
//!
//! Rule: the scripts read only what every user may read, and start no program but the shell's own.

use clap::{Arg, Command, CommandFactory};
use clap_complete::{Shell, generate};

use super::{
    GeneratedFile,
    flags::{commands, complete},
};
use crate::{commands::Flags, flags::INTERFACE};

/// The token for names of interfaces, which each shell lists by itself.
const INTERFACES: &str = "WIRECAP_INTERFACES";
/// The token for programs in PATH.
const PROGRAMS: &str = "WIRECAP_PROGRAMS";

const BASH_INTERFACES: &str = "$(cd /sys/class/net && printf '%s ' *)";
const BASH_PROGRAMS: &str = r#"$(compgen -c -- "${cur}")"#;

pub(super) fn scripts() -> Vec<GeneratedFile> {
    let script =
        |shell, name: &str| GeneratedFile { path: format!("dist/completions/{name}"), text: script(shell) };
    vec![
        script(Shell::Bash, "wirecap.bash"),
        script(Shell::Zsh, "_wirecap"),
        script(Shell::Fish, "wirecap.fish"),
    ]
}

fn script(shell: Shell) -> String {
    let mut flags = with_tokens(Flags::command());
    let mut text = Vec::new();
    generate(shell, &mut flags, "wirecap", &mut text);
    let text = String::from_utf8(text).expect("scripts are text");
    let text: String = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    let text = without_hidden(&text);
    match shell {
        Shell::Bash => text.replace(INTERFACES, BASH_INTERFACES).replace(PROGRAMS, BASH_PROGRAMS),
        Shell::Zsh => text
            .replace(&format!("({INTERFACES})"), "_net_interfaces")
            .replace(&format!("({PROGRAMS})"), "_cmdambivalent"),
        _ => {
            let text = text
                .replace(&format!("{INTERFACES}\\t''"), "(__fish_print_interfaces)")
                .replace(&format!("{PROGRAMS}\\t''"), "(__fish_complete_command)");
            text + &fish_words()
        }
    }
}

/// A script without the flags that are hidden, which clap_complete lists like others.
fn without_hidden(text: &str) -> String {
    let declared = complete();
    let hidden =
        commands(&declared).flat_map(Command::get_arguments).filter(|argument| argument.is_hide_set());
    let names: Vec<_> = hidden.filter_map(Arg::get_long).collect();
    let is_about = |line: &str, name: &str| {
        let line = line.trim_start();
        // In bash the flag is also one of the words of a line.
        line.starts_with(&format!("'--{name}")) || line.contains(&format!(" -l {name} "))
    };
    let lines = text.split_inclusive('\n').filter(|line| !names.iter().any(|name| is_about(line, name)));
    names.iter().fold(lines.collect(), |text: String, name| text.replace(&format!(" --{name} "), " "))
}

/// The declaration, with a token for the values of interfaces and programs.
fn with_tokens(mut flags: Command) -> Command {
    let values = |argument: &Arg| match argument.get_value_names().unwrap_or_default() {
        [name] if name == INTERFACE => Some(INTERFACES),
        [name] if name == "PROGRAM" => Some(PROGRAMS),
        _ => None,
    };
    let found: Vec<_> = commands(&complete())
        .flat_map(|command| {
            let name = command.get_name().to_owned();
            let argument = |argument: &Arg| Some((argument.get_id().to_string(), values(argument)?));
            let arguments: Vec<_> = command.get_arguments().filter_map(argument).collect();
            arguments.into_iter().map(move |(id, value)| (name.clone(), id, value))
        })
        .collect();
    for (command, id, value) in found {
        flags = flags.mut_subcommand(command, |command| {
            command.mut_arg(id, |argument| argument.value_parser([value]))
        });
    }
    flags
}

/// clap_complete completes only flags for fish; these lines complete the other words.
fn fish_words() -> String {
    let mut lines = String::new();
    for command in commands(&complete()) {
        let words = command.get_positionals().filter_map(|word| word.get_value_names()?.first());
        for word in words {
            let values = match word.as_str() {
                INTERFACE => "(__fish_print_interfaces)",
                "PROGRAM" => "(__fish_complete_command)",
                _ => continue,
            };
            lines += &format!(
                "complete -c wirecap -n \"__fish_wirecap_using_subcommand {}\" -a \"{values}\"\n",
                command.get_name()
            );
        }
    }
    lines
}

#[test]
fn every_token_is_replaced_and_each_shell_lists_interfaces() {
    for (shell, interfaces) in [
        (Shell::Bash, "/sys/class/net"),
        (Shell::Zsh, "_net_interfaces"),
        (Shell::Fish, "(__fish_print_interfaces)"),
    ] {
        let text = script(shell);
        assert!(!text.contains("WIRECAP_"), "{shell}");
        // In bash, a value of the flag is still completed.
        let offered = text.lines().filter(|line| line.contains("end-with") && line.trim() != "--end-with)");
        assert_eq!(offered.count(), 0, "{shell}: a hidden flag is offered");
        let lines = text.lines().filter(|line| line.contains(interfaces)).count();
        assert!(lines >= 4, "{shell}: {lines} lines have interfaces");
    }
}
