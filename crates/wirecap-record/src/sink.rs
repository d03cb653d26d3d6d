//! Writes the bytes of an output, and waits for room.
//!
//! | kind of output | how it is written | when giving up takes effect |
//! |---|---|---|
//! | a pipe | reopened: its own description never blocks, and those of other programs stay unchanged | at once |
//! | a pipe that cannot be reopened, a socket | as much at a time as surely fits | at once |
//! | a file, a device | everything at once | between two groups of blocks |
//! | a file, past the page cache | 1 MiB at a time, and what is no whole page by itself | between two groups of blocks |
//!
//! Rule: a write waits here, where it can be given up, and not in the kernel, where it cannot.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, IoSlice, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::fcntl::OFlag;
use wirecap_sys::room::{PIECE, wait_for_room};

use super::{direct_io::DirectIo, error::RecordError};

/// How often to check for giving up while waiting.
const TICK: Duration = Duration::from_millis(50);

/// An open file that is written, or a stream.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) file: File,
    /// Whether to write pieces that surely fit, because longer writes would block.
    in_pieces: bool,
    /// Of a file that is written past the page cache.
    pub(crate) direct: Option<DirectIo>,
    /// Set by others to give up writing.
    pub(crate) give_up: Arc<AtomicBool>,
    /// Bytes written so far. Written here, read by the thread that waits for the end; orders nothing else.
    pub(crate) taken_bytes: Arc<AtomicU64>,
}

impl Sink {
    /// Takes a file that is open for writing.
    pub(crate) fn new(file: File) -> Self {
        let kind = file.metadata().map(|metadata| metadata.file_type());
        let (is_pipe, is_socket) = kind.map_or((false, false), |kind| (kind.is_fifo(), kind.is_socket()));
        let (file, in_pieces) = match is_pipe.then(|| reopened(&file)) {
            Some(Ok(own)) => (own, false),
            // Without /proc, or where file capabilities of the program forbid access to its files there.
            Some(Err(_)) => (file, true),
            None => (file, is_socket),
        };
        Self { file, in_pieces, direct: None, give_up: Arc::default(), taken_bytes: Arc::default() }
    }

    /// Writes some of `slices`, none of which is empty. Waits for room first if necessary.
    ///
    /// # Errors
    /// The write failed, or was given up.
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, RecordError> {
        loop {
            if self.give_up.load(Ordering::Relaxed) {
                return Err(RecordError::GivenUp);
            }
            if self.in_pieces && !wait_for_room(self.file.as_fd(), TICK) {
                continue;
            }
            match self.write_now(slices) {
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => {
                    _ = wait_for_room(self.file.as_fd(), TICK)
                }
                done => return Ok(done?),
            }
        }
    }

    /// Writes some of `slices` even after giving up, for the end of a file.
    ///
    /// # Errors
    /// The write failed.
    pub(crate) fn write_now(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            let written = match (&mut self.direct, slices) {
                (Some(direct), slices) => direct.write(&mut self.file, slices),
                (None, [first, ..]) if self.in_pieces => self.file.write(&first[..first.len().min(PIECE)]),
                (None, slices) => self.file.write_vectored(slices),
            };
            match written {
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
                Ok(bytes) => {
                    self.taken_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    return Ok(bytes);
                }
            }
        }
    }
}

/// Reopens a pipe, with a description of its own.
fn reopened(pipe: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream, thread};

    use nix::unistd::pipe2;

    use super::*;

    /// The two ends of a reopened pipe, of a pipe that is not reopened, and of a socket.
    fn ends() -> [(Box<dyn Read + Send>, Sink); 3] {
        let pipe = || pipe2(OFlag::O_CLOEXEC).unwrap();
        let ((one, own), (other, piecewise)) = (pipe(), pipe());
        let piecewise = Sink {
            file: piecewise.into(),
            in_pieces: true,
            direct: None,
            give_up: Arc::default(),
            taken_bytes: Arc::default(),
        };
        let (socket, writer) = UnixStream::pair().unwrap();
        let socket_sink = Sink::new(File::from(std::os::fd::OwnedFd::from(writer)));
        assert!(socket_sink.in_pieces);
        [
            (Box::new(File::from(one)), Sink::new(own.into())),
            (Box::new(File::from(other)), piecewise),
            (Box::new(socket), socket_sink),
        ]
    }

    #[test]
    fn a_slow_reader_gets_every_byte() {
        for (mut reader, mut sink) in ends() {
            let reading = thread::spawn(move || {
                thread::sleep(Duration::from_millis(100));
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes).unwrap();
                bytes
            });
            let bytes: Vec<u8> = (0..1_000_000u32).map(|number| (number / 7) as u8).collect();
            let mut written = 0;
            while written < bytes.len() {
                written += sink.write(&[IoSlice::new(&bytes[written..])]).unwrap();
            }
            drop(sink);
            assert_eq!(reading.join().unwrap(), bytes);
        }
    }

    #[test]
    fn a_reader_that_takes_nothing_can_be_given_up_on() {
        for (reader, mut sink) in ends() {
            let bytes = vec![7; 1_000_000];
            // Fills the sink.
            while wait_for_room(sink.file.as_fd(), Duration::ZERO) {
                sink.write(&[IoSlice::new(&bytes)]).unwrap();
            }
            sink.give_up = Arc::new(AtomicBool::new(true));
            let failure = sink.write(&[IoSlice::new(&bytes)]).unwrap_err();
            assert!(matches!(failure, RecordError::GivenUp), "{failure:?}");
            drop(reader);
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error() {
        for (reader, mut sink) in ends() {
            drop(reader);
            let failure = sink.write(&[IoSlice::new(b"x")]).unwrap_err();
            let RecordError::Io(cause) = failure else { panic!("{failure:?}") };
            assert_eq!(cause.kind(), ErrorKind::BrokenPipe);
        }
    }
}
