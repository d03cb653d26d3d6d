//! Records through the public interface alone, from trace files and memory, without privileges.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use wirecap::{Builder, Capture, PortSpec, port::null::NullPort};
use wirecap_file::{Format, LINK_TYPE_ETHERNET, PacketHeader, Reader, Record, pcap};
use wirecap_record::{
    Outcome, Output, RecordConfig, RecordError, Recorder, StopReason, Trailer, Whereabouts,
};
use wirecap_testing::pipe;

/// A packet as read from a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    timestamp_ns: u64,
    interface: u32,
    queue: Option<u32>,
    data: Vec<u8>,
}

/// The contents of a file.
#[derive(Debug, Default)]
struct Contents {
    names: Vec<String>,
    packets: Vec<Packet>,
    /// For each interface with statistics: packets delivered, and comments.
    statistics: Vec<(Option<u64>, Vec<String>)>,
}

fn read(file: impl Read) -> Contents {
    let (mut reader, mut contents) = (Reader::new(file).unwrap(), Contents::default());
    while let Some(record) = reader.next().unwrap() {
        match record {
            Record::Interface(interface) => {
                contents.names.push(interface.name.unwrap_or_default().to_string())
            }
            Record::Packet(packet) => contents.packets.push(Packet {
                timestamp_ns: packet.timestamp_ns.unwrap(),
                interface: packet.interface,
                queue: packet.queue,
                data: packet.data.to_vec(),
            }),
            Record::Statistics(statistics) => {
                let comments = statistics.comments.iter().map(ToString::to_string).collect();
                contents.statistics.push((statistics.counters.delivered_to_user, comments));
            }
            _ => {}
        }
    }
    contents
}

/// A trace file whose packets have these times and hold `name` and their number.
fn trace(directory: &Path, name: &str, times: impl IntoIterator<Item = u64>) -> PortSpec {
    let (path, mut bytes) = (directory.join(name), Vec::new());
    pcap::file_header(&mut bytes, LINK_TYPE_ETHERNET, 0);
    for (number, timestamp_ns) in times.into_iter().enumerate() {
        let data = [format!("{name}, packet {number:06}").into_bytes(), vec![0x5a; 40 + number % 7]].concat();
        let header =
            PacketHeader { timestamp_ns, original_len: data.len() as u32, ..PacketHeader::default() };
        pcap::packet(&mut bytes, &header, 0, [data.as_slice()]);
    }
    fs::write(&path, bytes).unwrap();
    PortSpec::Trace { path }
}

/// Records these ports, with each worker in its own thread.
fn record(ports: Vec<PortSpec>, workers: usize, output: Output, config: RecordConfig) -> Outcome {
    let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(8).workers(workers);
    let mut capture = ports.into_iter().fold(builder, Builder::port).open().unwrap();
    let mut recorder = start(output, &capture, config);
    let threads = work(&mut capture, &mut recorder);
    while !capture.is_at_end() && threads.iter().any(|thread| !thread.is_finished()) {
        thread::sleep(Duration::from_millis(1));
    }
    capture.stopper().stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let report = capture.finish();
    let comments = vec![vec!["of the first port".to_owned()]];
    recorder.finish(Trailer { report, comments })
}

fn start(output: Output, capture: &Capture, config: RecordConfig) -> Recorder {
    Recorder::start(output, capture, config, |writer| _ = thread::spawn(|| writer.run())).unwrap()
}

fn work(capture: &mut Capture, recorder: &mut Recorder) -> Vec<thread::JoinHandle<()>> {
    let workers = capture.take_workers().into_iter().zip(recorder.take_lanes());
    let threads = workers.map(|(mut worker, mut lane)| {
        thread::spawn(move || {
            while let Some(batch) = worker.next_batch() {
                lane.record(batch).unwrap();
            }
        })
    });
    threads.collect()
}

fn output(directory: &tempfile::TempDir, format: Format) -> (PathBuf, Output) {
    let path = directory.path().join(format!("out.{format}"));
    (path.clone(), Output::open(path, format).unwrap())
}

