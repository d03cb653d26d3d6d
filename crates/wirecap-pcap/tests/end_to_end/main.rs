//! Existing programs on the library, in network namespaces.
//!
//! ```text
//!   namespace outside ── out0 ═══ veth ═══ in0 ── namespace inside ── tcpdump, tshark, … ─┬─ libpcap
//!     frames, pings                                                                       └─ wirecap
//! ```
//!
//! Each program runs unmodified, once with the system's libpcap and once with this library, over the same
//! traffic, and must print and write the same. Suricata runs on it in scripts/ids-check; Debian 12 and 13
//! have no snort.

#[macro_use]
mod rig;

mod calls;
mod difference;
mod engine;
mod event_loops;
mod frames;
mod group;
mod handles;
mod other_tools;
mod programs;
mod sending;
mod stopped;
mod symbols;
mod tcpdump_devices;
mod tcpdump_options;
mod tcpdump_prints;
mod tcpdump_writes;
mod wireshark;
