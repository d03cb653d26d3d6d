//! Files out of a capture: the packets of several queues, in the order of their times.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

pub mod backlog;
pub mod block;
pub mod buffers;
pub mod lookout;
pub mod merge;
pub mod order;
pub mod pace;
pub mod records;
pub mod sequencer;
