//! System calls of every thread: what Rust's library, the C library and signal handlers need.

use super::call::{Argument, Call, any, only};

/// `PR_SET_VMA` of <linux/prctl.h>: newer C libraries name their memory.
const PR_SET_VMA: u32 = 0x5356_4d41;

/// The calls.
pub(super) fn shared() -> Vec<Call> {
    let executable = libc::PROT_EXEC as u32;
    let mut calls: Vec<_> = any(CALLS).chain(any(OF_X86)).collect();
    calls.extend([
        // No code is made any more: filters were compiled while the capture was prepared.
        only(libc::SYS_mmap, [Argument::Lacks(2, executable)]),
        only(libc::SYS_mprotect, [Argument::Lacks(2, executable)]),
        // For this process: a thread that panics while it panics aborts.
        only(libc::SYS_tgkill, [Argument::Is(0, std::process::id())]),
        // For the calling thread.
        only(libc::SYS_sched_setaffinity, [Argument::Is(0, 0)]),
        only(
            libc::SYS_prctl,
            [
                libc::PR_GET_NAME as u32,
                libc::PR_SET_NAME as u32,
                // A capture of wirecap top ends with its parent, as any user.
                libc::PR_SET_PDEATHSIG as u32,
                libc::PR_SET_TIMERSLACK as u32,
                PR_SET_VMA,
            ]
            .map(|option| Argument::Is(0, option)),
        ),
    ]);
    calls
}

/// Starting a thread or a process. The C library blocks all signals around it, and a trap that is blocked
/// ends the process; so these fail without one.
pub(super) fn starting() -> impl Iterator<Item = Call> {
    any(&[libc::SYS_clone, libc::SYS_clone3]).chain(any(STARTING_OF_X86))
}

const CALLS: &[libc::c_long] = &[
    // Waiting, and waking others.
    libc::SYS_futex,
    libc::SYS_ppoll,
    libc::SYS_sched_yield,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_membarrier,
    // What is open: events, timers, pipes, files.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fcntl,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Time, where the vDSO has none.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    // Signals.
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // The thread, and its end.
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

#[cfg(target_arch = "x86_64")]
const OF_X86: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const OF_X86: &[libc::c_long] = &[];

#[cfg(target_arch = "x86_64")]
const STARTING_OF_X86: &[libc::c_long] = &[libc::SYS_fork];
#[cfg(not(target_arch = "x86_64"))]
const STARTING_OF_X86: &[libc::c_long] = &[];
