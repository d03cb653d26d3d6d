//! Outputs: a file, a pipe, a device, or a stream that is already open.
//!
//! Rule: existing contents are not touched until the capture runs, and a file that was created for a capture
//! that fails to start is removed.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, IoSlice},
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
};

use wirecap_file::Format;

use super::{
    direct_io::DirectIo,
    error::RecordError,
    open::{self, OpenFile},
    sink::Sink,
};

/// Where packets are written.
///
/// Dropping it before recording starts undoes its opening: existing contents are untouched, and a file that
/// was created is removed.
///
/// ```
/// use wirecap_file::Format;
/// use wirecap_record::{Output, RecordError};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("trace.pcapng");
/// let output = Output::open(&path, Format::Pcapng)?;
/// assert!(matches!(Output::open(&path, Format::Pcapng), Err(RecordError::InUse)));
/// drop(output);
/// assert!(!path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Output {
    sink: Sink,
    /// `None` for a stream.
    path: Option<PathBuf>,
    format: Format,
    /// Whether it can be cut to a length: not a pipe or a device, and not a stream, which may be a file to
    /// which others append.
    cuttable: bool,
    /// Bytes of whole records in it.
    len: u64,
    /// Whether it is new, and no capture is recorded in it.
    is_fresh: bool,
    lock_error: Option<io::Error>,
    /// What it begins with.
    header: Vec<u8>,
}

/// Where a file is at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// Where it was; also for outputs that are not files.
    InPlace,
    /// Another program renamed it to this path.
    Moved(PathBuf),
    /// Another program removed it: its contents are gone when it is closed.
    Deleted,
    /// Another program truncated it: packets are missing, and it is damaged.
    Cut,
}

/// An attempt to append that failed.
#[derive(Debug)]
pub(crate) struct AppendError {
    /// Bytes that were written before the failure.
    pub(crate) written: usize,
    pub(crate) cause: RecordError,
}

impl Output {
    /// Opens a file, a pipe or a device for writing, without changing its contents. A new file is private to
    /// its owner (mode 0600). A file is locked (`flock`), so that no other output writes it. Does not wait.
    ///
    /// # Errors
    /// Why it cannot be written. After [`RecordError::NoReader`], try again later.
    pub fn open(path: impl Into<PathBuf>, format: Format) -> Result<Self, RecordError> {
        let path = path.into();
        let OpenFile { file, is_regular, is_new, lock_error } = open::open(&path)?;
        let (sink, path) = (Sink::new(file), Some(path));
        let (cuttable, is_fresh, header) = (is_regular, is_new, Vec::new());
        Ok(Self { sink, path, format, cuttable, len: 0, is_fresh, lock_error, header })
    }

    /// Takes an open file, for instance standard output, which is neither locked nor cut nor removed.
    pub fn stream(file: File, format: Format) -> Self {
        Self {
            sink: Sink::new(file),
            path: None,
            format,
            cuttable: false,
            len: 0,
            is_fresh: false,
            lock_error: None,
            header: Vec::new(),
        }
    }

    /// Writes the file past the page cache from now on (`O_DIRECT`): its pages take no memory and no second
    /// copy, and the disk sets the pace. Without it, a burst may be faster than the disk for as long as the
    /// kernel has memory. What arrives slowly still goes through the page cache, and the file is as current
    /// as without it.
    ///
    /// # Errors
    /// [`RecordError::NoFile`], or [`RecordError::NoDirectWrites`] if the file system has none.
    pub fn direct(mut self) -> Result<Self, RecordError> {
        if !self.cuttable {
            return Err(RecordError::NoFile);
        }
        self.sink.direct = Some(DirectIo::new(&self.sink.file).map_err(RecordError::NoDirectWrites)?);
        Ok(self)
    }

    /// Whether it is a file, which others may follow.
    pub(crate) fn is_file(&self) -> bool {
        self.cuttable
    }

    /// Why the file could not be locked, on a file system without locks: then the caller has to make sure
    /// that no other program writes it.
    pub fn lock_error(&self) -> Option<&io::Error> {
        self.lock_error.as_ref()
    }

    /// From now on, waiting writes are given up when this flag is set.
    pub(crate) fn set_give_up(&mut self, flag: &Arc<AtomicBool>) {
        self.sink.give_up = Arc::clone(flag);
    }

