//! A series of files as the writer needs it: the first file, and how those that follow are opened.
//!
//! Rule: a run continues where the one before it ended, and deletes nothing before it captures.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::Sender},
};

use anyhow::Result;
use wirecap_record::{NextFile, Output, RecordError, Rotation};

use super::{earlier::EarlierFiles, names::Names, old_files::OldFiles};
use crate::{capture::output::cannot_open, settings::OutputSettings, text::plural::counted};

/// A series before its first file is opened.
#[derive(Debug)]
pub(crate) struct Series {
    names: Names,
    earlier: EarlierFiles,
    first: PathBuf,
}

impl Series {
    /// Looks for the files of earlier runs, and finds the name of the first file of this run, whose period
    /// begins at this time.
    ///
    /// # Errors
    /// Another capture writes the series; no name can be made.
    pub(crate) fn find(template: &Path, settings: &OutputSettings, begins_ns: u64) -> Result<Self> {
        let mut names = Names::new(template, settings);
        let earlier = EarlierFiles::find(&names).unwrap_or_else(|cause| {
            warn!(
                "files of earlier runs named {} are not known, and may be replaced, since their directory cannot be read: \
                 {cause}",
                names.pattern().display()
            );
            EarlierFiles::default()
        });
        earlier.check_unused().map_err(|(path, error)| cannot_open(path, &error))?;
        names.continue_behind(earlier.last_number(&names));
        let name = names.path(1, begins_ns)?;
        let first = if names.is_used(&name, begins_ns) { names.with_free_number(&name, 1) } else { name };
        Ok(Self { names, earlier, first })
    }

    /// The first file.
    pub(crate) fn first(&self) -> &Path {
        &self.first
    }

    /// Where this run begins, and which files exist already, as text; `None` if there are none.
    pub(crate) fn describe(&self) -> Option<String> {
        let files = self.earlier.regular().count();
        let partial = self.earlier.regular().filter(|file| !file.is_complete()).count();
        (files > 0).then(|| {
            let complete = match partial {
                0 => String::new(),
                _ => format!(" ({partial} not complete)"),
            };
            format!(
                "{}: {} of earlier runs{complete}; this one begins with {}",
                self.names.pattern().display(),
                counted(files, "file"),
                self.first.display()
            )
        })
    }

    /// What follows the first file. `open` opens each file that follows, and `commands` gets the names of
    /// complete files.
    pub(crate) fn rotation(
        self,
        settings: &OutputSettings,
        commands: Option<Sender<Option<PathBuf>>>,
        open: impl Fn(&Path) -> Result<Output, RecordError> + Send + Sync + 'static,
    ) -> (Rotation, SeriesBegin) {
        let Self { names, earlier, first } = self;
        let old_files = Arc::new(Mutex::new(OldFiles::new(&earlier, settings)));
        let begin = SeriesBegin { old_files: Arc::clone(&old_files), first: first.clone() };
        let last_name = Mutex::new(first);
        let open_next = move |NextFile { number, begins_ns }| {
            let name =
                names.path(number, begins_ns).map_err(|error| io::Error::other(format!("{error:#}")))?;
            let mut last_name = lock(&last_name);
            // A period may be shorter than names can tell apart.
            let path = match name == *last_name || names.is_used(&name, begins_ns) {
                true => names.with_free_number(&name, number),
                false => name.clone(),
            };
            *last_name = name;
            lock(&old_files).add(&path);
            // The message names the series; this adds the file.
            open(&path).map_err(|error| io::Error::other(format!("{}: {error}", path.display())).into())
        };
        let by_number = settings.rotate_files.filter(|_| settings.rotate_size.is_none());
        let rotation = Rotation {
            max_bytes: settings.rotate_size,
            max_packets: settings.rotate_packets,
            period: settings.rotate_time,
            max_files: settings.stop_files.or(by_number),
            open: open_next.into(),
            // Fails if the thread is gone.
            on_complete: commands
                .map(|commands| (move |path: &Path| _ = commands.send(Some(path.into()))).into()),
        };
        (rotation, begin)
    }
}

/// What is left to do once the capture runs.
#[derive(Debug)]
pub(crate) struct SeriesBegin {
    old_files: Arc<Mutex<OldFiles>>,
    first: PathBuf,
}

impl SeriesBegin {
    /// Makes room for the first file, in the thread that writes it.
    pub(crate) fn begin(self) {
        lock(&self.old_files).add(&self.first);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the only file at this size.
pub(crate) fn end_at_size(max_bytes: u64) -> Rotation {
    Rotation {
        max_bytes: Some(max_bytes),
        max_packets: None,
        period: None,
        max_files: Some(1),
        open: (|_: NextFile| Err(io::Error::other("no file follows").into())).into(),
        on_complete: None,
    }
}
