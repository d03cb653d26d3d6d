//! Limits of this process: open files, address space.
//!
//! Rule: limits are checked before anything is opened, so that the error names the limit and a sufficient
//! value. What fails later is an error of its own step.

use std::{fs, thread};

use anyhow::{Result, ensure};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use wirecap::{Dispatch, PreparedCapture};

use super::plan::Plan;

/// Open files that a capture needs besides those counted: netlink sockets, and those that each of its
/// threads has open for a moment.
const OTHER_FILES: u64 = 16;
/// Open files of a thread that writes: the file, and a directory while the thread confines itself.
const FILES_PER_WRITER: u64 = 2;
/// Entries of the fill and receive rings together, in bytes.
const RING_ENTRY_BYTES: u64 = 8 + 16;
/// What a thread takes: the stack of a Rust thread, and an arena of glibc's malloc.
const THREAD_BYTES: u64 = (2 + 64) << 20;
/// Blocks on the way to the file, and everything else.
const OTHER_BYTES: u64 = 64 << 20;

/// Checks that a capture fits the limits of the process, with this number of files that are still to be
/// opened, each of which is written by a thread. Raises the soft limit on open files where the hard
/// limit allows it.
///
/// # Errors
/// Which limit is too low, and a sufficient value.
pub(super) fn check(plan: &Plan, prepared: &PreparedCapture, written: usize) -> Result<()> {
    open_files(prepared, written as u64)?;
    address_space(plan, prepared, written as u64)
}

fn open_files(prepared: &PreparedCapture, written: u64) -> Result<()> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    // One of the entries is the directory itself.
    let open = fs::read_dir("/proc/self/fd").map_or(3, |files| files.count() as u64 - 1);
    let needed = open + OTHER_FILES + prepared.open_files() as u64 + FILES_PER_WRITER * written;
    ensure!(
        soft >= needed || (hard >= needed && setrlimit(Resource::RLIMIT_NOFILE, needed, hard).is_ok()),
        "this capture takes about {needed} open files, and this process may have {soft}; raise the limit: ulimit -n {} \
         (LimitNOFILE= in a service)",
        needed.next_power_of_two()
    );
    Ok(())
}

fn address_space(plan: &Plan, prepared: &PreparedCapture, written: u64) -> Result<()> {
    let Ok((soft, _)) = getrlimit(Resource::RLIMIT_AS) else { return Ok(()) };
    if soft == RLIM_INFINITY {
        return Ok(());
    }
    let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
    let server = u64::from(plan.service.is_served());
    let threads = cores + written + server + if plan.config.dispatch == Dispatch::Push { cores } else { 0 };
    let rings = u64::from(prepared.geometry().ring_entries()) * RING_ENTRY_BYTES;
    let packets = prepared.cells_bytes();
    let needed = packets + prepared.queues() as u64 * rings + threads * THREAD_BYTES + OTHER_BYTES + in_use();
    ensure!(
        soft >= needed,
        "packet memory of {} MiB, rings and threads take about {} MiB of address space, and this process may have {} \
         MiB; raise the limit (ulimit -v {}), or lower -R or -M, or give --memory",
        packets >> 20,
        needed >> 20,
        soft >> 20,
        (needed >> 20 << 10) + 1024
    );
    Ok(())
}

/// Address space in use now, in bytes.
fn in_use() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}
