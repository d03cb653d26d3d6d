//! Sends trace files: at the recorded speed, or any other.
//!
//! ```text
//!   a.pcap ───┐
//!   b.pcapng ─┴─ Merge ─► packet, time ─ Placer ─► frame, queue ─┬─ PreloadedTrace: all frames in cells, passes copy nothing
//!                 by time                                        └─ StreamedTrace: read ahead by a thread of its own
//!                                                                               │
//!   Report ◄── Pacing ◄── departures ◄── Player ◄── Schedule: when each is due ◄┘
//!                                           │
//!                                       transmit queues (AF_XDP), a cell for each frame
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | several files as one, times that go back | `merge`, `timeline`, `trace` |
//! | when each packet is due | `schedule` |
//! | from which queue each packet is sent | `placement`, `flow` |
//! | which bytes are sent | `feed` |
//! | where frames wait | `loaded`, `preloaded`, `streamed`, `shape` |
//! | the thread that sends | `player`, `catch_up`, `starvation`; [`Lane`](wirecap_send::Lane) |
//! | how evenly packets were sent | `pacing` |
//! | errors, and failures during a replay | `error`, `failure` |
//!
//! # Example
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use wirecap_replay::{Control, Plan, Replay};
//!
//! let control = Arc::new(Control::default());
//! let replay = Replay::open(Plan::new(["a.pcap", "b.pcapng"], "eth1"), &control)?;
//! let report = replay.run();
//! assert!(report.failures.is_empty());
//! # Ok::<(), wirecap_replay::Error>(())
//! ```
//!
//! Rule: the bytes of a packet are those of the file. Packets that cannot be sent, and all other differences
//! from the file, are counted.
#![forbid(unsafe_code)]

mod catch_up;
mod control;
mod error;
mod failure;
mod feed;
mod flow;
mod loaded;
mod merge;
mod pacing;
mod placement;
mod plan;
mod player;
mod preloaded;
mod replay;
mod report;
mod schedule;
mod shape;
mod source;
mod source_item;
mod starvation;
mod streamed;
mod timeline;
mod trace;

pub use control::{Control, Limits, Progress};
pub use error::Error;
pub use failure::{Failure, FailureCode};
pub use feed::Tally;
pub use flow::flow_hash;
pub use merge::Timing;
pub use pacing::{PacingReport, Quantiles};
pub use placement::Placement;
pub use plan::{CutPolicy, Plan};
pub use player::End;
pub use replay::Replay;
pub use report::{Report, Storage};
pub use schedule::{Schedule, Speed};
pub use timeline::TimeFaults;
