//! pcap and pcapng, read as a stream.
//!
//! ```text
//!   io::Read ──► Contents (decompressed) ──► Source (one reused buffer) ──► pcap::Decoder ──┬──► Record, lent
//!                                                                      └──► pcapng::Decoder ─┘
//! ```
//!
//! Rule: everything before the damage, then one error, then the end. Each call reads one block or record, so
//! an endless stream without packets cannot trap a caller. The memory kept between two calls is bounded.

mod blocks;
mod byte_order;
mod contents;
mod known;
mod options;
mod pcap;
mod pcapng;
mod record;
mod source;
mod time;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

pub use known::{KnownInterface, MAX_NAME_LEN};
pub use record::{Interface, Packet, Record, Section, Statistics};
pub use time::Resolution;

use crate::pcapng::{BLOCK_FRAME_LEN, block::SECTION_HEADER};
use crate::{Compression, Error, Format, limits::MAX_BLOCK_LEN};
use contents::Contents;
use source::{Source, truncated};

/// Reads a capture file of either format from its first byte to its last. Files that are compressed by
/// Zstandard or as LZ4 frames are decompressed; offsets are those of what they hold.
///
/// It reads in large pieces on its own: wrapping `R` in a `BufReader` gains nothing.
///
/// # Memory
///
/// Memory is bounded, whatever the file holds: a buffer of 256 KiB, which grows to at most twice
/// [`MAX_BLOCK_LEN`] for larger blocks, and at most 24 MiB for interfaces
/// ([`MAX_INTERFACES`](crate::MAX_INTERFACES), [`MAX_NAME_LEN`] bytes of name each). Other texts
/// (descriptions, comments) live in the [`Record`] of their block only; each byte that is not UTF-8 takes
/// three bytes there. To decompress takes up to 128 MiB for Zstandard, and 17 MiB for LZ4, as the file asks
/// for; for files written by wirecap, 1 MiB and 12 MiB.
///
/// # Example
///
/// ```
/// use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, Reader, Record, pcap};
///
/// let mut file = Vec::new();
/// pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
/// pcap::packet(&mut file, &PacketHeader { timestamp_ns: 7, ..Default::default() }, 0, [b"whole".as_slice()]);
/// pcap::packet(&mut file, &PacketHeader { timestamp_ns: 8, ..Default::default() }, 0, [b"cut off".as_slice()]);
/// file.truncate(file.len() - 1);
///
/// let mut reader = Reader::new(file.as_slice())?;
/// let mut packets = 0;
/// let error = loop {
///     match reader.next() {
///         Ok(Some(Record::Packet(packet))) => packets += packet.data.len() / 5,
///         Ok(Some(_)) => {}
///         Ok(None) => unreachable!("the file is cut off"),
///         Err(error) => break error,
///     }
/// };
/// assert_eq!(packets, 1);
/// assert!(matches!(error, wirecap_file::Error::Truncated { offset: 45, .. }));
/// # Ok::<(), wirecap_file::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R: Read> {
    source: Source<Contents<R>>,
    decoder: Decoder,
    /// Nothing comes after the end or an error.
    ended: bool,
}

#[derive(Debug)]
enum Decoder {
    Pcap(pcap::Decoder),
    Pcapng(pcapng::Decoder),
}

impl Reader<File> {
    /// Opens a file and recognises its format.
    ///
    /// # Errors
    ///
    /// [`Error::Open`], and those of [`Reader::new`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
        Self::new(file)
    }
}

impl<R: Read> Reader<R> {
    /// Recognises compression and format by the first bytes, and reads the file header of a pcap file.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::NotACapture`], [`Error::UnsupportedVersion`] and [`Error::Truncated`] for a
    /// header that is no good, [`Error::Compressed`] and [`Error::Decompress`] for a compressed file,
    /// [`Error::Read`] if the system says so.
    pub fn new(reader: R) -> Result<Self, Error> {
        let contents = Contents::new(reader).map_err(|source| Error::Read { offset: 0, source })?;
        let compression = contents.compression();
        Self::of(contents).map_err(|error| error.of_compressed(compression))
    }

