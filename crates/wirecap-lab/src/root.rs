//! Skips tests that lack root or an input, loudly and with a count. Skipping for lack of root can be
//! forbidden.

use std::env;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};

/// Names a file that gets one line per skipped test.
const SKIP_LOG: &str = "WIRECAP_SKIP_LOG";
/// If set and not empty, skipping fails the test.
const NO_SKIP: &str = "WIRECAP_NO_SKIP";
/// If "true", as continuous integration sets it, skipping also fails the test.
const CI: &str = "CI";

/// Whether this process is root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A test that needs root calls this first and returns if the result is `false`.
///
/// Without root, writes a line `SKIPPED: …` to standard error, even under a test runner that captures output,
/// and appends it to the file named by the environment variable `WIRECAP_SKIP_LOG`.
///
/// # Panics
/// Without root if the environment variable `WIRECAP_NO_SKIP` is set or `CI` is `true`.
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
    let forbidden = skipping_is_forbidden(env::var_os(NO_SKIP), env::var_os(CI));
    may_run(test_name, is_root(), forbidden) || {
        skip(test_name, "needs root; run it with sudo");
        false
    }
}

fn skipping_is_forbidden(no_skip: Option<OsString>, ci: Option<OsString>) -> bool {
    no_skip.is_some_and(|value| !value.is_empty()) || ci.is_some_and(|value| value == "true")
}

/// Whether a test that needs root may run; `false` means to skip it.
fn may_run(test_name: &str, is_root: bool, skipping_is_forbidden: bool) -> bool {
    assert!(
        is_root || !skipping_is_forbidden,
        "{test_name} needs root, and {NO_SKIP} or {CI} forbids skipping it; run it with sudo"
    );
    is_root
}

/// Reports that a test is skipped for another reason than lack of root: an input that some machines lack, for
/// instance. Loud and logged as in [`require_root`], but never forbidden. The test returns after this call.
///
/// # Panics
/// If the file that `WIRECAP_SKIP_LOG` names cannot be written.
pub fn skip(test_name: &str, reason: &str) {
    write_skip(test_name, reason, env::var_os(SKIP_LOG), io::stderr());
}

fn write_skip(test_name: &str, reason: &str, log: Option<OsString>, mut loud: impl Write) {
    let line = format!("SKIPPED: {test_name}: {reason}\n");
    // Not eprintln!, which the test runner captures. A closed standard error is no reason to fail.
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
    fn a_test_runs_as_root_and_is_skipped_otherwise() {
        assert!(may_run("a", true, true) && may_run("a", true, false));
        assert!(!may_run("a", false, false));
    }

    #[test]
    fn either_variable_forbids_skipping() {
        let set = |value: &str| Some(OsString::from(value));
        assert!(skipping_is_forbidden(set("1"), None) && skipping_is_forbidden(None, set("true")));
        assert!(!skipping_is_forbidden(None, None) && !skipping_is_forbidden(set(""), set("false")));
    }

    #[test]
    #[should_panic(expected = "a needs root, and WIRECAP_NO_SKIP or CI forbids skipping it")]
    fn a_forbidden_skip_fails() {
        may_run("a", false, true);
    }

    #[test]
    fn each_skip_is_logged_as_a_line() {
        let path = env::temp_dir().join(format!("wirecap-skip-{}", std::process::id()));
        let mut loud = Vec::new();
        write_skip("one", "needs root", Some(path.clone().into()), &mut loud);
        write_skip("two", "has no input", Some(path.clone().into()), &mut loud);
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(log.lines().count(), 2, "{log}");
        assert!(log.starts_with("SKIPPED: one: needs root\n"), "{log}");
        assert_eq!(log.as_bytes(), loud, "standard error gets the same lines as the log");
    }
}
