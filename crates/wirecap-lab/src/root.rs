//! Skipping without root: loud, counted, and forbidden where it must not happen.

use std::env;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};

/// Names a file that gets one line per skipped test.
const SKIP_LOG: &str = "WIRECAP_SKIP_LOG";
/// If set, skipping fails the test.
const NO_SKIP: &str = "WIRECAP_NO_SKIP";

/// Whether this process is root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// To be asked first by a test that needs root; `false` means return now.
///
/// Then a line `SKIPPED: …` has been written to standard error, also under a test runner that captures output, and
/// appended to the file named by the environment variable `WIRECAP_SKIP_LOG`.
///
/// # Panics
/// Without root if the environment variable `WIRECAP_NO_SKIP` is set, as it is where the privilege is there.
///
/// ```
/// fn a_test() {
///     if !wirecap_lab::require_root("a_test") {
///         return;
///     }
/// }
/// ```
#[must_use = "without root the test has to return"]
pub fn require_root(test_name: &str) -> bool {
    is_root() || {
        skip(test_name, env::var_os(NO_SKIP).is_some(), env::var_os(SKIP_LOG), io::stderr());
        false
    }
}

fn skip(test_name: &str, forbidden: bool, log: Option<OsString>, mut loud: impl Write) {
    assert!(!forbidden, "{test_name} needs root, and {NO_SKIP} forbids skipping it; run it with sudo");
    let line = format!("SKIPPED: {test_name}: needs root; run it with sudo\n");
    // Not eprintln!: the test runner would swallow that. A closed standard error is no reason to fail.
    let _ = loud.write_all(line.as_bytes());
    if let Some(path) = log {
        let append = OpenOptions::new().create(true).append(true).open(&path);
        let written = append.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|cause| panic!("{SKIP_LOG}={}: {cause}", path.to_string_lossy()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_a_line_in_the_log() {
        let path = env::temp_dir().join(format!("wirecap-skip-{}", std::process::id()));
        let mut loud = Vec::new();
        skip("one", false, Some(path.clone().into()), &mut loud);
        skip("two", false, Some(path.clone().into()), &mut loud);
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(log.lines().count(), 2, "{log}");
        assert!(log.starts_with("SKIPPED: one: "), "{log}");
        assert_eq!(log.as_bytes(), loud, "what is logged is also said");
    }

    #[test]
    #[should_panic(expected = "WIRECAP_NO_SKIP")]
    fn a_forbidden_skip_fails() {
        skip("three", true, None, io::sink());
    }
}
