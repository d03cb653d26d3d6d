//! What differs between two texts.

/// Lines that are printed of each text, at most.
const MAX_LINES: usize = 20;

/// Requires that two texts are equal.
///
/// # Panics
/// If they are not, with the lines from the first that differs to the last.
#[track_caller]
pub fn assert_same(what: &str, expected: &str, found: &str) {
    assert!(expected == found, "{what}: wirecap differs from libpcap\n{}", difference(expected, found));
}

/// The lines that differ, `-` before those of the first text, `+` before those of the second.
fn difference(expected: &str, found: &str) -> String {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let before = expected.iter().zip(&found).take_while(|(one, other)| one == other).count();
    let rest = expected.len().min(found.len()) - before;
    let ends = expected.iter().rev().zip(found.iter().rev());
    let after = ends.take(rest).take_while(|(one, other)| one == other).count();
    let part = |mark: char, lines: &[&str]| -> String {
        let lines = &lines[before..lines.len() - after];
        let shown = lines.iter().take(MAX_LINES).map(|line| format!("{mark} {line}\n"));
        let more = lines.len().saturating_sub(MAX_LINES);
        let more = (more > 0).then(|| format!("{mark} … and {more} lines more\n"));
        shown.chain(more).collect()
    };
    format!("after {before} equal lines\n{}{}", part('-', &expected), part('+', &found))
}

#[test]
fn lines_that_differ_are_shown() {
    assert_eq!(difference("a\nb\nc\n", "a\nx\ny\nc\n"), "after 1 equal lines\n- b\n+ x\n+ y\n");
    assert_eq!(difference("a\n", "a\na\n"), "after 1 equal lines\n+ a\n");
}
