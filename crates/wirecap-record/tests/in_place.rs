//! Packets that were packed, recorded from where they lie: real captures over veth. Needs root; without, each
//! test says so and returns.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{fcntl::OFlag, unistd::pipe2};
use wirecap::{Builder, Capture, Modes, Report, Timestamp};
use wirecap_file::{Format, Reader, Record};
use wirecap_record::{NextFile, Output, RecordConfig, RecordError, Recorder, Rotation};
use wirecap_testing::{check, crew::Arrival, kernel_is_at_least, need_root, wait_until, wire::Wire};
use wirecap_traffic::{FrameSpec, Marks};

/// Blocks of 128 KiB, the smallest, and pools of 1 MiB. Two blocks are held at most.
const CELLS: u32 = 64;
const CHUNKS: u32 = 8;
/// Frames of 1,000 bytes that are received at once: a part of a block.
const BURST: u64 = 32;

/// Returns from the test, and reports that, without root and on a kernel without what the program calls.
macro_rules! need_packing {
    ($test:literal) => {
        need_root!($test);
        if !kernel_is_at_least(5, 18) {
            return wirecap_lab::skip($test, "this kernel has no bpf_xdp_load_bytes (Linux 5.18)");
        }
    };
}

fn builder() -> Builder {
    let builder = Capture::builder().modes(Modes::Packed).timestamp(Timestamp::Kernel);
    builder.cells_per_chunk(CELLS).chunks_per_pool(CHUNKS)
}

/// A capture that is recorded, each worker in its own thread.
struct Recording {
    capture: Capture,
    recorder: Recorder,
    threads: Vec<JoinHandle<()>>,
}

impl Recording {
    fn start(mut capture: Capture, output: Output, config: RecordConfig) -> Self {
        let spawn = |writer: wirecap_record::Writer| _ = thread::spawn(|| writer.run());
        let mut recorder = Recorder::start(output, &capture, config, spawn).unwrap();
        let workers = capture.take_workers().into_iter().zip(recorder.take_lanes());
        let threads = workers.map(|(mut worker, mut lane)| {
            thread::spawn(move || {
                while let Some(batch) = worker.next_batch() {
                    lane.record(batch).unwrap();
                }
            })
        });
        let threads = threads.collect();
        Self { capture, recorder, threads }
    }

    fn wait_for(&self, packets: u64) {
        wait_until(&format!("{packets} packets are delivered"), || {
            self.capture.report().total().delivered >= packets
        });
    }

    /// Stops, and waits until everything is written and home.
    fn finish(self) -> (wirecap_record::Outcome, Report) {
        let Self { capture, recorder, threads } = self;
        capture.stopper().stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let report = capture.finish();
        let total = check::account_closed(&report);
        let outcome = recorder.finish(report.clone());
        if outcome.failure.is_none() {
            assert_eq!((outcome.written.packets, outcome.written.not_taken), (total.delivered, 0));
        }
        (outcome, report)
    }
}

/// The packets of a file, in its order, and the number of those that name a queue.
fn read(file: impl Read) -> (Vec<Arrival>, usize) {
    let (mut reader, mut packets, mut with_queue) = (Reader::new(file).unwrap(), Vec::<Arrival>::new(), 0);
    while let Some(record) = reader.next().unwrap() {
        let Record::Packet(packet) = record else { continue };
        with_queue += usize::from(packet.queue.is_some());
        let queue = packet.queue.unwrap_or(0) as u16;
        packets.push(Arrival {
            worker: 0,
            port: packet.interface as usize,
            queue,
            number: 0,
            parts: 1,
            timestamp_ns: packet.timestamp_ns.unwrap(),
            uncertainty_ns: 0,
            bytes: packet.data.to_vec(),
        });
    }
    (packets, with_queue)
}

fn sequences(packets: &[Arrival], queue: u16, spec: FrameSpec) -> Vec<u64> {
    check::intact(packets.iter().filter(|packet| packet.queue == queue), spec)
}

fn output(directory: &Path) -> (PathBuf, Output) {
    let path = directory.join("out.pcapng");
    (path.clone(), Output::open(path, Format::Pcapng).unwrap())
}

/// A pipe that holds 64 KiB.
fn pipe() -> (File, Output) {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    (reader.into(), Output::stream(writer.into(), Format::Pcapng))
}

