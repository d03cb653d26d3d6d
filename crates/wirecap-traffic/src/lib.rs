//! Traffic for tests, the demo and benchmarks: numbered frames, and a generator that sends millions of
//! them per second from one core. And the pace of a handler that is too slow for them ([`WorkerPace`]).
//!
//! ```text
//!  FrameSpec ──► Template ──stamp(flow, sequence, time)──► one frame, byte for byte
//!                   │                                   ║ the same bytes
//!                   ├──► LiveGenerator ──► XDP program stamps each live frame ──► devmap ──► interface
//!                   └──► XdpGenerator ──► cells of AF_XDP sockets ──► any transmit queues
//! ```
//!
//! Rule: every generated frame carries its sequence number and its flow number, so a receiver can find frames
//! that are missing, duplicated or out of order ([`Marks::read`]).
#![forbid(unsafe_code)]

mod anchor;
mod checksum;
mod error;
mod frame;
mod generator;
mod latency;
mod layout;
mod limits;
mod live;
mod marks;
mod pace;
mod popularity;
mod random;
mod sizes;
mod slot_queue;
mod stamp_program;
mod verify;
mod worker_pace;
mod xdp;

pub use error::Error;
pub use frame::{FCS_LEN, FLOWS_MAX, FRAME_LEN_MAX, FRAME_LEN_MIN, FrameSpec, Template};
pub use generator::{End, Engine, FrameTotals, Outcome, drive};
pub use latency::{Latency, Percentiles};
pub use layout::{IpVersion, Transport};
pub use limits::{MAX_SIZES, MAX_WEIGHT};
pub use live::{LiveGenerator, LiveOptions};
pub use marks::{MARKS_REACH, Marks, SEQUENCE_END};
pub use pace::{Bursts, Pace, Rate, Step, Timing, Unit};
pub use popularity::Popularity;
pub use random::Random;
pub use sizes::{Size, Sizes};
pub use slot_queue::{QueueReport, QueueShare};
pub use verify::{RunVerdict, Verdict, Verifier};
pub use worker_pace::WorkerPace;
pub use xdp::{XdpGenerator, XdpOptions};
