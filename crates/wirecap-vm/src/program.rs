//! Runs the `wirecap` command of the image as a child process.

use std::process::Command;

use serde_json::Value;
use wirecap_testing::running_command::{READY, RunningCommand};

/// Starts `wirecap`.
pub(crate) fn spawn(arguments: &[&str]) -> RunningCommand {
    let mut command = Command::new("wirecap");
    command.args(arguments);
    RunningCommand::spawn(command)
}

/// Starts `wirecap` and waits until it captures.
#[track_caller]
pub(crate) fn start(arguments: &[&str]) -> RunningCommand {
    let running = spawn(arguments);
    running.wait_for(READY);
    running
}

/// Stops `wirecap` and returns its account.
#[track_caller]
pub(crate) fn stop(running: RunningCommand) -> Value {
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().0
}