    /// Replaces the contents by the header.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(crate) fn begin(&mut self, header: &[u8]) -> Result<(), RecordError> {
        self.cut()?;
        self.append(&mut [IoSlice::new(header)]).map_err(|error| error.cause)?;
        self.keep(header.len());
        self.header = header.to_vec();
        Ok(())
    }

    /// Goes on with the next file of a series, whose contents it replaces by the header.
    ///
    /// # Errors
    /// Why it cannot be written. The file before stays the output.
    pub(crate) fn go_on_in(&mut self, mut next: Self) -> Result<(), RecordError> {
        next.sink.give_up = Arc::clone(&self.sink.give_up);
        next.sink.taken_bytes = Arc::clone(&self.sink.taken_bytes);
        next.begin(&self.header)?;
        next.settle();
        *self = next;
        Ok(())
    }

    /// Keeps a new file from now on, whatever happens: a capture is recorded in it.
    pub(crate) fn settle(&mut self) {
        self.is_fresh = false;
    }

    /// Where the file is now.
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        let Ok(metadata) = self.sink.file.metadata() else { return Whereabouts::InPlace };
        if self.cuttable && !self.begins_as_written(&metadata) {
            return Whereabouts::Cut;
        }
        if !self.cuttable || self.is_at_path() {
            return Whereabouts::InPlace;
        }
        if metadata.nlink() == 0 {
            return Whereabouts::Deleted;
        }
        let link = format!("/proc/self/fd/{}", self.sink.file.as_raw_fd());
        Whereabouts::Moved(fs::read_link(link).unwrap_or_else(|_| "another name".into()))
    }

    fn is_at_path(&self) -> bool {
        self.path.as_ref().is_some_and(|path| open::is_at(&self.sink.file, path))
    }

    /// Whether no other program truncated the file: then it is shorter, or begins with a hole.
    fn begins_as_written(&self, metadata: &fs::Metadata) -> bool {
        let link = format!("/proc/self/fd/{}", self.sink.file.as_raw_fd());
        let mut magic = [0; 4];
        // Unknown if the file may be written but not read.
        let read = File::open(link).and_then(|file| file.read_exact_at(&mut magic, 0));
        metadata.len() >= self.len && (read.is_err() || self.len == 0 || magic != [0; 4])
    }

    /// Its path; empty for a stream.
    pub(crate) fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Bytes that it accepted, whole records or not, for others to read.
    pub(crate) fn taken_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sink.taken_bytes)
    }

    /// The format that is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Where the next byte goes in a file that is written past the page cache.
    pub(crate) fn direct_position(&self) -> Option<u64> {
        self.sink.direct.as_ref().map(|direct| direct.position)
    }

    /// Bytes of whole records in it.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Writes all of `slices`, with as few system calls as the kernel allows. Call [`Output::keep`] to keep
    /// what was written, or [`Output::cut`] to remove it.
    ///
    /// # Errors
    /// Why not all was written, and how much was.
    pub(crate) fn append(&mut self, slices: &mut [IoSlice<'_>]) -> Result<(), AppendError> {
        write_all(slices, |slices| self.sink.write(slices))
    }

    /// Writes what follows the packets. A file that was given up ends like any other, since it is cut to
    /// whole records; a stream that may end within a record gets nothing more.
    ///
    /// # Errors
    /// Like [`Output::append`].
    pub(crate) fn append_last(&mut self, trailer: &[u8], has_failed: bool) -> Result<(), AppendError> {
        let mut slices = [IoSlice::new(trailer)];
        match (self.cuttable, has_failed) {
            (true, _) => write_all(&mut slices, |slices| Ok(self.sink.write_now(slices)?))?,
            (false, true) => return Ok(()),
            (false, false) => self.append(&mut slices)?,
        }
        self.keep(trailer.len());
        Ok(())
    }

    /// Keeps the next `bytes` of what was appended, which are whole records.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.len += bytes as u64;
    }

    /// Removes what was appended and not kept.
    ///
    /// # Errors
    /// The file cannot be cut.
    pub(crate) fn cut(&mut self) -> io::Result<()> {
        if !self.cuttable {
            return Ok(());
        }
        self.sink.file.set_len(self.len)?;
        io::Seek::seek(&mut self.sink.file, io::SeekFrom::Start(self.len))?;
        if let Some(direct) = &mut self.sink.direct {
            direct.position = self.len;
        }
        Ok(())
    }
}

/// Writes all of `slices` by as many calls of `write` as it takes.
fn write_all(
    mut slices: &mut [IoSlice<'_>],
    mut write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, RecordError>,
) -> Result<(), AppendError> {
    let mut written = 0;
    // Remove empty slices: writing nothing would look like a device that accepts nothing.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match write(slices) {
            Ok(0) => {
                return Err(AppendError { written, cause: io::Error::from(ErrorKind::WriteZero).into() });
            }
            Ok(bytes) => {
                written += bytes;
                IoSlice::advance_slices(&mut slices, bytes);
            }
            Err(cause) => return Err(AppendError { written, cause }),
        }
    }
    Ok(())
}

