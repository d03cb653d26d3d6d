//! Interface names: which ones the kernel could have, and which existing one was meant.

use super::error::{Error, Result};
use crate::interface_name::MAX_ALTERNATIVE_BYTES;

/// Names less similar than this (0 to 1) are not worth suggesting.
const MIN_SIMILARITY: f64 = 0.75;

/// Most suggestions: more is a list, and `ip link` prints one.
const MAX_SUGGESTIONS: usize = 3;

/// Refuses a name that no interface can have, by the rules of the kernel's `dev_valid_name()`, which `ip`
/// keeps for alternative names, too.
///
/// Refusing here rather than in the kernel matters: a name that is cut to fit would name another interface.
pub(super) fn check(name: &str) -> Result<()> {
    let invalid = |problem| Err(Error::NameInvalid { name: name.to_owned(), problem });
    if name.is_empty() {
        return invalid("it is empty");
    }
    if name.len() > MAX_ALTERNATIVE_BYTES {
        return Err(Error::NameTooLong(name.to_owned()));
    }
    if name == "." || name == ".." {
        return invalid("it is a directory");
    }
    if name.bytes().any(|byte| matches!(byte, b'/' | b':' | 0) || byte.is_ascii_whitespace() || byte == 0x0b)
    {
        return invalid("it contains a slash, a colon, white space or a zero byte");
    }
    Ok(())
}

/// The names out of `existing` that look like `wanted`, the nearest first.
pub(super) fn nearest<'a>(wanted: &str, existing: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut ranked: Vec<(f64, &str)> = existing
        .into_iter()
        .map(|name| (similarity(wanted, name), name))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    ranked.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

/// From 0 (nothing in common) to 1 (equal except for case).
///
/// Jaro-Winkler honours the common beginning that interface names have (`enp3s0f0`, `enp3s0f1`);
/// Damerau-Levenshtein sees swapped letters at the very beginning (`teh0`), which the other punishes.
fn similarity(a: &str, b: &str) -> f64 {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    strsim::jaro_winkler(&a, &b).max(strsim::normalized_damerau_levenshtein(&a, &b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_kernel_could_have_pass() {
        for name in ["lo", "eth0", "enp3s0f1np1", "br-0123456789ab", "eth0.100", "veth@x"] {
            assert!(check(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_no_interface_can_have_are_refused() {
        for name in ["", ".", "..", "a/b", "eth0:1", "eth 0", "eth\t0", "eth\x0b0", "eth\0"] {
            assert!(matches!(check(name), Err(Error::NameInvalid { .. })), "{name:?}");
        }
        assert!(check(&"a".repeat(127)).is_ok());
        let error = check(&"a".repeat(128)).unwrap_err();
        assert!(matches!(error, Error::NameTooLong(_)));
        assert!(error.to_string().contains("128 bytes long, Linux allows 15"), "{error}");
    }

    #[test]
    fn the_nearest_name_comes_first_and_distant_ones_are_left_out() {
        let existing = ["lo", "docker0", "enp3s0f0", "enp3s0f1", "eth0"];
        assert_eq!(nearest("eht0", existing), ["eth0"]);
        assert_eq!(nearest("teh0", existing), ["eth0"]);
        assert_eq!(nearest("ENP3S0F1", existing), ["enp3s0f1", "enp3s0f0"]);
        assert!(nearest("wlan7", existing).is_empty());
    }
}
