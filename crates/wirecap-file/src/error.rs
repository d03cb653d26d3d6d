//! What can go wrong, where in the file, and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::{Compression, Format};

/// Why a capture file could not be opened, or why reading it ended before its end.
///
/// Offsets count bytes from the start of the file and name the first byte of the block or record that is bad:
/// a file cut to that length is whole (unless the length is 0). Of a compressed file they count the bytes
/// that it decompresses to.
///
/// # Example
///
/// ```
/// use wirecap_file::{Error, Reader};
///
/// let Err(error) = Reader::new(b"\x1f\x8b\x08\x00".as_slice()) else { unreachable!() };
/// assert!(matches!(error, Error::NotACapture(_)));
/// assert!(error.to_string().contains("gunzip"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The extension of this name stands for no format.
    #[error(
        "cannot tell the capture format from the name {0:?}: end it in .pcapng (recommended) or .pcap, compressed in .pcapng.zst, \
         .pcapng.lz4, .pcap.zst or .pcap.lz4"
    )]
    UnknownExtension(PathBuf),
    /// The file could not be opened.
    #[error("cannot open the capture file {path:?}: {source}; check the name and that you may read it")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system failed to read.
    #[error(
        "cannot read the capture file on from byte {offset}: {source}; check the disk or pipe it comes from"
    )]
    Read {
        /// Where in the file, in bytes.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file has no bytes at all.
    #[error("the capture file is empty: whatever wrote it stopped before its header; capture again")]
    Empty,
    /// The first bytes belong to no format read here; these are up to four of them.
    #[error("not a pcap or pcapng file: it starts with the bytes {0:02x?}; {hint}", hint = hint_for_start(.0))]
    NotACapture(Vec<u8>),
    /// The format is known, this version of it is not.
    #[error(
        "the header at byte {offset} says {format} version {major}.{minor}, which cannot be read here; \
         convert the file with a recent editcap"
    )]
    UnsupportedVersion {
        /// Where the header starts, in bytes.
        offset: u64,
        /// The format.
        format: Format,
        /// The version's first number.
        major: u16,
        /// The version's second number.
        minor: u16,
    },
    /// The file ends in the middle of a block or record, as after `kill -9`, a full disk, or a broken
    /// download.
    #[error("{what}; {remedy}", what = self.what(), remedy = remedy(*offset))]
    Truncated {
        /// Where the incomplete block or record starts, in bytes.
        offset: u64,
        /// What is incomplete.
        what: &'static str,
        /// How many bytes of it are there.
        present: u64,
        /// How many bytes it takes, as far as could be seen.
        needed: u64,
    },
    /// A block or record contradicts itself or what stands before it.
    #[error("{what}; {remedy}", what = self.what(), remedy = remedy(*offset))]
    Damaged {
        /// Where the bad block or record starts, in bytes.
        offset: u64,
        /// What is wrong with it.
        damage: Damage,
    },
    /// The contents of a compressed file are cut off or damaged. Offsets are those in the decompressed bytes.
    #[error("in the contents of the {compression} file, {what}{rest}", what = .error.what(), rest = rest(.error.offset()))]
    Compressed {
        /// How the file is compressed.
        compression: Compression,
        /// What is wrong, as in a file that is not compressed.
        error: Box<Error>,
    },
    /// A compressed file cannot be decompressed to its end: it is cut off or damaged, or needs more memory or
    /// a dictionary.
    #[error("the {compression} file {what}{rest}", what = undecodable(.source, *.offset), rest = rest(*.offset))]
    Decompress {
        /// How the file is compressed.
        compression: Compression,
        /// How much was decompressed, in bytes.
        offset: u64,
        /// What the decoder said.
        source: io::Error,
    },
}

impl Error {
    /// What is wrong, without a remedy.
    fn what(&self) -> String {
        match self {
            Self::Truncated { offset, what, present, needed } => format!(
                "the capture file is cut off in the {what} at byte {offset}: {present} of {needed} bytes are there"
            ),
            Self::Damaged { offset, damage } => {
                format!("the capture file is damaged in the block or record at byte {offset}: {damage}")
            }
            other => other.to_string(),
        }
    }

    /// Where in the contents it is.
    fn offset(&self) -> u64 {
        match self {
            Self::Truncated { offset, .. } | Self::Damaged { offset, .. } => *offset,
            _ => 0,
        }
    }

