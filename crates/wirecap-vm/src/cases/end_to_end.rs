//! The end-to-end tests of the library, which need no NIC, on the kernel of this machine: that the oldest
//! kernels are served is promised, and only here they are.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use super::Case;
use crate::machine::Machine;

/// The test program in the image.
const TESTS: &str = "/tests/capture";

pub(super) const CASES: [Case; 1] = [("end-to-end", end_to_end)];

/// Those that are run: what every kernel has, and what an emulated machine does in a minute or two.
const MODULES: [&str; 4] = ["account::", "host::", "killed::", "opening::"];

/// So many they are: also those of `queues_killed`, which has such a name.
const TESTS_IN_MODULES: usize = 15;

/// Runs them on veth pairs in network namespaces, one after the other, and passes on what they say.
fn end_to_end(_: &Machine) {
    let mut command = Command::new(TESTS);
    command.args(MODULES).args(["--test-threads", "1"]).env("WIRECAP_NO_SKIP", "1").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut passed = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        println!("end-to-end: {line}");
        passed += usize::from(line.ends_with(" ... ok"));
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(passed, TESTS_IN_MODULES, "as many tests as the modules have");
}
