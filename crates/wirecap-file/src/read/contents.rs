//! The contents of a file: its bytes, or what they decompress to.
//!
//! ```text
//!   R ──► Start: its first bytes decide ──┬──────────────► Source
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
    Lz4(Lz4Frames<R>),
}

impl<R: Read> Contents<R> {
    /// Decompresses what starts as a compressed file does. Needs the first bytes at once.
    pub(super) fn new(reader: R) -> io::Result<Self> {
        let start = Start::new(reader)?;
        let decoder = match start.known().first_chunk().copied().and_then(Compression::of_start) {
            None => Decoder::Plain(start),
            Some(Compression::Zstd) => Decoder::Zstd(zstd::stream::read::Decoder::new(start)?),
            Some(Compression::Lz4) => Decoder::Lz4(Lz4Frames::new(BufReader::new(start))?),
        };
        Ok(Self { decoder })
    }

    /// The bytes as they are, also if they are compressed.
    pub(super) fn as_is(reader: R) -> Self {
        Self {
            decoder: Decoder::Plain(Start { reader, bytes: [0; 5], given: 0, len: 0, read: 0, last: [0; 8] }),
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
            Decoder::Lz4(frames) => frames.start(),
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
                    return if frames.is_whole() { Ok(0) } else { Err(ErrorKind::UnexpectedEof.into()) };
                }
                frames.next()?;
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
struct Lz4Frames<R: Read> {
    decoder: Option<Box<FrameDecoder<BufReader<Start<R>>>>>,
    /// Whether a checksum ends the frame; `None` if its flags are not read yet.
    has_checksum: Option<bool>,
    /// Bytes of the file that were read when the frame began.
    begun_at: u64,
}

impl<R: Read> Lz4Frames<R> {
    fn new(mut reader: BufReader<Start<R>>) -> io::Result<Self> {
        /// Of the first byte behind the magic number.
        const CONTENT_CHECKSUM: u8 = 1 << 2;
        let flags = reader.fill_buf()?.get(4);
        let has_checksum = flags.map(|flags| flags & CONTENT_CHECKSUM != 0);
        let begun_at = reader.get_ref().read;
        Ok(Self { decoder: Some(Box::new(FrameDecoder::new(reader))), has_checksum, begun_at })
    }

    fn frame(&mut self) -> &mut FrameDecoder<BufReader<Start<R>>> {
        self.decoder.as_mut().expect(ONE_AT_A_TIME)
    }

    fn start(&self) -> &Start<R> {
        self.decoder.as_ref().expect(ONE_AT_A_TIME).get_ref().get_ref()
    }

    /// Whether nothing follows what was read.
    fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.frame().get_mut().fill_buf()?.is_empty())
    }

    /// Whether the file may end here: with an EndMark, and a checksum if there is one. The decoder takes a
    /// file that is cut behind a block for one that ends there.
    fn is_whole(&self) -> bool {
        let Start { last, read, .. } = self.start();
        let (before, end) = last.split_at(last.len() / 2);
        match self.has_checksum {
            Some(true) => before == [0; 4],
            Some(false) => end == [0; 4],
            None => *read > self.begun_at && (before == [0; 4] || end == [0; 4]),
        }
    }

    /// Goes on to the frame that follows.
    fn next(&mut self) -> io::Result<()> {
        let reader = self.decoder.take().expect(ONE_AT_A_TIME).into_inner();
        *self = Self::new(reader)?;
        Ok(())
    }
}

const ONE_AT_A_TIME: &str = "there is always a decoder";

/// A reader whose first bytes are known, and read again.
struct Start<R> {
    reader: R,
    bytes: [u8; 5],
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
        let (mut bytes, mut len) = ([0; 5], 0);
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

    /// The first bytes; fewer of a shorter file.
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
