//! libpcap's interface on the engine: programs that are linked to libpcap capture with wirecap, unchanged.
//!
//! ```text
//!   program ── pcap_create, pcap_loop, … ──► exports/ ──► Handle ─┬─ live/: a capture of the engine
//!                                              │                 └─ libpcap.rs: the system's own libpcap
//!                                              └─ what needs no handle ──► libpcap.rs
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | what a `pcap_t` points to | `handle.rs` |
//! | which devices the engine serves | `live/device.rs` |
//! | settings, from the name of a device and the environment | `live/options.rs` |
//! | from `pcap_activate` to a capture | `live/activation.rs` |
//! | how packets get to the program | `live/delivery.rs` |
//! | the functions that programs call | `exports/` |
//! | the engine from C: `include/wirecap.h` | `engine/` |
//! | the system's libpcap, loaded at run time | `libpcap.rs` |
//!
//! Rule: the engine answers for the packets of a live handle; the system's libpcap answers everything else,
//! with its own texts and codes.
//!
//! This crate may contain unsafe code, because C programs pass pointers to it. No panic crosses into C
//! ([`edge::catch_panic`]).

mod abi;
mod account_file;
mod boxed_batch;
mod edge;
mod engine;
mod environment;
mod exports;
mod handle;
mod libpcap;
mod live;
mod text;
