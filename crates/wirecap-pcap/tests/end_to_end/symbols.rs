//! The symbols that the library exports.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::Path, process::Command};

use wirecap_testing::need_root;

use crate::rig::{Rig, is_installed, our_library};

/// Where Debian has libpcap, and other distributions.
const SYSTEM: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/libpcap.so.0.8", "/usr/lib64/libpcap.so.1", "/usr/lib/libpcap.so.1"];

/// The system's libpcap.
pub fn system_library() -> &'static Path {
    SYSTEM.iter().map(Path::new).find(|path| path.exists()).expect("libpcap is installed")
}

#[test]
fn it_exports_what_libpcap_exports_with_the_same_versions_and_only_symbols_of_wirecap_besides() {
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

/// The symbols that a library defines for others, each with its version behind the name if it has one.
fn exported(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| line.split_whitespace().last().map(str::to_owned);
    text.lines().filter_map(name).collect()
}

/// Debian's soname, and upstream's.
#[test]
fn programs_find_it_under_both_names_of_libpcap() {
    need_root!("programs_find_it_under_both_names_of_libpcap");
    let rig = Rig::new("names");
    for soname in ["libpcap.so.0.8", "libpcap.so.1"] {
        let directory = rig.path(soname);
        fs::create_dir_all(directory.join("linked")).unwrap();
        let cc = |arguments: &[&str]| {
            let output = Command::new("cc").current_dir(&directory).args(arguments).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        fs::write(directory.join("stub.c"), "const char *pcap_lib_version(void) { return \"stub\"; }")
            .unwrap();
        let program = "#include <stdio.h>\nconst char *pcap_lib_version(void);\n\
                       int main(void) { puts(pcap_lib_version()); }";
        fs::write(directory.join("program.c"), program).unwrap();
        // A library with this soname, for the linker alone.
        let name = format!("-Wl,-soname,{soname}");
        cc(&["-shared", "-fPIC", &name, "-o", "linked/libpcap.so", "stub.c"]);
        cc(&["-o", "program", "program.c", "-Llinked", "-lpcap"]);
        symlink(our_library(), directory.join(soname)).unwrap();
        let mut command = Command::new(directory.join("program"));
        let output = command.env("LD_LIBRARY_PATH", &directory).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            printed.contains("libpcap version 1.10") && printed.contains(", on wirecap"),
            "{soname}: {output:?}"
        );
    }
}
