//! Skipping, for want of root or of an input: loud and counted, and without root forbidden where it must not happen.

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
        let forbidden = env::var_os(NO_SKIP).is_some();
        assert!(!forbidden, "{test_name} needs root, and {NO_SKIP} forbids skipping it; run it with sudo");
        skip(test_name, "needs root; run it with sudo");
        false
    }
}

/// Says that a test is skipped for another reason than privilege: an input that not everybody has, for instance. Loud
/// and logged as in [`require_root`], but never forbidden; return after it.
///
/// # Panics
/// If the file that `WIRECAP_SKIP_LOG` names cannot be written.
pub fn skip(test_name: &str, reason: &str) {
    write_skip(test_name, reason, env::var_os(SKIP_LOG), io::stderr());
}

fn write_skip(test_name: &str, reason: &str, log: Option<OsString>, mut loud: impl Write) {
    let line = format!("SKIPPED: {test_name}: {reason}\n");
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
        write_skip("one", "needs root", Some(path.clone().into()), &mut loud);
        write_skip("two", "has no input", Some(path.clone().into()), &mut loud);
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(log.lines().count(), 2, "{log}");
        assert!(log.starts_with("SKIPPED: one: needs root\n"), "{log}");
        assert_eq!(log.as_bytes(), loud, "what is logged is also said");
    }
}
