//! A process that captures until it is killed: one of these tests, run again.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
};

use wirecap::Builder;

use wirecap_testing::{crew::Crew, wire::Wire};

/// What a victim prints once it captures.
const CAPTURES: &str = "the victim captures";

/// A process that captures until it is killed.
pub(crate) struct Victim {
    process: Child,
    /// Kept open: the process ends if it cannot print.
    _output: BufReader<ChildStdout>,
}

impl Victim {
    /// Runs a test again inside of a wire, and returns as soon as it captures. The variables tell the test to
    /// call [`capture_until_killed`].
    pub(crate) fn start(wire: &Wire, test: &str, variables: &[(&str, &str)]) -> Self {
        // Determined here: within the namespace of a test the path may differ.
        let program = env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", test, "--nocapture"]).envs(variables.iter().copied()).stdout(Stdio::piped());
        let mut process = wire.inside.enter(|| command.spawn()).unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let captures = output.by_ref().lines().any(|line| line.unwrap().ends_with(CAPTURES));
        let victim = Self { process, _output: output };
        assert!(captures, "the victim ended before it captured");
        victim
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The process was killed already, unless the test failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The part of a victim.
#[expect(clippy::print_stdout, reason = "the process that started it reads the line")]
pub(crate) fn capture_until_killed(builder: Builder) -> ! {
    let mut capture = builder.open().unwrap();
    // Only now are its programs loaded and attached; its queues were locked before.
    println!("{CAPTURES}");
    Crew::eager(capture.take_workers()).join();
    unreachable!("this capture is not stopped");
}
