//! What can go wrong when a clock is asked.

use std::io;

/// Why a clock cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The kernel does not read this clock.
    #[error("{clock} cannot be read: {source}; use the timestamps of another source")]
    Read {
        /// Which clock.
        clock: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The clock of a NIC cannot be opened.
    #[error("{path} cannot be opened: {source}; run as root, or give this user the right to read it")]
    Open {
        /// Its device.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
}
