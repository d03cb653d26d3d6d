//! The end-to-end tests of the library, which need no NIC, on the kernel of this guest. No other test proves
//! that wirecap works on the oldest kernel it supports.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use super::Case;
use crate::machine::Machine;

/// The test program in the image.
const TESTS: &str = "/tests/capture";

pub(super) const CASES: [Case; 1] = [("end-to-end", end_to_end)];

/// The modules to run: they need only what every kernel has, and an emulated machine runs them in a minute or
/// two. On a kernel without TCX, what is left to the host is captured over AF_PACKET.
const MODULES: [&str; 5] = ["account::", "host::", "killed::", "opening::", "passive::"];

/// The number of their tests. Those of `queues_killed` count, since its name contains `killed::`.
const TESTS_IN_MODULES: usize = 23;

/// Runs the tests on veth pairs in network namespaces, one after the other, and prints their output.
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
    assert_eq!(passed, TESTS_IN_MODULES, "every test of the modules passed");
}
