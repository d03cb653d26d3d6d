//! Outputs: a file, a pipe, a device, or a stream that is already open.
//!
//! Rule: existing contents are not touched until the new file is complete, or in place until the capture
//! runs, and a file that was created for a capture that fails to start is removed.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, IoSlice},
    os::{
        fd::{AsRawFd, RawFd},
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
    compress::Compressor,
    direct_io::DirectIo,
    error::RecordError,
    naming::FileOptions,
    open::{self, FutureName, OpenFile},
    sink::Sink,
};

/// A file that another program deleted while it was being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedFile {
    /// The path that it would have got.
    pub path: PathBuf,
    /// Its descriptor, by which its contents can be read until it is closed; `None` once it is.
    pub descriptor: Option<RawFd>,
}

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
    compressor: Option<Compressor>,
    /// `None` for a stream.
    path: Option<PathBuf>,
    /// The name that the file gets when it is complete, if that is not its path.
    becomes: Option<FutureName>,
    format: Format,
    /// Whether it can be cut to a length: not a pipe or a device, and not a stream, which may be a file to
    /// which others append.
    cuttable: bool,
    /// Bytes of whole records in it, compressed or not.
    len: u64,
    /// Bytes behind them that end a compressed file.
    end_len: u64,
    /// Whether a write failed, and what it wrote of a record is not cut off.
    may_end_in_packet: bool,
    /// Whether it is new, and no capture is recorded in it.
    is_fresh: bool,
    lock_error: Option<io::Error>,
    left_over: Option<PathBuf>,
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
    /// Opens a file, a pipe or a device for writing, without changing its contents. A file is `NAME.partial`
    /// until it is complete, and only its owner and group can read it (mode 0640). It is locked (`flock`), so
    /// that no other output writes it. Does not wait.
    ///
    /// # Errors
    /// Why it cannot be written. After [`RecordError::NoReader`], try again later.
    pub fn open(path: impl AsRef<Path>, format: Format) -> Result<Self, RecordError> {
        Self::open_with(path, format, FileOptions::default())
    }

    /// Like [`Self::open`], with options for a file.
    ///
    /// # Errors
    /// The same.
    pub fn open_with(
        path: impl AsRef<Path>,
        format: Format,
        options: FileOptions,
    ) -> Result<Self, RecordError> {
        let OpenFile { file, path, becomes, is_regular, is_new, lock_error, left_over } =
            open::open(path.as_ref(), options)?;
        let mut output = Self::stream(file, format);
        (output.path, output.becomes, output.left_over) = (Some(path), becomes, left_over);
        (output.cuttable, output.is_fresh, output.lock_error) = (is_regular, is_new, lock_error);
        output.compressor = options.compression.map(Compressor::new).transpose()?;
        Ok(output)
    }

    /// Takes an open file, for instance standard output, which is neither locked nor cut nor removed.
    pub fn stream(file: File, format: Format) -> Self {
        Self {
            sink: Sink::new(file),
            compressor: None,
            path: None,
            becomes: None,
            format,
            cuttable: false,
            len: 0,
            end_len: 0,
            may_end_in_packet: false,
            is_fresh: false,
            lock_error: None,
            left_over: None,
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

    /// Where it is, if it is a file: in the directory to which links lead, and under the name that it has
    /// until it is complete.
    pub fn file_path(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.cuttable)
    }

    /// Whether a write failed, and what it wrote of a record could not be cut off.
    pub(crate) fn may_end_in_packet(&self) -> bool {
        self.may_end_in_packet
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

    /// A partial file of the same name that a capture has left, because it was killed. It is kept.
    pub fn left_over(&self) -> Option<&Path> {
        self.left_over.as_deref()
    }

    /// From now on, waiting writes are given up when this flag is set.
    pub(crate) fn set_give_up(&mut self, flag: &Arc<AtomicBool>) {
        self.sink.give_up = Arc::clone(flag);
    }

    /// The flag that gives up waiting writes.
    pub(crate) fn give_up(&self) -> &AtomicBool {
        &self.sink.give_up
    }

    /// Replaces the contents by the header.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(crate) fn begin(&mut self, header: &[u8]) -> Result<(), RecordError> {
        self.cut()?;
        self.append(&mut [IoSlice::new(header)]).map_err(|error| error.cause)?;
        self.keep(header.len());
        // Also of a stream, which has nothing that could be cut.
        self.may_end_in_packet = false;
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

    /// The file, if it has no name any more.
    pub(crate) fn deleted(&self) -> Option<DeletedFile> {
        let has_no_name = || self.sink.file.metadata().is_ok_and(|file| file.nlink() == 0);
        // Some file systems count no names at all.
        let is_deleted = self.cuttable && !self.is_at_path() && has_no_name();
        let descriptor = Some(self.sink.file.as_raw_fd());
        is_deleted.then(|| DeletedFile { path: self.name().into(), descriptor })
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

    /// The name that it has when it is complete; empty for a stream.
    pub(crate) fn name(&self) -> &Path {
        let name = self.becomes.as_ref().map(|name| name.path.as_path());
        name.or(self.path.as_deref()).unwrap_or(Path::new(""))
    }

    /// Where it is while it is not complete, if it has another name then.
    pub(crate) fn partial(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.becomes.is_some())
    }

    /// Gives the file its name, now that it is complete, and returns whether it has it. A file that another
    /// program has moved or removed keeps the name that it has.
    ///
    /// # Errors
    /// [`RecordError::NotKept`], [`RecordError::Unnamed`]; the file keeps its partial name.
    pub(crate) fn complete(&mut self) -> Result<bool, RecordError> {
        if self.cuttable {
            open::check_kept(&self.sink.file)?;
        }
        let is_at_path = self.is_at_path();
        let (true, Some(path), Some(name)) = (is_at_path, &self.path, &self.becomes) else {
            return Ok(is_at_path);
        };
        fs::rename(path, &name.path).map_err(RecordError::Unnamed)?;
        self.path = self.becomes.take().map(|name| name.path);
        self.settle();
        Ok(true)
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

    /// What it begins with.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Bytes of whole records in it, and of what ends a compressed file.
    pub(crate) fn len(&self) -> u64 {
        self.len + self.end_len
    }

    /// Writes all of `slices`, with as few system calls as the kernel allows. Call [`Output::keep`] to keep
    /// what was written, or [`Output::cut`] to remove it. A compressed output keeps all or nothing.
    ///
    /// # Errors
    /// Why not all was written, and how much was.
    pub(crate) fn append(&mut self, slices: &mut [IoSlice<'_>]) -> Result<(), AppendError> {
        self.append_by(slices, Sink::write)
    }

    fn append_by(
        &mut self,
        slices: &mut [IoSlice<'_>],
        write: impl Fn(&mut Sink, &[IoSlice<'_>]) -> Result<usize, RecordError>,
    ) -> Result<(), AppendError> {
        let Self { sink, compressor: Some(compressor), len, end_len, .. } = self else {
            return write_all(slices, |slices| write(&mut self.sink, slices));
        };
        // Compressing nothing begins no frame, so there would be none to end.
        if slices.iter().all(|slice| slice.is_empty()) {
            return Ok(());
        }
        let nothing = |cause| AppendError { written: 0, cause };
        if *end_len > 0 {
            // The frame goes on in the place of its end.
            io::Seek::seek(&mut sink.file, io::SeekFrom::Start(*len))
                .map_err(|cause| nothing(cause.into()))?;
            *end_len = 0;
        }
        let mut append = || {
            let bytes = compressor.compress(slices)?;
            write_all(&mut [IoSlice::new(&bytes)], |slices| write(sink, slices))
                .map_err(|error| error.cause)?;
            Ok(bytes.len() as u64)
        };
        match append() {
            Ok(bytes) => {
                compressor.keep();
                *len += bytes;
                Ok(())
            }
            Err(cause) => {
                compressor.discard();
                Err(nothing(cause))
            }
        }
    }

    /// Writes what follows the packets. A file that was given up ends like any other, since it is cut to
    /// whole records; a stream that may end within a record gets nothing more.
    ///
    /// # Errors
    /// Like [`Output::append`].
    pub(crate) fn append_last(&mut self, trailer: &[u8], has_failed: bool) -> Result<(), AppendError> {
        let mut slices = [IoSlice::new(trailer)];
        let len = self.len;
        match (self.cuttable, has_failed) {
            (true, _) => self.append_by(&mut slices, |sink, slices| Ok(sink.write_now(slices)?))?,
            (false, true) => return Ok(()),
            (false, false) => self.append(&mut slices)?,
        }
        self.keep(trailer.len());
        self.end().inspect_err(|_| {
            // Without the trailer there is room for the end.
            if let (true, Some(compressor)) = (self.cuttable, &mut self.compressor) {
                self.len = len;
                compressor.discard();
            }
        })
    }

    /// Writes what ends a compressed file, unless it has its end. What is appended to a file later is written
    /// in the place of the end, so a file is ended again after that. After a failure, the file is as before,
    /// and the next attempt may find room.
    ///
    /// # Errors
    /// Like [`Output::append`].
    pub(crate) fn end(&mut self) -> Result<(), AppendError> {
        let Self { sink, compressor: Some(compressor), cuttable, end_len: 0, .. } = self else {
            return Ok(());
        };
        let end = compressor.end();
        let written = write_all(&mut [IoSlice::new(end)], |slices| match *cuttable {
            true => Ok(sink.write_now(slices)?),
            false => sink.write(slices),
        });
        if written.is_err() {
            // The first error helps the user, not that cutting failed as well.
            let _ = self.cut_to_len();
            return written;
        }
        self.end_len = end.len() as u64;
        Ok(())
    }

    /// Keeps the next `bytes` of what was appended, which are whole records.
    pub(crate) fn keep(&mut self, bytes: usize) {
        if self.compressor.is_none() {
            self.len += bytes as u64;
        }
    }

    /// Removes what was appended and not kept.
    ///
    /// # Errors
    /// The file cannot be cut.
    pub(crate) fn cut(&mut self) -> io::Result<()> {
        self.may_end_in_packet = true;
        if !self.cuttable {
            return Ok(());
        }
        self.cut_to_len()?;
        self.may_end_in_packet = false;
        self.end().map_err(|error| match error.cause {
            RecordError::Io(cause) => cause,
            other => io::Error::other(other.to_string()),
        })
    }

    /// Removes what is behind the whole records of a file.
    fn cut_to_len(&mut self) -> io::Result<()> {
        if !self.cuttable {
            return Ok(());
        }
        self.sink.file.set_len(self.len)?;
        self.end_len = 0;
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
pub(crate) mod tests;
