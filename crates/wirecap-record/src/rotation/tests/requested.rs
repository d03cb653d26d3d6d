//! Files that end on request, and in silence.

use std::{sync::mpsc::TryRecvError, time::SystemTime};

use wirecap::{Report, report::MemoryReport};

use super::*;
use crate::rotator::Rotator;

/// A series that is written packet by packet, and rotated on request.
struct Requested {
    directory: tempfile::TempDir,
    appender: Appender,
    rotator: Rotator,
    begins: Arc<Mutex<Vec<u64>>>,
    complete: Arc<Mutex<Vec<u64>>>,
}

impl Requested {
    fn new(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (begins, complete) = (Arc::default(), Arc::default());
        let options = FileOptions::default();
        let rotation = rotation(directory.path(), (limits, options), &complete, &begins);
        let mut output = open(&path(directory.path(), 1), options).unwrap();
        output.begin(HEADER).unwrap();
        let (progress, limit) = (Progress::new(&output, None), Arc::new(Limit::new(u64::MAX)));
        let rotator = Rotator(Arc::default());
        let series = Series::new(rotation, Some(ORIGIN_NS), Arc::clone(&rotator.0));
        let appender = Appender::new(0, None, output, (Some(series), None), limit, progress, None);
        Self { directory, appender, rotator, begins, complete }
    }

    /// Writes packets of 100 bytes with these times, in one group.
    fn write(&mut self, times: &[u64]) {
        let mut records = Records::new(None);
        times.iter().for_each(|&time_ns| records.push(time_ns, |bytes| bytes.resize(bytes.len() + 100, 0)));
        self.appender.write_all(&mut VecDeque::from([records]), &mut Buffers::new(Vec::new()));
    }

    /// A file that has the name of a complete one. The next one does not yet.
    fn complete(&self, number: u64, packets: u64) -> CompleteFile {
        let [path, next] = [number, number + 1].map(|number| path(self.directory.path(), number));
        assert!(path.exists() && !next.exists());
        CompleteFile { path, packets, next: Some(next) }
    }
}

fn at(time_ns: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(time_ns)
}

#[test]
fn a_requested_file_begins_with_the_first_packet_of_its_time() {
    let mut series = Requested::new(Limits::default());
    series.write(&[1_010, 1_020]);
    let complete = series.rotator.rotate(at(1_050));
    series.appender.take_requests(true);
    series.write(&[1_049]);
    assert_eq!(complete.try_recv(), Err(TryRecvError::Empty));
    series.write(&[1_049, 1_050, 1_060, 1_040]);
    assert_eq!(complete.try_recv(), Ok(series.complete(1, 4)));
    series.write(&[5_000]);
    assert_eq!(*series.begins.lock().unwrap(), [1_050]);
    let written = series.appender.finish().written;
    assert_eq!((written.packets, written.output_files), (8, 2));
}

#[test]
fn a_requested_file_begins_in_silence_once_no_earlier_packet_can_come() {
    let mut series = Requested::new(Limits { period_ns: Some(1_000_000), ..Limits::default() });
    let complete = series.rotator.rotate(at(1_050));
    series.appender.take_requests(true);
    series.appender.end_file(1_100, false, true);
    assert_eq!(complete.try_recv(), Err(TryRecvError::Empty), "an earlier packet may come");
    series.appender.end_file(1_100, true, true);
    assert_eq!(complete.try_recv(), Ok(series.complete(1, 0)));
    series.appender.end_file(1_200, true, false);
    // The name has the time of the request, not that of the period.
    assert_eq!(*series.begins.lock().unwrap(), [1_050]);
    // A queue that promises nothing delays it only so long.
    let late = series.rotator.rotate(at(1_300));
    series.appender.take_requests(true);
    // Late, but a writer that is behind may still have earlier packets.
    series.appender.end_file(1_300 + LATE_NS, false, false);
    assert!(late.try_recv().is_err());
    series.appender.end_file(1_300 + LATE_NS, false, true);
    assert_eq!(late.try_recv(), Ok(series.complete(2, 0)));
}

#[test]
fn a_file_that_is_full_before_the_requested_place_is_not_the_one_requested() {
    let mut series = Requested::new(Limits { packets: Some(2), ..Limits::default() });
    let complete = series.rotator.rotate(at(1_050));
    series.appender.take_requests(true);
    series.write(&[1_010, 1_020, 1_030, 1_060]);
    assert_eq!(complete.try_recv(), Ok(series.complete(2, 1)));
}

