//! Where a lack of memory comes from, so that errors can name the setting to change.

use std::path::PathBuf;

/// What bounds the memory that is available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryBound {
    /// What the machine has left.
    Machine,
    /// A control group.
    Group {
        /// Its directory.
        directory: PathBuf,
        /// The file in it that has the limit.
        setting: &'static str,
        /// The limit, in bytes.
        limit: u64,
    },
}
