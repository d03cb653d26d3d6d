//! roff, the language of manual pages, as man-db and mandoc both read it.
//!
//! ```text
//!   "the file of `-w`"  ──►  the file of \fB\-w\fR     text: bold code, wrapped, nothing in it is a request
//! ```
//!
//! Rule: everything but requests passes through [`escaped`], so no text can become a request.

use std::fmt::Write;

/// Columns of a line of the source.
const COLUMNS: usize = 100;

/// A page, written from its top to its end.
pub(super) struct ManPage(String);

impl ManPage {
    /// The title line. There is no date: it would be that of the last build, not of a change.
    pub(super) fn new(name: &str, section: u8) -> Self {
        let (title, version) = (escaped(&name.to_uppercase()), escaped(env!("CARGO_PKG_VERSION")));
        let comment = r#".\" Generated from the program by ./dev reference; edit the program instead."#;
        let head =
            format!("{comment}\n.TH {title} {section} \"\" \"wirecap {version}\" \"wirecap manual\"\n");
        Self(head)
    }

    pub(super) fn section(&mut self, title: &str) {
        self.request("SH", title);
    }

    pub(super) fn subsection(&mut self, title: &str) {
        self.request("SS", title);
    }

    /// A paragraph of text, with code between backticks.
    pub(super) fn paragraph(&mut self, text: &str) {
        // A heading begins a paragraph by itself.
        let is_first = self.0.lines().last().is_some_and(|line| line.starts_with(".S"));
        self.0 += if is_first { "" } else { ".PP\n" };
        self.lines(&inline(text));
    }

    /// Text that follows the heading at once.
    pub(super) fn text(&mut self, text: &str) {
        self.lines(&inline(text));
    }

    /// Something in roff: already escaped.
    pub(super) fn raw(&mut self, line: &str) {
        self.lines(line);
    }

    pub(super) fn line_break(&mut self) {
        self.0 += ".br\n";
    }

    /// A term, already escaped, and what it is.
    pub(super) fn item(&mut self, term: &str, text: &str) {
        let _ = write!(self.0, ".TP\n{term}\n");
        self.lines(&if text.is_empty() { "\\&".into() } else { inline(text) });
    }

    /// Items that belong to the item before.
    pub(super) fn items_below(&mut self, items: &[[String; 2]]) {
        if items.is_empty() {
            return;
        }
        self.0 += ".RS\n";
        for [name, explanation] in items {
            self.item(&bold(name), explanation);
        }
        self.0 += ".RE\n";
    }

    /// Lines that stay as they are.
    pub(super) fn example(&mut self, code: &str) {
        self.0 += ".PP\n.RS 4\n.EX\n";
        for line in code.lines() {
            let _ = writeln!(self.0, "{}", guarded(&escaped(line)));
        }
        self.0 += ".EE\n.RE\n";
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn request(&mut self, name: &str, title: &str) {
        let _ = writeln!(self.0, ".{name} {}", escaped(title).replace('"', "\\(dq"));
    }

    /// Wraps at spaces. Escapes contain none.
    fn lines(&mut self, text: &str) {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.len() + 1 + word.len() > COLUMNS {
                let _ = writeln!(self.0, "{}", guarded(&line));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        let _ = writeln!(self.0, "{}", guarded(&line));
    }
}

/// Text in which no character has a meaning in roff.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => out += "\\(rs",
            '-' => out += "\\-",
            '\'' => out += "\\(aq",
            '`' => out += "\\(ga",
            '^' => out += "\\(ha",
            '~' => out += "\\(ti",
            character if character.is_ascii() => out.push(character),
            character => _ = write!(out, "\\[u{:04X}]", u32::from(character)),
        }
    }
    out
}

pub(super) fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

pub(super) fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

/// A line that begins with `.` would be a request.
fn guarded(line: &str) -> String {
    if line.starts_with('.') { format!("\\&{line}") } else { line.to_owned() }
}

/// Markdown in a line: `code` becomes bold, `[words](target)` the words.
pub(super) fn inline(text: &str) -> String {
    let mut out = String::new();
    for (number, piece) in without_links(text).split('`').enumerate() {
        out += &if number % 2 == 1 { bold(piece) } else { escaped(piece) };
    }
    out
}

fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out += before;
        match after.split_once("](").and_then(|(words, target)| Some((words, target.split_once(')')?.1))) {
            Some((words, behind)) if !words.contains([']', '[']) => {
                out += words;
                rest = behind;
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
}

#[test]
fn no_text_becomes_a_request() {
    let mut page = ManPage::new("wirecap-x", 1);
    page.paragraph(".so /etc/passwd and 'quoted' `-w`");
    page.example(".ds x\n\\fBbold");
    let text = page.into_text();
    let lines: Vec<_> = text.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            ".PP",
            "\\&.so /etc/passwd and \\(aqquoted\\(aq \\fB\\-w\\fR",
            ".PP",
            ".RS 4",
            ".EX",
            "\\&.ds x",
            "\\(rsfBbold",
            ".EE",
            ".RE"
        ]
    );
}

#[test]
fn links_become_their_words_and_other_brackets_stay() {
    assert_eq!(inline("a list of [diagnostics](#diagnostics)"), "a list of diagnostics");
    assert_eq!(inline("ports[].name [default: 3] ([a](b), µ)"), "ports[].name [default: 3] (a, \\[u00B5])");
}
