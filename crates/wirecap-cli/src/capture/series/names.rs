//! The names of a series.
//!
//! ```text
//!   -w x.pcapng -C 100                    x_00001.pcapng   x_00002.pcapng   …
//!   -w x.pcapng -C 100 -W 2               x_00001.pcapng   x_00002.pcapng   x_00001.pcapng   …
//!   -w %H%M%S.pcapng -G 60                121500.pcapng    121600.pcapng    …
//!   -w %H%M%S.pcapng -G 60 -C 100         121500_00001.pcapng   121500_00002.pcapng   121600_00003.pcapng   …
//! ```
//!
//! Rule: a run uses no name of an earlier one, except in the ring of `-W`, and where a later day gives the
//! same name.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Result, ensure};
use jiff::{
    Timestamp, ZonedDateTime,
    civil::DateTime,
    fmt::strtime::{self, BrokenDownTime},
    tz::TimeZone,
};

use crate::{
    capture::file_name::{any_number, numbered, without_number},
    settings::OutputSettings,
};

const SECOND_NS: u64 = 1_000_000_000;
/// The largest number of a file: a thousand new files each second for three years.
const MAX_NUMBER: u64 = 99_999_999_999;
/// The largest number of files whose names would be the same without it.
const MAX_OF_SAME: u64 = 99_999;

/// The names of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    template: PathBuf,
    /// Whether the template contains the time at which the period begins.
    has_time: bool,
    is_numbered: bool,
    /// The number of names that are used in turn.
    ring: Option<u64>,
    /// The number in the last name of an earlier run.
    last_number: u64,
}

/// The name of a file of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UsedName {
    /// The name by its period; others may have the same.
    name: PathBuf,
    /// Which file of this name it is, from 1 on.
    number: u64,
    pub(super) path: PathBuf,
}

impl Names {
    pub(crate) fn new(template: &Path, output: &OutputSettings) -> Self {
        let has_percent = template.as_os_str().as_encoded_bytes().contains(&b'%');
        let has_time = has_percent && output.rotate_time.is_some();
        let by_volume = output.rotate_size.is_some() || output.rotate_packets.is_some();
        let is_numbered = by_volume || !has_time;
        let ring = output.rotate_files.filter(|_| output.rotate_size.is_some());
        let template = template.components().collect();
        Self { template, has_time, is_numbered, ring, last_number: 0 }
    }

    /// Continues after the last number of an earlier run.
    pub(super) fn continue_after(&mut self, last_number: u64) {
        self.last_number = last_number;
    }

    /// The name of the file with this number, from 1 on, whose period begins at this time.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) if the template is wrong; there are no more numbers.
    pub(crate) fn path(&self, number: u64, begins_ns: u64) -> Result<PathBuf> {
        let path = self.at_time(begins_ns)?;
        if !self.is_numbered {
            return Ok(path);
        }
        let number = match self.ring {
            Some(ring) => (self.last_number % ring + number - 1) % ring + 1,
            None => self.last_number + number,
        };
        ensure!(
            number <= MAX_NUMBER,
            "{} has {MAX_NUMBER} files, and none can follow: move them to another directory",
            self.pattern().display()
        );
        Ok(numbered(&path, number))
    }

    /// The template with this time in it.
    fn at_time(&self, time_ns: u64) -> Result<PathBuf> {
        if !self.has_time {
            return Ok(self.template.clone());
        }
        let name = self.template.to_str().ok_or_else(|| {
            usage!("{} is not text, which a name with % has to be", self.template.display())
        })?;
        let time = local(time_ns)?;
        let name = strtime::format(name, &time)
            .map_err(|error| usage!("{name}: {error}; %% stands for a percent sign"))?;
        Ok(name.into())
    }

    /// The name of a file, in the period that begins at this time: with a free number behind that of `last`,
    /// the file before it, if the name is the same or already used.
    pub(super) fn next(&self, number: u64, begins_ns: u64, last: Option<&UsedName>) -> Result<UsedName> {
        let name = self.path(number, begins_ns)?;
        let last = last.filter(|last| last.name == name);
        if last.is_none() && !self.is_used(&name, begins_ns) {
            return Ok(UsedName { path: name.clone(), name, number: 1 });
        }
        let mut numbers = last.map_or(1, |last| last.number) + 1..;
        let free = numbers.find(|&number| !numbered(&name, number).exists()).unwrap_or(u64::MAX);
        Ok(UsedName { path: numbered(&name, free), name, number: free })
    }

