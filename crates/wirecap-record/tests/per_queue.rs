//! A file for each queue, through the public interface alone, from trace files and memory.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use wirecap::{Builder, Capture, Mode, PortSpec, Report, port::null::NullPort};
use wirecap_file::{Format, PacketHeader, pcap};
use wirecap_lab::Capture as Trace;
use wirecap_record::{
    Outcome, Output, Queues, RecordConfig, RecordError, Recorder, StopReason, WrittenCounts,
};
use wirecap_testing::{pipe, wait_until};

const QUEUES: u16 = 3;
const PACKETS: u64 = 5_000;
/// Link type of the packets of a trace: IP without Ethernet.
const RAW_IP: u16 = 101;

fn read(path: &Path) -> Trace {
    let trace = Trace::read(File::open(path).unwrap()).unwrap();
    assert!(trace.damage.is_none(), "{:?}", trace.damage);
    trace
}

/// A port of [`QUEUES`] queues, then a trace, with this many workers.
fn builder(directory: &Path, workers: usize) -> Builder {
    let (path, mut bytes) = (directory.join("in.pcap"), Vec::new());
    pcap::file_header(&mut bytes, RAW_IP, 0);
    for timestamp_ns in 1..=PACKETS {
        let header = PacketHeader { timestamp_ns, original_len: 8, ..PacketHeader::default() };
        pcap::packet(&mut bytes, &header, 0, [timestamp_ns.to_be_bytes().as_slice()]);
    }
    fs::write(&path, bytes).unwrap();
    let nic = NullPort { queues: QUEUES, packet_bytes: 60, packets_per_queue: PACKETS };
    let builder = Capture::builder().port(nic).port(PortSpec::Trace { path }).workers(workers);
    builder.cells_per_chunk(64).chunks_per_pool(8)
}

fn paths(directory: &Path, format: Format) -> Vec<PathBuf> {
    (0..=QUEUES).map(|queue| directory.join(format!("out.{queue}.{format}"))).collect()
}

fn open(paths: &[PathBuf], format: Format) -> Vec<Output> {
    paths.iter().map(|path| Output::open(path, format).unwrap()).collect()
}

/// Starts to record, with each worker in its own thread.
fn start(
    capture: &mut Capture,
    outputs: Vec<Output>,
    config: RecordConfig,
) -> (Vec<Recorder>, Vec<thread::JoinHandle<()>>) {
    let spawn = |writer: wirecap_record::Writer| _ = thread::spawn(|| writer.run());
    let (recorders, lanes) = Recorder::start_per_queue(outputs, capture, config, spawn).unwrap();
    let workers = capture.take_workers().into_iter().zip(lanes);
    let threads = workers.map(|(mut worker, mut lane)| {
        thread::spawn(move || {
            while let Some(batch) = worker.next_batch() {
                lane.record(batch).unwrap();
            }
        })
    });
    (recorders, threads.collect())
}

/// Stops when this many packets are delivered, and waits until everything is written.
fn finish(
    capture: Capture,
    (recorders, threads): (Vec<Recorder>, Vec<thread::JoinHandle<()>>),
    packets: u64,
) -> (Vec<Outcome>, Report) {
    wait_until("everything is delivered", || capture.report().total().delivered == packets);
    capture.stopper().stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let report = capture.finish();
    (recorders.into_iter().map(|recorder| recorder.finish(report.clone())).collect(), report)
}

/// Records everything.
fn record(mut capture: Capture, outputs: Vec<Output>, config: RecordConfig) -> (Vec<Outcome>, Report) {
    let started = start(&mut capture, outputs, config);
    finish(capture, started, PACKETS * u64::from(QUEUES + 1))
}

