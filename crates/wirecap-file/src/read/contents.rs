//! The contents of a file: its bytes, or what they decompress to.
//!
//! ```text
//!   R ──► Start: its first four bytes decide ──┬──────────────► Source
//!                                              └─► a decoder ─►
//! ```
//!
//! Rule: a file of several frames is read to the end of the last one.

use std::{
    fmt,
    io::{self, BufRead, BufReader, ErrorKind, Read},
};

use lz4_flex::frame::FrameDecoder;

use crate::Compression;

/// What a file holds.
pub(super) struct Contents<R: Read> {
    decoder: Decoder<R>,
}

enum Decoder<R: Read> {
    Plain(Start<R>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<Start<R>>>),
    Lz4(Lz4Frames<BufReader<Start<R>>>),
}

impl<R: Read> Contents<R> {
    /// Decompresses what starts as a compressed file does. Needs the first bytes at once.
    pub(super) fn new(reader: R) -> io::Result<Self> {
        let start = Start::new(reader)?;
        let decoder = match start.known().try_into().ok().and_then(Compression::of_start) {
            None => Decoder::Plain(start),
            Some(Compression::Zstd) => Decoder::Zstd(zstd::stream::read::Decoder::new(start)?),
            Some(Compression::Lz4) => Decoder::Lz4(Lz4Frames::new(BufReader::new(start))),
        };
        Ok(Self { decoder })
    }

    /// The bytes as they are, also if they are compressed.
    pub(super) fn as_is(reader: R) -> Self {
        Self {
            decoder: Decoder::Plain(Start { reader, bytes: [0; 4], given: 0, len: 0, read: 0, last: [0; 8] }),
        }
    }
}

impl<R: Read> Contents<R> {
    /// How the file is compressed.
    pub(super) fn compression(&self) -> Option<Compression> {
        match self.decoder {
            Decoder::Plain(_) => None,
            Decoder::Zstd(_) => Some(Compression::Zstd),
            Decoder::Lz4(_) => Some(Compression::Lz4),
        }
    }

    /// Bytes of the file that were read.
    pub(super) fn read_bytes(&self) -> u64 {
        self.start().read
    }

    pub(super) fn reader(&self) -> &R {
        &self.start().reader
    }

    pub(super) fn reader_mut(&mut self) -> &mut R {
        match &mut self.decoder {
            Decoder::Plain(start) => &mut start.reader,
            Decoder::Zstd(decoder) => &mut decoder.get_mut().get_mut().reader,
            Decoder::Lz4(frames) => &mut frames.frame().get_mut().get_mut().reader,
        }
    }

    fn start(&self) -> &Start<R> {
        match &self.decoder {
            Decoder::Plain(start) => start,
            Decoder::Zstd(decoder) => decoder.get_ref().get_ref(),
            Decoder::Lz4(frames) => frames.get_ref().get_ref(),
        }
    }
}

impl<R: Read> Read for Contents<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.decoder {
            Decoder::Plain(start) => start.read(buffer),
            Decoder::Zstd(decoder) => decoder.read(buffer),
            Decoder::Lz4(frames) => loop {
                let read = frames.frame().read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    return Ok(read);
                }
                if frames.is_at_end()? {
                    // The decoder takes a file that is cut behind a block for one that ends there.
                    let ends = frames.get_ref().get_ref().ends_lz4();
                    return if ends { Ok(0) } else { Err(ErrorKind::UnexpectedEof.into()) };
                }
                frames.next();
            },
        }
    }
}

impl<R: Read + fmt::Debug> fmt::Debug for Contents<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compression = self.compression();
        let reader = self.reader();
        formatter
            .debug_struct("Contents")
            .field("reader", reader)
            .field("compression", &compression)
            .finish_non_exhaustive()
    }
}

/// LZ4 frames. A decoder reads one of them: one that has read a frame refuses another block size.
struct Lz4Frames<R: Read>(Option<Box<FrameDecoder<R>>>);

impl<R: BufRead> Lz4Frames<R> {
    fn new(reader: R) -> Self {
        Self(Some(Box::new(FrameDecoder::new(reader))))
    }

    fn frame(&mut self) -> &mut FrameDecoder<R> {
        self.0.as_mut().expect(ONE_AT_A_TIME)
    }

    fn get_ref(&self) -> &R {
        self.0.as_ref().expect(ONE_AT_A_TIME).get_ref()
    }

    /// Whether nothing follows the frame.
    fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.frame().get_mut().fill_buf()?.is_empty())
    }

    /// Goes on to the frame that follows.
    fn next(&mut self) {
        let reader = self.0.take().map(|frame| frame.into_inner());
        self.0 = reader.map(|reader| Box::new(FrameDecoder::new(reader)));
    }
}

const ONE_AT_A_TIME: &str = "there is always a decoder";

/// A reader whose first bytes are known, and read again.
struct Start<R> {
    reader: R,
    bytes: [u8; 4],
    /// How many of them were given.
    given: usize,
    /// How many there are.
    len: usize,
    /// Bytes that were read from the reader.
    read: u64,
    /// The last of them.
    last: [u8; 8],
}

impl<R: Read> Start<R> {
    fn new(mut reader: R) -> io::Result<Self> {
        let (mut bytes, mut len) = ([0; 4], 0);
        while len < bytes.len() {
            match reader.read(&mut bytes[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { reader, bytes, given: 0, len, read: len as u64, last: [0xff; 8] })
    }

    /// Whether an LZ4 frame may end with the bytes that were read last: with an EndMark, or that and a
    /// checksum. What is cut behind a block that ends in zeros may, too.
    fn ends_lz4(&self) -> bool {
        self.last.chunks(4).any(|word| word == [0; 4])
    }

    /// The first bytes; fewer than four of a shorter file.
    fn known(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<R: Read> Read for Start<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given < self.len {
            let given = (&self.bytes[self.given..self.len]).read(buffer)?;
            self.given += given;
            return Ok(given);
        }
        let read = self.reader.read(buffer)?;
        self.read += read as u64;
        let last = &buffer[read.saturating_sub(self.last.len())..read];
        self.last.rotate_left(last.len());
        let kept = self.last.len() - last.len();
        self.last[kept..].copy_from_slice(last);
        Ok(read)
    }
}
