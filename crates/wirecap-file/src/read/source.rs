//! The bytes of the file, in one buffer that is reused.
//!
//! ```text
//!   buffer  │ taken, may be overwritten │ window: read, not taken │ room │
//!           0                         start                      end    len
//! ```
//!
//! Rule: [`Source::require`] is the only one that reads, moves or grows; what [`Source::take`] lent stays
//! where it is until then. The buffer grows only when it is full of bytes that really arrived, so a block
//! that claims 16 MiB in a file of 100 bytes costs nothing.

use std::io::{ErrorKind, Read};

use crate::Error;

/// 256 KiB.
const INITIAL_BUFFER_LEN: usize = 262_144;

#[derive(Debug)]
pub(super) struct Source<R> {
    reader: R,
    /// INVARIANT: `start <= end <= buffer.len()`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where in the file `buffer[start]` is.
    offset: u64,
    /// Where in the file what was taken last starts.
    taken_at: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; INITIAL_BUFFER_LEN], start: 0, end: 0, offset: 0, taken_at: 0 }
    }

    /// Where in the file the window starts, in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Where in the file what was taken last starts, in bytes.
    pub(super) fn taken_at(&self) -> u64 {
        self.taken_at
    }

    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    pub(super) fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The bytes that are read and not taken.
    #[inline]
    pub(super) fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads on until the window has `len` bytes or the file ends, and returns how many it has.
    #[inline]
    pub(super) fn require(&mut self, len: usize) -> Result<usize, Error> {
        if self.end - self.start < len {
            self.fill(len)?;
        }
        Ok(self.end - self.start)
    }

    /// Like [`Source::require`], for a part of the file that must be there as a whole, or not at all: false
    /// at a clean end.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] in `what`, [`Error::Read`].
    #[inline]
    pub(super) fn require_whole(&mut self, what: &'static str, len: usize) -> Result<bool, Error> {
        let present = self.require(len)?;
        if present != 0 && present < len {
            return Err(truncated(self.offset, what, present, len));
        }
        Ok(present != 0)
    }

    /// Takes `len` bytes, which must have been required.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> &[u8] {
        debug_assert!(len <= self.end - self.start, "only what was required is taken");
        let taken = self.start..self.start + len;
        self.start = taken.end;
        self.taken_at = self.offset;
        self.offset += len as u64;
        &self.buffer[taken]
    }

    #[cold]
    fn fill(&mut self, len: usize) -> Result<(), Error> {
        if self.start + len > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < len {
            if self.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let arrived = (self.end - self.start) as u64;
                    return Err(Error::Read { offset: self.offset + arrived, source });
                }
            }
        }
        debug_assert!(self.start <= self.end && self.end <= self.buffer.len());
        Ok(())
    }
}

pub(super) fn truncated(offset: u64, what: &'static str, present: usize, needed: usize) -> Error {
    Error::Truncated { offset, what, present: present as u64, needed: needed as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields one or two bytes at a time, with an interruption before each read.
    struct Trickle<'a>(&'a [u8], bool);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            let len = self.0.len().min(2).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    #[test]
    fn bytes_arrive_in_order_while_they_trickle_and_the_buffer_moves() {
        let data: Vec<u8> = (0..INITIAL_BUFFER_LEN * 3 + 5).map(|i| (i * 7 / 3) as u8).collect();
        let mut source = Source::new(Trickle(&data, false));
        let (mut at, mut len) = (0, 1);
        while at + len <= data.len() {
            assert!(source.require(len).unwrap() >= len);
            assert_eq!(source.take(len), &data[at..at + len]);
            at += len;
            len = len * 3 + 1;
            assert_eq!(source.offset(), at as u64);
        }
        assert_eq!(source.require(data.len()).unwrap(), data.len() - at);
    }

    /// Yields as much as fits, and counts the reads.
    struct CountingReader<'a>(&'a [u8], usize);

    impl Read for CountingReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 += 1;
            self.0.read(buffer)
        }
    }

    #[test]
    fn bytes_at_hand_are_returned_without_another_read() {
        let mut source = Source::new(CountingReader(&[1; 10], 0));
        assert_eq!(source.require(10).unwrap(), 10);
        assert_eq!(source.reader().1, 1, "a pipe may have no more for hours");
    }

    #[test]
    fn the_buffer_grows_only_for_a_record_that_does_not_fit() {
        let data = vec![0; 3 * INITIAL_BUFFER_LEN];
        let mut source = Source::new(CountingReader(&data, 0));
        for _ in 0..data.len() / 1_000 {
            source.require(1_000).unwrap();
            source.take(1_000);
        }
        assert_eq!(source.buffer.len(), INITIAL_BUFFER_LEN, "the record moves to the front");

        let mut source = Source::new(CountingReader(&data, 0));
        source.require(1).unwrap();
        source.take(1);
        assert_eq!(source.require(INITIAL_BUFFER_LEN).unwrap(), INITIAL_BUFFER_LEN);
        assert_eq!(source.buffer.len(), INITIAL_BUFFER_LEN, "the record fits");

        let mut source = Source::new(CountingReader(&data, 0));
        assert_eq!(source.require(data.len()).unwrap(), data.len());
        assert_eq!(
            (source.buffer.len(), source.reader().1),
            (4 * INITIAL_BUFFER_LEN, 3),
            "the buffer doubles"
        );
    }

    #[test]
    fn a_claim_does_not_grow_the_buffer() {
        let mut source = Source::new([1_u8; 100].as_slice());
        assert_eq!(source.require(16 << 20).unwrap(), 100);
        assert_eq!(source.buffer.len(), INITIAL_BUFFER_LEN);
    }
}
