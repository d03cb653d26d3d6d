//! Numbers in sentences, for messages.
//!
//! ```
//! use wirecap_core::words::{counted, was};
//!
//! let lost = |packets: u64| format!("{} {} lost", counted(packets, "packet"), was(packets));
//! assert_eq!(lost(1), "1 packet was lost");
//! assert_eq!(lost(0), "0 packets were lost");
//! ```

use std::fmt::Display;

/// So many things: `1 packet`, `2 packets`. `one` is the word for one of them, which takes an `s` when there are more.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {one}{plural}")
}

/// What so many things were: `was` or `were`.
pub fn was<N: PartialEq + From<u8>>(number: N) -> &'static str {
    if number == N::from(1) { "was" } else { "were" }
}

/// What so many things are: `is` or `are`.
pub fn is<N: PartialEq + From<u8>>(number: N) -> &'static str {
    if number == N::from(1) { "is" } else { "are" }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular_and_none_or_more_are_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "packet")), ["0 packets", "1 packet", "2 packets"]);
        assert_eq!([0, 1, 2].map(was), ["were", "was", "were"]);
        assert_eq!([0, 1, 2].map(is), ["are", "is", "are"]);
    }
}
