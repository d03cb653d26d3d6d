//! Which packets are in which file.

use std::{
    collections::VecDeque,
    fs,
    path::Path,
    sync::{Mutex, mpsc::TryRecvError},
    time::{Duration, SystemTime},
};

use proptest::prelude::*;
use wirecap::{Report, report::MemoryReport};
use wirecap_file::Format;

use super::*;
use crate::{
    appender::Appender,
    buffers::Buffers,
    limit::Limit,
    naming::FileOptions,
    progress::{Progress, WrittenCounts},
    records::Records,
    rotator::Rotator,
};

const HEADER: &[u8] = b"head";
/// The time of the first period.
const ORIGIN_NS: u64 = 1_000;

/// A packet: its time, the length of its record.
type TestPacket = (u64, usize);

/// A file that has its name before it has an account.
const IN_PLACE: FileOptions = FileOptions { mode: None, in_place: true, compression: None };

fn open(path: &Path, options: FileOptions) -> Result<Output, RecordError> {
    Output::open_with(path, Format::Pcapng, options)
}

fn path(directory: &Path, number: u64) -> std::path::PathBuf {
    directory.join(number.to_string())
}

/// What is written of these groups, whose records begin with their times; in all files, in order.
struct Written {
    /// By file.
    files: Vec<Vec<TestPacket>>,
    counts: WrittenCounts,
    /// The numbers of complete files.
    complete: Vec<u64>,
    begins_ns: Vec<u64>,
}

