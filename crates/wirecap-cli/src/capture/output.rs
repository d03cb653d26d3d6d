//! The file, or standard output.
//!
//! Rule: what was there before is not touched until the capture runs, and what was made for a capture
//! that does not come about is removed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, IoSlice, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow};
use wirecap_file::Format;

use crate::plan::Destination;

/// Where encoded packets end up.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// As the user said it.
    name: String,
    format: Format,
    /// Whether it can be cut to a length: not a pipe or a device, and not standard output, which may be
    /// a file others append to as well.
    cuttable: bool,
    /// Bytes of whole records in it.
    len: u64,
    /// The file, while it is new and nothing is in it.
    fresh: Option<PathBuf>,
}

/// An attempt to append that failed.
#[derive(Debug)]
pub(crate) struct AppendError {
    /// Bytes that were written before.
    pub(crate) written: usize,
    pub(crate) cause: io::Error,
}

impl Output {
    /// Opens the destination for writing, and leaves its contents alone.
    ///
    /// # Errors
    /// Why it cannot be written, in words.
    pub(crate) fn open(destination: &Destination) -> Result<Self> {
        let format = destination.format();
        match destination {
            Destination::Stdout => {
                let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
                Ok(Self { file, name: "-".into(), format, cuttable: false, len: 0, fresh: None })
            }
            Destination::File(path, _) => {
                let (file, is_new) = open(path).map_err(|cause| explain(path, &cause))?;
                let cuttable = file.metadata().is_ok_and(|metadata| metadata.is_file());
                let fresh = is_new.then(|| path.clone());
                Ok(Self { file, name: path.display().to_string(), format, cuttable, len: 0, fresh })
            }
        }
    }

    /// Replaces the contents by what stands in front of the packets.
    ///
    /// # Errors
    /// Why it cannot be written, in words.
    pub(crate) fn begin(&mut self, header: &[u8]) -> Result<()> {
        self.cut().map_err(|cause| explain(Path::new(&self.name), &cause))?;
        self.append(&mut [IoSlice::new(header)])
            .map_err(|error| explain(Path::new(&self.name), &error.cause))?;
        self.keep(header.len());
        self.fresh = None;
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Bytes of whole records in it.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Writes all of `slices`, with as few system calls as the kernel allows. They stay only if they are
    /// kept: see [`Output::keep`] and [`Output::cut`].
    ///
    /// # Errors
    /// What the kernel said, and how far it got.
    pub(crate) fn append(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<(), AppendError> {
        let mut written = 0;
        // Empty slices go: a write of nothing would look like a device that takes nothing.
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.file.write_vectored(slices) {
                Ok(0) => return Err(AppendError { written, cause: ErrorKind::WriteZero.into() }),
                Ok(bytes) => {
                    written += bytes;
                    IoSlice::advance_slices(&mut slices, bytes);
                }
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(AppendError { written, cause }),
            }
        }
        Ok(())
    }

    /// Whole records of so many bytes were appended.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.len += bytes as u64;
    }

    /// Takes away what was appended and not kept.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn cut(&mut self) -> io::Result<()> {
        if !self.cuttable {
            return Ok(());
        }
        self.file.set_len(self.len)?;
        io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.len)).map(drop)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(path) = self.fresh.take() {
            // The error that brought us here is told; that an empty file stays is the lesser one.
            let _ = fs::remove_file(path);
        }
    }
}

/// Opens a file for writing and says whether it is new.
fn open(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(path).map(|file| (file, false))
        }
        opened => opened.map(|file| (file, true)),
    }
}

fn explain(path: &Path, cause: &io::Error) -> anyhow::Error {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let hint = match cause.kind() {
        ErrorKind::NotFound => format!("; make the directory first: mkdir -p {}", directory.display()),
        ErrorKind::PermissionDenied => {
            format!("; choose a directory you may write to, not {}", directory.display())
        }
        ErrorKind::IsADirectory => "; name a file in it".into(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room, or choose another disk".into(),
        ErrorKind::ReadOnlyFilesystem => "; choose another disk".into(),
        _ => String::new(),
    };
    anyhow!("cannot write {}: {cause}{hint}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(path: &Path) -> Destination {
        Destination::File(path.into(), Format::Pcapng)
    }

    #[test]
    fn a_new_file_of_a_capture_that_failed_is_removed_and_an_old_one_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let (new, old) = (directory.path().join("new.pcapng"), directory.path().join("old.pcapng"));
        fs::write(&old, "precious").unwrap();
        drop(Output::open(&to(&new)).unwrap());
        drop(Output::open(&to(&old)).unwrap());
        assert!(!new.exists());
        assert_eq!(fs::read(&old).unwrap(), b"precious");
    }

    #[test]
    fn beginning_replaces_what_was_there_and_cutting_leaves_what_was_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng");
        fs::write(&path, "a long text of another time").unwrap();
        let mut output = Output::open(&to(&path)).unwrap();
        output.begin(b"head").unwrap();
        output.append(&mut [IoSlice::new(b""), IoSlice::new(b"one"), IoSlice::new(b"two, torn")]).unwrap();
        output.keep(3);
        output.cut().unwrap();
        output.append(&mut [IoSlice::new(b"tail")]).unwrap();
        output.keep(4);
        assert_eq!(output.len(), 11);
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"headonetail");
    }
}
