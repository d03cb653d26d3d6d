//! Trace files, sent again: at the speed at which they were recorded, or any other.
//!
//! ```text
//!   a.pcap ───┐
//!   b.pcapng ─┴─ Merge ─► packet, time ─ Placer ─► frame, queue ─┬─ PreloadedTrace: all of it in cells, passes copy nothing
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
//! | from which queue it is sent | `placement`, `flow` |
//! | what is sent of it | `feed` |
//! | where it lies until then | `loaded`, `preloaded`, `streamed`, `shape` |
//! | the thread that sends | `player`, `catch_up`, `starvation`; [`Lane`](wirecap_send::Lane) |
//! | how evenly it was sent | `pacing` |
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
//! Rule: the bytes of a packet are those of the file. What cannot be sent, and whatever else is not as in the
//! file, is counted.
#![forbid(unsafe_code)]

mod catch_up;
mod control;
mod error;
mod failure;
mod feed;
mod flow;
mod loaded;
mod merge;
mod next;
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
pub use plan::{Cut, Plan};
pub use player::End;
pub use replay::Replay;
pub use report::{Report, Storage};
pub use schedule::{Schedule, Speed};
pub use timeline::TimeFaults;