impl Drop for Output {
    fn drop(&mut self) {
        // Not a file that another program put in its place.
        if let Some(path) = self.path.as_ref().filter(|_| self.is_fresh && self.is_at_path()) {
            // The caller has the error that led here; a remaining empty file is the smaller problem.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Result<Output, RecordError> {
        Output::open(path, Format::Pcapng)
    }

    #[test]
    fn a_failed_capture_removes_its_new_file_and_leaves_an_old_one_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (new, old) = (directory.path().join("new.pcapng"), directory.path().join("old.pcapng"));
        fs::write(&old, "precious").unwrap();
        drop(open(&new).unwrap());
        drop(open(&old).unwrap());
        assert!(!new.exists());
        assert_eq!(fs::read(&old).unwrap(), b"precious");
    }

    #[test]
    fn truncation_by_another_program_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cut.pcapng");
        let mut output = open(&path).unwrap();
        output.begin(b"the beginning").unwrap();
        assert_eq!(output.whereabouts(), Whereabouts::InPlace);
        File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
        assert_eq!(output.whereabouts(), Whereabouts::Cut, "shorter");
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        output.append(&mut [IoSlice::new(b"more")]).unwrap();
        output.keep(4);
        assert_eq!(output.whereabouts(), Whereabouts::Cut, "the same length, with a hole");
    }

    #[test]
    fn a_dangling_link_creates_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let (link, target) = (directory.path().join("link.pcapng"), directory.path().join("target.pcapng"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        open(&link).unwrap().begin(b"head").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"head");
    }

    #[test]
    fn a_file_that_replaced_ours_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ours.pcapng");
        let output = open(&path).unwrap();
        fs::rename(&path, directory.path().join("moved.pcapng")).unwrap();
        fs::write(&path, "theirs").unwrap();
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
    }

    #[test]
    fn begin_replaces_old_contents_and_cut_leaves_kept_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng");
        fs::write(&path, "a long text of another time").unwrap();
        let mut output = open(&path).unwrap();
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

    #[test]
    fn a_file_past_the_page_cache_is_cut_like_any_other() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("a.pcapng");
        let mut output = open(&path).unwrap().direct().unwrap();
        output.begin(b"head").unwrap();
        let bytes = vec![7; 300_000];
        output.append(&mut [IoSlice::new(&bytes)]).unwrap();
        output.keep(200_001);
        output.cut().unwrap();
        output.append(&mut [IoSlice::new(&bytes), IoSlice::new(b"tail")]).unwrap();
        output.keep(300_004);
        assert_eq!(output.whereabouts(), Whereabouts::InPlace);
        assert_eq!(fs::read(&path).unwrap(), [b"head", &[7; 500_001][..], b"tail"].concat());
    }

    #[test]
    fn only_files_are_written_past_the_page_cache() {
        let device = Output::open("/dev/null", Format::Pcapng).unwrap();
        assert!(matches!(device.direct(), Err(RecordError::NoFile)));
        let directory = tempfile::tempdir().unwrap();
        let stream = File::create(directory.path().join("stream")).unwrap();
        assert!(matches!(Output::stream(stream, Format::Pcapng).direct(), Err(RecordError::NoFile)));
    }

    #[test]
    fn a_second_writer_is_refused_and_leaves_the_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng");
        let mut first = open(&path).unwrap();
        first.begin(b"head").unwrap();
        assert!(matches!(open(&path), Err(RecordError::InUse)));
        assert_eq!(fs::read(&path).unwrap(), b"head");
        drop(first);
        open(&path).unwrap();
    }

    #[test]
    fn a_file_that_was_moved_or_deleted_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("a.pcapng"), directory.path().join("b.pcapng"));
        let mut output = open(&path).unwrap();
        output.begin(b"head").unwrap();
        assert_eq!(output.whereabouts(), Whereabouts::InPlace);
        fs::rename(&path, &other).unwrap();
        assert_eq!(output.whereabouts(), Whereabouts::Moved(other.canonicalize().unwrap()));
        fs::write(&path, "another's").unwrap();
        assert_eq!(output.whereabouts(), Whereabouts::Moved(other.canonicalize().unwrap()));
        fs::remove_file(&other).unwrap();
        assert_eq!(output.whereabouts(), Whereabouts::Deleted);
    }
}