#[test]
fn each_file_is_a_whole_trace_of_its_queue_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let paths = paths(directory.path(), Format::Pcapng);
    // T = 0: several workers have batches of a queue.
    for (mode, workers) in [(Mode::Basic, 1), (Mode::advanced(0).unwrap(), 4)] {
        let capture = builder(directory.path(), workers).mode(mode).open().unwrap();
        let outputs = open(&paths, Format::Pcapng);
        let (outcomes, report) = record(capture, outputs, RecordConfig::default());
        for (number, (path, outcome)) in paths.iter().zip(outcomes).enumerate() {
            assert!(outcome.failure.is_none(), "{outcome:?}");
            assert_eq!((outcome.written.packets, outcome.written.out_of_order), (PACKETS, 0));
            assert_eq!(outcome.written.bytes, fs::metadata(path).unwrap().len());
            let trace = read(path);
            // Numbers of interfaces are those of the capture in every file.
            let port = usize::from(number == usize::from(QUEUES));
            assert_eq!(trace.interfaces.len(), report.ports.len());
            let queue = (port == 0).then_some(number as u32);
            assert!(trace.packets.iter().all(|packet| packet.interface == port as u32));
            assert!(trace.packets.iter().all(|packet| packet.queue == queue));
            assert!(trace.packets.is_sorted_by_key(|packet| packet.timestamp_ns));
            assert_eq!(trace.packets.len() as u64, PACKETS);
            if port == 1 {
                let numbers = trace.packets.iter().map(|packet| packet.data.as_slice());
                assert!(numbers.eq((1..=PACKETS).map(u64::to_be_bytes)), "order or bytes differ");
            }
            // The account is that of the queue.
            let [statistics] = trace.statistics.as_slice() else { panic!("{:?}", trace.statistics) };
            assert_eq!(statistics.interface, port as u32);
            let counters = &statistics.counters;
            assert_eq!((counters.received, counters.delivered_to_user), (Some(PACKETS), Some(PACKETS)));
            let dropped = (port == 1).then_some(0);
            assert_eq!(counters.dropped_by_interface, dropped, "the NIC counts that for all queues");
        }
    }
}

#[test]
fn classic_pcap_has_the_link_type_of_the_queue_s_port() {
    let directory = tempfile::tempdir().unwrap();
    let paths = paths(directory.path(), Format::Pcap);
    let capture = builder(directory.path(), 2).open().unwrap();
    record(capture, open(&paths, Format::Pcap), RecordConfig::default());
    let link_type = |path: &PathBuf| read(path).packets[0].link_type;
    assert_eq!(paths.iter().map(link_type).collect::<Vec<_>>(), [1, 1, 1, RAW_IP]);
}

#[test]
fn a_limit_counts_the_packets_of_all_files() {
    let directory = tempfile::tempdir().unwrap();
    let paths = paths(directory.path(), Format::Pcapng);
    let (sender, stops) = mpsc::channel();
    let on_stop = move |stop: StopReason<'_>| sender.send(matches!(stop, StopReason::LimitReached)).unwrap();
    let config =
        RecordConfig { max_packets: Some(7_777), on_stop: Some(on_stop.into()), ..RecordConfig::default() };
    let capture = builder(directory.path(), 2).open().unwrap();
    let (outcomes, _) = record(capture, open(&paths, Format::Pcapng), config);
    assert_eq!(outcomes.iter().map(|outcome| outcome.written.packets).sum::<u64>(), 7_777);
    assert_eq!(paths.iter().map(|path| read(path).packets.len()).sum::<usize>(), 7_777);
    assert_eq!(stops.iter().collect::<Vec<_>>(), [true], "called once");
    let comments = |path: &PathBuf| read(path).statistics[0].comments.join(" ");
    let unwritten =
        paths.iter().map(comments).filter(|text| text.contains("delivered and not in this file: "));
    assert!(unwritten.count() > 0);
}

