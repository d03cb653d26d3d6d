//! Deletes the files of a series that are no longer kept.
//!
//! ```text
//!   -b files:3    x_00004   x_00005   x_00006     before x_00007 begins, x_00004 goes; partial files count as others do
//!   -W 3          x_00001   x_00002   x_00003     are replaced; a partial file of x_00002 goes before x_00002 begins again
//! ```

use std::{
    collections::VecDeque,
    fs, io, mem,
    path::{Path, PathBuf},
    time::Instant,
};

use super::{earlier::EarlierFiles, earlier_file::EarlierFile};
use crate::{capture::silence::Silence, settings::OutputSettings};

/// Files that could not be deleted and are tried again.
const MAX_UNDELETED: usize = 1000;

/// The files of a series that may have to be deleted.
#[derive(Debug)]
pub(super) struct OldFiles {
    /// The newest files of the series, the oldest first, if their number is limited.
    newest: VecDeque<PathBuf>,
    /// How many there may be.
    max_files: Option<u64>,
    /// Partial files that killed runs left in a ring: the name that will be used again, and the file.
    left_over: Vec<(PathBuf, PathBuf)>,
    /// Files that should be gone, and could not be deleted, the oldest first.
    undeleted: VecDeque<PathBuf>,
    silence: Silence,
}

impl OldFiles {
    /// For a series with these earlier files.
    pub(super) fn new(earlier: &EarlierFiles, settings: &OutputSettings) -> Self {
        let max_files = settings.keep_files;
        let is_ring = max_files.is_none() && settings.kept_files().is_some();
        let newest = earlier.regular().filter(|_| max_files.is_some()).map(|file| file.path.clone());
        let left_over = earlier.regular().filter(|file| is_ring && !file.is_complete());
        let left_over =
            left_over.map(|EarlierFile { path, complete_name, .. }| (complete_name.clone(), path.clone()));
        let (newest, left_over) = (newest.collect(), left_over.collect());
        Self { newest, max_files, left_over, undeleted: VecDeque::new(), silence: Silence::default() }
    }

    /// How many files are deleted before this one begins.
    pub(super) fn surplus(&self, path: &Path) -> u64 {
        let others = self.newest.iter().filter(|known| **known != *path).count() as u64;
        self.max_files.map_or(0, |max_files| (others + 1).saturating_sub(max_files))
    }

    /// Makes room for the next file. Deletes what could not be deleted before, too.
    pub(super) fn add(&mut self, path: &Path) {
        let left_over = mem::take(&mut self.left_over).into_iter();
        let (of_name, others): (Vec<_>, _) = left_over.partition(|(name, _)| *name == *path);
        self.left_over = others;
        for (name, file) in of_name {
            if let Err(error) = delete(&file) {
                self.left_over.push((name, file.clone()));
                self.warn(&file, &error);
            }
        }
        let Some(max_files) = self.max_files else { return };
        // A name that comes again is the newest.
        self.newest.retain(|known| *known != *path);
        self.undeleted.retain(|known| *known != *path);
        let surplus = (self.newest.len() as u64 + 1).saturating_sub(max_files) as usize;
        self.undeleted.extend(self.newest.drain(..surplus.min(self.newest.len())));
        let mut failed = None;
        self.undeleted.retain(|old| {
            let deleted = delete(old);
            let is_there = deleted.is_err();
            failed = failed.take().or(deleted.err().map(|error| (old.clone(), error)));
            is_there
        });
        if let Some((old, error)) = failed {
            self.warn(&old, &error);
        }
        let forgotten = self.undeleted.len().saturating_sub(MAX_UNDELETED);
        self.undeleted.drain(..forgotten);
        self.newest.push_back(path.to_owned());
    }

    fn warn(&mut self, old: &Path, error: &io::Error) {
        let now = Instant::now();
        if !self.silence.lasts(now) {
            self.silence.begin(now);
            warn!(
                "{} cannot be deleted: {error}; wirecap will try again, and keeps more files than requested until then",
                old.display()
            );
        }
    }
}

