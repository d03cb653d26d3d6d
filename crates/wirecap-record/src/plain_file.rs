//! Files beside a recording that hold no packets: a table, a picture.
//!
//! Rule: what holds for a file of packets holds for them: `NAME.partial` until complete, one writer, no link
//! that others may have put there, and nothing left behind by a program that fails to start.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{
    error::RecordError,
    naming::FileOptions,
    open::{self, FutureName, OpenFile},
};

/// A file that is written as an [`Output`](crate::Output) is, with any contents.
///
/// Dropping it before [`Self::settle`] undoes its opening.
///
/// ```
/// use std::io::Write;
///
/// use wirecap_record::PlainFile;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("bins.csv");
/// let mut file = PlainFile::create(&path)?;
/// file.write_all(b"time,packets\n")?;
/// assert!(!path.exists());
/// file.complete()?;
/// assert_eq!(std::fs::read(&path)?, b"time,packets\n");
/// drop(PlainFile::create(&path)?);
/// assert_eq!(std::fs::read_dir(&directory)?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PlainFile {
    file: File,
    path: PathBuf,
    /// `None` for devices and pipes.
    becomes: Option<FutureName>,
    /// Whether opening created the file, and dropping it has to remove it.
    is_fresh: bool,
}

impl PlainFile {
    /// Opens a file, a device or a pipe for writing, without changing what has the name now. Does not wait.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let OpenFile { file, path, becomes, is_new, .. } = open::open(path.as_ref(), FileOptions::default())?;
        Ok(Self { file, path, becomes, is_fresh: is_new })
    }

    /// Where it is now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a new file from now on, whatever happens.
    pub fn settle(&mut self) {
        self.is_fresh = false;
    }

    /// Gives the file its name, now that it is complete.
    ///
    /// # Errors
    /// [`RecordError::NotKept`], [`RecordError::Unnamed`]; the file keeps its partial name.
    pub fn complete(mut self) -> Result<(), RecordError> {
        self.settle();
        if let Some(name) = &self.becomes {
            open::check_kept(&self.file)?;
            fs::rename(&self.path, &name.path).map_err(RecordError::Unnamed)?;
        }
        Ok(())
    }
}

impl Write for PlainFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PlainFile {
    fn drop(&mut self) {
        if self.is_fresh && open::is_at(&self.file, &self.path) {
            // A remaining empty file is the smaller problem.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::keep_nothing;

    #[test]
    fn what_the_file_system_has_not_kept_is_not_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bins.csv");
        // In a thread of its own, which the filter does not outlive.
        let completed = std::thread::scope(|scope| {
            let ended = scope.spawn(|| {
                let mut file = PlainFile::create(&path).unwrap();
                file.write_all(b"time,packets\n").unwrap();
                keep_nothing();
                file.complete()
            });
            ended.join().unwrap()
        });
        assert!(matches!(completed, Err(RecordError::NotKept(_))), "{completed:?}");
        assert!(!path.exists() && directory.path().join("bins.csv.partial").exists());
    }
}
