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
};

use super::{earlier::EarlierFiles, earlier_file::EarlierFile};
use crate::settings::OutputSettings;

/// How many failures of a kind are reported one by one.
pub(super) const REPORTED: u64 = 3;

/// The files of a series that may have to be deleted.
#[derive(Debug)]
pub(super) struct OldFiles {
    /// The newest files of the series, the oldest first, if their number is limited.
    newest: VecDeque<PathBuf>,
    /// How many there may be.
    max_files: Option<u64>,
    /// Partial files that killed runs left in a ring: the name that will be used again, and the file.
    left_over: Vec<(PathBuf, PathBuf)>,
    failures: u64,
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
        Self { newest: newest.collect(), max_files, left_over: left_over.collect(), failures: 0 }
    }

    /// How many files are deleted before this one begins.
    pub(super) fn surplus(&self, path: &Path) -> u64 {
        let others = self.newest.iter().filter(|known| **known != *path).count() as u64;
        self.max_files.map_or(0, |max_files| (others + 1).saturating_sub(max_files))
    }

    /// Makes room for the next file.
    pub(super) fn add(&mut self, path: &Path) {
        let left_over = mem::take(&mut self.left_over).into_iter();
        let (of_name, others): (Vec<_>, _) = left_over.partition(|(name, _)| *name == *path);
        self.left_over = others;
        for (_, file) in of_name {
            self.delete(&file);
        }
        let Some(max_files) = self.max_files else { return };
        // A name that comes again is the newest.
        self.newest.retain(|known| *known != *path);
        while self.newest.len() as u64 >= max_files {
            let Some(oldest) = self.newest.pop_front() else { break };
            self.delete(&oldest);
        }
        // A name that is used again is the newest.
        self.newest.retain(|known| *known != *path);
        self.newest.push_back(path.to_owned());
    }

    fn delete(&mut self, path: &Path) {
        match fs::remove_file(path) {
            Ok(()) => {}
            // Another program has moved or deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.failures += 1;
                if self.failures <= REPORTED {
                    warn!(
                        "{} cannot be deleted: {error}; more files are kept than requested",
                        path.display()
                    );
                }
            }
        }
    }
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
        assert_eq!((old.newest, old.failures), ([path(7), path(8), path(9)].into(), 0));
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