#[test]
fn several_traces_merge_into_one_file_by_time_with_every_byte() {
    let directory = tempfile::tempdir().unwrap();
    // Times close to each other, with pauses, and equal in several files.
    let times =
        |first: u64, step: u64| (0..5_000).map(move |number| first + number * step + number / 100 * 1_000);
    let ports: Vec<_> = [("a", 10, 3), ("b", 11, 4), ("c", 1_000, 3), ("d", 10, 3)]
        .into_iter()
        .map(|(name, first, step)| trace(directory.path(), &format!("{name}.pcap"), times(first, step)))
        .collect();
    let mut expected = Vec::new();
    for (interface, port) in (0..).zip(&ports) {
        let PortSpec::Trace { path } = port else { unreachable!() };
        let packets = read(File::open(path).unwrap()).packets;
        expected.extend(packets.into_iter().map(|packet| Packet { interface, ..packet }));
    }
    expected.sort_by_key(|packet| (packet.timestamp_ns, packet.interface));

    for workers in [1, 4] {
        let (path, output) = output(&directory, Format::Pcapng);
        let outcome = record(ports.clone(), workers, output, RecordConfig::default());
        assert!(outcome.failure.is_none(), "{outcome:?}");
        assert_eq!(outcome.whereabouts, Whereabouts::InPlace);
        assert_eq!((outcome.written.packets, outcome.written.out_of_order), (20_000, 0));
        assert_eq!(outcome.written.bytes, fs::metadata(&path).unwrap().len());
        let contents = read(File::open(&path).unwrap());
        assert!(contents.packets == expected, "{workers} workers: order or bytes differ");
        assert!(contents.names.iter().zip(["a", "b", "c", "d"]).all(|(name, of)| name.contains(of)));
        let delivered: Vec<_> = contents.statistics.iter().map(|(delivered, _)| *delivered).collect();
        assert_eq!(delivered, [Some(5_000); 4]);
        let comments = &contents.statistics[0].1;
        assert!(comments[0].starts_with("wirecap account: seen 5000 = "), "{comments:?}");
        assert_eq!(comments.last().unwrap(), "of the first port");
    }
}

#[test]
fn queues_merge_into_one_file_that_names_them() {
    let directory = tempfile::tempdir().unwrap();
    for format in [Format::Pcapng, Format::Pcap] {
        let (path, output) = output(&directory, format);
        let port = NullPort { queues: 4, packet_bytes: 60, packets_per_queue: 10_000 };
        let mut capture = Capture::builder().port(port).chunks_per_pool(8).workers(3).open().unwrap();
        let config = RecordConfig { snaplen: 20, ..RecordConfig::default() };
        let mut recorder = start(output, &capture, config);
        let progress = recorder.progress();
        let threads = work(&mut capture, &mut recorder);
        while capture.report().total().delivered < 40_000 {
            thread::sleep(Duration::from_millis(1));
        }
        capture.stopper().stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let outcome = recorder.finish(capture.finish());
        assert_eq!(outcome.written, progress.written());
        assert_eq!((outcome.written.packets, outcome.written.out_of_order), (40_000, 0), "{outcome:?}");

        let packets = read(File::open(&path).unwrap()).packets;
        assert!(packets.is_sorted_by_key(|packet| packet.timestamp_ns));
        assert!(packets.iter().all(|packet| packet.data.len() == 20));
        if format == Format::Pcapng {
            for queue in 0..4 {
                let of_queue = packets.iter().filter(|packet| packet.queue == Some(queue));
                assert_eq!(of_queue.count(), 10_000);
            }
        }
    }
}

#[test]
fn a_limit_is_exact_and_announced() {
    let directory = tempfile::tempdir().unwrap();
    let ports = ["a", "b"].map(|name| trace(directory.path(), &format!("{name}.pcap"), 1..2_000));
    let (path, output) = output(&directory, Format::Pcapng);
    let (sender, stops) = mpsc::channel();
    let on_stop = move |stop: StopReason<'_>| sender.send(matches!(stop, StopReason::LimitReached)).unwrap();
    let config =
        RecordConfig { max_packets: Some(777), on_stop: Some(on_stop.into()), ..RecordConfig::default() };
    let outcome = record(ports.to_vec(), 2, output, config);
    assert_eq!((outcome.written.packets, outcome.failure.is_none()), (777, true));
    assert_eq!(stops.iter().collect::<Vec<_>>(), [true], "called once");
    let contents = read(File::open(path).unwrap());
    assert_eq!(contents.packets.len(), 777);
    let not_written = contents.statistics[0].1.last().unwrap();
    assert_eq!(not_written, "delivered and not in this file, all interfaces together: 3221");
}

#[test]
fn a_full_device_is_a_typed_failure_and_no_worker_waits() {
    let directory = tempfile::tempdir().unwrap();
    let port = trace(directory.path(), "a.pcap", 1..20_000);
    let output = Output::stream(File::options().write(true).open("/dev/full").unwrap(), Format::Pcapng);
    let capture = Capture::builder().port(port.clone()).chunks_per_pool(8).open().unwrap();
    let refused = Recorder::start(output, &capture, RecordConfig::default(), |_| ()).unwrap_err();
    assert!(matches!(&refused, RecordError::Io(cause) if cause.kind() == io::ErrorKind::StorageFull));

    // A pipe whose reader goes away after 4 bytes.
    let (reader, writer) = pipe();
    let output = Output::stream(writer, Format::Pcapng);
    let (sender, stops) = mpsc::channel();
    let on_stop = move |stop: StopReason<'_>| {
        let StopReason::Failed { output: 0, cause: RecordError::Io(cause) } = stop else {
            panic!("{stop:?}")
        };
        sender.send(cause.kind()).unwrap();
    };
    let config = RecordConfig { on_stop: Some(on_stop.into()), ..RecordConfig::default() };
    let reading = thread::spawn(move || {
        let mut reader = reader;
        reader.read_exact(&mut [0; 4]).unwrap();
    });
    let outcome = record(vec![port], 1, output, config);
    reading.join().unwrap();
    assert_eq!(stops.recv().unwrap(), io::ErrorKind::BrokenPipe);
    assert!(matches!(&outcome.failure, Some(RecordError::Io(_))), "{outcome:?}");
    assert!(outcome.written.packets < 19_999);
}

