//! The kinds of threads, and what each may do once it works.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{directory::output_directory, need::Need};

/// What a thread may do from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// Takes packets: rings, memory, waiting, sending from rings. No files, no new sockets.
    Worker,
    /// Writes files.
    Writer(WritePaths),
    /// Watches the capture and gives everything back at its end: sockets of the kernel's configuration, BPF,
    /// files to read.
    Main(Vec<Need>),
    /// Asks the kernel for neighbours.
    Neighbours,
    /// Serves connections that others open: a control socket, metrics. It may remove files, its sockets,
    /// beneath these directories.
    Server(Vec<PathBuf>),
    /// Starts programs (`-z`), which may do anything: it has neither a filter nor rules, and programs with
    /// capabilities or of other users work for it as for everyone.
    Commands,
}

/// What a writer may open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WritePaths {
    /// It may create, write, rename and remove files beneath these.
    pub directories: Vec<PathBuf>,
    /// Whether it gives files their names, in directories that may be those of other users.
    pub names_files: bool,
}

impl WritePaths {
    /// Adds the directory of a file, whose name may have `%` in it, for the time.
    pub fn add(&mut self, file: &Path) {
        let directory = output_directory(file);
        if !self.directories.contains(&directory) {
            self.directories.push(directory);
        }
    }
}

/// The kind of a thread, in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadKind {
    /// Watches the capture.
    Main,
    /// Takes packets.
    Worker,
    /// Writes files.
    Writer,
    /// Asks the kernel for neighbours.
    Neighbours,
    /// Serves connections.
    Server,
    /// Runs the program of `-z`.
    Commands,
}

impl Profile {
    /// Its kind.
    pub fn kind(&self) -> ThreadKind {
        match self {
            Profile::Worker => ThreadKind::Worker,
            Profile::Writer(_) => ThreadKind::Writer,
            Profile::Main(_) => ThreadKind::Main,
            Profile::Neighbours => ThreadKind::Neighbours,
            Profile::Server(_) => ThreadKind::Server,
            Profile::Commands => ThreadKind::Commands,
        }
    }

    /// What it keeps capabilities for. `is_root` is whether files are opened as root; `before_5_19`, whether
    /// the kernel lets a thread read maps only with CAP_BPF.
    pub(crate) fn needs(&self, is_root: bool, before_5_19: bool) -> Vec<Need> {
        let counters = before_5_19.then_some(Need::Counters);
        match self {
            Profile::Worker => counters.into_iter().collect(),
            Profile::Writer(paths) if is_root && paths.names_files => vec![Need::FilesOfOthers],
            Profile::Writer(_) | Profile::Server(_) | Profile::Commands => Vec::new(),
            Profile::Main(needs) => {
                needs.iter().copied().chain(counters.filter(|_| !needs.is_empty())).collect()
            }
            Profile::Neighbours => vec![Need::Neighbours],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_writes_files_of_others_and_only_if_it_names_files() {
        let writer = |names_files| Profile::Writer(WritePaths { names_files, ..WritePaths::default() });
        assert_eq!(writer(true).needs(true, true), [Need::FilesOfOthers]);
        assert_eq!(writer(false).needs(true, true), []);
        assert_eq!(writer(true).needs(false, true), []);
        assert_eq!(Profile::Worker.needs(true, false), []);
        assert_eq!(Profile::Worker.needs(true, true), [Need::Counters]);
        assert_eq!(Profile::Main(Vec::new()).needs(true, true), [], "a trace has no counters in the kernel");
    }

    #[test]
    fn directories_are_named_once() {
        let mut paths = WritePaths::default();
        ["/a/x.pcapng", "/a/%H/y.pcapng", "z.pcapng"]
            .map(Path::new)
            .into_iter()
            .for_each(|file| paths.add(file));
        assert_eq!(paths.directories, [Path::new("/a"), Path::new(".")]);
    }
}
