//! Writes a file past the page cache (`O_DIRECT`).
//!
//! ```text
//!   an append:  │ head │            middle             │ tail │
//!   the file:   ┴──────┼─────────┬─────────┬───────────┼──────┴──
//!                      └──────── whole pages ──────────┘
//!   written    through      past the page cache,          through
//!   the page cache          1 MiB at a time               it
//!
//!   in memory:  ──┬─────────┬─────────┬───────┐  ┌┬─────────┬──      two slices
//!                 └── written from here ┘└─ copied ─┘└ written from here …
//! ```
//!
//! A page that lies in memory as it will lie in the file, whole and at a multiple of its size, is written
//! from there. The others are copied first: those at the borders of slices, and all of a slice that is not
//! aligned with the file. `alignment` has packets aligned where it matters.
//!
//! Rule: no byte is written twice, and none is kept back. An append is in the file when it returns, as with
//! any other file, and other programs can read it at once.

use std::{
    fs::File,
    io::{self, ErrorKind, IoSlice, Write},
};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Offsets, lengths and addresses of direct writes are multiples of it: of the size of a page, and of the
/// sectors of all common disks.
pub(crate) const PAGE: usize = 4 << 10;
/// The most bytes of one direct write.
const PIECE: usize = 1 << 20;
/// The fewest bytes of one. A direct write waits for the disk, so less takes longer than the page cache does.
pub(crate) const MIN_PIECE: usize = 64 << 10;

/// What a file that is written past the page cache needs.
#[derive(Debug)]
pub(crate) struct DirectIo {
    /// Where the next byte goes.
    pub(crate) position: u64,
    /// Whether the file's description has `O_DIRECT` now.
    bypasses: bool,
    /// Pages for one piece, and one more to align them.
    memory: Vec<u8>,
    /// Bytes that were copied.
    #[cfg(test)]
    pub(crate) copied_bytes: usize,
}

/// The next write of an append.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// This many bytes through the page cache.
    Cached(usize),
    /// This many bytes past it.
    Direct(usize),
}

/// The first of the writes of `len` bytes to this position.
fn step(position: u64, len: usize) -> Step {
    let head = (position.next_multiple_of(PAGE as u64) - position) as usize;
    let middle = len.saturating_sub(head) / PAGE * PAGE;
    match (middle < MIN_PIECE, head) {
        (true, _) => Step::Cached(len),
        (false, 0) => Step::Direct(middle.min(PIECE)),
        (false, head) => Step::Cached(head),
    }
}

impl DirectIo {
    /// For a file that is written from its beginning.
    ///
    /// # Errors
    /// The file system has no direct writes.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        set_direct(file, true)?;
        let memory = vec![0; PIECE + PAGE];
        Ok(Self {
            position: 0,
            bypasses: true,
            memory,
            #[cfg(test)]
            copied_bytes: 0,
        })
    }

    /// Writes some of `slices`, and returns how many bytes.
    ///
    /// # Errors
    /// The write failed.
    pub(crate) fn write(&mut self, file: &mut File, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        let step = step(self.position, len);
        self.bypass(file, matches!(step, Step::Direct(_)))?;
        let written = match step {
            Step::Cached(all) if all == len => file.write_vectored(slices)?,
            Step::Cached(len) => file.write_vectored(&first(slices, len))?,
            Step::Direct(len) => {
                file.write_vectored(&self.pages(slices, len)).map_err(|cause| match cause.kind() {
                    ErrorKind::InvalidInput => {
                        io::Error::new(ErrorKind::Unsupported, "the disk has larger sectors than 4 KiB")
                    }
                    _ => cause,
                })?
            }
        };
        self.position += written as u64;
        Ok(written)
    }

    /// The first `len` bytes of `slices`, as whole pages.
    fn pages<'p>(&'p mut self, slices: &'p [IoSlice<'_>], len: usize) -> Vec<IoSlice<'p>> {
        let start = self.memory.as_ptr().align_offset(PAGE);
        let memory = &mut self.memory[start..start + len];
        let own = aligned_runs(slices, len);
        let mut copied = 0;
        for run in &own {
            copy(slices, &mut memory[copied..run.at], copied);
            copied = run.at + run.pages.len();
        }
        copy(slices, &mut memory[copied..], copied);
        let (mut pages, mut rest) = (Vec::with_capacity(2 * own.len() + 1), &*memory);
        let mut at = 0;
        for run in own {
            let (copies, after) = rest.split_at(run.at - at);
            rest = &after[run.pages.len()..];
            at = run.at + run.pages.len();
            #[cfg(test)]
            (self.copied_bytes += copies.len());
            pages.extend([IoSlice::new(copies), IoSlice::new(run.pages)]);
        }
        #[cfg(test)]
        (self.copied_bytes += rest.len());
        pages.push(IoSlice::new(rest));
        pages.retain(|part| !part.is_empty());
        pages
    }

    fn bypass(&mut self, file: &File, bypasses: bool) -> io::Result<()> {
        if self.bypasses != bypasses {
            set_direct(file, bypasses)?;
            self.bypasses = bypasses;
        }
        Ok(())
    }
}

