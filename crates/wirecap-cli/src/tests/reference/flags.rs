//! The flags of all commands, as clap knows them.

use clap::{Arg, Command, CommandFactory};

use super::markdown::{head, row};
use crate::commands::Flags;

pub(super) fn page() -> String {
    let mut flags = Flags::command();
    flags.build();
    let about =
        "Everything that `wirecap COMMAND --help` prints. Flags override [a file of settings](settings.md).";
    let mut page = head("Commands and flags", about);
    for command in flags.get_subcommands().filter(|command| command.get_name() != "help") {
        page += &section(command);
    }
    let rest = flags.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (_, rest) = rest.split_once("\n\n").expect("examples, then exit codes and signals");
    page + &format!("\n## Exit codes and signals\n\n```\n{rest}\n```\n")
}

fn section(command: &Command) -> String {
    let name = command.get_name();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim_end();
    let mut section = format!("\n## wirecap {name}\n\n    {usage}\n\n{about}\n\n");
    section += "| flag | default | meaning |\n|---|---|---|\n";
    let arguments =
        command.get_arguments().filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"));
    arguments.for_each(|argument| section += &argument_row(argument));
    section
}

fn argument_row(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let defaults = argument.get_default_values().iter().filter(|_| argument.get_action().takes_values());
    let mut default = defaults.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let mut meaning = help.clone();
    if let Some((before, rest)) = help.split_once("[default: ") {
        let (value, after) = rest.split_once(']').expect("a closing bracket");
        (default, meaning) = (value.into(), format!("{}{after}", before.trim_end()));
    }
    for value in argument.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
        let explanation = value.get_help().map(ToString::to_string).unwrap_or_default();
        if !matches!(value.get_name(), "true" | "false") {
            meaning += &format!("<br>`{}`: {explanation}", value.get_name());
        }
    }
    row(&[&names(argument), &default, &meaning])
}

/// The flag with its value: `-w`, `--write FILE`.
fn names(argument: &Arg) -> String {
    let value = argument
        .get_value_names()
        .filter(|_| argument.get_action().takes_values())
        .map(|names| names[0].to_string());
    let value = value.unwrap_or_default();
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    match (short, long) {
        (None, None) => format!("`<{value}>`"),
        (short, long) => {
            let names: Vec<_> = short.into_iter().chain(long).collect();
            format!("`{}`", format!("{} {value}", names.join(", ")).trim_end())
        }
    }
}
