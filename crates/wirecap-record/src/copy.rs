//! A copy of what is written, for a program that reads it beside the file.
//!
//! ```text
//!   Appender ── whole records ─┬─► output
//!                              └─► at most 16 MiB wait ─► pipe ─► a program
//!                                   └── no room, or the program has ended: not copied, counted
//! ```
//!
//! Rule: the output never waits for the copy, which has whole records unless it is given up at the end.
//!
//! A packet is in the copy once its whole record is in the pipe, as long as a program can still read it
//! there: what the pipe has when its last reader is gone is lost with it, and counts as not copied.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, ErrorKind, Write},
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use wirecap_sys::room::{is_closed_by_reader, unread_bytes, wait_for_room};

/// The most bytes of records that wait for the program.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// How long the program may read nothing at the end.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for room at a time.
const TICK: Duration = Duration::from_millis(50);

/// A pipe that gets a copy of what is written: [`RecordConfig::copy`](crate::RecordConfig::copy).
#[derive(Debug)]
pub struct OutputCopy {
    /// `None` once nothing more is copied.
    pipe: Option<File>,
    /// The position in the pipe: bytes that it had when the copy began, and those written since.
    taken: u64,
    /// Records that the pipe had no room for, those of each call of [`OutputCopy::add`] together.
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// Bytes of the first of these that the pipe has taken.
    taken_of_first: usize,
    /// Positions at which the records of packets end that wait or may be unread in the pipe, in ascending
    /// order.
    ends: VecDeque<u64>,
    reader: CopyReader,
    /// Packets that are not in the copy.
    not_copied: u64,
}

/// Why packets may be missing in a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyReader {
    /// The program did not read some in time.
    pub was_behind: bool,
    /// It had not read all when [`RecordConfig::give_up`](crate::RecordConfig::give_up) was set.
    pub was_given_up: bool,
    /// It has closed its end, as a program that ends does. Known at the next write, or at the end.
    pub has_closed: bool,
}