    /// The error of a file that is compressed like that.
    pub(crate) fn of_compressed(self, compression: Option<Compression>) -> Self {
        match (self, compression) {
            // Decoders have no code of the system.
            (Self::Read { offset, source }, Some(compression))
                if source.raw_os_error().is_none() && source.kind() != io::ErrorKind::WouldBlock =>
            {
                Self::Decompress { compression, offset, source }
            }
            (
                error @ (Self::Truncated { .. } | Self::Damaged { .. } | Self::NotACapture(_)),
                Some(compression),
            ) => Self::Compressed { compression, error: Box::new(error) },
            (error, _) => error,
        }
    }
}

/// What is wrong with a block or record.
///
/// # Example
///
/// ```
/// use wirecap_file::Damage;
///
/// let damage = Damage::UnknownInterface { interface: 7, known: 2 };
/// assert_eq!(damage.to_string(), "it names interface 7, but its section has described only 2 so far");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A section header without the magic number that shows its byte order: what stands in its
    /// place, read as little-endian.
    #[error("its byte-order magic is {0:#010x}, which is 0x1a2b3c4d in neither byte order")]
    ByteOrderMagic(u32),
    /// A total length no block can have.
    #[error("its total length is {length}, which is not a multiple of 4 from {min} to {max}")]
    BlockLength {
        /// The length it claims, in bytes.
        length: u32,
        /// The least it could be.
        min: u32,
        /// The most that is read.
        max: u32,
    },
    /// The total length at the end of a block is not the one at its start.
    #[error("its total length is {leading} at its start and {trailing} at its end")]
    TrailingLength {
        /// At its start, in bytes.
        leading: u32,
        /// At its end, in bytes.
        trailing: u32,
    },
    /// More captured bytes than the limit, or than the block has room for.
    #[error("it claims {captured} captured bytes, but at most {max} can be there")]
    CapturedLength {
        /// The length it claims, in bytes.
        captured: u32,
        /// The most that could be, in bytes.
        max: u32,
    },
    /// A packet of an interface without a description.
    #[error("it names interface {interface}, but its section has described only {known} so far")]
    UnknownInterface {
        /// The interface it names.
        interface: u32,
        /// How many its section has.
        known: u32,
    },
    /// Too many interfaces to be true.
    #[error("it describes one interface more than the {} that are read from one file", crate::MAX_INTERFACES)]
    TooManyInterfaces,
    /// More comments than any program writes into a block.
    #[error("it has more than {} comments, the limit for one block", crate::MAX_COMMENTS)]
    TooManyComments,
    /// An option longer than what is left of its block.
    #[error("its option with code {code} claims {length} bytes, but {left} are left in the block")]
    OptionLength {
        /// The option's code.
        code: u16,
        /// The length it claims, in bytes.
        length: u16,
        /// What is left, in bytes.
        left: u32,
    },
}

/// Why a decoder cannot go on after this many bytes.
fn undecodable(source: &io::Error, offset: u64) -> String {
    let what = match source.kind() {
        io::ErrorKind::UnexpectedEof => "is cut off".into(),
        _ => format!("cannot be decompressed ({source})"),
    };
    if offset == 0 { what } else { format!("{what} after {offset} bytes of its contents") }
}

/// What was read of a compressed file whose contents are bad from this byte on.
fn rest(offset: u64) -> &'static str {
    if offset == 0 { "; no packet was read" } else { "; everything before that was read" }
}

/// What to do about a file that is bad from this byte on.
fn remedy(offset: u64) -> String {
    match offset {
        0 => "no packet was read; capture again".into(),
        _ => format!("everything before it was read, cut the file to {offset} bytes to be rid of the rest"),
    }
}

fn hint_for_start(start: &[u8]) -> &'static str {
    match start {
        [0x1f, 0x8b, ..] => "this is gzip: decompress it with gunzip first",
        [0x28, 0xb5, 0x2f, 0xfd] => "this is zstd: decompress it with unzstd first",
        [0x04, 0x22, 0x4d, 0x18] => "this is lz4: decompress it with unlz4 first",
        [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            "this is a compressed file of several parts: decompress it with unzstd or unlz4 first"
        }
        [0xfd, b'7', b'z', b'X'] => "this is xz: decompress it with unxz first",
        [b'P', b'K', ..] => "this is a zip archive: unpack it first",
        _ => "give the name of a capture file, or convert this one with editcap",
    }
}