#[test]
fn each_packet_is_in_the_file_once_and_in_order() {
    need_packing!("in_place::each_packet_is_in_the_file_once_and_in_order");
    let directory = tempfile::tempdir().unwrap();
    for (len, snaplen) in [(60, 0), (61, 1 << 20), (1_514, 0), (1_514, 100)] {
        let spec = FrameSpec { len, ..FrameSpec::default() };
        // As many as the pool holds: none is lost, however slow this machine is.
        let frames = u64::from(CHUNKS) * (128 << 10) / (len as u64 + 60);
        let wire = Wire::with_queues("recplace", 1);
        let (path, output) = output(directory.path());
        let config = RecordConfig { snaplen, ..RecordConfig::default() };
        let recording = Recording::start(wire.capture(builder()), output, config);
        wire.live(&mut wire.generator(spec), 0, frames);
        recording.wait_for(frames);
        let (outcome, report) = recording.finish();
        assert!(outcome.failure.is_none(), "{outcome:?}");
        assert_eq!((outcome.written.out_of_order, report.total().lost.total()), (0, 0));
        let (packets, with_queue) = read(File::open(path).unwrap());
        assert_eq!(with_queue, 0);
        assert!(packets.is_sorted_by_key(|packet| packet.timestamp_ns));
        if snaplen == 100 {
            let numbers = packets.iter().map(|packet| (packet.bytes.len(), Marks::read(&packet.bytes)));
            assert!(
                numbers.map(|(len, marks)| (len, marks.unwrap().sequence)).eq((0..frames).map(|n| (100, n)))
            );
        } else {
            assert_eq!(check::intact(&packets, spec), (0..frames).collect::<Vec<_>>());
        }
    }
}

/// Past the page cache, what is written in front of packets to align them counts, too.
#[test]
fn a_file_of_a_series_has_at_most_its_bytes() {
    need_packing!("in_place::a_file_of_a_series_has_at_most_its_bytes");
    const MAX_BYTES: u64 = 200_000;
    let spec = FrameSpec { len: 1_514, ..FrameSpec::default() };
    let frames = u64::from(CHUNKS) * (128 << 10) / (spec.len as u64 + 60);
    let wire = Wire::with_queues("recbytes", 1);
    // Not every file system in memory has direct writes.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = directory.path().to_owned();
    let open = move |number: u64| {
        Output::open(folder.join(format!("{number}.pcapng")), Format::Pcapng).and_then(Output::direct)
    };
    let first = open(1).unwrap();
    let rotation = Rotation {
        max_bytes: Some(MAX_BYTES),
        max_packets: None,
        period: None,
        max_files: None,
        open: (move |next: NextFile| open(next.number)).into(),
        on_complete: None,
    };
    let config = RecordConfig { rotations: vec![rotation], ..RecordConfig::default() };
    let capture = wire.capture(builder());
    // Before the workers run, so that a batch is a whole block: small ones are not aligned.
    wire.live(&mut wire.generator(spec), 0, frames);
    let recording = Recording::start(capture, first, config);
    recording.wait_for(frames);
    let (outcome, _) = recording.finish();
    assert!(outcome.failure.is_none(), "{outcome:?}");
    // The last one has the account.
    for number in 1..outcome.written.output_files {
        let bytes = directory.path().join(format!("{number}.pcapng")).metadata().unwrap().len();
        assert!((MAX_BYTES - 2_000..=MAX_BYTES).contains(&bytes), "file {number} has {bytes} bytes");
    }
}

/// Those of one queue go between those of others, so some batches are copied in pieces, and others are
/// written whole.
#[test]
fn several_queues_are_merged_by_time() {
    need_packing!("in_place::several_queues_are_merged_by_time");
    const QUEUES: u16 = 3;
    const TURNS: u64 = 150;
    let directory = tempfile::tempdir().unwrap();
    let spec = FrameSpec { len: 300, ..FrameSpec::default() };
    for timestamp in [Timestamp::Kernel, Timestamp::Batch] {
        let wire = Wire::with_queues("recmerge", QUEUES.into());
        let (path, output) = output(directory.path());
        let capture = wire.capture(builder().timestamp(timestamp).workers(2));
        let recording = Recording::start(capture, output, RecordConfig::default());
        let mut senders: Vec<_> = (0..QUEUES).map(|queue| wire.queue_sender(queue, spec)).collect();
        for turn in 0..TURNS {
            // A few of each queue, and now and then many of one.
            senders.iter_mut().for_each(|sender| sender.send(5));
            if turn % 50 == 0 {
                senders[turn as usize / 50].send(500);
            }
        }
        let of_each = TURNS * 5 + 500;
        recording.wait_for(u64::from(QUEUES) * of_each);
        let (outcome, report) = recording.finish();
        assert!(outcome.failure.is_none(), "{outcome:?}");
        assert_eq!((outcome.written.out_of_order, report.total().lost.total()), (0, 0));
        let (packets, with_queue) = read(File::open(path).unwrap());
        assert_eq!(with_queue, packets.len(), "each names its queue");
        assert!(packets.is_sorted_by_key(|packet| packet.timestamp_ns));
        for queue in 0..QUEUES {
            assert_eq!(sequences(&packets, queue, spec), (0..of_each).collect::<Vec<_>>(), "queue {queue}");
        }
    }
}

