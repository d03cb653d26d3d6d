//! Network namespaces and veth pairs for tests, the demo and benchmarks: a laboratory on one machine.
//!
//! ```text
//!   test process ──enter()──► thread inside ┌ namespace a ┐          ┌ namespace b ┐
//!        │                                  │   end a ════╪══ veth ══╪══ end b     │ ◄── command("tcpdump")
//!        └── sees neither                   └─────────────┘          └─────────────┘
//! ```
//!
//! **The rule that holds here:** nothing outlives its owner. Dropping the last [`Namespace`] value of a
//! namespace kills the processes inside and deletes it with all its interfaces; [`sweep`], which every
//! [`Namespace::new`] calls, removes the namespaces that killed tests left behind. And a receiver sees only
//! the packets that the test sends: IPv6 is off inside unless requested, so the kernel adds none.
//!
//! Names carry the process id and a counter, so tests may run in parallel. Needs root, and ip(8) and
//! ethtool(8). For development only: mistakes of a test panic.
//!
//! ```no_run
//! use wirecap_lab::{Namespace, VethOptions, VethPair};
//!
//! let (left, right) = (Namespace::new("left")?, Namespace::new("right")?);
//! let veth = VethPair::new(&left, "l0", &right, "r0", VethOptions { queues: 2, ..VethOptions::default() })?;
//! let ifindex = veth.b().ifindex()?;
//! right.enter(|| { /* capture on ifindex */ });
//! left.command("ping").args(["-c", "1", "192.0.2.1"]).status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bridge;
mod control_group;
pub mod cost;
mod ear;
mod error;
mod machine_lock;
mod namespace;
mod root;
mod run;
mod sweep;
pub mod table;
pub mod trace_bytes;
mod traces;
mod veth;
mod whole_file;

pub use bridge::Bridge;
pub use control_group::{ControlGroup, Controller};
pub use ear::{Ear, Earshot};
pub use error::Error;
pub use machine_lock::MachineLock;
pub use namespace::Namespace;
pub use root::{is_root, require_root, skip};
pub use sweep::sweep;
pub use traces::{trace_directory, trace_files};
pub use veth::{Interface, VethOptions, VethPair};
pub use whole_file::{Capture, CapturedPacket};