impl OutputCopy {
    /// For the writing end of a pipe, of which no other process has a copy: writing no longer waits.
    ///
    /// # Errors
    /// The kernel's.
    pub fn to_pipe(pipe: OwnedFd) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // A named pipe may still have what another program has written.
        let taken = unread_bytes(pipe.as_fd()).unwrap_or(0);
        Ok(Self {
            pipe: Some(pipe.into()),
            taken,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            taken_of_first: 0,
            ends: VecDeque::new(),
            reader: CopyReader::default(),
            not_copied: 0,
        })
    }

    /// Copies whole records: what comes before the packets, or packets whose records have these lengths.
    pub(crate) fn add<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
        lengths: impl Iterator<Item = u32>,
    ) {
        let len = pieces.clone().map(<[u8]>::len).sum::<usize>();
        let has_room = self.waiting_bytes + len <= MAX_WAITING_BYTES;
        if self.pipe.is_none() || !has_room {
            self.reader.was_behind |= self.pipe.is_some();
            self.not_copied += lengths.count() as u64;
            return;
        }
        let mut bytes = Vec::with_capacity(len);
        pieces.for_each(|piece| bytes.extend_from_slice(piece));
        let mut end = self.taken + self.waiting_bytes as u64;
        self.ends.extend(lengths.map(|len| {
            end += u64::from(len);
            end
        }));
        self.waiting_bytes += len;
        self.waiting.push_back(bytes);
        self.write_waiting();
    }

    /// Whether records wait.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Packets that wait, or a part of which does.
    pub(crate) fn waiting_packets(&self) -> u64 {
        self.packets_behind(self.taken)
    }

    /// Bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Packets that the program does not get.
    pub(crate) fn not_copied(&self) -> u64 {
        self.not_copied
    }

    /// What the program has done with it.
    pub(crate) fn reader(&self) -> CopyReader {
        self.reader
    }

    /// Packets whose records end behind this position, and are not known to be read.
    fn packets_behind(&self, position: u64) -> u64 {
        (self.ends.len() - self.ends.partition_point(|&end| end <= position)) as u64
    }

    /// Writes what the pipe has room for.
    pub(crate) fn write_waiting(&mut self) {
        while let (Some(pipe), Some(first)) = (&mut self.pipe, self.waiting.front()) {
            match pipe.write(&first[self.taken_of_first..]) {
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => break,
                Err(cause) => {
                    self.reader.has_closed = cause.kind() == ErrorKind::BrokenPipe;
                    return self.close();
                }
                Ok(bytes) => {
                    self.taken += bytes as u64;
                    self.taken_of_first += bytes;
                    self.waiting_bytes -= bytes;
                    if self.taken_of_first == first.len() {
                        self.waiting.pop_front();
                        self.taken_of_first = 0;
                    }
                }
            }
        }
        let read = self.read_position();
        self.ends.drain(..self.ends.partition_point(|&end| end <= read));
    }

    /// Up to where the program has read.
    fn read_position(&self) -> u64 {
        let unread = self.pipe.as_ref().and_then(|pipe| unread_bytes(pipe.as_fd()).ok());
        // Another program may write to a named pipe, too.
        self.taken.saturating_sub(unread.unwrap_or(0))
    }

    /// Writes what waits, as long as the program reads and `give_up` is not set. Calls `show` whenever it may
    /// have written some.
    pub(crate) fn finish(&mut self, give_up: &AtomicBool, show: impl Fn(&Self)) {
        let mut last = (self.waiting_bytes, Instant::now());
        while let (Some(pipe), true) = (&self.pipe, self.has_waiting()) {
            show(self);
            wait_for_room(pipe.as_fd(), TICK);
            self.write_waiting();
            if self.waiting_bytes != last.0 {
                last = (self.waiting_bytes, Instant::now());
            }
            let (is_given_up, is_stalled) =
                (give_up.load(Ordering::Relaxed), last.1.elapsed() >= STALL_TIMEOUT);
            if self.has_waiting() && (is_given_up || is_stalled) {
                self.reader.was_given_up = is_given_up;
                self.reader.was_behind |= !is_given_up;
                self.close();
            }
        }
        if self.pipe.as_ref().is_some_and(|pipe| is_closed_by_reader(pipe.as_fd())) {
            self.reader.has_closed = true;
            self.close();
        }
        show(self);
    }

    /// Gives the program up: what waits is not copied, nor what the pipe has if no program reads it any more.
    fn close(&mut self) {
        let copied = if self.reader.has_closed { self.read_position() } else { self.taken };
        self.not_copied += self.packets_behind(copied);
        self.pipe = None;
        self.waiting.clear();
        self.ends.clear();
        (self.waiting_bytes, self.taken_of_first) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, iter, sync::atomic::AtomicU64, thread};

    use wirecap_testing::pipe;

    use super::*;

    #[test]
    fn a_slow_reader_gets_whole_records_and_the_rest_is_counted() {
        let (mut reader, writer) = pipe();
        let mut copy = OutputCopy::to_pipe(writer.into()).unwrap();
        let record = [7; 1_000];
        const GROUPS: u64 = 200;
        for _ in 0..GROUPS {
            copy.add((0..100).map(|_| &record[..]), iter::repeat_n(1_000, 100));
        }
        let kept = GROUPS * 100 - copy.not_copied();
        assert_eq!(copy.reader(), CopyReader { was_behind: true, ..CopyReader::default() });
        assert!(copy.has_waiting() && copy.not_copied() > 0 && kept >= 16_000, "{kept}");
        let reading = thread::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes
        });
        copy.finish(&AtomicBool::new(false), |_| ());
        drop(copy);
        assert_eq!(reading.join().unwrap(), vec![7; kept as usize * 1_000]);
    }

    /// A copy of ten packets of 100,000 bytes to a pipe, which has room for 64 KiB.
    fn ten_packets() -> (File, OutputCopy) {
        let (reader, writer) = pipe();
        let mut copy = OutputCopy::to_pipe(writer.into()).unwrap();
        copy.add([&[7; 1_000_000][..]].into_iter(), iter::repeat_n(100_000, 10));
        assert_eq!((copy.has_waiting(), copy.waiting_packets(), copy.not_copied()), (true, 10, 0));
        (reader, copy)
    }

    #[test]
    fn a_reader_that_ends_is_given_up() {
        let (reader, mut copy) = ten_packets();
        drop(reader);
        copy.write_waiting();
        copy.add([&[7; 500][..]].into_iter(), iter::repeat_n(100, 5));
        assert_eq!((copy.has_waiting(), copy.not_copied()), (false, 15));
        assert_eq!(copy.reader(), CopyReader { has_closed: true, ..CopyReader::default() });
    }

    #[test]
    fn what_a_reader_leaves_in_the_pipe_is_not_copied() {
        // It has closed the pipe before the next write, or before the end.
        for is_last in [false, true] {
            let (mut reader, writer) = pipe();
            let mut copy = OutputCopy::to_pipe(writer.into()).unwrap();
            copy.add([&[7; 100][..]].into_iter(), iter::empty());
            for _ in 0..3 {
                copy.add([&[7; 10_000][..]].into_iter(), iter::repeat_n(1_000, 10));
            }
            // What comes before the packets, eleven of them, and a part of another.
            reader.read_exact(&mut [0; 100 + 11_000 + 999]).unwrap();
            drop(reader);
            assert_eq!((copy.has_waiting(), copy.waiting_packets(), copy.not_copied()), (false, 0, 0));
            if !is_last {
                copy.add([&[7; 5_000][..]].into_iter(), iter::repeat_n(1_000, 5));
                assert_eq!(copy.not_copied(), 19 + 5);
            }
            copy.finish(&AtomicBool::new(false), |_| ());
            assert_eq!(copy.not_copied(), if is_last { 19 } else { 19 + 5 });
            assert_eq!(copy.reader(), CopyReader { has_closed: true, ..CopyReader::default() });
        }
    }

    #[test]
    fn what_others_have_written_to_the_pipe_is_not_counted() {
        let (mut reader, mut writer) = pipe();
        writer.write_all(&[1; 40_000]).unwrap();
        let other = writer.try_clone().unwrap();
        let mut copy = OutputCopy::to_pipe(writer.into()).unwrap();
        copy.add([&[7; 10_000][..]].into_iter(), iter::repeat_n(1_000, 10));
        reader.read_exact(&mut [0; 40_000 + 5_500]).unwrap();
        drop(reader);
        copy.finish(&AtomicBool::new(false), |_| ());
        assert_eq!(copy.not_copied(), 5);
        drop(other);
        // More than the copy has written.
        let (reader, mut writer) = pipe();
        let mut copy = OutputCopy::to_pipe(writer.try_clone().unwrap().into()).unwrap();
        writer.write_all(&[1; 40_000]).unwrap();
        copy.add([&[7; 1_000_000][..]].into_iter(), iter::repeat_n(100_000, 10));
        assert_eq!((copy.has_waiting(), copy.waiting_packets()), (true, 10));
        drop(reader);
        copy.write_waiting();
        assert_eq!((copy.has_waiting(), copy.not_copied()), (false, 10));
    }

    #[test]
    fn a_reader_that_has_read_all_or_still_may_has_a_whole_copy() {
        for has_read in [false, true] {
            let (mut reader, writer) = pipe();
            let mut copy = OutputCopy::to_pipe(writer.into()).unwrap();
            copy.add([&[7; 10_000][..]].into_iter(), iter::repeat_n(1_000, 10));
            let unread = (!has_read).then(|| reader.try_clone().unwrap());
            if has_read {
                reader.read_exact(&mut [0; 10_000]).unwrap();
            }
            drop(reader);
            copy.finish(&AtomicBool::new(false), |_| ());
            assert_eq!((copy.not_copied(), copy.reader().has_closed), (0, has_read));
            drop(unread);
        }
    }

    #[test]
    fn the_ends_of_records_that_were_read_are_forgotten() {
        let (mut reader, writer) = pipe();
        let mut copy = OutputCopy::to_pipe(writer.into()).unwrap();
        for _ in 0..100 {
            copy.add([&[7; 10_000][..]].into_iter(), iter::repeat_n(1_000, 10));
            reader.read_exact(&mut [0; 10_000]).unwrap();
        }
        assert!(copy.ends.len() <= 10, "{}", copy.ends.len());
    }

    #[test]
    fn packets_that_the_pipe_has_are_copied_and_those_behind_them_are_not() {
        let (mut reader, mut copy) = ten_packets();
        let mut bytes = vec![0; 250_000];
        let reading = thread::spawn(move || reader.read_exact(&mut bytes).map(|()| reader));
        while !reading.is_finished() {
            copy.write_waiting();
        }
        // At least two are read; the pipe may have one more.
        let _reader = reading.join().unwrap().unwrap();
        copy.write_waiting();
        let left = copy.waiting_packets();
        assert!(left == 8 || left == 7, "{left}");
        copy.finish(&AtomicBool::new(true), |_| ());
        assert_eq!(copy.not_copied(), left);
    }

    #[test]
    fn a_reader_that_stalls_is_given_up_after_a_while_or_by_the_flag() {
        for is_given_up in [false, true] {
            let (reader, mut copy) = ten_packets();
            let (begun, shown) = (Instant::now(), AtomicU64::default());
            copy.finish(&AtomicBool::new(is_given_up), |copy| {
                shown.fetch_max(copy.waiting_packets(), Ordering::Relaxed);
            });
            assert_eq!(begun.elapsed() < STALL_TIMEOUT, is_given_up);
            assert_eq!((copy.not_copied(), copy.waiting_packets(), shown.into_inner()), (10, 0, 10));
            let (was_behind, was_given_up) = (!is_given_up, is_given_up);
            assert_eq!(copy.reader(), CopyReader { was_behind, was_given_up, has_closed: false });
            drop(reader);
        }
    }
}
