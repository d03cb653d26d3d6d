//! Tests that lack something they need report that visibly.

use std::io::Write;

/// Reports that `test` was skipped, and why: on the terminal, past the test harness's capture, and in the
/// file named by `WIRECAP_SKIP_LOG`.
///
/// # Panics
///
/// If `WIRECAP_NO_SKIP` is set.
pub fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    assert!(std::env::var_os("WIRECAP_NO_SKIP").is_none(), "WIRECAP_NO_SKIP is set, but {line}");
    std::io::stderr().write_all(line.as_bytes()).expect("stderr");
    if let Some(path) = std::env::var_os("WIRECAP_SKIP_LOG") {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        log.and_then(|mut log| log.write_all(line.as_bytes())).expect("the file WIRECAP_SKIP_LOG names");
    }
}
