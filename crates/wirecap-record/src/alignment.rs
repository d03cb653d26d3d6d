//! Padding that has packets lie in the file as in memory, so that they are written past the page cache from
//! where they lie (`direct_io`).
//!
//! ```text
//!   memory   │page     ▓▓▓▓│▓▓▓▓▓▓▓▓▓│▓▓▓▓▓▓▓▓▓│▓▓▓▓▓▓▓▓▓│▓▓▓▓       batches of one chunk
//!   file     │███░░░░░░▓▓▓▓│▓▓▓▓▓▓▓▓▓│▓▓▓▓▓▓▓▓▓│▓▓▓▓▓▓▓▓▓│▓▓▓▓
//!              before  ▲ padding
//! ```
//!
//! Batches of one chunk follow each other in memory, so what is written of a chunk is padded at most once.
//!
//! Rule: a padding is at most a page, and is written before at least 16 pages of packets, so that files grow
//! by 6 % at most; and a reader passes over it.

use wirecap_file::pcapng::{self, MIN_PADDING};

use super::direct_io::{MIN_PIECE, PAGE};

/// Bytes of records.
#[derive(Debug)]
pub(crate) struct Part<'r> {
    pub(crate) bytes: &'r [u8],
    /// Whether they lie in the memory of the capture.
    pub(crate) is_in_place: bool,
}

/// The paddings before parts that are written to `position`: empty where none is needed. Returns
/// none if the parts with padding have more than `room_bytes`: then the kernel copies the end of the file.
pub(crate) fn paddings(parts: &[Part<'_>], position: u64, room_bytes: u64) -> Vec<Vec<u8>> {
    let lengths = lengths(parts, position);
    let bytes = lengths.iter().sum::<usize>() + parts.iter().map(|part| part.bytes.len()).sum::<usize>();
    if bytes as u64 > room_bytes {
        return Vec::new();
    }
    lengths.into_iter().map(|len| if len > 0 { pcapng::padding(len) } else { Vec::new() }).collect()
}

/// The lengths of the paddings, or 0.
fn lengths(parts: &[Part<'_>], mut position: u64) -> Vec<usize> {
    let lengths = parts.iter().enumerate().map(|(index, part)| {
        let pays = part.is_in_place && length_in_memory(&parts[index..]) >= MIN_PIECE;
        let len = if pays { missing(part.bytes, position) } else { 0 };
        position += (len + part.bytes.len()) as u64;
        len
    });
    lengths.collect()
}

/// The length of the padding that has `bytes` lie in the file as in memory; 0 if they would without.
fn missing(bytes: &[u8], position: u64) -> usize {
    let gap = (bytes.as_ptr().addr() as u64).wrapping_sub(position) as usize % PAGE;
    match gap {
        0 => 0,
        // Blocks have whole words, and so do the records of a capture.
        gap if gap % 4 > 0 => 0,
        gap if gap < MIN_PADDING => gap + PAGE,
        gap => gap,
    }
}

/// How many bytes follow each other in memory from the first of these parts on, up to what is looked for.
fn length_in_memory(parts: &[Part<'_>]) -> usize {
    let mut end = None;
    let mut len = 0;
    for part in parts {
        let bytes = part.bytes.as_ptr_range();
        if len >= MIN_PIECE || !part.is_in_place || end.is_some_and(|end| end != bytes.start) {
            break;
        }
        len += part.bytes.len();
        end = Some(bytes.end);
    }
    len
}

#[cfg(test)]
mod tests {
    use std::{fs, io::IoSlice};

    use super::*;
    use crate::direct_io::DirectIo;

    /// Memory that begins with a page.
    fn memory(pages: usize) -> (Vec<u8>, usize) {
        let memory: Vec<u8> = (0..(pages + 1) * PAGE).map(|byte| (byte / 7) as u8).collect();
        let start = memory.as_ptr().align_offset(PAGE);
        (memory, start)
    }

    fn parts<'m>(bytes: impl IntoIterator<Item = &'m [u8]>) -> Vec<Part<'m>> {
        bytes.into_iter().map(|bytes| Part { bytes, is_in_place: true }).collect()
    }

    #[test]
    fn what_follows_in_memory_is_padded_once_and_only_if_it_is_long() {
        let (memory, start) = memory(64);
        let chunk = &memory[start..];
        let (first, second) = (&chunk[..9 * PAGE], &chunk[9 * PAGE..20 * PAGE]);
        let elsewhere = &chunk[30 * PAGE..50 * PAGE];
        assert_eq!(lengths(&parts([first, second, elsewhere]), 100), [PAGE - 100, 0, 0]);
        assert_eq!(lengths(&parts([first, elsewhere]), 100), [0, PAGE - 100], "the first is too short");
        assert_eq!(lengths(&parts([first, second]), 3 * PAGE as u64), [0, 0]);
        assert_eq!(lengths(&parts([&chunk[200..]]), 100), [100], "between two pages");
        assert_eq!(lengths(&parts([chunk]), PAGE as u64 - 8), [PAGE + 8], "no block has 8 bytes");
        assert_eq!(lengths(&parts([chunk]), 101), [0], "no block ends there");
        let mut encoded = parts([first, second]);
        encoded[0].is_in_place = false;
        assert_eq!(lengths(&encoded, 100), [0, 0]);
    }

    #[test]
    fn a_file_with_a_limit_of_bytes_is_not_padded_beyond_it() {
        let (memory, start) = memory(20);
        let parts = parts([&memory[start..start + 20 * PAGE]]);
        let with_padding = (PAGE - 100 + 20 * PAGE) as u64;
        assert_eq!(paddings(&parts, 100, with_padding), [pcapng::padding(PAGE - 100)]);
        assert!(paddings(&parts, 100, with_padding - 1).is_empty());
    }

    /// Except for the pages at the borders of its parts.
    #[test]
    fn padded_packets_are_written_without_a_copy() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut file = fs::File::create(directory.path().join("padded")).unwrap();
        let (memory, start) = memory(200);
        let chunk = &memory[start + 40..start + 180 * PAGE];
        let (first, second) = chunk.split_at(50 * PAGE + 12);
        let header = [1; 100];
        let mut direct = DirectIo::new(&file).unwrap();
        direct.write(&mut file, &[IoSlice::new(&header)]).unwrap();
        let parts = parts([first, second]);
        let padding = pcapng::padding(lengths(&parts, direct.position)[0]);
        let mut slices = [IoSlice::new(&padding), IoSlice::new(first), IoSlice::new(second)];
        let mut slices = &mut slices[..];
        while !slices.is_empty() {
            let written = direct.write(&mut file, slices).unwrap();
            IoSlice::advance_slices(&mut slices, written);
        }
        assert_eq!(direct.copied_bytes, 2 * PAGE, "those with borders");
        let expected = [&header, padding.as_slice(), chunk].concat();
        assert!(fs::read(directory.path().join("padded")).unwrap() == expected);
    }
}
