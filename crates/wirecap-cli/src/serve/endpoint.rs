//! What is served: where clients connect, and what is said to each.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    time::Instant,
};

/// Where clients connect.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// The next connection, which does not block.
    ///
    /// # Errors
    /// None waits, or the process has too many files open.
    pub(super) fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Stream::Unix(stream)
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Stream::Tcp(stream)
            }
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Something that clients connect to.
pub(crate) trait Endpoint: Send {
    /// Where they connect. It must not block.
    fn listener(&self) -> &Listener;

    /// The directory of a socket that it removes when it is dropped.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Begins the dialogue with a client; `None` disconnects it.
    fn connect(&self, stream: &Stream) -> Option<Box<dyn Dialogue>>;
}

/// What happens next in a dialogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The client may send its next request.
    Listen,
    /// The dialogue waits for the capture, and proceeds when that wakes the server, or at this time.
    Wait(Instant),
    /// It ends once the output is sent.
    Close,
}

/// What is said to one client. Its calls do not block.
pub(crate) trait Dialogue: Send {
    /// Once the input has a complete request, removes it and adds to the output.
    fn receive(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> Step;

    /// Adds the pending answer to the output. `output` has everything that the client has not taken yet.
    fn proceed(&mut self, output: &mut Vec<u8>) -> Step;

    /// A request is too long: adds the answer after which the client is disconnected.
    fn refuse_length(&mut self, output: &mut Vec<u8>);
}
