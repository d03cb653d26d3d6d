//! Compresses files by their names: `x.pcapng.zst`, `x.pcap.lz4`.
//!
//! ```text
//!   group of records ─► encoder, flushed ─► blocks of the frame ─► file
//!   after a failure:    what follows ─────► stored blocks, which need no encoder
//!                                              └── an empty last block ends the frame anywhere
//! ```
//!
//! Rules: after each group, the file can be decoded up to there, and a file that is cut there and gets its
//! end is whole. A file is one frame, also where the disk was full before its last records: tshark 4.0
//! reports a second frame as damage.

use std::{
    fmt,
    io::{self, IoSlice, Write},
};

use wirecap_file::Compression;

/// The end of a frame behind a whole block: a last block without contents. There are no checksums.
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
/// The size of a stored block that every frame may have: LZ4 frames may have blocks of 64 KiB or more, those
/// of zstd of 128 KiB, less only with windows smaller than those of any level.
const STORED_BYTES: usize = 64 << 10;

/// Compresses what is written to one output.
#[derive(Debug)]
pub(crate) struct Compressor {
    compression: Compression,
    frame: Frame,
}

/// The frame in the output.
#[derive(Debug)]
enum Frame {
    /// Nothing of it is in the output so far. The encoder is made again if it was given something.
    New(Option<Encoder>),
    /// It has what the encoder was given.
    Compressed(Encoder),
    /// The encoder is gone, since it was given what is not in the output, and would refer to it.
    Stored,
}

enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<Vec<u8>>>),
}

impl Compressor {
    pub(crate) fn new(compression: Compression) -> io::Result<Self> {
        Ok(Self { compression, frame: Frame::New(Some(Encoder::new(compression)?)) })
    }

    /// Compresses slices up to a border at which the file can be cut. Call [`Self::keep`] once it is in the
    /// output, or else [`Self::discard`].
    pub(crate) fn compress(&mut self, slices: &[IoSlice<'_>]) -> io::Result<Vec<u8>> {
        let encoder = match &mut self.frame {
            Frame::New(Some(encoder)) | Frame::Compressed(encoder) => encoder,
            Frame::New(none) => none.insert(Encoder::new(self.compression)?),
            Frame::Stored => return Ok(stored(self.compression, slices)),
        };
        let write = encoder.as_write();
        slices.iter().try_for_each(|slice| write.write_all(slice))?;
        write.flush()?;
        Ok(encoder.take())
    }

    /// What was compressed last is in the output.
    pub(crate) fn keep(&mut self) {
        if let Frame::New(encoder) = &mut self.frame {
            self.frame = encoder.take().map_or(Frame::New(None), Frame::Compressed);
        }
    }

    /// What was compressed last is not in the output.
    pub(crate) fn discard(&mut self) {
        self.frame = if let Frame::New(_) = self.frame { Frame::New(None) } else { Frame::Stored };
    }

    /// The bytes that end the frame behind what was kept, if there is one. The frame goes on if what is kept
    /// next is written in their place.
    pub(crate) fn end(&self) -> &'static [u8] {
        if matches!(self.frame, Frame::New(_)) { &[] } else { end_of_frame(self.compression) }
    }
}

/// Blocks of a frame that contain these slices as they are.
fn stored(compression: Compression, slices: &[IoSlice<'_>]) -> Vec<u8> {
    let mut blocks = Vec::new();
    for bytes in slices.iter().flat_map(|slice| slice.chunks(STORED_BYTES)) {
        let len = bytes.len() as u32;
        match compression {
            // RFC 8878, section 3.1.1.2: not the last block, raw.
            Compression::Zstd => blocks.extend(&(len << 3).to_le_bytes()[..3]),
            Compression::Lz4 => blocks.extend((len | 1 << 31).to_le_bytes()),
        }
        blocks.extend(bytes);
    }
    blocks
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

    /// What readers of a compressed file get, which is one frame.
    pub(crate) fn decoded(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match compression {
            Compression::Zstd => {
                let frame = zstd::zstd_safe::find_frame_compressed_size(bytes);
                assert_eq!(frame.map_err(zstd::zstd_safe::get_error_name), Ok(bytes.len()), "one frame");
                zstd::stream::decode_all(bytes)
            }
            Compression::Lz4 => {
                let (mut decoded, mut rest) = (Vec::new(), bytes);
                // A reader of one frame.
                lz4_flex::frame::FrameDecoder::new(&mut rest).read_to_end(&mut decoded)?;
                assert!(rest.is_empty(), "one frame");
                Ok(decoded)
            }
        }
    }

    #[test]
    fn an_output_can_end_behind_each_group_and_go_on_after_a_failure() {
        for (compression, failure) in
            [Compression::Zstd, Compression::Lz4].into_iter().flat_map(|one| (0..20).map(move |at| (one, at)))
        {
            let mut compressor = Compressor::new(compression).unwrap();
            assert!(compressor.end().is_empty(), "there is no frame");
            let (mut file, mut plain) = (Vec::new(), Vec::new());
            for group in 0..20_u8 {
                let bytes = vec![group; 70_000];
                let slices = [IoSlice::new(&bytes), IoSlice::new(b""), IoSlice::new(b"end")];
                if group == failure {
                    // What follows repeats some of it.
                    compressor.compress(&slices).unwrap();
                    compressor.discard();
                }
                file.extend(compressor.compress(&slices).unwrap());
                compressor.keep();
                plain.extend([&bytes[..], b"end"].concat());
                let whole = [&file, compressor.end()].concat();
                assert_eq!(
                    decoded(compression, &whole).unwrap(),
                    plain,
                    "{compression:?}, {failure}, {group}"
                );
            }
            if failure == 0 {
                assert!(file.len() < plain.len() / 10, "an encoder as before: nothing was in the file");
            }
        }
    }
}
