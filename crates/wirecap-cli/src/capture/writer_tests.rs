use std::{
    fs,
    sync::{Arc, mpsc::sync_channel},
    thread,
    time::Duration,
};

use wirecap::{Batch, Capture, Worker, port::null::NullPort};
use wirecap_file::Format;

use super::*;
use crate::{
    capture::block::{Encoding, Queues},
    plan::Destination,
    signals::Signals,
};

const PACKETS_PER_BATCH: u64 = 16;

/// The next batch of a queue; those of the other are let go.
fn next_of(worker: &mut Worker, queue: u16) -> Batch {
    loop {
        let batch = worker.next_batch().expect("packets of memory");
        if batch.queue() == queue {
            return batch;
        }
    }
}

#[test]
fn a_batch_that_somebody_keeps_is_waited_for_and_then_no_longer() {
    let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 1_000 };
    // One chunk: what comes next is seen when the one before is home, so that each batch has a later time.
    let builder = Capture::builder().port(port).cells_per_chunk(PACKETS_PER_BATCH as u32).chunks_per_pool(1);
    let mut capture = builder.workers(1).open().unwrap();
    let mut worker = capture.take_workers().remove(0);
    let encoding = Arc::new(Encoding {
        format: Format::Pcapng,
        snaplen: 0,
        queues: Queues::new([vec![0, 1]]),
        passive: vec![false],
    });
    let blocks = [0, 1, 0].map(|queue| encoding.encode(&next_of(&mut worker, queue), Vec::new(), 0));
    assert_eq!(blocks.each_ref().map(|block| block.first_number), [0, 0, PACKETS_PER_BATCH]);
    let [early, kept, late] = blocks;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("late.pcapng");
    let destination = Destination::File(path.clone(), Format::Pcapng);
    let mut output = Output::open(&destination, &Signals::default()).unwrap();
    output.begin(b"").unwrap();
    let lookout = Lookout::new(capture.horizons(), &encoding);
    let (returns, _emptied) = sync_channel(4);
    let (notices, _noticed) = std::sync::mpsc::channel();
    let writer = Writer::new((output, None), None, lookout, Buffers::new(vec![returns]), notices);
    let (sender, blocks) = sync_channel(4);
    let (close, closing) = std::sync::mpsc::channel();
    let running = thread::spawn(move || writer.run(&blocks, &closing));

    let both = (early.records.bytes.len() + late.records.bytes.len()) as u64;
    sender.send(ToWriter::Block(early)).unwrap();
    sender.send(ToWriter::Block(late)).unwrap();
    // Queue 1 has packets, so it promises nothing; and its first are with a worker that does not get to them.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "something earlier may come");
    while fs::metadata(&path).unwrap().len() < both {
        thread::sleep(Duration::from_millis(10));
    }
    sender.send(ToWriter::Block(kept)).unwrap();
    drop(sender);
    drop(close);
    let written = running.join().unwrap().written;
    assert_eq!((written.packets, written.out_of_order), (3 * PACKETS_PER_BATCH, PACKETS_PER_BATCH));
    assert_eq!(written.forced, Forced { memory: 0, time: 1 });
}
