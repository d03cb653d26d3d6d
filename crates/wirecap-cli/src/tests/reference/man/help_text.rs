//! The parts of the common help that are lists: exit codes, signals, terms of the account.
//!
//! ```text
//!   Exit codes:                     ┐
//!     0  as asked                   │ a heading, then entries with two spaces in front and behind the term;
//!     1  it failed, lost …          │ continued lines are further in
//!        wirecap generate were …    ┘
//! ```

use clap::Command;

/// The entries of the list with this heading in the help behind all flags; empty without such a list.
pub(super) fn list_of(command: &Command, heading: &str) -> Vec<[String; 2]> {
    let help = command.get_after_long_help().or(command.get_after_help());
    entries(&help.map(ToString::to_string).unwrap_or_default(), heading)
}

fn entries(help: &str, heading: &str) -> Vec<[String; 2]> {
    let mut entries: Vec<[String; 2]> = Vec::new();
    let lines = help.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    for line in lines.take_while(|line| line.starts_with("  ")) {
        let is_continued = line.starts_with("     ");
        match (entries.last_mut().filter(|_| is_continued), line.trim().split_once("  ")) {
            (Some([_, text]), _) => {
                text.push(' ');
                *text += line.trim();
            }
            (None, Some((term, text))) => entries.push([term.into(), text.trim().into()]),
            (None, None) => entries.push([line.trim().into(), String::new()]),
        }
    }
    entries
}

#[test]
fn entries_are_terms_with_their_text() {
    let help =
        "Examples:\n  a  b\n\nExit codes:\n  0  as asked\n  1  it failed, lost\n     its file\n\nSignals:\n";
    let expected = [["0", "as asked"], ["1", "it failed, lost its file"]];
    assert_eq!(entries(help, "Exit codes"), expected.map(|entry| entry.map(String::from)));
    assert!(entries(help, "Signals").is_empty() && entries(help, "Terms").is_empty());
}
