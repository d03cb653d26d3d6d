//! The flags of all commands, as clap knows them.

use clap::{Arg, Command, CommandFactory, builder::PossibleValue};

use super::markdown::{head, row};
use crate::commands::Flags;

pub(super) fn page() -> String {
    let flags = complete();
    let about =
        "Everything that `wirecap COMMAND --help` prints. Flags override [a file of settings](settings.md).";
    let mut page = head("Commands and flags", about);
    for command in commands(&flags) {
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
    arguments(command).for_each(|argument| section += &argument_row(argument));
    section
}

/// The declaration of `wirecap`, complete with what clap adds to it.
pub(super) fn complete() -> Command {
    let mut flags = Flags::command();
    flags.build();
    flags
}

/// The commands, without `help`.
pub(super) fn commands(flags: &Command) -> impl Iterator<Item = &Command> {
    flags.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set())
}

/// The flags and arguments of a command, without those that all have, or that are hidden.
pub(super) fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_shown = |argument: &&Arg| {
        !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
    };
    command.get_arguments().filter(is_shown)
}

/// A flag, or an argument without one, as its declaration has it.
pub(super) struct FlagText {
    /// `-w`.
    pub(super) short: Option<String>,
    /// `--write`.
    pub(super) long: Option<String>,
    /// `FILE`; empty without a value.
    pub(super) value: String,
    /// Empty without a default, or if the meaning names it.
    pub(super) default: String,
    pub(super) meaning: String,
    /// The names of its values, each with its explanation.
    pub(super) values: Vec<[String; 2]>,
}

impl FlagText {
    pub(super) fn of(argument: &Arg) -> Self {
        let help =
            argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let defaults = argument.get_default_values().iter().filter(|_| argument.get_action().takes_values());
        let mut default = defaults.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut meaning = help.clone();
        if let Some((before, rest)) = help.split_once("[default: ") {
            let (value, after) = rest.split_once(']').expect("a closing bracket");
            (default, meaning) = (value.into(), format!("{}{after}", before.trim_end()));
        }
        let values = argument
            .get_possible_values()
            .into_iter()
            .filter(|value| !value.is_hide_set() && !matches!(value.get_name(), "true" | "false"));
        let explained = |value: &PossibleValue| {
            [value.get_name().to_owned(), value.get_help().map(ToString::to_string).unwrap_or_default()]
        };
        let value = argument
            .get_value_names()
            .filter(|_| argument.get_action().takes_values())
            .map(|names| names[0].to_string());
        Self {
            short: argument.get_short().map(|short| format!("-{short}")),
            long: argument.get_long().map(|long| format!("--{long}")),
            value: value.unwrap_or_default(),
            default,
            meaning,
            values: values.map(|value| explained(&value)).collect(),
        }
    }
}

fn argument_row(argument: &Arg) -> String {
    let flag = FlagText::of(argument);
    let mut meaning = flag.meaning.clone();
    for [name, explanation] in &flag.values {
        meaning += &format!("<br>`{name}`: {explanation}");
    }
    row(&[&names(&flag), &flag.default, &meaning])
}

/// The flag with its value: `-w`, `--write FILE`.
fn names(flag: &FlagText) -> String {
    let names: Vec<_> = flag.short.iter().chain(&flag.long).map(String::as_str).collect();
    match names.as_slice() {
        [] => format!("`<{}>`", flag.value),
        names => format!("`{}`", format!("{} {}", names.join(", "), flag.value).trim_end()),
    }
}
