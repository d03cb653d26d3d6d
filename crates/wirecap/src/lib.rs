//! Lossless, zero-copy packet capture and delivery on multi-queue NICs under Linux.
//!
//! wirecap is WireCAP (Wu and DeMar, IMC 2014) built on the kernel's AF_XDP. Every receive queue has
//! a pool of R chunks of M cells that absorbs bursts; workers of one buddy group absorb skew between
//! queues; packets are read where the kernel put them; and every packet is accounted for. A cell holds one
//! packet; on passive ports, and where the XDP program packs packets since the driver has no zero-copy, a
//! chunk is a block instead, in which packets lie one behind the other.
//!
//! ```
//! use wirecap::{Capture, Mode, port::null::NullPort};
//!
//! # let nic = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 1000 };
//! let mut capture = Capture::builder()
//!     .port(nic)                            // on a real machine: .port("eth1")
//!     .cells_per_chunk(256)                 // M
//!     .chunks_per_pool(20)                  // R
//!     .mode(Mode::advanced(60)?)            // T, in percent
//!     .workers(2)
//!     .open()?;
//! let workers = capture.take_workers();
//! let stopper = capture.stopper();
//! let bytes: usize = std::thread::scope(|scope| {
//!     let threads: Vec<_> = workers
//!         .into_iter()
//!         .map(|mut worker| {
//!             scope.spawn(move || {
//!                 let mut bytes = 0;
//!                 while let Some(batch) = worker.next_batch() {
//!                     bytes += batch.packets().map(|packet| packet.data().len()).sum::<usize>();
//!                 }                         // here the batch goes home
//!                 bytes
//!             })
//!         })
//!         .collect();
//!     std::thread::sleep(std::time::Duration::from_millis(100));
//!     stopper.stop();
//!     threads.into_iter().map(|thread| thread.join().unwrap()).sum()
//! });
//! let report = capture.finish();
//! assert_eq!(bytes, 2 * 1000 * 60);
//! assert_eq!(report.total().delivered, 2000);
//! assert_eq!(report.total().unexplained(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | the settings | [`Config`], [`Builder`] |
//! | a running capture and its end | [`Capture`] |
//! | the application's side | [`Worker`], [`Batch`], [`Packet`] |
//! | the account | [`Report`] |
//! | the times of packets | [`Timestamp`] |
//! | threads and locks | `engine` |
//! | where packets come from | [`port`] |
//!
//! # Order
//!
//! Packets of one receive queue are numbered in the order in which they came
//! ([`Packet::number`]), and a batch holds consecutive numbers. In basic mode a queue has one worker,
//! which gets them in order. In advanced mode batches of one queue may go to several workers, which
//! run at the same time; each of them gets its share in order, and the numbers give the order of all.
//!
//! The same holds for a worker that takes over from one that ends, with one exception: with
//! [`Dispatch::Push`], batches that wait for a worker when it goes away go to its buddies, and a buddy that
//! already had later packets of the same queue gets the earlier ones behind them. That happens only if the
//! queue was spread over both before, because one of them was over T.
//!
//! Timestamps give the order between queues, and [`Horizons`] say when nothing earlier can come.
#![forbid(unsafe_code)]

mod builder;
mod capture;
pub mod config;
mod engine;
mod error;
mod filter;
mod nic;
mod packet;
pub mod port;
mod prepared_capture;
mod program;
pub mod report;
mod reservation;
mod transmit;

/// Headers of packets: found, changed in place, checksums kept right; routes.
pub use wirecap_headers as headers;

pub use builder::Builder;
pub use capture::{Capture, Stopper};
pub use config::{
    Access, Config, Dispatch, Grouping, Homes, Modes, PoolSize, PortSpec, QueueSet, QueueSetError, Reach,
    Rss, TapHook, Timestamp, UnmatchedPolicy, Wait,
};
pub use engine::{
    batch::{Batch, Drain, OwnedPacket, PcapngBlock, PcapngBlocks},
    horizon::{Horizon, Horizons},
    worker::{Arming, Interrupter, WaitOutcome, Worker},
};
pub use error::{Error, XdpAttachment, XdpTapRefusal};
pub use nic::{
    devices::{QueueDevice, queue_devices},
    host_use::{AccessChoice, HostView},
};
pub use packet::{Packet, Packets, Parts, RxHash};
pub use prepared_capture::PreparedCapture;
pub use report::{
    HostUse, PassiveReason, PortEvent, QueueWait, Refusal, Report, Sight, TimestampReport, Uncertainty,
    diagnostic::{self, Diagnostic},
};
pub use transmit::{ForwardCounts, PacketAllocator, Transmitter, UnsentPacket};
pub use wirecap_core::{Direction, LossCounts, Mode, QueueAccount};
pub use wirecap_headers::checksum;
pub use wirecap_sys::{
    netdev::{InterfaceAddress, Route},
    packet::Fanout,
    process::Process,
};
