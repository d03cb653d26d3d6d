//! Keeps interesting packets for longer, where the kernel put them: whenever a very long packet comes, shows
//! how many packets came in the batches before it.
//!
//! ```text
//! sudo cargo run --release --example hold -- eth1 30
//! ```
//!
//! Holding a batch copies nothing and stops no other worker; it only costs pool. So there is a limit to what
//! is held: here half of each pool.
#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::{collections::VecDeque, env, process::ExitCode, thread, time::Duration};

use wirecap::{Batch, Capture, Error, Worker};

/// A packet this long, in bytes, is interesting.
const INTERESTING_BYTES: usize = 1_400;
/// M, cells of a chunk.
const CELLS_PER_CHUNK: u32 = 256;
/// R, chunks of a pool.
const CHUNKS_PER_POOL: u32 = 128;
/// Batches held by each worker. A batch lies in one chunk, or two; this many take half of a pool at most.
const HELD_BATCHES: usize = CHUNKS_PER_POOL as usize / 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let seconds = arguments.get(1).map_or(Ok(10), |text| text.parse());
    let (Some(port), Ok(seconds)) = (arguments.first(), seconds) else {
        eprintln!("usage: hold INTERFACE [SECONDS]");
        return ExitCode::from(2);
    };
    match hold(port, Duration::from_secs(seconds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn hold(port: &str, time: Duration) -> Result<(), Error> {
    let builder =
        Capture::builder().port(port).cells_per_chunk(CELLS_PER_CHUNK).chunks_per_pool(CHUNKS_PER_POOL);
    let mut capture = builder.open()?;
    let workers = capture.take_workers();
    let stopper = capture.stopper();
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || watch(worker));
        }
        thread::sleep(time);
        stopper.stop();
    });
    let total = capture.finish().total();
    println!("{} packets seen, {} lost", total.seen, total.lost.total());
    Ok(())
}

fn watch(mut worker: Worker) {
    let mut held: VecDeque<Batch> = VecDeque::with_capacity(HELD_BATCHES + 1);
    while let Some(batch) = worker.next_batch() {
        if let Some(long) = batch.packets().find(|packet| packet.len() >= INTERESTING_BYTES) {
            show(worker.index(), long.len(), &held);
        }
        held.push_back(batch);
        if held.len() > HELD_BATCHES {
            // The oldest goes home.
            held.pop_front();
        }
    }
}

/// The packets of held batches can be read as if they had come just now.
fn show(worker: usize, len: usize, held: &VecDeque<Batch>) {
    let packets: usize = held.iter().map(Batch::len).sum();
    let bytes: usize = held.iter().flat_map(Batch::packets).map(|packet| packet.len()).sum();
    println!(
        "worker {worker}: {len} bytes at once, after {packets} packets of {bytes} bytes that are still held"
    );
}
