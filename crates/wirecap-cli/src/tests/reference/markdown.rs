//! Text of documentation comments and help, as Markdown for the book.

/// The head of a generated page.
pub(super) fn head(title: &str, about: &str) -> String {
    format!(
        "<!-- Generated from the program by ./dev reference; edit the program instead. -->\n\n# {title}\n\n{about}\n"
    )
}

/// A row of a table.
pub(super) fn row(cells: &[&str]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |")
}

/// A documentation comment without its examples, with links reduced to their text and `None` as null.
pub(super) fn plain(comment: &str) -> String {
    let text = comment.split("```").next().unwrap_or_default();
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        out += &rest[..open];
        let Some(close) = rest[open..].find(']').map(|close| open + close) else { break };
        let words = &rest[open + 1..close];
        rest = &rest[close + 1..];
        if let Some(target) = rest.strip_prefix('(') {
            out += words;
            rest = target.split_once(')').map_or("", |(_, rest)| rest);
        } else if words.starts_with('`') {
            out += words;
        } else {
            out += &format!("[{words}]");
        }
    }
    out += rest;
    without_paths(&out.replace("`None`", "null").split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Leaves out references to Rust items: ` (A::b)`, `; see A::b`, ` See A::b.`, with the path as code.
fn without_paths(text: &str) -> String {
    let mut out = String::new();
    let mut pieces = text.split('`');
    out += pieces.next().unwrap_or_default();
    while let (Some(code), Some(prose)) = (pieces.next(), pieces.next()) {
        let leads = [(" (", ")"), ("; see ", ""), (": see ", ""), (" See ", ".")];
        let lead = leads
            .iter()
            .find(|(lead, end)| code.contains("::") && out.ends_with(lead) && prose.starts_with(end));
        match lead {
            Some((lead, end)) => {
                out.truncate(out.len() - lead.len());
                out += &prose[end.len()..];
            }
            None => out += &format!("`{code}`{prose}"),
        }
    }
    out
}

#[test]
fn links_become_their_text() {
    let comment = "As [`Packet::len`](crate::Packet::len), or [`LossCounts`]: `None` without\n[a cell](x).\n\n```\ncode\n```";
    assert_eq!(plain(comment), "As `Packet::len`, or `LossCounts`: null without a cell.");
    assert_eq!(plain("pcap [default: 3]"), "pcap [default: 3]");
    let comment = "The rest ([`Mode::Host`]), of a [clock](Clock); see [`A::b`]. See [`C::d`]. `D::e` stays.";
    assert_eq!(plain(comment), "The rest, of a clock. `D::e` stays.");
}
