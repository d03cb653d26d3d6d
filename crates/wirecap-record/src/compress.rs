//! Compresses files by their names: `x.pcapng.zst`, `x.pcap.lz4`.
//!
//! ```text
//!   group of records ─► encoder, flushed ─► blocks of a frame ─► file
//!                                              └── after a failure: cut here, then an empty last block
//! ```
//!
//! Rule: after each group, the file can be decoded up to there, and a file that is cut there is whole.

use std::{
    fmt,
    io::{self, IoSlice, Write},
};

use wirecap_file::Compression;

/// The end of a frame behind a flushed block: a last block without contents. There are no checksums.
fn end_of_frame(compression: Compression) -> &'static [u8] {
    match compression {
        // RFC 8878, section 3.1.1.2: the last block, raw, with a size of 0.
        Compression::Zstd => &[1, 0, 0],
        // EndMark in the description of the frame format.
        Compression::Lz4 => &[0; 4],
    }
}

/// The level of zstd: beyond it, a writer falls behind a NIC.
const ZSTD_LEVEL: i32 = 1;

/// Compresses what is written to one output.
#[derive(Debug)]
pub(crate) struct Compressor {
    compression: Compression,
    encoder: Encoder,
    frame: Frame,
}

/// The last frame in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// Nothing is open: what follows begins a new frame.
    Ended,
    /// What the encoder makes next belongs to it.
    Open,
    /// Its encoder is gone: only its end may follow.
    Ending,
}

enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<Vec<u8>>>),
}

impl Compressor {
    pub(crate) fn new(compression: Compression) -> io::Result<Self> {
        Ok(Self { compression, encoder: Encoder::new(compression)?, frame: Frame::Ended })
    }

    /// Compresses slices up to a border at which the file can be cut.
    pub(crate) fn compress(&mut self, slices: &[IoSlice<'_>]) -> io::Result<Vec<u8>> {
        let encoder = self.encoder.as_write();
        slices.iter().try_for_each(|slice| encoder.write_all(slice))?;
        encoder.flush()?;
        Ok(self.encoder.take())
    }

    /// What was compressed last is in the output.
    pub(crate) fn keep(&mut self) {
        self.frame = Frame::Open;
    }

    /// The bytes that end the frame behind what was kept, if there is one. Nothing may be compressed before
    /// they are in the output: [`Self::keep_end`].
    pub(crate) fn end_frame(&mut self) -> io::Result<&'static [u8]> {
        self.encoder = Encoder::new(self.compression)?;
        if self.frame == Frame::Ended {
            return Ok(&[]);
        }
        self.frame = Frame::Ending;
        Ok(end_of_frame(self.compression))
    }

    /// The end of the frame is in the output. What is compressed next begins another one.
    pub(crate) fn keep_end(&mut self) {
        self.frame = Frame::Ended;
    }

    /// Whether the end of a frame could not be written so far.
    pub(crate) fn lacks_end(&self) -> bool {
        self.frame == Frame::Ending
    }
}

impl Encoder {
    fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?),
            Compression::Lz4 => Self::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(Vec::new()))),
        })
    }

    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Self::Zstd(encoder) => encoder,
            Self::Lz4(encoder) => encoder.as_mut(),
        }
    }

    /// The compressed bytes so far.
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Lz4(encoder) => encoder.get_mut(),
        })
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Encoder")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use super::*;

    /// What readers of a compressed file get.
    pub(crate) fn decoded(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match compression {
            Compression::Zstd => zstd::stream::decode_all(bytes),
            Compression::Lz4 => {
                let mut decoded = Vec::new();
                // A reader of one frame.
                let mut rest = bytes;
                while !rest.is_empty() {
                    lz4_flex::frame::FrameDecoder::new(&mut rest).read_to_end(&mut decoded)?;
                }
                Ok(decoded)
            }
        }
    }

    #[test]
    fn an_output_can_end_behind_each_group() {
        for compression in [Compression::Zstd, Compression::Lz4] {
            let mut compressor = Compressor::new(compression).unwrap();
            let (mut file, mut plain) = (Vec::new(), Vec::new());
            for group in 0..20_u8 {
                let bytes = vec![group; 70_000];
                let slices = [IoSlice::new(&bytes), IoSlice::new(b""), IoSlice::new(b"end")];
                file.extend(compressor.compress(&slices).unwrap());
                compressor.keep();
                plain.extend([&bytes[..], b"end"].concat());
                let cut = [&file, end_of_frame(compression)].concat();
                assert_eq!(decoded(compression, &cut).unwrap(), plain, "{compression:?}, {group}");
            }
            assert!(file.len() < plain.len() / 10);
            // After a failure.
            compressor.compress(&[IoSlice::new(b"cut off")]).unwrap();
            file.extend(compressor.end_frame().unwrap());
            assert!(compressor.lacks_end());
            compressor.keep_end();
            assert!(compressor.end_frame().unwrap().is_empty(), "there is no frame");
            file.extend(compressor.compress(&[IoSlice::new(b"the account")]).unwrap());
            compressor.keep();
            file.extend(compressor.end_frame().unwrap());
            assert_eq!(decoded(compression, &file).unwrap(), [&plain[..], b"the account"].concat());
        }
    }
}
