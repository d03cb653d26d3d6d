//! Runs the `wirecap` command of the image as a child process.

use std::process::Command;

use serde_json::Value;
use wirecap_testing::running::{READY, Running};

/// Starts `wirecap`.
pub(crate) fn spawn(arguments: &[&str]) -> Running {
    let mut command = Command::new("wirecap");
    command.args(arguments);
    Running::spawn(command)
}

/// Starts `wirecap` and waits until it captures.
#[track_caller]
pub(crate) fn start(arguments: &[&str]) -> Running {
    let running = spawn(arguments);
    running.wait_for(READY);
    running
}

/// Stops `wirecap` and returns its account.
#[track_caller]
pub(crate) fn stop(running: Running) -> Value {
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().0
}