#[test]
fn a_flag_gives_up_on_a_stalled_reader() {
    let directory = tempfile::tempdir().unwrap();
    let port = trace(directory.path(), "a.pcap", 1..20_000);
    let (_reader, writer) = pipe();
    let output = Output::stream(writer, Format::Pcapng);
    let flag = Arc::new(AtomicBool::new(false));
    let config = RecordConfig { give_up: Arc::clone(&flag), ..RecordConfig::default() };
    let giving_up = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        flag.store(true, Ordering::Relaxed);
    });
    let outcome = record(vec![port], 1, output, config);
    giving_up.join().unwrap();
    assert!(matches!(outcome.failure, Some(RecordError::GivenUp)), "{outcome:?}");
}

#[test]
fn a_stalled_output_drops_packets_and_is_given_up_on() {
    let port = NullPort { queues: 1, packet_bytes: 1_500, packets_per_queue: 100_000 };
    let (_reader, writer) = pipe();
    let output = Output::stream(writer, Format::Pcapng);
    let mut capture = Capture::builder().port(port).chunks_per_pool(8).workers(1).open().unwrap();
    let config = RecordConfig { drop_when_behind: true, ..RecordConfig::default() };
    let mut recorder = start(output, &capture, config);
    let threads = work(&mut capture, &mut recorder);
    while capture.report().total().delivered < 100_000 {
        thread::sleep(Duration::from_millis(1));
    }
    capture.stopper().stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (ended, mut ticks) = (Instant::now(), 0);
    let outcome = recorder.finish_with(capture.finish(), || ticks += 1);
    assert!(matches!(outcome.failure, Some(RecordError::Stalled(_))), "{outcome:?}");
    assert!(outcome.written.not_taken > 0 && ticks > 100, "{outcome:?}, {ticks}");
    assert!((5..9).contains(&ended.elapsed().as_secs()), "{:?}", ended.elapsed());
}

#[test]
fn an_old_file_is_untouched_until_the_start_and_a_new_one_is_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.pcapng");
    fs::write(&path, "precious").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    drop(Output::open(&path, Format::Pcapng).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::remove_file(&path).unwrap();
    let output = Output::open(&path, Format::Pcapng).unwrap();
    let new = fs::metadata(directory.path().join("out.pcapng.partial")).unwrap();
    assert_eq!(new.permissions().mode() & 0o737, 0o600);
    assert!(output.lock_error().is_none());
    record(vec![trace(directory.path(), "a.pcap", [1])], 1, output, RecordConfig::default());
    assert_eq!(read(File::open(&path).unwrap()).packets.len(), 1);
}

#[test]
fn a_pcap_file_for_several_ports_and_a_pipe_without_reader_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let ports = ["a", "b"].map(|name| trace(directory.path(), &format!("{name}.pcap"), [1]));
    let capture =
        ports.into_iter().fold(Capture::builder().chunks_per_pool(4), Builder::port).open().unwrap();
    let (path, output) = output(&directory, Format::Pcap);
    let refused = Recorder::start(output, &capture, RecordConfig::default(), |_| ()).unwrap_err();
    assert!(matches!(refused, RecordError::SeveralPorts(2)));
    assert!(!path.exists(), "the new file is removed");

    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(Output::open(&pipe, Format::Pcapng), Err(RecordError::NoReader)));
    let cause = Output::open(directory.path(), Format::Pcapng).unwrap_err();
    assert!(matches!(&cause, RecordError::Io(cause) if cause.kind() == io::ErrorKind::IsADirectory));
}

#[test]
fn a_writer_that_never_ran_fails_instead_of_blocking() {
    let directory = tempfile::tempdir().unwrap();
    let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 100 };
    let mut capture = Capture::builder().port(port).chunks_per_pool(4).workers(1).open().unwrap();
    let (_, output) = output(&directory, Format::Pcapng);
    let mut recorder = Recorder::start(output, &capture, RecordConfig::default(), drop).unwrap();
    let (mut worker, mut lane) = (capture.take_workers().remove(0), recorder.take_lanes().remove(0));
    let batch = worker.next_batch().unwrap();
    assert!(matches!(lane.record(batch), Err(RecordError::WriterGone)));
    drop((worker, lane));
    let outcome = recorder.finish(capture.finish());
    assert!(matches!(outcome.failure, Some(RecordError::WriterGone)));
}