/// While it waits, packets stay where they are, a quarter of the pool at most: the rest is encoded, and the
/// pool takes what follows.
#[test]
fn a_slow_output_holds_a_quarter_of_the_pool() {
    need_packing!("in_place::a_slow_output_holds_a_quarter_of_the_pool");
    let spec = FrameSpec { len: 1_000, ..FrameSpec::default() };
    // Of six blocks; as many batches as may wait for the writer.
    const FRAMES: u64 = 24 * BURST;
    let wire = Wire::with_queues("recslow", 1);
    let (mut reader, output) = pipe();
    let recording = Recording::start(wire.capture(builder()), output, RecordConfig::default());
    let used_percent = || recording.capture.report().pool_used_percent();
    let mut sender = wire.queue_sender(0, spec);
    while sender.sent() < FRAMES {
        sender.send(BURST);
        recording.wait_for(sender.sent());
        // Two blocks are held; of two others, one is filled, and one may be on its way home.
        assert!(used_percent() <= 50.0, "{} %", used_percent());
    }
    wait_until("what was encoded is home", || used_percent() <= 37.5);
    assert!(used_percent() >= 25.0, "{} %: two blocks are held until they are written", used_percent());
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    wait_until("the pool is empty again", || used_percent() < 12.5);
    let (outcome, report) = recording.finish();
    assert!(outcome.failure.is_none(), "{outcome:?}");
    check::pools_whole(&report);
    let bytes = reading.join().unwrap();
    assert_eq!(outcome.written.bytes, bytes.len() as u64);
    assert_eq!(sequences(&read(&*bytes).0, 0, spec), (0..FRAMES).collect::<Vec<_>>());
}

/// A caller that wants the batch gets it once it is encoded: then nothing is held.
#[test]
fn a_batch_that_the_caller_wants_is_not_held() {
    need_packing!("in_place::a_batch_that_the_caller_wants_is_not_held");
    let wire = Wire::with_queues("recthen", 1);
    let (reader, output) = pipe();
    let mut capture = wire.capture(builder());
    let config = RecordConfig::default();
    let flag = Arc::clone(&config.give_up);
    let mut recorder =
        Recorder::start(output, &capture, config, |writer| _ = thread::spawn(|| writer.run())).unwrap();
    let (mut worker, mut lane) = (capture.take_workers().remove(0), recorder.take_lanes().remove(0));
    let mut sender = wire.queue_sender(0, FrameSpec { len: 1_000, ..FrameSpec::default() });
    let mut packets = 0;
    while packets < 16 * BURST {
        sender.send(BURST);
        while packets < sender.sent() {
            let batch = worker.next_batch().unwrap();
            lane.record_then(batch, |batch| packets += batch.len() as u64).unwrap();
        }
    }
    wait_until("all blocks are home", || {
        _ = worker.next_batch_within(Duration::ZERO);
        capture.report().pool_used_percent() == 0.0
    });
    flag.store(true, Ordering::Relaxed);
    drop((worker, lane));
    let outcome = recorder.finish(capture.finish());
    assert!(matches!(outcome.failure, Some(RecordError::GivenUp)), "{outcome:?}");
    drop(reader);
}

/// Batches go home though they are not written, and what is in the pipe is whole up to the failure.
#[test]
fn an_output_that_fails_gives_back_what_it_held() {
    need_packing!("in_place::an_output_that_fails_gives_back_what_it_held");
    let spec = FrameSpec { len: 1_000, ..FrameSpec::default() };
    let wire = Wire::with_queues("recfail", 1);
    let (mut reader, output) = pipe();
    let recording = Recording::start(wire.capture(builder()), output, RecordConfig::default());
    let mut sender = wire.queue_sender(0, spec);
    let used_percent = || recording.capture.report().pool_used_percent();
    while used_percent() < 25.0 {
        sender.send(BURST);
        recording.wait_for(sender.sent());
    }
    let mut bytes = vec![0; 100_000];
    reader.read_exact(&mut bytes).unwrap();
    drop(reader);
    wait_until("all blocks are home", || used_percent() < 12.5);
    sender.send_while(3_000, |sent| recording.capture.report().total().delivered < sent);
    let (outcome, report) = recording.finish();
    assert!(matches!(&outcome.failure, Some(RecordError::Io(_))), "{outcome:?}");
    assert_eq!(report.total().delivered, sender.sent());
    assert!(outcome.written.packets < sender.sent() && outcome.written.bytes >= 100_000, "{outcome:?}");
    // Everything that was read is intact, up to the packet that was cut off.
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut packets = 0;
    while let Ok(Some(record)) = reader.next() {
        let Record::Packet(packet) = record else { continue };
        assert_eq!(Marks::read(packet.data).unwrap().sequence, packets);
        packets += 1;
    }
    assert_eq!(packets, 100_000 / 1_032, "less the header of the file");
}
