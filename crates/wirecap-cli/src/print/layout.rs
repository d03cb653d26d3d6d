//! Lines that fit a number of columns.

use super::printable::printable;

/// Columns of a terminal of unknown width, and of output that is kept in files.
pub(crate) const COLUMNS: usize = 80;
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
