//! The edge of wirecap to Linux. All `unsafe` code of the capture path is in this crate.
//!
//! | to read about | open |
//! |---|---|
//! | the memory of all cells, and how they are read | [`memory`] |
//! | AF_XDP sockets and their rings | [`xsk`] |
//! | AF_PACKET sockets with a ring of blocks | [`packet`] |
//! | packets that a BPF program packs into mapped memory | [`packed`] |
//! | eBPF: assembler, maps, programs, links | [`bpf`] |
//! | what the kernel knows of a network interface | [`netdev`] |
//! | which processes hold a socket or a program | [`process`] |
//! | whether a process that was forked holds the same | [`fork`] |
//! | cores and timers | [`cpu`] |
//! | signals that end a command | [`signals`] |
//! | capabilities, users and refused system calls of a thread | [`confinement`] |
//! | what time it is, and what time another clock meant | [`clock`] |
//! | capabilities of a program file | [`file_capabilities`] |
//! | a file with one writer | [`file_lock`] |
//! | a file or pipe that is read without waiting | [`input`] |
//! | waiting until a pipe, a terminal or a socket takes more, or has something; what a pipe has | [`room`] |
//! | a standard output that was closed | [`standard_output`] |
//! | threads that wait, and what wakes them | [`wake`] |
//! | who is at the other end of a Unix socket | [`peer`] |
//! | the real libpcap, loaded at run time | [`pcap`] |
//! | packet filters as machine code | [`machine_code`] |

#[cfg(not(target_pointer_width = "64"))]
compile_error!("wirecap needs a 64-bit target: the kernel's rings are mapped at offsets of 4 GiB and more");

pub mod bpf;
pub mod clock;
pub mod confinement;
pub mod cpu;
pub mod file_capabilities;
pub mod file_lock;
pub mod fork;
pub mod input;
mod interface_name;
pub mod machine_code;
pub mod memory;
mod mmap;
pub mod netdev;
pub mod packed;
pub mod packet;
pub mod pcap;
pub mod peer;
mod prefetch;
pub mod process;
pub mod room;
pub mod shared_object;
pub mod signals;
mod socket_option;
pub mod standard_output;
pub mod wake;
pub mod xsk;
