//! Where packets are to be written.

use serde::{Deserialize, Serialize};
use wirecap_core::choices;

/// A directory that packets are to be written to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Its path.
    pub path: String,
    /// The type of its file system, as mount(8) names it.
    pub type_name: String,
    /// What kind of file system that is.
    pub kind: FileSystem,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Whether files can be written past the page cache (O_DIRECT).
    pub takes_direct_io: Option<bool>,
    /// Bytes per second that a test file was written with; `None` if that was not measured.
    pub bytes_per_second: Option<u64>,
}

choices! {
    /// What kind of file system it is.
    pub enum FileSystem = Local {
        /// On a disk of this machine, as far as is known.
        Local = "local",
        /// On another machine.
        Network = "network",
        /// In memory.
        Memory = "memory",
        /// Over another one, as in containers.
        Overlay = "overlay",
    }
}

impl FileSystem {
    /// By the type that mount(8) shows.
    pub fn of_type(name: &str) -> Self {
        match name {
            "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "glusterfs" | "lustre" | "afs" => {
                Self::Network
            }
            "tmpfs" | "ramfs" => Self::Memory,
            "overlay" => Self::Overlay,
            name if name.starts_with("fuse.") => Self::Network,
            _ => Self::Local,
        }
    }
}