    /// Like [`Reader::new`], but does not decompress: for a reader that may have nothing at the moment
    /// ([`ErrorKind::WouldBlock`]), which decoders do not survive.
    ///
    /// # Errors
    ///
    /// As [`Reader::new`]; for a compressed file [`Error::NotACapture`], which names the program that
    /// decompresses it.
    pub fn without_decompression(reader: R) -> Result<Self, Error> {
        Self::of(Contents::as_is(reader))
    }

    fn of(contents: Contents<R>) -> Result<Self, Error> {
        let mut source = Source::new(contents);
        let present = source.require(4)?;
        if present == 0 {
            return Err(Error::Empty);
        }
        let Some(start) = source.window().first_chunk::<4>().copied() else {
            return Err(short_start(source.window()));
        };
        let decoder = if start == SECTION_HEADER.to_le_bytes() {
            Decoder::Pcapng(pcapng::Decoder::new())
        } else if let Some(layout) = pcap::FileLayout::of(start) {
            Decoder::Pcap(pcap::Decoder::new(&mut source, layout)?)
        } else {
            return Err(Error::NotACapture(start.to_vec()));
        };
        Ok(Self { source, decoder, ended: false })
    }

    /// Returns the next record; `None` at the clean end of the file, and for ever after the end or an error.
    /// Reads at most one block of the file.
    ///
    /// A reader that has nothing at the moment ([`ErrorKind::WouldBlock`]) is no end: ask again later, and no
    /// byte is missing, unless the file is decompressed.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the file ends in the middle of a block or record, [`Error::Damaged`] if one is
    /// bad (both with its byte offset), [`Error::UnsupportedVersion`] for a later section; of a compressed
    /// file [`Error::Compressed`] and [`Error::Decompress`]; [`Error::Read`] if the system says so.
    // Not an Iterator: the record borrows the buffer.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        if self.ended {
            return Ok(None);
        }
        let compression = self.source.reader().compression();
        let next = match &mut self.decoder {
            Decoder::Pcap(decoder) => decoder.next(&mut self.source),
            Decoder::Pcapng(decoder) => decoder.next(&mut self.source),
        };
        self.ended = match &next {
            Ok(record) => record.is_none(),
            Err(Error::Read { source, .. }) => source.kind() != ErrorKind::WouldBlock,
            Err(_) => true,
        };
        next.map_err(|error| error.of_compressed(compression))
    }

    /// The format of the file.
    pub fn format(&self) -> Format {
        match self.decoder {
            Decoder::Pcap(_) => Format::Pcap,
            Decoder::Pcapng(_) => Format::Pcapng,
        }
    }

    /// The interfaces described so far, each at the index of its [`id`](Interface::id).
    pub fn interfaces(&self) -> &[KnownInterface] {
        match &self.decoder {
            Decoder::Pcap(decoder) => decoder.interfaces(),
            Decoder::Pcapng(decoder) => decoder.interfaces(),
        }
    }

    /// How the file is compressed; `None` if it is not, or [left so](Self::without_decompression).
    pub fn compression(&self) -> Option<Compression> {
        self.source.reader().compression()
    }

    /// How much of the file is done with, in bytes: to compare with its length. Of a compressed file, what
    /// was decompressed.
    pub fn progress(&self) -> u64 {
        let contents = self.source.reader();
        if contents.compression().is_some() { contents.read_bytes() } else { self.source.offset() }
    }

    /// Where in the file, or in what it decompresses to, the next record starts, in bytes.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Where in the file, or in what it decompresses to, the last record that was lent starts, in bytes.
    pub fn record_offset(&self) -> u64 {
        self.source.taken_at()
    }

    /// What is read from.
    pub fn get_ref(&self) -> &R {
        self.source.reader().reader()
    }

    /// The underlying reader. Bytes that are read from it directly are missing from the file.
    pub fn get_mut(&mut self) -> &mut R {
        self.source.reader_mut().reader_mut()
    }
}

/// The error of a file that is shorter than a magic number.
fn short_start(start: &[u8]) -> Error {
    if SECTION_HEADER.to_le_bytes().starts_with(start) {
        truncated(0, "block header", start.len(), BLOCK_FRAME_LEN)
    } else if pcap::FileLayout::may_follow(start) {
        truncated(0, "file header", start.len(), crate::pcap::FILE_HEADER_LEN)
    } else {
        Error::NotACapture(start.to_vec())
    }
}