/// Whole pages that lie in memory as they will lie in the file.
#[derive(Debug)]
struct AlignedRun<'s> {
    /// Where they begin in a write.
    at: usize,
    pages: &'s [u8],
}

/// Those in the first `len` bytes of `slices`, which will be written from the beginning of a page on.
fn aligned_runs<'s>(slices: &'s [IoSlice<'_>], len: usize) -> Vec<AlignedRun<'s>> {
    let (mut runs, mut at) = (Vec::new(), 0);
    for slice in slices {
        let end = len.min(at + slice.len());
        let (first, last) = (at.next_multiple_of(PAGE), end / PAGE * PAGE);
        if first < last {
            let pages = &slice[first - at..last - at];
            if pages.as_ptr().addr() % PAGE == 0 {
                runs.push(AlignedRun { at: first, pages });
            }
        }
        at = end;
    }
    runs
}

/// Fills `to` with the bytes of `slices` from `from` on.
fn copy(slices: &[IoSlice<'_>], mut to: &mut [u8], mut from: usize) {
    for slice in slices {
        let part = &slice[from.min(slice.len())..];
        from = from.saturating_sub(slice.len());
        let (filled, rest) = to.split_at_mut(part.len().min(to.len()));
        filled.copy_from_slice(&part[..filled.len()]);
        to = rest;
    }
}

/// The first `len` bytes of `slices`.
fn first<'s>(slices: &'s [IoSlice<'_>], mut len: usize) -> Vec<IoSlice<'s>> {
    let mut first = Vec::new();
    for slice in slices {
        let part = &slice[..len.min(slice.len())];
        len -= part.len();
        first.push(IoSlice::new(part));
        if len == 0 {
            break;
        }
    }
    first
}

fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    let flags = if direct { OFlag::O_DIRECT } else { OFlag::empty() };
    fcntl(file, FcntlArg::F_SETFL(flags))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    const P: u64 = PAGE as u64;

    #[test]
    fn whole_pages_are_written_directly_if_they_are_enough() {
        assert_eq!(step(0, MIN_PIECE), Step::Direct(MIN_PIECE));
        assert_eq!(step(0, MIN_PIECE + 1), Step::Direct(MIN_PIECE));
        assert_eq!(step(0, MIN_PIECE - 1), Step::Cached(MIN_PIECE - 1));
        assert_eq!(step(3 * P, 2 * PIECE + 7), Step::Direct(PIECE));
        assert_eq!(step(3 * P - 5, MIN_PIECE + 5), Step::Cached(5));
        assert_eq!(step(3 * P - 5, MIN_PIECE + 4), Step::Cached(MIN_PIECE + 4));
        assert_eq!(step(1, 100), Step::Cached(100));
    }

    /// A file in the directory of the build, which is on a disk: not every memory file system has `O_DIRECT`.
    fn scratch() -> tempfile::NamedTempFile {
        tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_file_has_what_was_written(lengths in prop::collection::vec(1..3_000_000_usize, 1..6), small in 1..5_000_usize) {
            let scratch = scratch();
            let mut file = scratch.reopen().unwrap();
            let mut direct = DirectIo::new(&file).unwrap();
            let mut expected = Vec::new();
            for (number, &len) in lengths.iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|byte| (byte / 251 + number) as u8).collect();
                let (first, second) = bytes.split_at(small.min(len));
                let mut slices = [IoSlice::new(first), IoSlice::new(second)];
                let mut slices = &mut slices[..];
                while slices.iter().any(|slice| !slice.is_empty()) {
                    let len = slices.iter().map(|slice| slice.len()).sum();
                    let expected_step = step(direct.position, len);
                    let written = direct.write(&mut file, slices).unwrap();
                    prop_assert!(written > 0);
                    let flags = OFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GETFL).unwrap());
                    let is_direct = matches!(expected_step, Step::Direct(_));
                    prop_assert_eq!(flags.contains(OFlag::O_DIRECT), is_direct);
                    IoSlice::advance_slices(&mut slices, written);
                }
                expected.extend_from_slice(&bytes);
                // Nothing is kept back.
                prop_assert_eq!(fs::metadata(scratch.path()).unwrap().len(), expected.len() as u64);
            }
            prop_assert_eq!(direct.position, expected.len() as u64);
            prop_assert!(fs::read(scratch.path()).unwrap() == expected);
        }
    }
}
