//! What becomes of captured packets.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::text;
use crate::{print::log::LogFormat, values::FileMode};

/// What becomes of the packets, what is printed about them, and when the command ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OutputSettings {
    /// Where packets are written.
    pub(crate) write: Option<PathBuf>,
    /// Bytes kept of each packet; 0 keeps all.
    pub(crate) snaplen: u32,
    /// Write the file past the page cache.
    pub(crate) direct_io: bool,
    /// Permissions of files, in octal digits; without it 0640, or those of the file that is replaced.
    #[serde(with = "text::parsed")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) file_mode: Option<FileMode>,
    /// Write files under their own names from the start, over files that exist.
    pub(crate) in_place: bool,
    /// Print a line for each packet, by tcpdump.
    pub(crate) print: bool,
    /// Send a copy of each packet by this interface, or into the named pipe with this path.
    pub(crate) copy_to: Option<String>,
    /// Write a file for each receive queue.
    pub(crate) file_per_queue: bool,
    /// Begin a new file before one has more than this number of bytes, or `512k`, `100M`, `2G`.
    #[serde(with = "text::file_size")]
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub(crate) rotate_size: Option<u64>,
    /// Begin a new file after this number of packets.
    pub(crate) rotate_packets: Option<u64>,
    /// Begin a new file each time this much time has passed.
    #[serde(with = "text::time")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) rotate_time: Option<Duration>,
    /// With a size, keep this number of files, and replace the oldest; with a time, stop after this number.
    pub(crate) rotate_files: Option<u64>,
    /// Keep this number of files of a series, the one that is written included, and delete the oldest.
    pub(crate) keep_files: Option<u64>,
    /// Stop after this number of files of a series.
    pub(crate) stop_files: Option<u64>,
    /// Stop before the file has more than this number of bytes.
    #[serde(with = "text::file_size")]
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub(crate) stop_size: Option<u64>,
    /// Run this program with the name of each file that is complete.
    pub(crate) rotate_command: Option<String>,
    /// Stop after this number of packets.
    pub(crate) count: Option<u64>,
    /// Stop after this time.
    #[serde(with = "text::time")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) duration: Option<Duration>,
    /// Verify frames of `wirecap generate`.
    pub(crate) verify: bool,
    /// Frames in each run.
    pub(crate) expect: Option<u64>,
    /// Print the account as JSON.
    pub(crate) json: bool,
    /// The interval at which statistics are printed.
    #[serde(with = "text::time")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) stats: Option<Duration>,
    /// How messages are written on standard error.
    pub(crate) log: LogFormat,
    /// Exit with a code of its own if packets were lost.
    pub(crate) fail_on_loss: bool,
    /// Print only errors, losses, and what was asked for.
    pub(crate) quiet: bool,
}

impl OutputSettings {
    /// Whether packets are written to a series of files.
    pub(crate) fn rotates(&self) -> bool {
        self.rotate_size.is_some() || self.rotate_time.is_some() || self.rotate_packets.is_some()
    }

    /// How many files of a series are kept, if not all.
    pub(crate) fn kept_files(&self) -> Option<u64> {
        self.keep_files.or(self.rotate_files.filter(|_| self.rotate_size.is_some()))
    }

    /// The named pipe that gets a copy of each packet.
    pub(crate) fn copy_pipe(&self) -> Option<&Path> {
        self.copy_to.as_deref().filter(|to| to.contains('/')).map(Path::new)
    }

    /// The interface that gets a copy of each packet.
    pub(crate) fn copy_interface(&self) -> Option<&str> {
        self.copy_to.as_deref().filter(|to| !to.contains('/'))
    }

    /// Whether the times of packets are written or verified.
    pub(crate) fn keeps_times(&self) -> bool {
        self.write.is_some() || self.print || self.verify
    }
}
