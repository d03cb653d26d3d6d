//! Lines that fit a number of columns.

use super::printable::printable;
use crate::text::plural::counted;

/// Columns of a terminal of unknown width, and of output that is kept in files.
pub(crate) const COLUMNS: usize = 80;
/// Rows of a terminal of unknown height.
pub(crate) const ROWS: usize = 24;
/// Between two fields of a line.
pub(crate) const GAP: &str = "  ";
/// Indent of continuation lines, in spaces.
const INDENT: usize = 4;

/// A line for people, escaped by [`printable`] and wrapped at [`COLUMNS`].
pub(crate) fn paragraph(line: &str) -> String {
    wrapped(&printable(line), COLUMNS, INDENT) + "\n"
}

/// Wraps text between words at `columns`, and indents continuation lines by `indent` spaces. Keeps existing
/// line breaks; a longer word has a line of its own.
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

/// At most `rows` of the lines; if some are left out, the last one says how many.
pub(crate) fn cut(lines: &[String], rows: usize) -> Vec<String> {
    if lines.len() <= rows {
        return lines.to_vec();
    }
    let shown = &lines[..rows.saturating_sub(1)];
    let more = format!("... and {}", counted(lines.len() - shown.len(), "more line"));
    shown.iter().cloned().chain([more]).take(rows).collect()
}

/// As many fields as fit into `columns`, from the first on, escaped by [`printable`]. A field is whole or
/// missing: half a number is a wrong one.
pub(crate) fn fitted(fields: &[String], columns: usize) -> String {
    let mut line = String::new();
    let mut width = 0;
    for field in fields {
        let gap = if line.is_empty() { "" } else { GAP };
        let field = printable(field);
        width += gap.len() + field.chars().count();
        if width > columns {
            break;
        }
        line += gap;
        line += &field;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_room_are_counted() {
        let lines = ["a", "b", "c", "d"].map(String::from);
        assert_eq!(cut(&lines, 4), lines);
        assert_eq!(cut(&lines, 3), ["a", "b", "... and 2 more lines"]);
        assert_eq!(cut(&lines, 1), ["... and 4 more lines"]);
        assert_eq!(cut(&lines, 0), <[String; 0]>::default());
    }

    #[test]
    fn long_lines_are_broken_between_words_and_indented() {
        let text = "wirecap: r0: a fallback, and the reason why there is one";
        let lines = "wirecap: r0: a fallback,\n         and the reason\n         why there is one";
        assert_eq!(wrapped(text, 25, 9), lines);
        assert_eq!(wrapped(text, 80, 9), text);
        assert_eq!(wrapped("  two  spaces", 80, 4), "  two  spaces", "unchanged");
        assert_eq!(wrapped("one\ntwo three", 5, 0), "one\ntwo\nthree");
        assert_eq!(wrapped("wirecap: anunbreakableword x", 12, 9), "wirecap: anunbreakableword\n         x");
    }

    #[test]
    fn a_field_is_whole_or_missing() {
        let fields = ["2.0 µs", "lost 6720", "3"].map(String::from);
        for (columns, line) in [
            (100, "2.0 µs  lost 6720  3"),
            (20, "2.0 µs  lost 6720  3"),
            (19, "2.0 µs  lost 6720"),
            (17, "2.0 µs  lost 6720"),
            (16, "2.0 µs"),
            (6, "2.0 µs"),
            (5, ""),
        ] {
            assert_eq!(fitted(&fields, columns), line);
        }
        assert_eq!((fitted(&[], 9), fitted(&["\x1b".into()], 9)), (String::new(), r"\u{1b}".into()));
    }
}
