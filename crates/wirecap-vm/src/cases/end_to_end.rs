//! The end-to-end tests of the library, which need no NIC, on the kernel of this machine: that the oldest kernels are served is
//! promised, and only here they are.

use std::{
    fs::File,
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

/// Runs them all, on veth pairs in network namespaces, one after the other.
fn end_to_end(_: &Machine) {
    let said = "/tmp/end-to-end";
    let output = File::create(said).unwrap();
    let mut command = Command::new(TESTS);
    command.args(["--test-threads", "1"]).env("WIRECAP_NO_SKIP", "1").stdin(Stdio::null());
    command.stderr(output.try_clone().unwrap()).stdout(output);
    let status = command.status().unwrap();
    let lines = BufReader::new(File::open(said).unwrap()).lines().map_while(Result::ok);
    for line in lines.filter(|line| !status.success() || line.starts_with("test result")) {
        println!("end-to-end: {line}");
    }
    assert!(status.success(), "{status}");
}
