//! Takes a snapshot of this machine.
//!
//! ```text
//!   interface    netlink, ethtool, /sys/class/net      interrupts   /proc/interrupts, /proc/irq
//!   processors   /sys/devices/system                   kernel       /proc/sys, /proc/net, clocks
//!   memory       /proc/self, /sys/fs/cgroup            disk         mounts, and a test file if asked for
//!   account      a file of `wirecap capture --json`
//! ```
//!
//! Rule: collecting changes nothing and needs no privilege; what is not readable is left out. Only an
//! interface that does not exist, and a file that was named and cannot be read, are errors.

mod account;
mod disk;
mod files;
mod interface;
mod interrupts;
mod kernel;
mod memory;
mod processors;

use std::{
    io,
    path::{Path, PathBuf},
};

use wirecap_sys::netdev;

pub use account::{Account, read_account};
pub use disk::{disk, measure};
use files::Files;

use crate::snapshot::{Interface, Machine, Snapshot};

/// Why a snapshot could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An interface cannot be described.
    #[error(transparent)]
    Interface(#[from] netdev::Error),

    /// A file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        cause: io::Error,
    },

    /// A file is not what it was taken for.
    #[error("{} is not {expected}: {cause}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// Where reading stopped.
        cause: serde_json::Error,
    },

    /// A test file cannot be written.
    #[error("cannot write a test file in {}: {cause}", path.display())]
    Measure {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        cause: io::Error,
    },
}

impl Error {
    fn file(path: &Path, cause: io::Error) -> Self {
        Self::File { path: path.into(), cause }
    }
}

/// A snapshot of this machine with these interfaces, in the network namespace of the calling thread.
///
/// # Errors
/// [`Error::Interface`].
pub fn snapshot<'n>(interfaces: impl IntoIterator<Item = &'n str>) -> Result<Snapshot, Error> {
    let files = Files::new("/");
    let interfaces: Result<Vec<Interface>, _> =
        interfaces.into_iter().map(|name| interface::read(&files, name)).collect();
    let interfaces = interfaces?;
    let machine = Machine {
        kernel: kernel::version(&files),
        cpus: processors::read(&files),
        irqbalance: kernel::runs(&files, "irqbalance"),
        memory: memory::read(&files),
        sysctls: kernel::sysctls(&files),
        softirq: kernel::softirq(&files),
        clock: kernel::clock(&files),
    };
    Ok(Snapshot { machine, interfaces, ..Snapshot::default() })
}

/// A snapshot that was written to a file.
///
/// # Errors
/// [`Error::File`], [`Error::Content`].
pub fn read_snapshot(path: &Path) -> Result<Snapshot, Error> {
    let text = std::fs::read_to_string(path).map_err(|cause| Error::file(path, cause))?;
    serde_json::from_str(&text).map_err(|cause| Error::Content {
        path: path.into(),
        expected: "a snapshot of wirecap doctor --record",
        cause,
    })
}
