//! The CPUs of the machine; cores and timers of the calling thread.

use std::{fs, io, mem, ops::RangeInclusive};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

/// Number of CPUs that this kernel could ever have: the values of an entry of a per-CPU map.
///
/// # Errors
/// If `/sys/devices/system/cpu/possible` cannot be read (is sysfs mounted?) or understood.
pub fn possible() -> io::Result<usize> {
    Ok(list("possible")?.into_iter().map(RangeInclusive::count).sum())
}

/// One more than the highest number of a CPU that is online.
///
/// # Errors
/// As [`possible`], of `/sys/devices/system/cpu/online`.
pub fn online_end() -> io::Result<usize> {
    Ok(list("online")?.iter().map(|cpus| cpus.end() + 1).max().unwrap_or(0))
}

/// A list of CPUs in sysfs.
fn list(name: &str) -> io::Result<Vec<RangeInclusive<usize>>> {
    let path = format!("/sys/devices/system/cpu/{name}");
    let text = fs::read_to_string(&path).map_err(|e| io::Error::new(e.kind(), format!("{path}: {e}")))?;
    parse_list(text.trim())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {text:?}")))
}

/// Reads a list such as `0-3,8-11`.
fn parse_list(list: &str) -> Option<Vec<RangeInclusive<usize>>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse().ok()?..=last.parse().ok()?;
        (!range.is_empty()).then_some(range)
    };
    list.split(',').map(range).collect()
}

/// Lets the calling thread run on one core only.
///
/// # Errors
/// The kernel's error; EINVAL when there is no such core or the process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Room for the numbers of all cores that Linux can be built for, a bit each.
type CoreSet = [u64; 128];

/// Runs `work`, which may bind the calling thread to cores, and lets the thread run where it could before.
///
/// # Errors
/// The kernel's error, before or after `work`.
pub fn keeping_affinity<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let mut set: CoreSet = [0; 128];
    // SAFETY: size and pointer are those of one array that outlives the call; 0 is this thread.
    let filled =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, mem::size_of_val(&set), set.as_mut_ptr()) };
    let len = usize::try_from(filled).map_err(|_| io::Error::last_os_error())?;
    let result = work();
    // SAFETY: the kernel has filled the first `len` bytes of the array, which outlives the call.
    let restored = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, len, set.as_ptr()) };
    if restored == 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
}

/// Lets short sleeps of the calling thread end when they should: the kernel's default slack of 50 µs
/// is as long as a whole sleep of a capture thread.
pub fn precise_sleeps() {
    // SAFETY: PR_SET_TIMERSLACK takes no pointers. A failure would only make sleeps longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000_u64, 0_u64, 0_u64, 0_u64) };
}

/// Waits until every packet the kernel was processing when this was called has been dealt with: an RCU
/// grace period, since XDP programs and the hand-over to sockets run inside RCU read sections. Returns
/// whether the kernel does this (not with `nohz_full`).
pub fn wait_for_kernel() -> bool {
    // SAFETY: membarrier takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) == 0 }
}

/// The processor's time-stamp counter: cycles at its nominal rate since some moment. `None` on a machine
/// without one that programs may read. Not ordered with what is around it; for durations of some microseconds
/// and more.
pub fn timestamp_counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 has the instruction, and Linux lets programs use it.
        Some(unsafe { core::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Whether the counter of [`timestamp_counter`] goes on at one pace, whatever the CPU does: invariant TSC,
/// bit 8 of EDX of CPUID 0x8000_0007.
pub fn counter_is_invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        #[allow(unused_unsafe, reason = "newer toolchains take it for safe")]
        // SAFETY: every x86-64 has the instruction.
        let leaf = |number| unsafe { __cpuid(number) };
        leaf(0x8000_0000).eax >= 0x8000_0007 && leaf(0x8000_0007).edx & (1 << 8) != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_list("0"), Some(vec![0..=0]));
        assert_eq!(parse_list("0-1"), Some(vec![0..=1]));
        assert_eq!(parse_list("0-3,8-11,13"), Some(vec![0..=3, 8..=11, 13..=13]));
        for malformed in ["", "3-0", "0-", "0,,2", "a"] {
            assert_eq!(parse_list(malformed), None, "{malformed:?}");
        }
        assert!(possible().unwrap() >= 1 && online_end().unwrap() >= 1);
    }

    #[test]
    fn trying_cores_leaves_the_affinity_of_the_thread_unchanged() {
        let cores = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let allowed = || cores().lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned();
        let before = allowed();
        let (tried, within) = keeping_affinity(|| (pin_to_core(0), allowed())).unwrap();
        tried.unwrap();
        assert_eq!(allowed(), before);
        assert_eq!(within.trim_end_matches('1').trim_end_matches(['0', ',']), "Cpus_allowed:\t");
    }
}
