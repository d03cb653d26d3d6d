//! Runs ip(8) and ethtool(8) and turns their failure into an [`Error`].

use std::process::Command;

use crate::error::Error;

/// Runs ip(8) with `arguments` and returns its output.
pub(crate) fn ip(arguments: &[&str]) -> Result<String, Error> {
    let mut command = Command::new("ip");
    command.args(arguments);
    run(command, "iproute2")
}

/// Runs `command` to its end and returns its output. `package` is the package that contains the program.
pub(crate) fn run(mut command: Command, package: &'static str) -> Result<String, Error> {
    let line = || {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let line = line();
    let output =
        command.output().map_err(|cause| Error::NotFound { command: line.clone(), package, cause })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Failed { command: line, status: output.status, stderr });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
