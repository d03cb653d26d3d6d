//! Real traces, which are not part of the repository.

use std::path::{Path, PathBuf};

use crate::skip;

/// The directory of real traces: the one that the environment variable `WIRECAP_TRACES` names, else
/// `shared/traces` beside the repository. `None` if it does not exist.
pub fn trace_directory() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let directory = std::env::var_os("WIRECAP_TRACES").map_or_else(beside, PathBuf::from);
    Some(directory).filter(|directory| directory.is_dir())
}

/// The traces of [`trace_directory`] (`*.pcap`, `*.pcapng`, `*.cap`), by name. `None` if there is no
/// directory; then this reports the test as [skipped](skip), and the test must return.
///
/// # Panics
/// If the directory cannot be read, or has no trace.
pub fn trace_files(test_name: &str) -> Option<Vec<PathBuf>> {
    let Some(directory) = trace_directory() else {
        skip(test_name, "there are no traces; name their directory in WIRECAP_TRACES");
        return None;
    };
    let is_trace = |path: &PathBuf| {
        path.extension().is_some_and(|kind| ["pcap", "pcapng", "cap"].iter().any(|name| kind == *name))
    };
    let entries = directory.read_dir().unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(is_trace).collect();
    assert!(!files.is_empty(), "no trace in {}", directory.display());
    files.sort();
    Some(files)
}
