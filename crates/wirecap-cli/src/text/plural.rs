//! Numbers in sentences: `1 packet was lost`, `2 packets were lost`.

use std::fmt::Display;

/// A number of things: `1 packet`, `2 packets`. `one` is the singular; the plural appends an `s`.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {one}{plural}")
}

/// `was` or `were`.
pub(crate) fn was<N: PartialEq + From<u8>>(number: N) -> &'static str {
    if number == N::from(1) { "was" } else { "were" }
}

/// `is` or `are`.
pub(crate) fn is<N: PartialEq + From<u8>>(number: N) -> &'static str {
    if number == N::from(1) { "is" } else { "are" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular_and_none_or_more_are_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "packet")), ["0 packets", "1 packet", "2 packets"]);
        assert_eq!([0, 1, 2].map(was), ["were", "was", "were"]);
        assert_eq!([0, 1, 2].map(is), ["are", "is", "are"]);
    }
}
