//! All ways to run a filter, compared with each other, with libpcap's `bpf_filter` as the reference.
//!
//! | what runs | over which packets | where |
//! |---|---|---|
//! | every expression of `corpus.txt`, interpreter and native | all generated ones, all traces | `user_space.rs` |
//! | the same in the kernel | a sample of both, and jumbo frames | `kernel.rs` |
//! | the same as socket filters | a sample of both | `sockets.rs` |
//! | programs for one rule each, everywhere | the border cases of the rule | `cases.rs` |
//! | random programs, everywhere | random packets | `random.rs` |
//! | `protochain`, everywhere it runs | chains of headers, whole, damaged and without an end | `loops.rs` |
//! | what a socket knows, and offsets that are in no packet | | `origin.rs` |
//! | two filters as one, everywhere | generated packets | `except.rs` |
//! | refused expressions | | `refusals.rs` |

mod cases;
mod corpus;
mod except;
mod kernel;
mod loops;
mod origin;
mod packets;
mod random;
mod refusals;
mod sockets;
mod traces;
mod trial;
mod user_space;
