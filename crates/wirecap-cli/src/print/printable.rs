//! Escapes foreign text: names of files, interfaces and processes, and texts from trace files.
//!
//! ```text
//!   a message ── messages ────────────────────────────┐
//!   the progress line ── stdio::show_over ───────────┤
//!   a cell of a table ── table ──────────────────────┤
//!   a line of a report as text ── layout::paragraph ─┼─► printable ─► terminal, log
//!   a report as text ── stdio::print, offer ─────────┤
//!   a report as JSON ── json, stdio::print, offer ───┘
//! ```
//!
//! Rule: everything that the command prints passes through this module. Characters that are invisible or
//! change the direction of text become `\u{1b}`, in JSON `\u001b`, so that no foreign text sets a terminal's
//! colours or title, moves its cursor, or fakes a line of wirecap.

use std::borrow::Cow;

use serde::Serialize;

/// Escapes all characters of a text that are not printable, line breaks included.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_printable(letter) {
            escaped.push(letter);
        } else {
            escaped.extend(letter.escape_debug());
        }
    }
    escaped.into()
}

/// Escapes each line of a text and keeps its line breaks.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => printable(line).into_owned() + "\n",
            None => printable(line).into_owned(),
        })
        .collect()
}

/// Formats a value as one line of JSON. Escapes what serde leaves raw within strings, without changing their
/// meaning.
pub(crate) fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("figures, names and texts");
    let mut line = String::with_capacity(text.len() + 1);
    for letter in text.chars() {
        if is_printable(letter) {
            line.push(letter);
        } else {
            let units = letter.encode_utf16(&mut [0; 2]).to_vec();
            line.extend(units.into_iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    line + "\n"
}

/// Whether a terminal only displays the character. Combining marks, such as accents, are printable.
fn is_printable(letter: char) -> bool {
    if letter.is_ascii() {
        return matches!(letter, ' '..='~');
    }
    // `str::escape_debug` decides by Unicode category, and escapes a combining mark only at the start of a
    // text.
    let mut bytes = [b'x'; 5];
    let len = 1 + letter.encode_utf8(&mut bytes[1..]).len();
    std::str::from_utf8(&bytes[..len]).is_ok_and(|text| text.escape_debug().nth(1) == Some(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_readable_text_is_not() {
        for (text, printed) in [
            ("eth0", "eth0"),
            ("\x1b[31m\x07\x08\0\t\r\n", r"\u{1b}[31m\u{7}\u{8}\0\t\r\n"),
            ("\x7f\u{80}\u{9b}2J", r"\u{7f}\u{80}\u{9b}2J"),
            ("\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}", r"\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}"),
            ("a\u{2028}b\u{feff}\u{200b}\u{ad}\u{e0041}", r"a\u{2028}b\u{feff}\u{200b}\u{ad}\u{e0041}"),
            ("\u{fffd}\u{e000}\u{10ffff}", "\u{fffd}\\u{e000}\\u{10ffff}"),
            (r#"it's "this\that" × µs … 312.5 %"#, r#"it's "this\that" × µs … 312.5 %"#),
            (
                "Schnittstelle für Gäste, caf\u{65}\u{301}, eth-東京, интерфейс",
                "Schnittstelle für Gäste, caf\u{65}\u{301}, eth-東京, интерфейс",
            ),
        ] {
            assert_eq!(printable(text), printed);
            assert_eq!(printable(printed), printed, "escaping again changes nothing");
        }
    }

    #[test]
    fn no_control_or_bidi_character_of_unicode_is_printed() {
        let invisible = |letter| matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
        for letter in (0..=0x10_ffff).filter_map(char::from_u32) {
            let harmful = letter.is_control() || invisible(letter);
            assert!(!(harmful && is_printable(letter)), "{letter:?}");
            assert!(!letter.is_alphanumeric() || is_printable(letter), "{letter:?}");
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(printable_lines("a\n\n\x1bb\r\nc"), "a\n\n\\u{1b}b\\r\nc");
        assert_eq!(printable_lines(""), "");
    }

    #[test]
    fn json_keeps_its_meaning_and_has_only_printable_characters() {
        let hostile = "\x1b]0;\u{7}\u{9b}\x7f\u{202e}\u{e0041}\n\"\\ é 東";
        let line = json(&[hostile]);
        assert!(line.ends_with("]\n") && line.trim_end().chars().all(is_printable), "{line}");
        assert!(line.contains(r"\u001b]0;\u0007\u009b\u007f\u202e\udb40\udc41\n"), "{line}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&line).unwrap(), [hostile]);
    }
}
