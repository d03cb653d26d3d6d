//! Lines that fit a number of columns.

use super::printable::printable;

/// Columns of a terminal of unknown width, and of output that is kept in files.
pub(crate) const COLUMNS: usize = 80;
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

/// The beginning of a line that fits into `columns`.
pub(crate) fn cut(line: &str, columns: usize) -> &str {
    line.char_indices().nth(columns).map_or(line, |(end, _)| &line[..end])
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
}
