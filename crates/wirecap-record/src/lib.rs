//! Records a capture: writes the packets of several queues in the order of their times.
//!
//! ```text
//!   worker 0 ─ batch ─► Lane: encode ─┐ bounded channel       per queue, in order          by time
//!   worker 1 ─ batch ─► Lane: encode ─┼───────────────► sequencer ──────────────► merger ─────────► Output
//!   worker 2 ─ batch ─► Lane: place ──┘                        (Writer: one thread)                   │
//!        ▲                                                      └── emptied buffers ──┐      file, pipe, stream
//!        └────────────────────────────────────────────────────────────────────────────┘
//!   Recorder ── starts all ── Progress ── finish: the account after the packets ──► Outcome
//! ```
//!
//! Rule: the cells of a batch return as soon as it is encoded. When the output is slow, the channel fills up,
//! the workers wait, the pools buffer, and the account of the capture counts what the pools cannot hold as
//! `no_free_cell`. Memory is bounded, and no packet costs an allocation, a lock or a system call of its own.
//!
//! Packets that an XDP program or a tap has packed lie in memory as in a pcapng file. Such a batch is not
//! encoded, but placed: it goes to the writer, which writes it from where it lies and returns it. At most a
//! quarter of each pool is placed; what comes beyond that is encoded. Only a merge of packets that
//! interleave copies them.
//!
//! Files of one receive queue each ([`Recorder::start_per_queue`]) need no merging: each has a writer of its
//! own, and each lane feeds all of them.
//!
//! The time of a packet stays beside its bytes until both are written, so that merging compares numbers and
//! copies bytes. An idle queue holds the others up until the engine promises that its next packet is later
//! ([`wirecap::Horizon`]). Packets are held back for at most 2 s and in at most 64 MiB: beyond that the
//! earliest is written, and each packet that then follows a later one is counted
//! ([`WrittenCounts::out_of_order`]). Trace files wait instead, so that their order is exact.
//!
//! The library starts no thread, prints nothing, handles no signal and has no process-wide state: the caller
//! provides the thread, reports failures ([`RecordError`]) and requests the end.
//!
//! # Example
//!
//! Two queues become one ordered file. On a real machine the port is `"eth1"`.
//!
//! ```
//! use std::thread;
//!
//! use wirecap::{Capture, port::null::NullPort};
//! use wirecap_file::Format;
//! use wirecap_record::{Output, RecordConfig, Recorder};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("trace.pcapng");
//! # let nic = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 1000 };
//! let output = Output::open(&path, Format::Pcapng)?;
//! let mut capture = Capture::builder().port(nic).chunks_per_pool(4).workers(2).open()?;
//! let config = RecordConfig { snaplen: 96, ..RecordConfig::default() };
//! let mut recorder = Recorder::start(output, &capture, config, |writer| _ = thread::spawn(|| writer.run()))?;
//!
//! let workers = capture.take_workers().into_iter().zip(recorder.take_lanes());
//! let threads = workers.map(|(mut worker, mut lane)| {
//!     thread::spawn(move || {
//!         while let Some(batch) = worker.next_batch() {
//!             lane.record(batch).expect("a writer that runs");
//!         }
//!     })
//! });
//! let threads: Vec<_> = threads.collect();
//! # while capture.report().total().delivered < 2000 { thread::sleep(std::time::Duration::from_millis(1)) }
//! capture.stopper().stop();
//! threads.into_iter().for_each(|thread| thread.join().unwrap());
//!
//! let outcome = recorder.finish(capture.finish());
//! assert!(outcome.failure.is_none());
//! assert_eq!((outcome.written.packets, outcome.written.out_of_order), (2000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | starting and finishing, and the settings | [`Recorder`], also for a file per queue; [`RecordConfig`] |
//! | a worker's end | [`Lane`], `encode`; its way to each writer: `feed`, `backlog` (packets dropped when the output is behind) |
//! | packets that are written from where they lie | `in_place` |
//! | packets as in the file, with their times beside them | `records`, `block`, `buffers` |
//! | putting batches of a queue in order | [`Sequencer`] |
//! | merging queues by time | `merge`, `order`; idle queues: `lookout`, `pace` |
//! | a series of files | [`Rotation`]; the next file on request: [`Rotator`] |
//! | a copy for a program that reads beside the file | [`OutputCopy`] |
//! | writing, and its failures | [`Writer`], `appender`, [`Outcome`], `limit`, [`Output`], `open`, `naming`, `sink`; compressed: [`Compression`]; without packets: [`PlainFile`]; past the page cache: `direct_io`, `alignment` |
//! | the blocks around the packets | [`Trailer`], `description` |
#![forbid(unsafe_code)]

mod alignment;
mod appender;
mod backlog;
mod block;
mod buffers;
mod compress;
mod config;
mod copy;
mod description;
mod direct_io;
mod encode;
mod error;
mod feed;
mod in_place;
mod lane;
mod limit;
mod lookout;
mod merge;
mod naming;
mod open;
mod order;
mod outcome;
mod output;
mod pace;
mod pieces;
mod plain_file;
mod progress;
mod queues;
mod recorder;
mod records;
mod rotation;
mod rotator;
mod sequencer;
mod sink;
mod writer;

pub use config::RecordConfig;
pub use copy::{CopyReader, OutputCopy};
pub use description::Trailer;
pub use error::{OutputError, RecordError};
pub use lane::Lane;
pub use naming::{FileOptions, complete_name};
pub use open::check_unused;
pub use outcome::{LostFile, MovedFile, Outcome, StopCallback, StopReason};
pub use output::{DeletedFile, Output, Whereabouts};
pub use plain_file::PlainFile;
pub use progress::{ForcedWrites, Progress, Uncopied, WrittenCounts};
pub use queues::Queues;
pub use recorder::Recorder;
pub use rotation::{CompleteCallback, NextFile, OpenNext, Rotation};
pub use rotator::{CompleteFile, Rotator};
pub use sequencer::Sequencer;
pub use wirecap_file::Compression;
pub use writer::Writer;
