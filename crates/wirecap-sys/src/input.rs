//! A file, a pipe or standard input, read without waiting for its writer.
//!
//! ```text
//!   a file        always has something, or its end
//!   a pipe        has something, or nothing yet, or its end: the last writer is gone
//!   a named pipe  before there was a writer: nothing yet
//! ```

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    sync::Arc,
    time::Duration,
};

use crate::{room::wait_for_bytes, wake::Waker};

/// How long a patient read waits at once; it waits again until there is something.
const TURN: Duration = Duration::from_secs(1);

/// Where bytes come from.
#[derive(Debug)]
pub struct Input {
    file: File,
    /// Its length when it was opened, in bytes. `None` where the length is unknown.
    len: Option<u64>,
    /// What to wait on. `None` for a file, which is always ready.
    waker: Option<Arc<OwnedFd>>,
    patient: bool,
}

impl Input {
    /// Opens a file, a pipe or a device, and does not wait for the writer of a pipe.
    ///
    /// # Errors
    /// The kernel's error; [`io::ErrorKind::IsADirectory`] for a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?)
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// The kernel's error: there may be none.
    pub fn stdin() -> io::Result<Self> {
        Self::of(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    }

    fn of(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let len = metadata.is_file().then_some(metadata.len());
        let waker = match len {
            Some(_) => None,
            None => Some(Arc::new(file.as_fd().try_clone_to_owned()?)),
        };
        Ok(Self { file, len, waker, patient: true })
    }

    /// Whether a read waits until there is something. It does at first; else it fails with
    /// [`io::ErrorKind::WouldBlock`].
    pub fn set_patient(&mut self, patient: bool) {
        self.patient = patient;
    }

    /// Its length when it was opened, in bytes; `None` unless it is a file.
    pub fn len(&self) -> Option<u64> {
        self.len
    }

    /// Whether it is a file without contents.
    pub fn is_empty(&self) -> bool {
        self.len == Some(0)
    }

    /// Becomes readable when there is something; `None` for a file, which always has.
    pub fn waker(&self) -> Option<Waker> {
        self.waker.clone().map(Waker::from)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(fd) = &self.waker {
            // Asked for, not tried: a named pipe without a writer yet reads like one at its end, and
            // standard input may wait in a read, since it is not ours alone to be changed.
            while !wait_for_bytes(fd.as_fd(), if self.patient { TURN } else { Duration::ZERO }) {
                if !self.patient {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, thread};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("wirecap-input-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn kind(result: io::Result<usize>) -> io::ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn a_named_pipe_is_empty_then_has_bytes_then_ends() {
        let directory = directory("fifo");
        let path = directory.join("pipe");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let mut input = Input::open(&path).unwrap();
        assert!(input.len().is_none() && input.waker().is_some());
        input.set_patient(false);
        let mut buffer = [0; 8];
        assert_eq!(kind(input.read(&mut buffer)), io::ErrorKind::WouldBlock, "the pipe has no writer yet");
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(kind(input.read(&mut buffer)), io::ErrorKind::WouldBlock, "nothing is written yet");
        writer.write_all(b"abc").unwrap();
        assert_eq!(input.read(&mut buffer).unwrap(), 3);
        assert_eq!(kind(input.read(&mut buffer)), io::ErrorKind::WouldBlock);
        input.set_patient(true);
        let later = thread::spawn(move || writer.write_all(b"later").unwrap());
        assert_eq!(input.read(&mut buffer).unwrap(), 5, "the read waits");
        later.join().unwrap();
        assert_eq!(input.read(&mut buffer).unwrap(), 0, "the writer is gone");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_is_always_ready_and_a_directory_is_refused() {
        let directory = directory("file");
        let path = directory.join("file");
        std::fs::write(&path, "abc").unwrap();
        let mut input = Input::open(&path).unwrap();
        input.set_patient(false);
        assert_eq!((input.len(), input.is_empty(), input.waker().is_none()), (Some(3), false, true));
        let mut text = String::new();
        input.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        assert_eq!(Input::open(&directory).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(Input::open(&directory.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
