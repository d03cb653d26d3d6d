//! The page of a command.
//!
//! Rule: the sections stand in the order of man-pages(7), and one without content is left out.

use clap::{Arg, Command};

use super::{
    super::flags::{FlagText, arguments, commands},
    examples,
    help_text::list_of,
    json_output, notes,
    roff::{ManPage, bold, escaped, inline, italic},
};

pub(super) fn page(flags: &Command, command: &Command) -> String {
    let name = command.get_name();
    let mut page = ManPage::new(&format!("wirecap-{name}"), 1);
    let notes = notes::of(name);

    page.section("NAME");
    page.raw(&name_line(&format!("wirecap-{name}"), &about(command)));
    page.section("SYNOPSIS");
    let usage = command.clone().render_usage().to_string();
    page.raw(&synopsis(usage.trim_start_matches("Usage: ").trim()));
    page.section("DESCRIPTION");
    let long = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    for (number, paragraph) in long.split("\n\n").enumerate() {
        let text = sentence(paragraph);
        if number == 0 { page.text(&text) } else { page.paragraph(&text) }
    }

    page.section("OPTIONS");
    add_options(&mut page, command);
    page.section("EXAMPLES");
    for (code, explanation) in examples::of(command) {
        page.paragraph(&explanation);
        page.example(&code);
    }
    let mut exit = list_of(flags, "Exit codes");
    exit.retain(|[_, meaning]| flag_of(meaning).is_none_or(|flag| has_flag(command, flag)));
    let exit = if notes.exit.is_empty() { exit } else { owned(notes.exit) };
    add_list(&mut page, "EXIT STATUS", &exit);
    let signals = notes.signals.map_or_else(|| list_of(flags, "Signals"), owned);
    add_list(&mut page, "SIGNALS", &signals);
    add_list(&mut page, "ENVIRONMENT", &owned(notes.environment));
    add_account(&mut page, command);
    json_output::add(&mut page, name, has_flag(command, "json"));
    add_list(&mut page, "FILES", &owned(notes.files));

    page.section("SEE ALSO");
    let others = commands(flags).map(Command::get_name).filter(|other| *other != name);
    let own = others.map(|other| format!("wirecap-{other}(1)"));
    let pages: Vec<_> = ["wirecap(1)".to_owned()].into_iter().chain(own).collect();
    page.raw(&references(pages.iter().map(String::as_str).chain(notes.see_also.iter().copied())));
    page.into_text()
}

fn has_flag(command: &Command, long: &str) -> bool {
    arguments(command).any(|argument| argument.get_long() == Some(long))
}

/// The flag without which an exit code does not occur.
fn flag_of(meaning: &str) -> Option<&str> {
    meaning.split_once(": with --").map(|(_, flag)| flag.trim_end_matches('.'))
}

/// NAME, as whatis(1) reads it: in one line, beginning with a small letter.
pub(super) fn name_line(name: &str, about: &str) -> String {
    let about = about.trim_end_matches('.');
    let mut letters = about.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string()).unwrap_or_default();
    format!("{} \\- {}", escaped(name), inline(&(first + letters.as_str())))
}

/// What the command does, in one sentence.
pub(super) fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Pages, as SEE ALSO has them.
pub(super) fn references<'p>(pages: impl Iterator<Item = &'p str>) -> String {
    let reference = |page: &str| match page.split_once('(') {
        Some((name, section)) => format!("{}({section}", bold(name)),
        None => escaped(page),
    };
    pages.map(reference).collect::<Vec<_>>().join(", ")
}

/// The options by their headings in the help, the words that are not flags first.
fn add_options(page: &mut ManPage, command: &Command) {
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in arguments(command) {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            page.subsection(heading);
        }
        let here = || arguments(command).filter(|argument| argument.get_help_heading() == heading);
        let words = here().filter(|argument| argument.is_positional());
        words.chain(here().filter(|argument| !argument.is_positional())).for_each(|argument| {
            add_option(page, argument);
        });
    }
    page.item(&format!("{}, {}", bold("-h"), bold("--help")), "Print help: the short form a summary.");
}

fn add_option(page: &mut ManPage, argument: &Arg) {
    let flag = FlagText::of(argument);
    let names: Vec<_> = flag.short.iter().chain(&flag.long).map(|name| bold(name)).collect();
    let value = if flag.value.is_empty() { String::new() } else { italic(&flag.value) };
    let term = if names.is_empty() { value } else { format!("{} {value}", names.join(", ")) };
    let default = match flag.default.as_str() {
        "" => String::new(),
        default => format!(" Default: {}.", default.trim_end_matches('.')),
    };
    page.item(term.trim_end(), &(sentence(&flag.meaning) + &default));
    page.items_below(&flag.values);
}

/// Help without a full stop at its end gets one.
fn sentence(help: &str) -> String {
    let help = help.trim();
    if help.is_empty() || help.ends_with(['.', '!', '?', ':']) { help.into() } else { format!("{help}.") }
}

pub(super) fn add_list(page: &mut ManPage, title: &str, entries: &[[String; 2]]) {
    if entries.is_empty() {
        return;
    }
    page.section(title);
    entries.iter().for_each(|[term, text]| page.item(&bold(term), &sentence(text)));
}

/// The meaning of the figures, of commands whose help explains them.
fn add_account(page: &mut ManPage, command: &Command) {
    let (columns, workers) = (list_of(command, "The account of each"), list_of(command, "The workers"));
    add_list(page, "ACCOUNT", &columns);
    if !columns.is_empty() {
        page.paragraph("Of the columns that are 0 in every row, only seen, delivered and lost are printed.");
        page.subsection("Workers");
        workers.iter().for_each(|[term, text]| page.item(&bold(term), &sentence(text)));
    }
}

fn owned(entries: &[[&str; 2]]) -> Vec<[String; 2]> {
    entries.iter().map(|entry| entry.map(String::from)).collect()
}

/// `wirecap capture [OPTIONS] <IFACE>...`: literal words are bold, names of values italic.
fn synopsis(usage: &str) -> String {
    let word = |word: &str| {
        if word.starts_with('-') || word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') {
            return bold(word);
        }
        let name: String = word.chars().filter(|letter| letter.is_ascii_uppercase()).collect();
        match word.split_once(&name).filter(|_| !name.is_empty()) {
            Some((before, after)) => {
                let plain = |text: &str| escaped(&text.replace(['<', '>'], ""));
                format!("{}{}{}", plain(before), italic(&name), plain(after))
            }
            None => escaped(word),
        }
    };
    usage.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_usage_becomes_a_synopsis() {
    let usage = "wirecap run [OPTIONS] --interface <IFACE> [--] <PROGRAM> [ARGUMENTS]...";
    let expected = "\\fBwirecap\\fR \\fBrun\\fR [\\fIOPTIONS\\fR] \\fB\\-\\-interface\\fR \\fIIFACE\\fR [\\-\\-] \
                    \\fIPROGRAM\\fR [\\fIARGUMENTS\\fR]...";
    assert_eq!(synopsis(usage), expected);
}
