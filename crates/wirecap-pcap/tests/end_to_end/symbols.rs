//! The symbols that the library exports.

use std::{collections::BTreeSet, path::Path, process::Command};

use crate::rig::{is_installed, our_library};

/// Where Debian has libpcap, and other distributions.
const SYSTEM: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/libpcap.so.0.8", "/usr/lib64/libpcap.so.1", "/usr/lib/libpcap.so.1"];

/// The system's libpcap.
pub fn system_library() -> &'static Path {
    SYSTEM.iter().map(Path::new).find(|path| path.exists()).expect("libpcap is installed")
}

#[test]
fn it_exports_what_libpcap_exports_and_only_symbols_of_wirecap_besides() {
    if !is_installed("it_exports_what_libpcap_exports", "nm", "binutils") {
        return;
    }
    let (libpcap, ours) = (exported(system_library()), exported(&our_library()));
    assert!(libpcap.len() > 90, "{libpcap:?}");
    let missing: Vec<_> = libpcap.difference(&ours).collect();
    assert!(missing.is_empty(), "libpcap has, wirecap has not: {missing:?}");
    let more: Vec<_> = ours.difference(&libpcap).filter(|name| !name.starts_with("wirecap_")).collect();
    assert!(more.is_empty(), "wirecap has, libpcap has not: {more:?}");
    assert!(ours.contains("wirecap_version"));
}

/// The names of the symbols that a library defines for others.
fn exported(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let name =
        |line: &str| line.split_whitespace().last().map(|name| name.split('@').next().unwrap().to_owned());
    text.lines().filter_map(name).collect()
}
