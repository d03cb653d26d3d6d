//! Words that look like the name of a trace file, where an interface or a filter is expected.

use std::path::Path;

/// What names of trace files end in.
const ENDS: [&str; 4] = ["pcap", "pcapng", "cap", "ntar"];

/// Whether the name of a trace file stands where only an interface can: it ends like one, or there is a file of that name.
pub(crate) fn is_trace(word: &str) -> bool {
    ends_like_trace(word) || is_file(word)
}

/// Whether the name of a trace file stands where a filter may begin: `ip` is a filter, whatever files there are.
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
    fn traces_are_known_by_their_ends_and_by_the_files_there_are() {
        // Unit tests run in the directory of the crate.
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
