//! A small router: routes, next hops, ICMP errors; what becomes of each packet, without I/O.
//!
//! ```text
//!   RouterWorker::route   bytes, port, time ──► forward by this port │ wait for this next hop │ discard for this cause, with this answer
//!        │
//!        ├── Router       the same for all workers: Routes, ports and their addresses, TTL, filter          routes/, router.rs, own_macs.rs
//!        ├── ICMP errors  which packets are answered, how, and how often                         answer.rs, icmp/, limit.rs
//!        ├── fairness     sources of packets, and what each may have of what is scarce               source.rs, shares.rs
//!        ├── waiting      packets whose next hop is asked for                                             waiting_room.rs
//!        └── next hops    their Ethernet addresses ◄── table ── a thread ◄──► the kernel                      neighbours/
//! ```
//!
//! Rule: a worker never waits, for the kernel or another thread. It decides on bytes and a time; the thread
//! that finds out next hops does the only I/O. Packets are hostile: no function panics whatever their bytes,
//! and nothing that a sender can make grow is without a bound.
#![forbid(unsafe_code)]

mod addresses;
mod answer;
mod cause;
mod error;
mod icmp;
mod limit;
mod neighbours;
mod own_macs;
mod route_problem;
mod router;
mod routes;
mod running;
mod shares;
mod source;
mod validity;
mod waiting_room;
mod worker;

pub use answer::Answer;
pub use cause::DropCause;
pub use error::Error;
pub use icmp::{IcmpProblem, IcmpSource, MAX_ICMP_ERROR_LEN, Offender};
pub use ipnet::IpNet;
pub use neighbours::{NextHopCounts, NextHopReport, THREAD, UnresolvedHop};
pub use route_problem::RouteProblem;
pub use router::{OutgoingLink, Router, RouterPort, WholePacket};
pub use routes::{NextHop, Route, Routes};
pub use running::RunningRouter;
pub use validity::valid_ip;
pub use waiting_room::{Admission, Outcome};
pub use worker::{Decision, RouterWorker};
