//! The end-to-end tests of the library, which need no NIC, on the kernel of this machine: that the oldest kernels are served is
//! promised, and only here they are.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use super::Case;
use crate::machine::Machine;

/// The test program, if the image has it.
const TESTS: &str = "/tests/capture";

pub(super) const CASES: [Case; 1] = [("end-to-end", end_to_end)];

/// Whether the image has it.
pub(super) fn is_there() -> bool {
    Path::new(TESTS).exists()
}

/// Those that are run: what every kernel has, and what an emulated machine does in a minute or two.
const MODULES: [&str; 4] = ["account::", "host::", "killed::", "opening::"];

/// Runs them on veth pairs in network namespaces, one after the other, and passes on what they say.
fn end_to_end(_: &Machine) {
    let mut command = Command::new(TESTS);
    command.args(MODULES).args(["--test-threads", "1"]).env("WIRECAP_NO_SKIP", "1").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        println!("end-to-end: {line}");
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}
