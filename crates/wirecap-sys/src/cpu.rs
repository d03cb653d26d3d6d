//! Cores and timers of the calling thread.

use std::{io, mem};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

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
