use std::{
    fs,
    sync::mpsc::{channel, sync_channel},
    thread,
    time::Duration,
};

use wirecap::{Batch, Capture, Worker, port::null::NullPort};
use wirecap_file::Format;

use super::{
    super::{
        encode::Encoding, limit::Limit, naming::FileOptions, output::Output, progress::ForcedWrites,
        queues::Queues,
    },
    *,
};

const PACKETS_PER_BATCH: u64 = 16;

/// The next batch of `queue`; drops batches of the other queue.
fn next_of(worker: &mut Worker, queue: u16) -> Batch {
    loop {
        let batch = worker.next_batch().expect("a batch of the null port");
        if batch.queue() == queue {
            return batch;
        }
    }
}

#[test]
fn a_held_batch_is_waited_for_until_the_timeout() {
    let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 1_000 };
    // With one chunk, a batch comes only after the one before is returned, so each batch has a later time.
    let builder = Capture::builder().port(port).cells_per_chunk(PACKETS_PER_BATCH as u32).chunks_per_pool(1);
    let mut capture = builder.workers(1).open().unwrap();
    let mut worker = capture.take_workers().remove(0);
    let queues = Arc::new(Queues::of(&capture.report()));
    let encoding = Encoding::new(&capture.report(), &queues, Format::Pcapng, 0);
    let encode = |queue| {
        let batch = next_of(&mut worker, queue);
        let records = encoding.encode(&batch, Records::new(Some(0)));
        let numbers = batch.first_number()..batch.first_number() + records.packets();
        Block { queue: encoding.queue_of(&batch), numbers, records }
    };
    let blocks = [0, 1, 0].map(encode);
    assert_eq!(blocks.each_ref().map(|block| block.numbers.start), [0, 0, PACKETS_PER_BATCH]);
    let [early, kept, late] = blocks;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("late.pcapng");
    let in_place = FileOptions { in_place: true, ..FileOptions::default() };
    let mut output = Output::open_with(&path, Format::Pcapng, in_place).unwrap();
    output.begin(b"").unwrap();
    let progress = Progress::new(&output, None);
    let (returns, _emptied) = sync_channel(4);
    let limit = Arc::new(Limit::new(u64::MAX));
    let recording = Recording {
        is_idle: false,
        started: SystemTime::now(),
        is_live: true,
        lookout: Lookout::new(capture.horizons(), queues),
        merger: Merger::new(2),
        pace: Pace::default(),
        pending: VecDeque::new(),
        buffers: Buffers::new(vec![returns]),
        appender: Appender::new(0, None, output, (None, None), limit, progress.clone(), None),
        progress,
        backlog: None,
    };
    let (sender, messages) = sync_channel(4);
    let ((close, trailer), (outcome, finished)) = (channel(), sync_channel(1));
    let running = thread::spawn(move || Writer { messages, trailer, outcome, recording }.run());

    let both = (early.records.len() + late.records.len()) as u64;
    sender.send(early).unwrap();
    sender.send(late).unwrap();
    // Queue 1 has packets, so it promises nothing, and a worker holds the first of them.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "earlier packets may still come");
    while fs::metadata(&path).unwrap().len() < both {
        thread::sleep(Duration::from_millis(10));
    }
    sender.send(kept).unwrap();
    drop(sender);
    drop(close);
    running.join().unwrap();
    let written = finished.recv().unwrap().written;
    assert_eq!((written.packets, written.out_of_order), (3 * PACKETS_PER_BATCH, PACKETS_PER_BATCH));
    assert_eq!(written.forced, ForcedWrites { memory: 0, time: 1 });
}