    /// Whether a file with this name exists, and the name does not tell its period from the one that begins
    /// at this time: a file of a run that ended a moment ago, not one of the same hour of the day before.
    pub(super) fn is_used(&self, name: &Path, begins_ns: u64) -> bool {
        if self.is_numbered {
            return false;
        }
        let Ok(modified) = name.metadata().and_then(|metadata| metadata.modified()) else { return false };
        let modified_ns = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let modified_ns = u64::try_from(modified_ns).unwrap_or(u64::MAX);
        // The clock was set back, or summer time has ended: the name may come again at once.
        let is_set_back = local(modified_ns).is_ok_and(|modified| {
            local(begins_ns).is_ok_and(|begins| modified.datetime() > begins.datetime())
        });
        if is_set_back {
            return true;
        }
        // Steps that double: they do not step over the hour (or minute, or day) before this one, which has
        // another name.
        let steps = (0..31).map(|power| begins_ns.saturating_sub(SECOND_NS << power));
        let mut between =
            steps.take_while(|time_ns| *time_ns > modified_ns).chain([modified_ns.min(begins_ns)]);
        between.all(|time_ns| self.at_time(time_ns).is_ok_and(|at| at == name))
    }

    /// The number in a name of the series, 0 if it has none; `None` for any other name.
    pub(super) fn number_in(&self, path: &Path) -> Option<u64> {
        match without_number(path) {
            Some((rest, number)) if number <= self.max_number() && self.is_template(&rest) => Some(number),
            _ => (!self.is_numbered && self.is_template(path)).then_some(0),
        }
    }

    fn max_number(&self) -> u64 {
        if self.is_numbered { MAX_NUMBER } else { MAX_OF_SAME }
    }

    /// Whether the template makes this path at some time.
    fn is_template(&self, path: &Path) -> bool {
        if self.has_time { is_time(&self.template, path) } else { *path == *self.template }
    }

    /// The directories that files of the series may be in.
    ///
    /// # Errors
    /// One of those above them cannot be read.
    pub(super) fn directories(&self) -> io::Result<Vec<PathBuf>> {
        let mut directories = vec![PathBuf::new()];
        for part in self.template.parent().into_iter().flat_map(Path::components) {
            let part = Path::new(&part);
            let has_time = self.has_time && part.as_os_str().as_encoded_bytes().contains(&b'%');
            directories = match has_time {
                false => directories.iter().map(|directory| directory.join(part)).collect(),
                true => {
                    let matching = directories.iter().map(|directory| matching(directory, part));
                    matching.collect::<io::Result<Vec<_>>>()?.concat()
                }
            };
        }
        Ok(directories)
    }

    /// The time in a name of the series, if it is a whole one, with a date. The hour that comes twice when
    /// summer time ends is one hour.
    pub(super) fn time_in(&self, path: &Path) -> Option<DateTime> {
        if !self.has_time {
            return None;
        }
        let without_number = without_number(path).map(|(rest, _)| rest).filter(|rest| self.is_template(rest));
        let path = without_number.as_deref().unwrap_or(path);
        let time = BrokenDownTime::parse(self.template.to_str()?, path.to_str()?).ok()?;
        let at = time.to_timestamp().map(|at| at.to_zoned_datetime(TimeZone::UTC).datetime());
        at.or_else(|_| time.to_datetime()).ok()
    }

    /// Whether the numbers alone say which of two files is older.
    pub(super) fn is_ordered_by_number(&self) -> bool {
        self.is_numbered && self.ring.is_none()
    }

    /// The number of names that are used in turn.
    pub(super) fn ring(&self) -> Option<u64> {
        self.ring
    }

    /// A pattern for messages.
    pub(crate) fn pattern(&self) -> PathBuf {
        if self.is_numbered { any_number(&self.template) } else { self.template.clone() }
    }
}

/// The directories in this one whose names a part of a template makes.
fn matching(directory: &Path, part: &Path) -> io::Result<Vec<PathBuf>> {
    let mut matching = Vec::new();
    for entry in entries(directory)?.into_iter().flatten() {
        let name = entry?.file_name();
        let path = directory.join(&name);
        if is_time(part, Path::new(&name)) && path.is_dir() {
            matching.push(path);
        }
    }
    Ok(matching)
}

/// A time in the zone of the machine.
fn local(time_ns: u64) -> Result<ZonedDateTime> {
    Ok(Timestamp::from_nanosecond(time_ns.into())?.to_zoned_datetime(TimeZone::system()))
}

/// What is in a directory, `None` if it does not exist; the empty path is the working directory.
///
/// # Errors
/// It cannot be read.
pub(super) fn entries(directory: &Path) -> io::Result<Option<fs::ReadDir>> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    match fs::read_dir(directory) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        entries => entries.map(Some),
    }
}