#[test]
fn an_output_that_fails_is_named_and_the_others_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let paths = paths(directory.path(), Format::Pcapng);
    let mut outputs = open(&paths, Format::Pcapng);
    // A pipe whose reader goes away after 4 bytes.
    let (mut reader, writer) = pipe();
    outputs[1] = Output::stream(writer, Format::Pcapng);
    let reading = thread::spawn(move || reader.read_exact(&mut [0; 4]).unwrap());
    let (sender, stops) = mpsc::channel();
    let on_stop = move |stop: StopReason<'_>| {
        let StopReason::Failed { output, cause: RecordError::Io(_) } = stop else { panic!("{stop:?}") };
        sender.send(output).unwrap();
    };
    let config = RecordConfig { on_stop: Some(on_stop.into()), ..RecordConfig::default() };
    let (outcomes, _) = record(builder(directory.path(), 2).open().unwrap(), outputs, config);
    reading.join().unwrap();
    assert_eq!(stops.iter().collect::<Vec<_>>(), [1]);
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.failure.is_some(), number == 1, "{outcome:?}");
        let WrittenCounts { ended_outputs, failed_outputs, .. } = outcome.written;
        assert_eq!((ended_outputs, failed_outputs), if number == 1 { (1, 1) } else { (0, 0) }, "{outcome:?}");
        assert_eq!(outcome.written.packets == PACKETS, number != 1, "{outcome:?}");
    }
    assert!([0, 2, 3].map(|file: usize| read(&paths[file]).packets.len() as u64) == [PACKETS; 3]);
}

/// Merged, all would wait for the queue whose packets are not read.
#[test]
fn a_slow_output_does_not_hold_the_others_up() {
    let directory = tempfile::tempdir().unwrap();
    // More than the pipe and the blocks before it hold.
    const MANY: u64 = 200_000;
    let nic = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: MANY };
    let builder = Capture::builder().port(nic).workers(2).mode(Mode::Basic).chunks_per_pool(8);
    let mut capture = builder.open().unwrap();
    let (mut reader, writer) = pipe();
    let slow = Output::stream(writer, Format::Pcapng);
    let path = directory.path().join("fast.pcapng");
    let outputs = vec![slow, Output::open(&path, Format::Pcapng).unwrap()];
    let started = start(&mut capture, outputs, RecordConfig::default());
    let progress = [0, 1].map(|file: usize| started.0[file].progress());
    wait_until("the other file has everything", || progress[1].written().packets == MANY);
    assert!(progress[0].written().packets < MANY);
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let (outcomes, _) = finish(capture, started, 2 * MANY);
    assert!(outcomes.iter().all(|outcome| outcome.written.packets == MANY), "{outcomes:?}");
    let slow = Trace::read(reading.join().unwrap().as_slice()).unwrap();
    assert_eq!((slow.packets.len() as u64, read(&path).packets.len() as u64), (MANY, MANY));
}

#[test]
fn a_start_that_fails_names_the_output_and_removes_new_files() {
    let directory = tempfile::tempdir().unwrap();
    let paths = paths(directory.path(), Format::Pcapng);
    let capture = builder(directory.path(), 1).open().unwrap();
    assert_eq!(Queues::of(&capture.report()).count(), paths.len());
    let mut outputs = open(&paths, Format::Pcapng);
    outputs[2] = Output::open("/dev/full", Format::Pcapng).unwrap();
    let refused = Recorder::start_per_queue(outputs, &capture, RecordConfig::default(), drop).unwrap_err();
    assert_eq!(refused.output, 2, "{refused}");
    assert!(matches!(&refused.cause, RecordError::Io(cause) if cause.kind() == io::ErrorKind::StorageFull));
    assert!(paths.iter().all(|path| !path.exists()));

    let outputs = open(&paths[1..], Format::Pcapng);
    let refused = Recorder::start_per_queue(outputs, &capture, RecordConfig::default(), drop).unwrap_err();
    assert!(matches!(refused.cause, RecordError::OutputsForQueues(3, 4)), "{refused}");
    assert!(paths.iter().all(|path| !path.exists()));
}
