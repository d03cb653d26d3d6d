//! The experiments of the WireCAP paper (Wu and DeMar, IMC 2014) in simulation: discrete events, seeded, the
//! same figures every time.
//!
//! ```text
//!   Traffic ─► arrivals of each queue ─► Engine ─► workers of a fixed pace
//!                                          │
//!                                          ├─ wirecap: the pools, dispatchers and buddy groups of wirecap-core, unchanged
//!                                          ├─ ring: the ring is the buffer (Type II: DNA, NETMAP)
//!                                          ├─ copy: copied into a second ring by the same core (Type I: PF_RING)
//!                                          └─ balancer: a core that gives packets to handlers (DPDK)
//!   Outcome: offered, delivered, lost, by queue
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | packets: when, and in which queue | [`traffic`] |
//! | the engines | [`engines`] |
//! | what happened | [`outcome`] |
//! | the experiments of the paper, with its own figures beside ours | [`experiments`] |
//! | what can be changed | [`parameters`] |
//! | figures as tables, charts and a page | [`losses`], [`table`], [`page`] |
//! | what arithmetic says | [`closed_form`] |
//! | how large pools have to be | [`sizing`] |
//!
//! Rule: a simulated figure is never mistaken for a measured one: whatever is printed says that it is
//! simulated. What is calibrated has its source beside it; nothing is fitted to the answer of an experiment.
#![forbid(unsafe_code)]

pub mod closed_form;
pub mod engines;
#[cfg(feature = "experiments")]
pub mod experiments;
#[cfg(feature = "experiments")]
pub mod losses;
pub mod outcome;
#[cfg(feature = "experiments")]
pub mod page;
#[cfg(feature = "experiments")]
pub mod parameters;
pub mod random;
pub mod sizing;
#[cfg(feature = "experiments")]
pub mod table;
pub mod traffic;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// The packets per second of 64-byte frames on 10 Gigabit Ethernet: 84 bytes each on the wire.
pub const WIRE_RATE_PPS: f64 = 10e9 / (84.0 * 8.0);

/// Bytes of a cell; the simulation allocates no memory for it.
pub const CELL_BYTES: u32 = 2_048;

/// The packets per second of a link of Ethernet, with frames of this length; preamble and gap are 20 bytes.
pub fn link_pps(gigabits: u32, frame_bytes: u32) -> f64 {
    f64::from(gigabits) * 1e9 / (f64::from(frame_bytes + 20) * 8.0)
}

/// The pace of the paper's handler with 300 filters per packet, at 2.4 GHz (section 2.2).
pub const HANDLER_PPS: f64 = 38_844.0;
