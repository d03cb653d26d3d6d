//! The memory that reading a hostile file takes. This is the only test in its process, because it reads the
//! process's peak.

use std::io::{self, Read};

use wirecap_file::{Error, MAX_INTERFACES, Reader};

const MIB: u64 = 1 << 20;
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const NAME_RESOLUTION: u32 = 4;
const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;

/// A file generated while it is read: `left`, then `again`, `times` times.
struct RepeatingReader<'a> {
    left: &'a [u8],
    again: &'a [u8],
    times: u32,
}

impl Read for RepeatingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() && self.times > 0 {
            self.times -= 1;
            self.left = self.again;
        }
        self.left.read(buffer)
    }
}

fn block(block_type: u32, body: &[u8]) -> Vec<u8> {
    let len = (12 + body.len() as u32).to_le_bytes();
    [&block_type.to_le_bytes()[..], &len, body, &len].concat()
}

fn section(options: &[u8]) -> Vec<u8> {
    let fixed = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    block(SECTION_HEADER, &[&fixed[..], options].concat())
}

fn interface(options: &[u8]) -> Vec<u8> {
    block(INTERFACE, &[&[1, 0, 0, 0, 0, 0, 0, 0], options].concat())
}

/// An option of bytes that are not UTF-8: as text, each takes three bytes.
fn option(code: u16, len: usize) -> Vec<u8> {
    [&code.to_le_bytes()[..], &(len as u16).to_le_bytes(), &vec![0xff; len]].concat()
}

/// Reads a whole file; returns the number of its records and the error that ended it.
fn read_all(first: &[u8], again: &[u8], times: u32) -> (u64, Option<Error>) {
    let mut reader = Reader::new(RepeatingReader { left: first, again, times }).unwrap();
    let mut records = 0;
    loop {
        match reader.next() {
            Ok(Some(_)) => records += 1,
            Ok(None) => return (records, None),
            Err(error) => return (records, Some(error)),
        }
    }
}

/// The peak resident memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[track_caller]
fn assert_peak_grows_by_at_most(bytes: u64, what: &str, work: impl FnOnce()) {
    let before = peak();
    work();
    let grown = peak() - before;
    assert!(grown <= bytes, "{what}: {} MiB", grown / MIB);
}

#[test]
fn the_memory_for_a_file_is_bounded() {
    let texts = [option(IF_NAME, 1_000), option(IF_DESCRIPTION, 500), option(COMMENT, 500)].concat();
    let described = interface(&texts);
    assert_peak_grows_by_at_most(32 * MIB, "132 MB of interface descriptions", || {
        let (records, error) = read_all(&section(&[]), &described, MAX_INTERFACES);
        assert_eq!((records, error.is_none()), (1 + u64::from(MAX_INTERFACES), true));
    });
    let commented = section(&option(COMMENT, 60_000).repeat(8));
    assert_peak_grows_by_at_most(8 * MIB, "96 MB of comments on sections", || {
        assert!(read_all(&[], &commented, 200).1.is_none());
    });
    let names = block(NAME_RESOLUTION, &[[0; 4], [0xff; 4]].concat().repeat(60_000));
    assert_peak_grows_by_at_most(MIB, "96 MB of name resolution", || {
        assert!(read_all(&section(&[]), &names, 200).1.is_none());
    });
}
