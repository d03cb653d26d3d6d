//! A series of files as the writer needs it: the first file, and how those that follow are opened.
//!
//! Rule: a run continues where the one before it ended, and deletes nothing before it captures.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Result, anyhow};
use wirecap_record::{NextFile, Output, RecordError, Rotation};

use super::{
    commands::CommandQueue,
    earlier::EarlierFiles,
    names::{Names, UsedName},
    old_files::OldFiles,
};
use crate::{
    capture::output::cannot_open, message::Message, settings::OutputSettings, text::plural::counted,
};

/// A series before its first file is opened.
#[derive(Debug)]
pub(crate) struct Series {
    names: Names,
    earlier: EarlierFiles,
    first: UsedName,
    old_files: OldFiles,
}

impl Series {
    /// Looks for the files of earlier runs, and finds the name of the first file of this run, whose period
    /// begins at this time.
    ///
    /// # Errors
    /// Another capture writes the series; no name can be made.
    pub(crate) fn find(template: &Path, settings: &OutputSettings, begins_ns: u64) -> Result<Self> {
        let mut names = Names::new(template, settings);
        let earlier = EarlierFiles::find(&names).map_err(|cause| {
            anyhow!(
                "the directory of {} cannot be read ({cause}), so files of earlier runs could be replaced; make it readable, or \
                 choose another",
                names.pattern().display()
            )
        })?;
        earlier.check_unused().map_err(|(path, error)| cannot_open(path, &error))?;
        names.continue_after(earlier.last_number(&names));
        let first = names.next(1, begins_ns, None)?;
        let old_files = OldFiles::new(&earlier, settings);
        Ok(Self { names, earlier, first, old_files })
    }

    /// The first file.
    pub(crate) fn first(&self) -> &Path {
        &self.first.path
    }

    /// Where this run begins, which files exist already, and how many are deleted; `None` if there are none.
    /// A warning if more than one is deleted, which is what a run with the same settings leaves to the next.
    pub(crate) fn describe(&self) -> Option<Message> {
        let files = self.earlier.regular().count();
        if files == 0 {
            return None;
        }
        let partial = self.earlier.regular().filter(|file| !file.is_complete()).count();
        let complete = match partial {
            0 => String::new(),
            _ => format!(" ({partial} not complete)"),
        };
        let (pattern, files, first) =
            (self.names.pattern(), counted(files, "file"), self.first.path.display());
        let text =
            format!("{}: {files} of earlier runs{complete}; this one begins with {first}", pattern.display());
        Some(match self.old_files.surplus(&self.first.path) {
            0 | 1 => Message::note(text),
            surplus => Message::warning(format!("{text}; the {surplus} oldest are deleted (-b files:)")),
        })
    }

    /// What follows the first file. `open` opens each file that follows, and `commands` gets the names of
    /// complete files.
    pub(crate) fn rotation(
        self,
        settings: &OutputSettings,
        commands: Option<CommandQueue>,
        open: impl Fn(&Path) -> Result<Output, RecordError> + Send + Sync + 'static,
    ) -> (Rotation, SeriesBegin) {
        let Self { names, first, old_files, .. } = self;
        let old_files = Arc::new(Mutex::new(old_files));
        let begin = SeriesBegin { old_files: Arc::clone(&old_files), first: first.path.clone() };
        let last = Mutex::new(first);
        let open_next = move |NextFile { number, begins_ns }| {
            let mut last = lock(&last);
            // A period may be shorter than names can tell apart.
            let next = names.next(number, begins_ns, Some(&*last));
            *last = next.map_err(|error| io::Error::other(format!("{error:#}")))?;
            let path = last.path.clone();
            lock(&old_files).add(&path);
            // The message names the series; this adds the file.
            open(&path).map_err(|cause| RecordError::NextFile { path, cause: cause.into() })
        };
        let by_number = settings.rotate_files.filter(|_| settings.rotate_size.is_none());
        let rotation = Rotation {
            max_bytes: settings.rotate_size,
            max_packets: settings.rotate_packets,
            period: settings.rotate_time,
            max_files: settings.stop_files.or(by_number),
            open: open_next.into(),
            on_complete: commands.map(|commands| (move |path: &Path| commands.push(path)).into()),
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
