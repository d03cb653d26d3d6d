//! Skipping, for want of root or of an input: loud and counted, and without root forbidden where it must not
//! happen.

use std::env;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};

/// Names a file that gets one line per skipped test.
const SKIP_LOG: &str = "WIRECAP_SKIP_LOG";
/// If set and not empty, skipping fails the test.
const NO_SKIP: &str = "WIRECAP_NO_SKIP";
/// If "true", too, as continuous integration sets it.
const CI: &str = "CI";

/// Whether this process is root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Called first by a test that needs root; `false` means return now.
///
/// Then a line `SKIPPED: …` has been written to standard error, also under a test runner that captures
/// output, and appended to the file named by the environment variable `WIRECAP_SKIP_LOG`.
///
/// # Panics
/// Without root if the environment variable `WIRECAP_NO_SKIP` is set or `CI` is `true`: where the privilege
/// is there.
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

/// Whether a test that needs root runs; `false` is to skip it.
fn may_run(test_name: &str, is_root: bool, skipping_is_forbidden: bool) -> bool {
    assert!(
        is_root || !skipping_is_forbidden,
        "{test_name} needs root, and {NO_SKIP} or {CI} forbids skipping it; run it with sudo"
    );
    is_root
}

/// Reports that a test is skipped for another reason than privilege: an input that is not on every machine,
/// for instance. Loud and logged as in [`require_root`], but never forbidden; return after it.
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
    fn a_test_runs_as_root_and_is_skipped_otherwise() {
        assert!(may_run("a", true, true) && may_run("a", true, false));
        assert!(!may_run("a", false, false));
    }

    #[test]
    fn skipping_is_forbidden_where_the_privilege_is_there() {
        let set = |value: &str| Some(OsString::from(value));
        assert!(skipping_is_forbidden(set("1"), None) && skipping_is_forbidden(None, set("true")));
        assert!(!skipping_is_forbidden(None, None) && !skipping_is_forbidden(set(""), set("false")));
    }

    #[test]
    #[should_panic(expected = "a needs root, and WIRECAP_NO_SKIP or CI forbids skipping it")]
    fn a_skip_that_is_forbidden_is_a_failure() {
        may_run("a", false, true);
    }

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
