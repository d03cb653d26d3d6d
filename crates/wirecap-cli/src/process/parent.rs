//! Ends this process together with its parent.

use anyhow::{Context, Result, ensure};
use nix::{
    sys::{prctl::set_pdeathsig, signal::Signal},
    unistd::getppid,
};

/// Makes this process end, as by SIGINT, when its parent, the process `pid`, ends.
///
/// # Errors
/// The parent has ended.
pub(crate) fn end_with(pid: u32) -> Result<()> {
    set_pdeathsig(Signal::SIGINT).context("cannot ask for a signal at the end of the parent")?;
    // The parent may have ended before that call.
    ensure!(u32::try_from(getppid().as_raw()) == Ok(pid), "the parent process {pid} has ended");
    Ok(())
}
