//! Captures a trace and collects its packets.

use std::{
    path::{Path, PathBuf},
    thread,
};

use wirecap::{Batch, Builder, Capture, Direction, Dispatch, Mode, PortSpec, Report, Worker};
use wirecap_lab::CapturedPacket;

use wirecap_testing::{check, wait_until};

/// A packet as a worker got it, in the form that files have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredPacket {
    pub port: usize,
    pub number: u64,
    pub timestamp_ns: u64,
    pub original_len: usize,
    pub outbound: Option<bool>,
    pub data: Vec<u8>,
}

impl DeliveredPacket {
    /// The packet that is expected from packet `number` of a file.
    pub fn of(number: usize, packet: &CapturedPacket) -> Self {
        Self {
            port: 0,
            number: number as u64,
            timestamp_ns: packet.timestamp_ns.unwrap_or(0),
            original_len: (packet.original_len as usize).max(packet.data.len()),
            outbound: packet.outbound,
            data: packet.data.clone(),
        }
    }

    fn all_of(batch: &Batch) -> Vec<Self> {
        let got = batch.packets().map(|packet| {
            let data: Vec<u8> = packet.parts().flatten().copied().collect();
            assert_eq!((data.len(), data.starts_with(packet.data())), (packet.len(), true));
            let outbound = packet.known_direction().map(|direction| direction == Direction::Out);
            assert_eq!(packet.direction() == Direction::Out, outbound == Some(true));
            Self {
                port: batch.port(),
                number: packet.number(),
                timestamp_ns: packet.timestamp_ns(),
                original_len: packet.original_len(),
                outbound,
                data,
            }
        });
        let got: Vec<Self> = got.collect();
        assert_eq!(got.len(), batch.len());
        assert_eq!(got.iter().map(|packet| packet.data.len() as u64).sum::<u64>(), batch.bytes());
        got
    }
}

/// The packets that are expected from a file.
pub fn expected(packets: &[CapturedPacket]) -> Vec<DeliveredPacket> {
    packets.iter().enumerate().map(|(number, packet)| DeliveredPacket::of(number, packet)).collect()
}

/// The port for a file.
pub fn port(path: &Path) -> PortSpec {
    PortSpec::Trace { path: path.into() }
}

/// A file with these bytes.
pub fn file(directory: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Ways to run an engine, with pools of R chunks of M cells.
pub fn setups(cells_per_chunk: u32, chunks_per_pool: u32) -> Vec<(String, Builder)> {
    let advanced = Mode::Advanced { threshold_percent: 10 };
    let ways = [
        (Dispatch::Pull, Mode::Basic, 1),
        (Dispatch::Pull, advanced, 3),
        (Dispatch::Push, Mode::Basic, 1),
        (Dispatch::Push, advanced, 3),
    ];
    ways.map(|(dispatch, mode, workers)| {
        let builder = Capture::builder().cells_per_chunk(cells_per_chunk).chunks_per_pool(chunks_per_pool);
        let name = format!("M {cells_per_chunk}, R {chunks_per_pool}, {dispatch:?}, {mode:?}");
        (name, builder.dispatch(dispatch).mode(mode).workers(workers))
    })
    .into()
}

/// Runs the workers until the capture ends by itself.
pub fn to_the_end(mut capture: Capture) -> (Vec<DeliveredPacket>, Report) {
    let got = collect(capture.take_workers(), |_| ());
    assert!(capture.is_at_end());
    let report = capture.finish();
    check::account_closed(&report);
    check::pools_whole(&report);
    (got, report)
}

/// The packets that the workers get until the capture ends, by port and number. Each worker calls `before`
/// with each of its batches.
pub fn collect(
    workers: Vec<Worker>,
    before: impl Fn(&Batch) + Clone + Send + 'static,
) -> Vec<DeliveredPacket> {
    let run = |mut worker: Worker| {
        let before = before.clone();
        thread::spawn(move || {
            let mut got = Vec::new();
            while let Some(batch) = worker.next_batch() {
                before(&batch);
                got.extend(DeliveredPacket::all_of(&batch));
            }
            got
        })
    };
    let threads: Vec<_> = workers.into_iter().map(run).collect();
    wait_until("the workers are done", || threads.iter().all(|thread| thread.is_finished()));
    let mut got: Vec<DeliveredPacket> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    got.sort_by_key(|packet| (packet.port, packet.number));
    got
}

/// Asserts that the packets are the same, and shows the first difference.
#[track_caller]
pub fn assert_same(name: &str, got: &[DeliveredPacket], expected: &[DeliveredPacket]) {
    for (got, expected) in got.iter().zip(expected) {
        assert!(got == expected, "{name}: {} is not {}", brief(got), brief(expected));
    }
    assert_eq!(got.len(), expected.len(), "{name}");
}

fn brief(packet: &DeliveredPacket) -> String {
    let DeliveredPacket { port, number, timestamp_ns, original_len, outbound, data } = packet;
    let (len, begin) = (data.len(), &data[..data.len().min(16)]);
    format!("{port}:{number} at {timestamp_ns}, {len} of {original_len} bytes, {outbound:?}, {begin:02x?}")
}