#[test]
fn a_requested_file_of_a_trace_begins_with_the_next_packet() {
    let mut series = Requested::new(Limits::default());
    series.write(&[1_010]);
    let complete = series.rotator.rotate(SystemTime::now());
    series.appender.take_requests(false);
    series.write(&[1_005, 1_020]);
    assert_eq!(complete.try_recv(), Ok(series.complete(1, 1)));
    // The end of the last file answers, too.
    let last = series.rotator.rotate(SystemTime::now());
    series.appender.take_requests(false);
    let path = path(series.directory.path(), 2);
    let (ports, workers, memory) = (Vec::new(), Vec::new(), MemoryReport::default());
    let trailer = Report { seconds: 0.0, threshold_percent: None, ports, workers, memory }.into();
    series.appender.close(&trailer, at(1_000));
    series.appender.finish();
    assert!(path.exists());
    assert_eq!(last.try_recv(), Ok(CompleteFile { path, packets: 2, next: None }));
}

#[test]
fn a_request_is_refused_once_nothing_more_is_written() {
    let mut series = Requested::new(Limits::default());
    fs::create_dir(path(series.directory.path(), 2)).unwrap();
    let complete = series.rotator.rotate(at(1_050));
    series.appender.take_requests(true);
    series.write(&[1_060]);
    assert_eq!(complete.try_recv(), Err(TryRecvError::Disconnected), "the next file cannot be opened");
    let refused = series.rotator.rotate(at(1_050));
    assert_eq!(refused.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(*series.complete.lock().unwrap(), [0; 0], "it gets the account before");
    assert!(series.appender.finish().failure.is_some());
    assert_eq!(*series.complete.lock().unwrap(), [1], "it is complete, though none follows");
}

#[test]
fn a_period_without_packets_has_no_file() {
    let mut series = Requested::new(BY_TIME);
    series.write(&[1_010]);
    series.appender.end_file(SECOND_NS + LATE_NS, false, true);
    assert_eq!(*series.complete.lock().unwrap(), [0; 0], "packets of it may come");
    for seconds in [1, 5, 60] {
        series.appender.end_file(seconds * SECOND_NS + LATE_NS + ORIGIN_NS, false, true);
    }
    assert_eq!(*series.complete.lock().unwrap(), [1]);
    assert_eq!(fs::read_dir(series.directory.path()).unwrap().count(), 1, "no file waits for packets");
    series.write(&[100 * SECOND_NS]);
    assert_eq!(*series.begins.lock().unwrap(), [99 * SECOND_NS + ORIGIN_NS], "that of its first packet");
    series.appender.end_file(200 * SECOND_NS, false, true);
    // The account is in the last file, which may be without packets.
    let (ports, workers, memory) = (Vec::new(), Vec::new(), MemoryReport::default());
    let trailer = Report { seconds: 0.0, threshold_percent: None, ports, workers, memory }.into();
    series.appender.close(&trailer, at(ORIGIN_NS));
    let outcome = series.appender.finish();
    assert!(outcome.failure.is_none(), "{outcome:?}");
    assert_eq!((outcome.written.packets, outcome.written.output_files), (2, 3));
    assert_eq!(*series.complete.lock().unwrap(), [1, 2, 3]);
    let bytes: u64 =
        (1..=3).map(|number| path(series.directory.path(), number).metadata().unwrap().len()).sum();
    assert_eq!(outcome.written.bytes, bytes, "each file counts once");
}

#[test]
fn a_complete_file_stays_as_it_was_handed_over() {
    let mut series = Requested::new(BY_TIME);
    series.write(&[1_010]);
    series.appender.end_file(5 * SECOND_NS, false, true);
    assert_eq!(*series.complete.lock().unwrap(), [1]);
    let first = path(series.directory.path(), 1);
    let before = fs::read(&first).unwrap();
    fs::create_dir(path(series.directory.path(), 2)).unwrap();
    let (ports, workers, memory) = (Vec::new(), Vec::new(), MemoryReport::default());
    let trailer = Report { seconds: 0.0, threshold_percent: None, ports, workers, memory }.into();
    series.appender.close(&trailer, at(ORIGIN_NS));
    assert_eq!(fs::read(&first).unwrap(), before, "without an account");
    fs::remove_file(&first).unwrap();
    let outcome = series.appender.finish();
    assert!(outcome.failure.is_some(), "the next file cannot be opened");
    assert_eq!((outcome.whereabouts, outcome.partial), (crate::Whereabouts::InPlace, None));
    assert_eq!(*series.complete.lock().unwrap(), [1]);
}

#[test]
fn a_file_of_a_clock_that_was_set_back_ends() {
    let mut series = Requested::new(BY_TIME);
    series.write(&[100 * SECOND_NS]);
    // A little is disorder.
    series.write(&[98 * SECOND_NS]);
    assert_eq!(series.begins.lock().unwrap().len(), 1);
    series.write(&[50 * SECOND_NS, 50 * SECOND_NS + 1]);
    series.write(&[51 * SECOND_NS + ORIGIN_NS]);
    let begins = [99, 49, 51].map(|seconds| seconds * SECOND_NS + ORIGIN_NS);
    assert_eq!(*series.begins.lock().unwrap(), begins, "periods begin at the same fractions of a second");
    // Nothing comes after it was set: before the start, too.
    series.appender.end_file(10, false, true);
    assert_eq!(*series.complete.lock().unwrap(), [1, 2, 3, 4]);
    series.write(&[20]);
    assert_eq!(series.begins.lock().unwrap().last(), Some(&0));
}

#[test]
fn the_last_file_goes_on_when_the_clock_is_set_back() {
    let mut series = Requested::new(Limits { files: Some(2), ..BY_TIME });
    series.write(&[1_010]);
    series.write(&[100 * SECOND_NS]);
    series.write(&[50 * SECOND_NS]);
    series.appender.end_file(50 * SECOND_NS + LATE_NS, false, true);
    // And in silence.
    series.appender.end_file(10 * SECOND_NS, false, true);
    series.write(&[10 * SECOND_NS + 1]);
    assert!(series.appender.has_series(), "the second file goes on");
    series.appender.end_file(15 * SECOND_NS, false, true);
    assert!(!series.appender.has_series(), "until the end of the new period");
    assert_eq!(series.appender.finish().written.packets, 4);
}

#[test]
fn a_request_between_two_files_is_answered_by_the_one_before() {
    let mut series = Requested::new(BY_TIME);
    series.write(&[1_010]);
    series.appender.end_file(5 * SECOND_NS, false, true);
    let complete = series.rotator.rotate(at(6 * SECOND_NS));
    series.appender.take_requests(true);
    series.appender.end_file(6 * SECOND_NS, true, true);
    let path = path(series.directory.path(), 1);
    assert_eq!(complete.try_recv(), Ok(CompleteFile { path, packets: 1, next: None }));
    assert_eq!(*series.complete.lock().unwrap(), [1], "no file without packets");
    series.write(&[7 * SECOND_NS]);
    assert_eq!(*series.begins.lock().unwrap(), [6 * SECOND_NS + ORIGIN_NS]);
    // A packet comes first.
    series.appender.end_file(12 * SECOND_NS, false, true);
    let complete = series.rotator.rotate(at(13 * SECOND_NS));
    series.appender.take_requests(true);
    series.write(&[14 * SECOND_NS]);
    assert_eq!(complete.try_recv().map(|complete| complete.packets), Ok(1));
    assert_eq!(*series.complete.lock().unwrap(), [1, 2], "no file without packets");
}

/// The callback may run a command, which would not find the file, or would find that of another program.
#[test]
fn only_a_file_that_has_its_name_is_handed_over() {
    let mut series = Requested::new(Limits { packets: Some(1), ..Limits::default() });
    let directory = series.directory.path().canonicalize().unwrap();
    let [moved, theirs, deleted] = [1, 1, 2].map(|number| directory.join(format!("{number}.partial")));
    let elsewhere = directory.join("elsewhere");
    series.write(&[1_010]);
    fs::rename(&moved, &elsewhere).unwrap();
    fs::write(theirs, "theirs").unwrap();
    series.write(&[1_020]);
    fs::remove_file(deleted).unwrap();
    series.write(&[1_030, 1_040]);
    assert_eq!(*series.complete.lock().unwrap(), [3]);
    let (ports, workers, memory) = (Vec::new(), Vec::new(), MemoryReport::default());
    let trailer = Report { seconds: 0.0, threshold_percent: None, ports, workers, memory }.into();
    series.appender.close(&trailer, at(ORIGIN_NS));
    fs::remove_file(directory.join("4.partial")).unwrap();
    let outcome = series.appender.finish();
    assert!(outcome.failure.is_none(), "{outcome:?}");
    assert_eq!(*series.complete.lock().unwrap(), [3]);
    let [moved] = &outcome.moved_files[..] else { panic!("{outcome:?}") };
    assert_eq!((&moved.path, &moved.moved_to), (&directory.join("1"), &elsewhere));
    assert_eq!(outcome.lost_files.len(), 1);
    assert_eq!(outcome.whereabouts, crate::Whereabouts::Deleted);
}

#[test]
fn a_request_after_the_last_file_is_refused() {
    let mut series = Requested::new(Limits { packets: Some(1), files: Some(1), ..Limits::default() });
    series.write(&[1_010, 1_020]);
    let refused = series.rotator.rotate(at(1_050));
    assert_eq!(refused.try_recv(), Err(TryRecvError::Disconnected));
}
