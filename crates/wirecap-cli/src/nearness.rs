//! Suggestions for misspelt words.
//!
//! ```text
//!   --mod ──► --mode      a beginning          --durtaion ──► --duration    two letters swapped
//!   --threads ──► --capture-threads            one of its words
//!   --rotate  ──► nothing: --write and --route are other words
//! ```
//!
//! Rule: a wrong suggestion costs more than no suggestion. A word is near if it differs by at most one slip of the keyboard for every
//! four letters.

/// The least length of a beginning, in letters.
const BEGINNING: usize = 3;
/// One slip is allowed for so many letters, and one in any word.
const LETTERS_A_SLIP: usize = 4;

/// Returns the nearest of `words`, if any of them is near.
pub(crate) fn nearest<'w>(given: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let near = words.into_iter().filter_map(|word| Some((distance(given, word)?, word)));
    near.min_by_key(|&(distance, _)| distance).map(|(_, word)| word)
}

/// Counts the slips between the two; `None` if `word` is not near.
fn distance(given: &str, word: &str) -> Option<usize> {
    let slips = strsim::damerau_levenshtein(given, word);
    let allowed = (given.len().max(word.len()) / LETTERS_A_SLIP).max(1);
    let is_part =
        given.len() >= BEGINNING && (word.starts_with(given) || word.split('-').any(|part| part == given));
    // One slip turns a word of two letters into almost any other.
    let is_near = slips <= allowed && given.len().min(word.len()) >= BEGINNING;
    (is_near || is_part).then_some(slips)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: [&str; 10] = [
        "write",
        "rate",
        "route",
        "mode",
        "duration",
        "capture-threads",
        "no-promiscuous",
        "filter",
        "pps",
        "bps",
    ];

    #[test]
    fn slips_beginnings_and_words_are_found_and_other_words_are_not() {
        for (given, meant) in [
            ("mod", Some("mode")),
            ("modes", Some("mode")),
            ("durtaion", Some("duration")),
            ("no-promisc", Some("no-promiscuous")),
            ("threads", Some("capture-threads")),
            ("wrte", Some("write")),
            ("pps2", Some("pps")),
            ("rotate", None),
            ("interval", None),
            ("verbose", None),
            ("w", None),
            ("", None),
            ("fi", None),
        ] {
            assert_eq!(nearest(given, FLAGS), meant, "{given}");
        }
        assert_eq!(nearest("bp", FLAGS), None, "half of it");
        assert_eq!(nearest("bpss", FLAGS), Some("bps"), "the nearest, not the first");
    }
}