/// A file that another program has moved or deleted is gone, too.
fn delete(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::series::names::Names;

    #[test]
    fn the_oldest_files_are_deleted_also_those_of_earlier_runs() {
        let directory = tempfile::tempdir().unwrap();
        let settings =
            OutputSettings { rotate_size: Some(1), keep_files: Some(3), ..OutputSettings::default() };
        let names = Names::new(&directory.path().join("x.pcap"), &settings);
        let path = |number: u64| names.path(number, 0).unwrap();
        for number in 1..=3 {
            fs::write(path(number), "").unwrap();
        }
        fs::write(path(4).with_extension("pcap.partial"), "").unwrap();
        let there = || {
            let earlier = EarlierFiles::find(&names).unwrap();
            let number = |file: &EarlierFile| names.number_in(&file.complete_name).unwrap();
            earlier.0.iter().map(number).collect::<Vec<_>>()
        };
        let mut old = OldFiles::new(&EarlierFiles::find(&names).unwrap(), &settings);
        assert_eq!(there(), [1, 2, 3, 4], "until the run begins");
        assert_eq!((old.surplus(&path(5)), old.surplus(&path(3))), (2, 1));
        for number in 5..=9 {
            old.add(&path(number));
            fs::write(path(number), "").unwrap();
            assert_eq!(there(), [number - 2, number - 1, number]);
        }
        // Another program moves the oldest file, and a name is used again.
        fs::remove_file(path(7)).unwrap();
        old.add(&path(9));
        assert_eq!((old.newest, old.undeleted), ([path(7), path(8), path(9)].into(), [].into()));
    }

    #[test]
    fn a_file_that_cannot_be_deleted_goes_as_soon_as_it_can() {
        let directory = tempfile::tempdir().unwrap();
        let settings =
            OutputSettings { rotate_size: Some(1), keep_files: Some(2), ..OutputSettings::default() };
        let names = Names::new(&directory.path().join("x.pcap"), &settings);
        let path = |number: u64| names.path(number, 0).unwrap();
        let mut old = OldFiles::new(&EarlierFiles::find(&names).unwrap(), &settings);
        // A directory cannot be deleted as a file is, not even by root.
        fs::create_dir(path(1)).unwrap();
        old.add(&path(1));
        for number in 2..=5 {
            old.add(&path(number));
            fs::write(path(number), "").unwrap();
        }
        let there = |from| (from..=9).filter(|&number| path(number).exists()).collect::<Vec<_>>();
        assert_eq!((there(1), &old.undeleted), (vec![1, 4, 5], &[path(1)].into()));
        fs::remove_dir(path(1)).unwrap();
        fs::write(path(1), "").unwrap();
        old.add(&path(6));
        fs::write(path(6), "").unwrap();
        assert_eq!((there(1), &old.undeleted), (vec![5, 6], &[].into()));
        // One whose name comes again is kept.
        fs::create_dir(path(7)).unwrap();
        (7..=9).for_each(|number| old.add(&path(number)));
        assert_eq!(old.undeleted, [path(7)]);
        fs::remove_dir(path(7)).unwrap();
        old.add(&path(7));
        fs::write(path(7), "").unwrap();
        old.add(&path(8));
        assert_eq!((there(7), old.undeleted), (vec![7], [].into()));
    }

    #[test]
    fn what_a_killed_run_left_of_a_ring_goes_when_its_name_comes_again() {
        let directory = tempfile::tempdir().unwrap();
        let settings =
            OutputSettings { rotate_size: Some(1), rotate_files: Some(2), ..OutputSettings::default() };
        let names = Names::new(&directory.path().join("x.pcap"), &settings);
        let files = ["x_00001.pcap", "x_00002.pcap", "x_00002.pcap.partial", "x_00002.pcap.2.partial"];
        for file in files {
            fs::write(directory.path().join(file), "").unwrap();
        }
        let there = || files.map(|file| directory.path().join(file).exists());
        let mut old = OldFiles::new(&EarlierFiles::find(&names).unwrap(), &settings);
        old.add(&names.path(1, 0).unwrap());
        assert_eq!(there(), [true, true, true, true]);
        old.add(&names.path(2, 0).unwrap());
        assert_eq!(there(), [true, true, false, false], "what is complete stays until it is replaced");
    }
}
