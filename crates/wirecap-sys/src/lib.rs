//! The edge of wirecap to Linux. All `unsafe` code of the capture path is in this crate.
//!
//! | to read about | open |
//! |---|---|
//! | the memory of all cells, and how they are read | [`memory`] |
//! | AF_XDP sockets and their rings | [`xsk`] |
//! | eBPF: assembler, maps, programs, links | [`bpf`] |
//! | what the kernel knows of a network interface | [`netdev`] |
//! | cores and timers | [`cpu`] |

pub mod bpf;
pub mod cpu;
pub mod memory;
pub mod netdev;
pub mod xsk;
