//! The manual pages, as the book's reference: from the flags and the schemas, and from what is written by
//! hand about each command.
//!
//! ```text
//!   flags ───────────────► SYNOPSIS, DESCRIPTION, OPTIONS ─┐
//!   help of all commands ► EXIT STATUS, SIGNALS ───────────┤
//!   JSON Schemas ────────► JSON OUTPUT ────────────────────┼──► docs/man/wirecap-COMMAND.1
//!   examples.rs, notes.rs  EXAMPLES, ENVIRONMENT, FILES ───┘    docs/man/wirecap.1
//! ```
//!
//! Rule: the pages are committed. So a package needs no compiler for them, and the change of a flag shows
//! the change of its page.

mod command;
mod examples;
mod help_text;
mod json_output;
mod notes;
mod overview;
mod roff;

use super::{GeneratedFile, flags};

pub(super) fn pages() -> Vec<GeneratedFile> {
    let flags = flags::complete();
    let commands = flags::commands(&flags);
    let mut pages: Vec<_> = commands
        .map(|command| GeneratedFile {
            path: format!("docs/man/wirecap-{}.1", command.get_name()),
            text: command::page(&flags, command),
        })
        .collect();
    pages.push(GeneratedFile { path: "docs/man/wirecap.1".into(), text: overview::page(&flags) });
    pages
}
