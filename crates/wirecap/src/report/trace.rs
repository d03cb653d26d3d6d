//! How the reading of a trace file ended before the end of the file.

use std::sync::Arc;

use thiserror::Error;

/// Why a trace file was not read to its end.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum TraceFailure {
    /// The file is damaged, or cannot be read.
    #[error("{name}: {source}")]
    Read {
        /// The port.
        name: String,
        /// What is wrong, and where.
        source: Arc<wirecap_file::Error>,
    },
    /// Packets of the file have different link types, and a port has one.
    #[error(
        "{name}: the packet at byte {offset} is of interface {interface}, whose link type is {other}; it was {link_type} \
         before, and a port has one; everything before it was captured. Split the file first: tshark -r FILE -Y \
         'frame.interface_id == N' -w PART"
    )]
    LinkTypes {
        /// The port.
        name: String,
        /// Number of the interface in the file, with its name if it has one.
        interface: String,
        /// Link type of the port.
        link_type: u16,
        /// Link type of the interface.
        other: u16,
        /// Where the packet's record starts in the file, in bytes.
        offset: u64,
    },
}
