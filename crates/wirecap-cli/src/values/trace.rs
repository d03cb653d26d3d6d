//! Recognises names of trace files given where an interface or a filter is expected.

use std::path::Path;

/// Extensions of trace files.
const ENDS: [&str; 4] = ["pcap", "pcapng", "cap", "ntar"];

/// Whether a word in the place of an interface looks like a trace file: by its extension, or because the file
/// exists.
pub(crate) fn is_trace(word: &str) -> bool {
    ends_like_trace(word) || is_file(word)
}

/// Whether the first word of a filter looks like a trace file. A file named `ip` does not count: `ip` is a
/// filter.
pub(crate) fn is_trace_path(word: &str) -> bool {
    ends_like_trace(word) || (word.contains('/') && is_file(word))
}

fn ends_like_trace(word: &str) -> bool {
    let extension = Path::new(word).extension();
    extension.is_some_and(|extension| ENDS.iter().any(|end| extension.eq_ignore_ascii_case(end)))
}

fn is_file(word: &str) -> bool {
    Path::new(word).metadata().is_ok_and(|metadata| !metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_recognised_by_their_suffix_or_as_files() {
        // Unit tests run in the crate's directory.
        for (word, instead_of_interface, instead_of_filter) in [
            ("a.pcap", true, true),
            ("no/such.PCAPNG", true, true),
            ("x.cap", true, true),
            ("Cargo.toml", true, false),
            ("./Cargo.toml", true, true),
            ("src", false, false),
            ("eth0.100", false, false),
            ("10.0.0.0/8", false, false),
            ("pcap", false, false),
        ] {
            assert_eq!(
                (is_trace(word), is_trace_path(word)),
                (instead_of_interface, instead_of_filter),
                "{word}"
            );
        }
    }
}
