//! The process: its signals, threads, cores and privileges.
//!
//! | to read about | open |
//! |---|---|
//! | signals | [`signals`]; long steps that a signal ends: [`step`] |
//! | threads that are started early | [`idle_thread`] |
//! | cores that may be used | [`cores`] |
//! | notifications to systemd | [`service_manager`] |
//! | which users may run a program with capabilities | [`privileges`] |
//! | what threads give up once everything is open | [`sandbox`] |

pub(crate) mod cores;
pub(crate) mod executable;
pub(crate) mod idle_thread;
pub(crate) mod privileges;
pub(crate) mod sandbox;
pub(crate) mod service_manager;
pub(crate) mod signals;
pub(crate) mod step;

use std::{fs, os::unix::fs::MetadataExt};

use anyhow::{Context, Result, ensure};
use nix::{
    sys::{prctl::set_pdeathsig, signal::Signal},
    unistd::getppid,
};

/// Has this process end, as by SIGINT, when its parent does, which has this id.
///
/// # Errors
/// The parent has ended.
pub(crate) fn end_with_parent(pid: u32) -> Result<()> {
    set_pdeathsig(Signal::SIGINT).context("cannot ask for a signal at the end of the parent")?;
    // It may have ended before that call.
    ensure!(u32::try_from(getppid().as_raw()) == Ok(pid), "the process {pid}, with which to end, has ended");
    Ok(())
}

/// The inode of this process's network namespace; `None` without /proc.
pub(crate) fn network_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/net").ok().map(|metadata| metadata.ino())
}