/// Whether a template for times makes exactly this path at some time.
fn is_time(template: &Path, path: &Path) -> bool {
    let (Some(template), Some(path)) = (template.to_str(), path.to_str()) else { return false };
    let made = BrokenDownTime::parse(template, path).and_then(|time| time.to_string(template));
    made.is_ok_and(|made| made == path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names(template: &str, settings: OutputSettings) -> Names {
        Names::new(Path::new(template), &settings)
    }

    fn by_size() -> OutputSettings {
        OutputSettings { rotate_size: Some(1), ..OutputSettings::default() }
    }

    fn by_time() -> OutputSettings {
        OutputSettings { rotate_time: Some(Duration::from_secs(60)), ..OutputSettings::default() }
    }

    #[test]
    fn files_are_numbered_or_have_their_time() {
        let path = |names: &Names, number| names.path(number, 1_790_000_000_000_000_000).unwrap();
        let numbered = names("d/x.pcapng", by_size());
        assert_eq!(path(&numbered, 1), Path::new("d/x_00001.pcapng"));
        assert_eq!(path(&numbered, 123_456), Path::new("d/x_123456.pcapng"));
        assert_eq!(numbered.pattern(), Path::new("d/x_*.pcapng"));
        assert_eq!(path(&names("x.pcapng", by_time()), 2), Path::new("x_00002.pcapng"));
        let timed = names("d%Y/%Y-%j.pcapng", by_time());
        assert_eq!(path(&timed, 2), Path::new("d2026/2026-264.pcapng"));
        assert_eq!(timed.pattern(), Path::new("d%Y/%Y-%j.pcapng"));
        let both = OutputSettings { rotate_size: Some(1), ..by_time() };
        assert_eq!(path(&names("%Y.pcap", both), 3), Path::new("2026_00003.pcap"));
        assert_eq!(path(&names("%Y.pcap", by_size()), 3), Path::new("%Y_00003.pcap"), "without a time");
        let ring = names("x.pcapng", OutputSettings { rotate_files: Some(3), ..by_size() });
        let numbers: Vec<_> = (1..=5).map(|number| path(&ring, number).display().to_string()).collect();
        assert_eq!(
            numbers,
            ["x_00001.pcapng", "x_00002.pcapng", "x_00003.pcapng", "x_00001.pcapng", "x_00002.pcapng"]
        );
        let wrong = names("%!.pcapng", by_time()).path(1, 0).unwrap_err().to_string();
        assert!(wrong.contains("%% stands for a percent sign"), "{wrong}");
    }
    #[test]
    fn a_run_continues_behind_the_last_number() {
        let path = |names: &Names, number| names.path(number, 0).unwrap();
        let mut endless = names("x.pcapng", by_size());
        endless.continue_after(7);
        assert_eq!(path(&endless, 1), Path::new("x_00008.pcapng"));
        endless.continue_after(9_999_999);
        assert_eq!(path(&endless, 1), Path::new("x_00010000000.pcapng"), "longer than a date");
        endless.continue_after(MAX_NUMBER);
        assert!(endless.path(1, 0).unwrap_err().to_string().contains("none can follow"));
        let mut ring = names("x.pcapng", OutputSettings { rotate_files: Some(3), ..by_size() });
        for (last, next) in [(1, 2), (2, 3), (3, 1), (0, 1)] {
            ring.continue_after(last);
            assert_eq!(path(&ring, 1), numbered(Path::new("x.pcapng"), next), "behind {last}");
        }
    }

    #[test]
    fn only_names_of_the_series_are_recognised() {
        let number = |names: &Names, path: &str| names.number_in(Path::new(path));
        let endless = names("d/x.pcapng.zst", by_size());
        assert_eq!(number(&endless, "d/x_00012.pcapng.zst"), Some(12));
        assert_eq!(number(&endless, "d/x_00010000000.pcapng.zst"), Some(10_000_000));
        for other in [
            "d/x.pcapng.zst",
            "d/x_12.pcapng.zst",
            "d/y_00012.pcapng.zst",
            "d/x_00012.pcapng",
            "x_00012.pcapng.zst",
        ] {
            assert_eq!(number(&endless, other), None, "{other}");
        }
        let timed = names("%Y-%m-%d/%H%M%S.pcapng", by_time());
        assert_eq!(number(&timed, "2026-11-26/060708.pcapng"), Some(0));
        assert_eq!(number(&timed, "2026-11-26/060708_00002.pcapng"), Some(2));
        for other in [
            "2026-11-26/66070.pcapng",
            "2026-11-26/256060.pcapng",
            "2026-11-26/60708.pcapng",
            "2026-13-26/060708.pcapng",
        ] {
            assert_eq!(number(&timed, other), None, "{other}");
        }
        let by_day = names("x_%Y%m%d.pcapng", by_time());
        assert_eq!(number(&by_day, "x_20261126_120000.pcapng"), None, "a time is no number");
        assert_eq!(number(&by_day, "x_20261126_00002.pcapng"), Some(2));
        assert_eq!(number(&names("x.pcapng", by_size()), "x_20261126.pcapng"), None, "nor is a date");
        let both = names("%H.pcapng", OutputSettings { rotate_size: Some(1), ..by_time() });
        assert_eq!((number(&both, "12_00002.pcapng"), number(&both, "12.pcapng")), (Some(2), None));
        for template in [
            "%s.pcapng",
            "%Y%m%d_%H%M%S.pcapng",
            "%F_%T.pcapng",
            "%Y-%j.pcapng",
            "mon %b %e.pcapng",
            "%a%%.pcapng",
        ] {
            let timed = names(template, by_time());
            let name = timed.path(1, 1_790_000_000 * SECOND_NS).unwrap();
            assert_eq!(timed.number_in(&name), Some(0), "{template}: {name:?}");
        }
    }

    #[test]
    fn directories_with_times_are_found() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["2026-11-25", "2026-11-26", "other"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("2026-11-27"), "").unwrap();
        let template = directory.path().join("%Y-%m-%d/%H.pcapng");
        let mut found = Names::new(&template, &by_time()).directories().unwrap();
        found.sort();
        assert_eq!(found, ["2026-11-25", "2026-11-26"].map(|name| directory.path().join(name)));
        assert_eq!(names("x.pcapng", by_size()).directories().unwrap(), [PathBuf::new()]);
        assert_eq!(
            names("%H/x.pcapng", by_size()).directories().unwrap(),
            [PathBuf::from("%H")],
            "without a time"
        );
    }

    #[test]
    fn a_name_of_the_same_hour_is_used_and_one_of_the_day_before_is_not() {
        const HOUR_NS: u64 = 3_600 * SECOND_NS;
        let directory = tempfile::tempdir().unwrap();
        let names = Names::new(&directory.path().join("%H.pcapng"), &by_time());
        // Some hour, at ten past.
        let now_ns = 1_790_000_000 * SECOND_NS / HOUR_NS * HOUR_NS + 600 * SECOND_NS;
        let path = names.path(1, now_ns).unwrap();
        assert!(!names.is_used(&path, now_ns), "no file");
        let file = fs::File::create(&path).unwrap();
        let is_used = |modified_ns| {
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(modified_ns)).unwrap();
            names.is_used(&path, now_ns)
        };
        for seconds in [0, 1, 2, 3, 64, 65, 599] {
            assert!(is_used(now_ns - seconds * SECOND_NS), "{seconds} s before");
        }
        assert!(is_used(now_ns + SECOND_NS), "the clock was set back");
        for seconds in [601, 1_200, 3_600, 23 * 3_600 + 1, 24 * 3_600, 25 * 3_600, 24 * 3_600 * 365] {
            assert!(!is_used(now_ns - seconds * SECOND_NS), "{seconds} s before");
        }
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(now_ns)).unwrap();
        assert_eq!(names.next(1, now_ns, None).unwrap().path, numbered(&path, 2));
        fs::write(numbered(&path, 2), "").unwrap();
        assert_eq!(names.next(1, now_ns, None).unwrap().path, numbered(&path, 3));
    }

    #[test]
    fn files_of_one_period_are_numbered_by_themselves() {
        let directory = tempfile::tempdir().unwrap();
        let names = Names::new(&directory.path().join("%Y%m%d_%H%M%S.pcapng"), &by_time());
        // However long the series is.
        let (mut number, mut last) = (100_000, None);
        for second in [1_790_000_000, 1_790_000_001] {
            let alone = names.path(1, second * SECOND_NS).unwrap();
            for of_same in 1..=3 {
                let next = names.next(number, second * SECOND_NS, last.as_ref()).unwrap();
                let expected = if of_same == 1 { alone.clone() } else { numbered(&alone, of_same) };
                assert_eq!(next.path, expected);
                assert!(names.number_in(&next.path).is_some(), "a later run finds it");
                // The files do not exist, as if they were deleted: later ones get higher numbers.
                (number, last) = (number + 1, Some(next));
            }
        }
    }
}
