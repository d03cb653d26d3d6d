//! Shared by the end-to-end tests of the library, of the command, and of the virtual machines.
//!
//! ```text
//!   Wire:  namespace outside ── out0 ═══ veth ═══ in0 ── namespace inside ── Capture
//!            │ live(), QueueSender, PacketSender                                │
//!            ▼ frames with sequence numbers                                     ▼
//!                                                     Crew: one thread per worker, keeps every packet
//!                                                       └─► check: order, bytes, account
//!   RunningCommand:  a `wirecap` process ──► CommandOutput ──► Account, checked
//! ```
//!
//! Rule: nothing here sleeps for a time that should suffice. A test waits for the condition it needs
//! ([`wait_until`]), and fails only after a time that no busy machine exceeds. For development only: every
//! failure panics.
#![forbid(unsafe_code)]

pub mod chains;
pub mod check;
mod copy_sender;
pub mod cpu_time;
pub mod crew;
pub mod gate;
mod live_sender;
mod packet_sender;
pub mod running_command;
pub mod schema;
pub mod wire;

pub use self::{
    copy_sender::CopySender,
    live_sender::{LiveSender, SendAccount},
    packet_sender::{MAX_PACKET_LEN, MIN_PACKET_LEN, PacketSender, PacketSenderError, SendPath},
};
pub use wirecap_lab::require_root;

use std::{
    fs::{self, File},
    thread,
    time::{Duration, Instant},
};

use nix::{fcntl::OFlag, unistd::pipe2};

/// How long to wait for a condition that must become true. A busy machine can stall for half a minute.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until `condition` holds.
///
/// # Panics
/// After [`PATIENCE`], with `what`, which describes the condition, and the counters of the test's interfaces.
#[track_caller]
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_or_explain(|| format!("{what}\n{}", wire::explain_all()), condition);
}

/// Waits until `condition` holds.
///
/// # Panics
/// After [`PATIENCE`], with the result of `explain`.
#[track_caller]
pub fn wait_or_explain(explain: impl Fn() -> String, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "this did not happen in {PATIENCE:?}: {}", explain());
        thread::sleep(Duration::from_millis(1));
    }
}

/// The ends of a pipe, to read from and to write to: [`std::io::pipe`] is younger than the oldest Rust that
/// compiles wirecap.
pub fn pipe() -> (File, File) {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).expect("room for two descriptors");
    (reader.into(), writer.into())
}

/// Whether the kernel has this version or a later one.
pub fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// Returns from a test that lacks root; see [`wirecap_lab::require_root`].
#[macro_export]
macro_rules! need_root {
    ($test:literal) => {
        if !$crate::require_root($test) {
            return;
        }
    };
}
