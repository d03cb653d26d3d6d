//! Files that earlier runs of a series left: the next run continues after them.
//!
//! ```text
//!   x_00006.pcapng   x_00007.pcapng   x_00008.pcapng.partial          killed there
//!                                     └─ one of the series, too ─►    x_00009.pcapng is the next
//! ```
//!
//! Rule: files of earlier runs count like those of this run, whether they are complete or not.

use std::{collections::HashSet, io, path::Path};

use wirecap_record::{RecordError, check_unused};

use super::{
    earlier_file::{EarlierFile, earlier_file},
    names::{Names, entries},
    order,
};
use crate::capture::output::once_unlocked;

/// Numbers up to this one have five digits. A larger one may be a time, unless the file before or after it is
/// there.
const SMALL: u64 = 99_999;

/// All files of earlier runs of a series, the oldest first.
#[derive(Debug)]
pub(super) struct EarlierFiles(pub(super) Vec<EarlierFile>);

impl EarlierFiles {
    /// Looks for such files in the directories of the series. A directory that does not exist has none.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub(super) fn find(names: &Names) -> io::Result<Self> {
        let mut files = Vec::new();
        for directory in names.directories()? {
            for entry in entries(&directory)?.into_iter().flatten() {
                files.extend(earlier_file(names, directory.join(entry?.file_name())));
            }
        }
        let numbers: HashSet<_> = files.iter().map(|file| file.number).collect();
        let has_neighbour = |number: u64| numbers.contains(&(number - 1)) || numbers.contains(&(number + 1));
        files.retain(|file| file.number <= SMALL || has_neighbour(file.number));
        order::sort(&mut files, names);
        Ok(Self(files))
    }

    /// Refuses a series that another capture is writing now.
    ///
    /// # Errors
    /// The file that the other capture writes, and [`RecordError::InUse`].
    pub(super) fn check_unused(&self) -> Result<(), (&Path, RecordError)> {
        let newest = self.0.last();
        let open = self.0.iter().filter(|file| !file.is_complete()).chain(newest);
        let mut regular = open.filter(|file| file.is_file);
        regular.try_for_each(|file| {
            once_unlocked(|| check_unused(&file.path)).map_err(|error| (file.path.as_path(), error))
        })
    }

    /// The number that the next file follows. If the newest file has no packets, the next one takes its
    /// number, so that runs that fail soon after their start do not fill a ring.
    pub(super) fn last_number(&self, names: &Names) -> u64 {
        let is_in_ring = |file: &&EarlierFile| names.ring().is_none_or(|ring| file.number <= ring);
        let Some(newest) = self.0.iter().rfind(is_in_ring) else { return 0 };
        if newest.is_without_packets() { newest.number.saturating_sub(1) } else { newest.number }
    }

    /// Those that are regular files.
    pub(super) fn regular(&self) -> impl Iterator<Item = &EarlierFile> {
        self.0.iter().filter(|file| file.is_file)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::symlink,
        time::{Duration, SystemTime},
    };

    use wirecap_file::{PacketHeader, pcap};
    use wirecap_sys::file_lock;

    use super::*;
    use crate::settings::OutputSettings;

    /// Files in this order of time, of a series with these settings.
    fn earlier(settings: OutputSettings, template: &str, files: &[&str]) -> (tempfile::TempDir, Names) {
        let directory = tempfile::tempdir().unwrap();
        for (age, file) in files.iter().enumerate() {
            let file = File::create(directory.path().join(file)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + age as u64)).unwrap();
        }
        let names = Names::new(&directory.path().join(template), &settings);
        (directory, names)
    }

    fn found(names: &Names) -> (Vec<String>, u64) {
        let files = EarlierFiles::find(names).unwrap();
        let name = |file: &EarlierFile| file.path.file_name().unwrap().to_str().unwrap().to_owned();
        (files.0.iter().map(name).collect(), files.last_number(names))
    }

    fn by_size() -> OutputSettings {
        OutputSettings { rotate_size: Some(1), ..OutputSettings::default() }
    }

    #[test]
    fn numbers_order_a_series_without_an_end() {
        let files = [
            "x_00003.pcapng",
            "x_00001.pcapng",
            "x_00004.pcapng.2.partial",
            "x_00002.pcapng",
            "y_00009.pcapng",
        ];
        let (directory, names) = earlier(by_size(), "x.pcapng", &files);
        let expected = ["x_00001.pcapng", "x_00002.pcapng", "x_00003.pcapng", "x_00004.pcapng.2.partial"];
        assert_eq!(found(&names), (expected.map(String::from).to_vec(), 4));
        symlink("nowhere", directory.path().join("x_00007.pcapng")).unwrap();
        let files = EarlierFiles::find(&names).unwrap();
        assert_eq!(
            (files.last_number(&names), files.regular().count()),
            (7, 4),
            "a link keeps its name only"
        );
    }

    #[test]
    fn a_file_without_packets_gives_its_number_away() {
        let (directory, names) = earlier(by_size(), "x.pcap", &["x_00001.pcap", "x_00002.pcap"]);
        let path = directory.path().join("x_00002.pcap");
        let mut bytes = Vec::new();
        pcap::file_header(&mut bytes, 1, 0);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(found(&names).1, 1);
        let header = PacketHeader { original_len: 4, ..PacketHeader::default() };
        pcap::packet(&mut bytes, &header, 0, [&[0_u8; 4][..]]);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(found(&names).1, 2);
        fs::write(&path, "no trace").unwrap();
        assert_eq!(found(&names).1, 2, "whatever it is");
    }

    #[test]
    fn a_number_that_may_be_a_time_needs_a_neighbour() {
        let files = ["x_00001.pcapng", "x_120000.pcapng"];
        let (_directory, names) = earlier(by_size(), "x.pcapng", &files);
        assert_eq!(found(&names), (vec!["x_00001.pcapng".into()], 1));
        let files = ["x_99999.pcapng", "x_100000.pcapng", "x_100001.pcapng.partial"];
        let (_directory, names) = earlier(by_size(), "x.pcapng", &files);
        assert_eq!(found(&names), (files.map(String::from).to_vec(), 100_001));
    }

    #[test]
    fn a_ring_continues_behind_the_newest_file() {
        let settings = || OutputSettings { rotate_files: Some(3), ..by_size() };
        let files = [
            "x_00009.pcapng",
            "x_00003.pcapng",
            "x_00001.pcapng",
            "x_00002.pcapng.partial",
            "x_00004.pcapng",
        ];
        let (_directory, names) = earlier(settings(), "x.pcapng", &files);
        assert_eq!(found(&names).1, 2, "numbers that the ring does not have are no part of it");
        let (_directory, names) = earlier(settings(), "x.pcapng", &[]);
        assert_eq!(found(&names), (Vec::new(), 0));
    }

    #[test]
    fn times_order_what_has_no_number() {
        let settings =
            OutputSettings { rotate_time: Some(Duration::from_secs(1)), ..OutputSettings::default() };
        let files = ["235959.pcapng", "000000.pcapng", "000000_00002.pcapng", "other.pcapng"];
        let (_directory, names) = earlier(settings, "%H%M%S.pcapng", &files);
        assert_eq!(found(&names).0, files[..3]);
    }

    #[test]
    fn a_series_that_another_capture_writes_is_refused() {
        let (directory, names) =
            earlier(by_size(), "x.pcapng", &["x_00001.pcapng", "x_00002.pcapng.partial"]);
        let files = EarlierFiles::find(&names).unwrap();
        files.check_unused().unwrap();
        let path = directory.path().join("x_00002.pcapng.partial");
        let open = File::open(&path).unwrap();
        assert!(file_lock::try_lock(&open).unwrap());
        let refused = files.check_unused();
        assert!(matches!(refused, Err((in_use, RecordError::InUse)) if in_use == path), "{refused:?}");
    }

    #[test]
    fn a_directory_that_is_not_there_has_no_files() {
        let names = Names::new(Path::new("no/such/x.pcapng"), &by_size());
        assert_eq!(found(&names), (Vec::new(), 0));
    }
}
