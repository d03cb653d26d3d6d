//! Traffic for tests, the demo and benchmarks: frames that can be told apart, and a generator that sends millions of
//! them per second from one core.
//!
//! ```text
//!  FrameSpec ──► Template ──stamp(flow, sequence)──► one frame, byte for byte
//!                   │                                   ║ the same bytes
//!                   └──► LiveGenerator ──► XDP program stamps each live frame ──► devmap ──► interface
//!
//!  any bytes ──► PacketSender ──► AF_PACKET socket ──► interface
//!  any bytes ──► CopySender ──► AF_XDP socket ──► one transmit queue
//! ```
//!
//! **The rule that holds here:** every generated frame carries its sequence number and its flow number, so a receiver can say
//! which frames are missing, doubled or out of order ([`Marks::read`]); and what was sent is reported together with
//! what the interface really took ([`Sent`]).
#![forbid(unsafe_code)]

mod anchor;
mod copy_sender;
mod error;
mod frame;
mod link_counters;
mod live;
mod pace;
mod packet;
mod stamp_program;

pub use copy_sender::CopySender;
pub use error::Error;
pub use frame::{
    FLOWS_MAX, FRAME_LEN_MAX, FRAME_LEN_MIN, FrameSpec, IpVersion, Marks, Template, internet_checksum,
};
pub use live::{LiveGenerator, LiveOptions, Sent};
pub use packet::{PACKET_LEN_MAX, PACKET_LEN_MIN, PacketSender, SendPath};
