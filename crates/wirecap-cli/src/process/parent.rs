//! Ends this process together with its parent.

use std::sync::OnceLock;

use anyhow::{Result, anyhow, ensure};
use nix::{
    sys::{prctl::set_pdeathsig, signal::Signal},
    unistd::getppid,
};

/// The parent that this process ends with.
static PARENT: OnceLock<u32> = OnceLock::new();

/// Makes this process end, as by SIGINT, when its parent, the process `pid`, ends. Only the main thread calls
/// it, since the kernel keeps the signal by thread.
///
/// # Errors
/// The parent has ended.
pub(crate) fn end_with(pid: u32) -> Result<()> {
    subscribe(*PARENT.get_or_init(|| pid))
}

/// Asks again: the kernel forgets the signal when the main thread changes its user, if only for a moment.
///
/// # Errors
/// The parent has ended.
pub(crate) fn renew() -> Result<()> {
    PARENT.get().map_or(Ok(()), |&pid| subscribe(pid))
}

fn subscribe(pid: u32) -> Result<()> {
    set_pdeathsig(Signal::SIGINT)
        .map_err(|cause| anyhow!("cannot ask for a signal at the end of the parent: {cause}"))?;
    // The parent may have ended before that call.
    ensure!(u32::try_from(getppid().as_raw()) == Ok(pid), "the parent process {pid} has ended");
    Ok(())
}
