//! Standard output and standard error, which may not take everything at once.
//!
//! ```text
//!   print_stderr, print, offer, show_over ─► printable ─► wait for room ─► standard output, standard error
//! ```
//!
//! | | waits for room |
//! |---|---|
//! | [`print()`]: the account, a report, help | as long as it takes |
//! | [`print_stderr`]: a line about what happens | two seconds; what is left out is counted, and said later |
//! | [`offer`]: a line that another follows anyway | not at all |
//! | [`show_over`]: the line that is written over and over | not at all |
//!
//! Rule: the command prints here and nowhere else, and what it prints is escaped by [`printable`]. A stream
//! that another program has made non-blocking is waited for like any other, and a stream that takes nothing
//! holds up no capture.

use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal},
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use clap::builder::StyledStr;
use nix::errno::Errno;
use terminal_size::{Width, terminal_size_of};
use wirecap_sys::room::{PIECE, wait_for_room};

use crate::{
    print::{
        layout::{COLUMNS, cut, wrapped},
        printable::{printable, printable_lines},
    },
    text::plural::{counted, was},
};

/// How long a line waits for room.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long the rest of a text waits whose beginning is written.
const REST: Duration = Duration::from_secs(1);
/// How long the kernel waits at once.
const TURN: Duration = Duration::from_secs(1);
/// The continuation of a line is indented to its words.
const INDENT: usize = "wirecap: ".len();
/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// A standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Lines that standard error had no room for. Process-wide, as standard error is.
static UNSAID: AtomicU64 = AtomicU64::new(0);

/// Writes a line to standard error, on a terminal broken between words. A closed one is no reason to fail.
pub(crate) fn print_stderr(line: impl Display) {
    let unsaid = UNSAID.load(Ordering::Relaxed);
    // Known to take nothing: not waited for again.
    let timeout = if unsaid == 0 { TIMEOUT } else { Duration::ZERO };
    let mut text = shaped(&line.to_string());
    if unsaid > 0 {
        let (lines, were) = (counted(unsaid, "line"), was(unsaid));
        text = shaped(&format!("wirecap: WARNING: {lines} {were} left out: standard error took nothing"))
            + &text;
    }
    match write(Stream::Stderr, text.as_bytes(), Some(timeout)) {
        Err(cause) if cause.kind() == ErrorKind::TimedOut => _ = UNSAID.fetch_add(1, Ordering::Relaxed),
        Err(_) => {}
        Ok(()) => _ = UNSAID.fetch_sub(unsaid, Ordering::Relaxed),
    }
}

/// A line as standard error shows it, with its end.
fn shaped(line: &str) -> String {
    let line = printable(line);
    match columns(Stream::Stderr) {
        Some(columns) => wrapped(&line, columns, INDENT) + "\n",
        None => format!("{line}\n"),
    }
}

/// Writes all lines of a text, however long it takes.
///
/// # Errors
/// What the kernel said.
pub(crate) fn print(stream: Stream, text: &str) -> io::Result<()> {
    write(stream, printable_lines(text).as_bytes(), None)
}

/// Writes all of our own help, in colours on a terminal, however long it takes.
///
/// # Errors
/// What the kernel said.
pub(crate) fn print_styled(stream: Stream, text: &StyledStr) -> io::Result<()> {
    match columns(stream) {
        Some(_) => write(stream, text.ansi().to_string().as_bytes(), None),
        None => print(stream, &text.to_string()),
    }
}

/// Writes a text if there is room for the beginning of it, and the rest if there is within a second.
///
/// # Errors
/// What the kernel said; [`ErrorKind::WouldBlock`] if nothing was written, [`ErrorKind::TimedOut`] if only a
/// part was.
pub(crate) fn offer(stream: Stream, text: &str) -> io::Result<()> {
    write_if_room(stream, printable_lines(text).as_bytes())
}

/// Writes the beginning of a line to standard error, as much as fits the terminal, over the line that is
/// there.
///
/// # Errors
/// As [`offer`].
pub(crate) fn show_over(line: &str) -> io::Result<()> {
    // Looked at each time, as terminals change. The last column is left alone: some go on to the next row
    // behind it.
    let columns = columns(Stream::Stderr).unwrap_or(COLUMNS);
    let line = printable(line);
    write_if_room(Stream::Stderr, format!("{CLEAR}{}", cut(&line, columns.saturating_sub(1))).as_bytes())
}

/// The width of the terminal; `None` for anything else.
pub(crate) fn columns(stream: Stream) -> Option<usize> {
    with(stream, |fd| {
        let columns = || terminal_size_of(fd).map_or(COLUMNS, |(Width(columns), _)| usize::from(columns));
        fd.is_terminal().then(columns)
    })
}

fn write_if_room(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    with(stream, |fd| {
        if !wait_for_room(fd, Duration::ZERO) {
            return Err(ErrorKind::WouldBlock.into());
        }
        write_all(fd, bytes, Some(REST))
    })
}

fn write(stream: Stream, bytes: &[u8], timeout: Option<Duration>) -> io::Result<()> {
    with(stream, |fd| write_all(fd, bytes, timeout))
}

/// The stream for one thread at a time, so that no line is torn by another.
fn with<T>(stream: Stream, work: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    match stream {
        Stream::Stdout => work(io::stdout().lock().as_fd()),
        Stream::Stderr => work(io::stderr().lock().as_fd()),
    }
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8], timeout: Option<Duration>) -> io::Result<()> {
    let begun = Instant::now();
    while !bytes.is_empty() {
        let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        if !wait_for_room(fd, left.map_or(TURN, |left| left.min(TURN))) {
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ErrorKind::TimedOut.into());
            }
            continue;
        }
        // Not more than surely fits: a stream that waits for its reader would hold us up.
        match nix::unistd::write(fd, &bytes[..bytes.len().min(PIECE)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read, thread};

    use nix::{
        fcntl::{FcntlArg, OFlag, fcntl},
        unistd::pipe2,
    };

    use super::*;

    #[test]
    fn a_pipe_is_written_to_the_end_or_until_patience_ends() {
        for flags in [OFlag::empty(), OFlag::O_NONBLOCK] {
            let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
            fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
            let text = vec![b'x'; 1 << 20];
            let error = write_all(writer.as_fd(), &text, Some(Duration::from_millis(50))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            let reading = thread::spawn(move || {
                let mut bytes = Vec::new();
                File::from(reader).read_to_end(&mut bytes).unwrap();
                bytes.len()
            });
            write_all(writer.as_fd(), &text, None).unwrap();
            drop(writer);
            assert!(reading.join().unwrap() > text.len());
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error_at_once() {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        drop(reader);
        let error = write_all(writer.as_fd(), b"x", None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