fn rotation(
    directory: &Path,
    (limits, options): (Limits, FileOptions),
    complete: &Arc<Mutex<Vec<u64>>>,
    begins: &Arc<Mutex<Vec<u64>>>,
) -> Rotation {
    let (directory, complete, begins) = (directory.to_owned(), Arc::clone(complete), Arc::clone(begins));
    Rotation {
        max_bytes: limits.bytes,
        max_packets: limits.packets,
        period: limits.period_ns.map(Duration::from_nanos),
        max_files: limits.files,
        open: (move |next: NextFile| {
            begins.lock().unwrap().push(next.begins_ns);
            open(&path(&directory, next.number), options)
        })
        .into(),
        on_complete: Some(
            (move |path: &Path| {
                let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
                complete.lock().unwrap().push(number);
            })
            .into(),
        ),
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Limits {
    bytes: Option<u64>,
    packets: Option<u64>,
    period_ns: Option<u64>,
    files: Option<u64>,
    /// The first period begins with the first packet.
    is_trace: bool,
}

fn write(groups: &[Vec<TestPacket>], limits: Limits) -> Written {
    let directory = tempfile::tempdir().unwrap();
    let (complete, begins) = (Arc::default(), Arc::default());
    let rotation = rotation(directory.path(), (limits, IN_PLACE), &complete, &begins);
    let mut output = open(&path(directory.path(), 1), IN_PLACE).unwrap();
    output.begin(HEADER).unwrap();
    let progress = Progress::new(&output, None);
    let limit = Arc::new(Limit::new(u64::MAX));
    let origin_ns = (!limits.is_trace).then_some(ORIGIN_NS);
    let series = Series::new(rotation, origin_ns, Arc::default());
    let mut appender = Appender::new(0, None, output, (Some(series), None), limit, progress, None);
    let mut buffers = Buffers::new(Vec::new());
    let mut pending = VecDeque::new();
    for group in groups {
        let mut records = Records::new(None);
        for &(time_ns, len) in group {
            records.push(time_ns, |bytes| {
                bytes.extend(time_ns.to_le_bytes());
                bytes.extend((len as u32).to_le_bytes());
                bytes.resize(bytes.len() + len - 12, 0xee);
            });
        }
        pending.push_back(records);
        // Sometimes several at a time.
        if group.len() % 2 == 0 {
            appender.write_all(&mut pending, &mut buffers);
        }
    }
    appender.write_all(&mut pending, &mut buffers);
    let outcome = appender.finish();
    assert!(outcome.failure.is_none(), "{outcome:?}");
    let files = (1..=outcome.written.output_files).map(|number| {
        let bytes = fs::read(path(directory.path(), number)).unwrap();
        let (header, mut rest) = bytes.split_at(HEADER.len());
        assert_eq!(header, HEADER);
        let mut packets = Vec::new();
        while let Some((head, _)) = rest.split_at_checked(12) {
            let time_ns = u64::from_le_bytes(head[..8].try_into().unwrap());
            let len = u32::from_le_bytes(head[8..].try_into().unwrap()) as usize;
            packets.push((time_ns, len));
            rest = &rest[len..];
        }
        assert!(rest.is_empty());
        packets
    });
    let files: Vec<_> = files.collect();
    assert!(!path(directory.path(), files.len() as u64 + 1).exists());
    let begins_ns = begins.lock().unwrap().clone();
    let complete = complete.lock().unwrap().clone();
    Written { files, counts: outcome.written, complete, begins_ns }
}

fn groups() -> impl Strategy<Value = Vec<Vec<TestPacket>>> {
    let packet = (ORIGIN_NS..ORIGIN_NS + 2_000, 12..200_usize);
    let packets = prop::collection::vec(packet, 0..60);
    (packets, any::<bool>(), 1..9_usize).prop_map(|(mut packets, sorted, size)| {
        if sorted {
            packets.sort_unstable();
        }
        packets.chunks(size).map(<[TestPacket]>::to_vec).collect()
    })
}

proptest! {
    #[test]
    fn each_packet_is_in_one_file_and_no_file_has_too_much(
        groups in groups(),
        bytes in prop::option::of(16..600_u64),
        packets in prop::option::of(1..9_u64),
        period_ns in prop::option::of(1..700_u64),
    ) {
        let written = write(&groups, Limits { bytes, packets, period_ns, ..Limits::default() });
        let all = groups.concat();
        prop_assert_eq!(written.files.concat(), all.clone());
        prop_assert_eq!(written.counts.packets, all.len() as u64);
        let len = |file: &[TestPacket]| file.iter().map(|packet| packet.1 as u64).sum::<u64>() + HEADER.len() as u64;
        prop_assert_eq!(written.counts.bytes, written.files.iter().map(|file| len(file)).sum::<u64>());
        // The last one gets no account here, and so is not complete.
        prop_assert_eq!(written.complete, (1..written.files.len() as u64).collect::<Vec<_>>());
        for file in &written.files {
            prop_assert!(bytes.is_none_or(|most| len(file) <= most || file.len() == 1));
            prop_assert!(packets.is_none_or(|most| file.len() as u64 <= most));
        }
        // Only the first file may be without packets: if the first one came after its period.
        prop_assert!(written.files.iter().skip(1).all(|file| !file.is_empty()));
        if let Some(period_ns) = period_ns {
            let period = |time_ns: u64| (time_ns - ORIGIN_NS) / period_ns;
            for (file, begins_ns) in written.files.iter().skip(1).zip(&written.begins_ns) {
                prop_assert_eq!((begins_ns - ORIGIN_NS) % period_ns, 0);
                prop_assert_eq!(period(file[0].0), period(*begins_ns));
            }
            // Late packets are in the file of a later period, and none is in that of an earlier one.
            let of_first = written.files.first().map(|file| (file, &ORIGIN_NS));
            for (file, begins_ns) in of_first.into_iter().chain(written.files.iter().skip(1).zip(&written.begins_ns)) {
                prop_assert!(file.iter().all(|packet| period(packet.0) <= period(*begins_ns)));
            }
        }
    }
}

#[test]
fn nothing_is_written_after_the_last_file() {
    let packets: Vec<TestPacket> = (0..10).map(|number| (ORIGIN_NS + number, 100)).collect();
    let limits = Limits { packets: Some(3), files: Some(2), ..Limits::default() };
    let written = write(std::slice::from_ref(&packets), limits);
    assert_eq!(written.files, [&packets[..3], &packets[3..6]]);
    assert_eq!((written.counts.packets, written.counts.output_files), (6, 2));
}

#[test]
fn a_packet_with_the_last_time_that_there_is_is_in_one_file() {
    let packets = [(ORIGIN_NS, 100), (u64::MAX, 100), (ORIGIN_NS + 1, 100), (u64::MAX, 100)];
    // With a last file, so that a series without an end fails here.
    let limits = Limits { files: Some(9), ..Limits::default() };
    let by_size = Limits { bytes: Some(250), ..limits };
    let by_time = Limits { period_ns: Some(1_000), ..limits };
    for (limits, first) in [(by_size, 2), (by_time, 1)] {
        let written = write(&[packets.to_vec()], limits);
        assert_eq!(written.files, [&packets[..first], &packets[first..]], "{limits:?}");
    }
}

/// Whatever the groups are in which they come. A packet alone may be without a time.
#[test]
fn a_trace_is_divided_by_time_also_after_a_packet_of_the_far_future() {
    const FUTURE_MS: u64 = 4_000_000_000_000;
    let limits = Limits { is_trace: true, ..BY_TIME };
    let cases = [
        // Late by less than three seconds, then a jump that its second packet confirms.
        (
            &[5_000, 6_000, 9_000, 6_500, FUTURE_MS, 9_100, 9_200, 10_000][..],
            &[&[5_000][..], &[6_000], &[9_000, 6_500], &[FUTURE_MS, 9_100], &[9_200], &[10_000]][..],
        ),
        (
            &[FUTURE_MS, 0, FUTURE_MS + 1, 0, FUTURE_MS + 2, 0],
            &[&[FUTURE_MS, 0, FUTURE_MS + 1, 0, FUTURE_MS + 2, 0]],
        ),
        // Before the first packet, too.
        (&[9_000, 1_500, 1_600, 2_000], &[&[9_000, 1_500], &[1_600], &[2_000]]),
    ];
    for (times_ms, files) in cases {
        let packets = |times: &[u64]| times.iter().map(|ms| (ms * 1_000_000, 100)).collect::<Vec<_>>();
        let files: Vec<_> = files.iter().map(|file| packets(file)).collect();
        for size in 1..4 {
            let groups: Vec<_> = packets(times_ms).chunks(size).map(<[TestPacket]>::to_vec).collect();
            assert_eq!(write(&groups, limits).files, files, "in groups of {size}");
        }
        assert_eq!(write(&[packets(times_ms)], limits).files, files);
    }
}

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

/// Periods of a second.
const BY_TIME: Limits = 
    Limits { period_ns: Some(SECOND_NS), bytes: None, packets: None, files: None, is_trace: false };
const SECOND_NS: u64 = 1_000_000_000;

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

#[test]
fn a_request_after_the_last_file_is_refused() {
    let mut series = Requested::new(Limits { packets: Some(1), files: Some(1), ..Limits::default() });
    series.write(&[1_010, 1_020]);
    let refused = series.rotator.rotate(at(1_050));
    assert_eq!(refused.try_recv(), Err(TryRecvError::Disconnected));
}
