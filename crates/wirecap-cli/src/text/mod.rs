//! What the command says: diagnostics, events and errors in words, and lines that fit a number of columns.
//!
//! ```text
//!   Diagnostic ── diagnostic.rs ──┐
//!   PortEvent ─── event.rs ───────┼──► sentence with the flag that helps ──► wrapped ──► terminal, log, JSON
//!   anyhow::Error ── error.rs ────┘
//! ```
//!
//! Rule: what happened is a value until it comes here, and each value is worded once.

pub(crate) mod diagnostic;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod host_use;
pub(crate) mod plural;
pub(crate) mod report;

use crate::printable::printable;

/// Columns of a terminal that says nothing else, and of what is printed to be kept.
pub(crate) const COLUMNS: usize = 80;
/// Spaces in front of what continues a line.
const INDENT: usize = 4;

/// A line for people, escaped by [`printable`], and as wide as it may be in what is kept.
pub(crate) fn paragraph(line: &str) -> String {
    wrapped(&printable(line), COLUMNS, INDENT) + "\n"
}

/// A line broken between words, each part at most `columns` wide if its words are, and each but the first behind `indent`
/// spaces. Lines within it stay lines.
pub(crate) fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| wrapped_line(line, columns, indent)).collect();
    lines.join("\n")
}

fn wrapped_line(line: &str, columns: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut width = 0;
    for (number, word) in line.split(' ').enumerate() {
        let len = word.chars().count();
        if width > indent && width + 1 + len > columns {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            width = indent;
        } else if number > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += len;
    }
    out
}

/// The beginning of a line, as much of it as fits.
pub(crate) fn cut(line: &str, columns: usize) -> &str {
    line.char_indices().nth(columns).map_or(line, |(end, _)| &line[..end])
}

/// Numbers in increasing order as ranges: `0-3,5`.
pub(crate) fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let runs = runs.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_indented() {
        let text = "wirecap: r0: a fallback, and the reason why there is one";
        let lines = "wirecap: r0: a fallback,\n         and the reason\n         why there is one";
        assert_eq!(wrapped(text, 25, 9), lines);
        assert_eq!(wrapped(text, 80, 9), text);
        assert_eq!(wrapped("  two  spaces", 80, 4), "  two  spaces", "as it was");
        assert_eq!(wrapped("one\ntwo three", 5, 0), "one\ntwo\nthree");
        assert_eq!(wrapped("wirecap: anunbreakableword x", 12, 9), "wirecap: anunbreakableword\n         x");
    }

    #[test]
    fn a_line_is_cut_between_characters() {
        assert_eq!((cut("2.0 µs", 5), cut("2.0 µs", 6), cut("", 3)), ("2.0 µ", "2.0 µs", ""));
    }

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges([0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges([]), "");
    }
}
