//! Which packets are in which file.

use std::{collections::VecDeque, fs, path::Path, sync::Mutex, time::Duration};

use proptest::prelude::*;
use wirecap_file::Format;

use super::*;
use crate::{
    appender::Appender,
    buffers::Buffers,
    limit::Limit,
    naming::FileOptions,
    progress::{Progress, WrittenCounts},
    records::Records,
};

const HEADER: &[u8] = b"head";
/// The time of the first period.
const ORIGIN_NS: u64 = 1_000;

/// A packet: its time, the length of its record.
type TestPacket = (u64, usize);

/// Periods of a second.
const BY_TIME: Limits =
    Limits { period_ns: Some(SECOND_NS), bytes: None, packets: None, files: None, is_trace: false };
const SECOND_NS: u64 = 1_000_000_000;

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

mod requested;
