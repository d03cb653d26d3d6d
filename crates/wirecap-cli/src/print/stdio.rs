//! Standard output and standard error, which may be full.
//!
//! ```text
//!   print_message, print_line, print, offer, show_over ─► printable ─► wait for room ─► standard output, standard error
//! ```
//!
//! | function | waits for room |
//! |---|---|
//! | [`print()`]: the account, a report, help | as long as it takes |
//! | [`print_message`], [`print_line`]: a line about what happens, or of a result | two seconds; dropped lines are counted and reported later |
//! | [`offer`]: an account that another will follow | not at all |
//! | [`show_over`]: the line that is written over and over | not at all |
//!
//! Rule: the command prints only here, and escapes what it prints by [`printable`]. It waits for a stream
//! that another program has made non-blocking like for any other, and no full stream holds up a capture.

use std::{
    env,
    ffi::OsStr,
    io::{self, ErrorKind, IsTerminal},
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::anyhow;
use clap::builder::StyledStr;
use nix::errno::Errno;
use terminal_size::{Height, Width, terminal_size_of};
use wirecap_sys::room::{PIECE, wait_for_room};

use crate::{
    message::Message,
    print::{
        layout::{COLUMNS, ROWS, cut, fitted},
        log,
        printable::{printable, printable_lines},
    },
    text::plural::{counted, was},
};

/// How long to wait for room for a line.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for room for the rest of a text whose beginning is written.
const REST: Duration = Duration::from_secs(1);
/// The longest wait of one system call.
const TURN: Duration = Duration::from_secs(1);
/// Returns to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";
/// Clears everything from here to the end of the screen.
const CLEAR_BELOW: &str = "\x1b[J";

/// A standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Lines that standard error had no room for. Process-wide, like standard error.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Writes a message to standard error, wrapped on a terminal. A closed standard error is no error.
pub(crate) fn print_message(message: &Message) {
    write_stderr(shaped(message));
}

fn shaped(message: &Message) -> String {
    log::shaped(message, columns(Stream::Stderr))
}

/// Writes a line of a result to standard error.
pub(crate) fn print_line(line: &str) {
    write_stderr(format!("{}\n", printable(line)));
}

fn write_stderr(mut text: String) {
    let dropped = DROPPED.load(Ordering::Relaxed);
    // Standard error was full last time: do not wait again.
    let timeout = if dropped == 0 { TIMEOUT } else { Duration::ZERO };
    if dropped > 0 {
        let (lines, were) = (counted(dropped, "line"), was(dropped));
        let missing = Message::warning(format!("{lines} {were} dropped: standard error was full"));
        text = shaped(&missing) + &text;
    }
    match write(Stream::Stderr, text.as_bytes(), Some(timeout)) {
        Err(cause) if cause.kind() == ErrorKind::TimedOut => _ = DROPPED.fetch_add(1, Ordering::Relaxed),
        Err(_) => {}
        Ok(()) => _ = DROPPED.fetch_sub(dropped, Ordering::Relaxed),
    }
}

/// Writes a text, however long it takes.
///
/// # Errors
/// The write failed.
pub(crate) fn print(stream: Stream, text: &str) -> io::Result<()> {
    write(stream, printable_lines(text).as_bytes(), None)
}

/// Writes what the user asked for, such as "the settings", to standard output, however long it takes.
///
/// # Errors
/// The write failed.
pub(crate) fn print_stdout(what: &str, text: &str) -> anyhow::Result<()> {
    print(Stream::Stdout, text).map_err(|cause| anyhow!("cannot print {what} on standard output: {cause}"))
}

/// Writes the help, in colours on a terminal, however long it takes.
///
/// # Errors
/// The write failed.
pub(crate) fn print_styled(stream: Stream, text: &StyledStr) -> io::Result<()> {
    match columns(stream).filter(|_| has_styles(env::var_os("TERM").as_deref())) {
        Some(_) => write(stream, text.ansi().to_string().as_bytes(), None),
        None => print(stream, &text.to_string()),
    }
}

/// Whether a terminal of this type takes escape sequences.
fn has_styles(terminal: Option<&OsStr>) -> bool {
    terminal.is_none_or(|terminal| terminal != "dumb")
}

/// Writes a text if there is room for its beginning, and waits up to a second for room for the rest.
///
/// # Errors
/// [`ErrorKind::WouldBlock`] if nothing was written, [`ErrorKind::TimedOut`] if only a part was, or another
/// error of the write.
pub(crate) fn offer(stream: Stream, text: &str) -> io::Result<()> {
    write_if_room(stream, printable_lines(text).as_bytes())
}

/// Overwrites the current line of standard error and `above` lines above it: with as many lines of a table as
/// the terminal has room for, each cut to its width, and below them as many of these fields as fit. Returns
/// the number of lines of the table.
///
/// # Errors
/// As [`offer`].
pub(crate) fn show_over(above: usize, table: &[String], fields: &[String]) -> io::Result<usize> {
    // Queried each time, since terminals are resized. The last column stays empty: some terminals wrap after
    // it.
    let (columns, rows) = size(Stream::Stderr).unwrap_or((COLUMNS, ROWS));
    let width = columns.saturating_sub(1);
    // What has scrolled off the screen could not be overwritten.
    let table = cut(table, rows.saturating_sub(1));
    let (above, lines) = (above.min(rows.saturating_sub(1)), table.len());
    let mut text = match above {
        0 => CLEAR.to_owned(),
        above => format!("\r\x1b[{above}A{CLEAR_BELOW}"),
    };
    for line in table {
        text.extend(printable(&line).chars().take(width));
        text.push('\n');
    }
    text += &fitted(fields, width);
    write_if_room(Stream::Stderr, text.as_bytes()).map(|()| lines)
}

/// The width of the terminal in columns; `None` if the stream is not a terminal.
pub(crate) fn columns(stream: Stream) -> Option<usize> {
    size(stream).map(|(columns, _)| columns)
}

/// The columns and rows of the terminal; `None` if the stream is not a terminal.
pub(crate) fn size(stream: Stream) -> Option<(usize, usize)> {
    with(stream, |fd| {
        let size = || {
            let known = terminal_size_of(fd);
            known.map_or((COLUMNS, ROWS), |(Width(columns), Height(rows))| (columns.into(), rows.into()))
        };
        fd.is_terminal().then(size)
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

/// Locks the stream, so that lines of several threads do not mix.
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
        // At most what surely fits: the write would block otherwise.
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
    fn a_pipe_is_written_to_the_end_or_until_the_timeout() {
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
