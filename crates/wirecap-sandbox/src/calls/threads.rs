//! System calls of single kinds of threads.

use super::call::{Argument, Call, Calls, any, only};

/// `BPF_MAP_LOOKUP_ELEM` of <linux/bpf.h>.
const BPF_MAP_LOOKUP_ELEM: u32 = 1;

/// Flags of opening that can change something.
const CHANGING: u32 = (libc::O_WRONLY
    | libc::O_RDWR
    | libc::O_CREAT
    | libc::O_TRUNC
    | libc::O_APPEND
    // `O_TMPFILE` without `O_DIRECTORY`.
    | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;

/// Takes packets and sends some from their rings.
pub(super) fn worker() -> Calls {
    let mut allowed: Vec<_> = any(&[libc::SYS_recvfrom, libc::SYS_getsockopt]).collect();
    // Only to whom a socket is bound: wake-ups of transmit rings.
    allowed.push(only(libc::SYS_sendto, [Argument::IsNull(4)]));
    // Counters.
    allowed.push(only(libc::SYS_bpf, [Argument::Is(0, BPF_MAP_LOOKUP_ELEM)]));
    Calls { allowed, denied: opening().collect() }
}

/// Writes files.
pub(super) fn writer() -> Calls {
    let allowed = any(&[
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_fadvise64,
        libc::SYS_flock,
        libc::SYS_fchmod,
        libc::SYS_fchown,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_renameat2,
        libc::SYS_unlinkat,
        libc::SYS_openat,
        // Whose file it replaces.
        libc::SYS_geteuid,
    ]);
    // Whether a file is a terminal; what the reader of a copy has left in the pipe.
    let requests = [libc::TCGETS as u32, libc::TIOCGWINSZ as u32, libc::FIONREAD as u32];
    let of_descriptor = only(libc::SYS_ioctl, requests.map(|request| Argument::Is(1, request)));
    let allowed = allowed.chain(any(WRITING_HERE)).chain(looking()).chain([of_descriptor]);
    Calls { allowed: allowed.collect(), denied: Vec::new() }
}

/// Watches the capture: asks the kernel about interfaces and sets them.
pub(super) fn main() -> Calls {
    let own = any(&[
        libc::SYS_bpf,
        // Whether it may attach a program again.
        libc::SYS_capget,
        libc::SYS_bind,
        libc::SYS_getsockname,
        libc::SYS_setsockopt,
        libc::SYS_uname,
        libc::SYS_sysinfo,
        libc::SYS_geteuid,
        libc::SYS_prlimit64,
        // The program that prints.
        libc::SYS_wait4,
        libc::SYS_waitid,
        // Reads how the clock is disciplined; setting it takes a capability.
        libc::SYS_adjtimex,
        libc::SYS_clock_adjtime,
    ]);
    let sockets = [libc::AF_NETLINK, libc::AF_INET].map(|family| Argument::Is(0, family as u32));
    let requests = [
        libc::TCGETS as u32,
        libc::TIOCGWINSZ as u32,
        libc::SIOCETHTOOL as u32,
        libc::SIOCGHWTSTAMP as u32,
        libc::SIOCSHWTSTAMP as u32,
        libc::SIOCGIFNAME as u32,
    ];
    let allowed = asking().chain(own).chain(looking()).chain([
        only(libc::SYS_socket, sockets),
        only(libc::SYS_ioctl, requests.map(|request| Argument::Is(1, request))),
        only(libc::SYS_openat, [Argument::Lacks(2, CHANGING)]),
        only(libc::SYS_kill, [Argument::Is(1, libc::SIGKILL as u32)]),
    ]);
    Calls { allowed: allowed.collect(), denied: Vec::new() }
}

/// Asks the kernel for neighbours, by sockets that are open.
pub(super) fn neighbours() -> Calls {
    Calls { allowed: asking().collect(), denied: opening().collect() }
}

/// Serves connections to sockets that are open, and perhaps removes these sockets.
pub(super) fn server(removes_sockets: bool) -> Calls {
    let own = any(&[
        libc::SYS_accept4,
        libc::SYS_shutdown,
        libc::SYS_getsockname,
        libc::SYS_getpeername,
        libc::SYS_setsockopt,
        libc::SYS_epoll_create1,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_readv,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_getsockopt,
    ]);
    let counters = only(libc::SYS_bpf, [Argument::Is(0, BPF_MAP_LOOKUP_ELEM)]);
    // Connections do not block.
    let not_blocking = only(libc::SYS_ioctl, [Argument::Is(1, libc::FIONBIO as u32)]);
    let mut allowed: Vec<_> = own.chain(any(SERVING_OF_X86)).chain([counters, not_blocking]).collect();
    if removes_sockets {
        allowed.extend(any(&[libc::SYS_statx, libc::SYS_newfstatat, libc::SYS_unlinkat]));
        allowed.extend(any(REMOVING_OF_X86));
    }
    Calls { allowed, denied: opening().collect() }
}

/// Size of `struct sockaddr_nl`. Addresses of other families are longer, so that nothing is sent to them.
const NETLINK_ADDRESS_BYTES: u32 = 12;

/// Questions to the kernel, and answers.
fn asking() -> impl Iterator<Item = Call> {
    let to_kernel = [Argument::IsNull(4), Argument::Is(5, NETLINK_ADDRESS_BYTES)];
    any(&[libc::SYS_recvfrom, libc::SYS_getsockopt]).chain([only(libc::SYS_sendto, to_kernel)])
}

/// What looks at files and reads them.
fn looking() -> impl Iterator<Item = Call> {
    any(&[
        libc::SYS_statx,
        libc::SYS_newfstatat,
        libc::SYS_fstat,
        libc::SYS_statfs,
        libc::SYS_fstatfs,
        libc::SYS_readlinkat,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_getdents64,
        libc::SYS_getcwd,
        libc::SYS_lseek,
        libc::SYS_pread64,
    ])
    .chain(any(LOOKING_OF_X86))
}

/// Opening a file, by a thread that has none to open. The C library tries to read
/// `/proc/sys/vm/overcommit_memory` when memory is freed, and goes on without.
fn opening() -> impl Iterator<Item = Call> {
    any(&[libc::SYS_openat]).chain(any(OPENING_OF_X86))
}

#[cfg(target_arch = "x86_64")]
const LOOKING_OF_X86: &[libc::c_long] =
    &[libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_access];
#[cfg(target_arch = "x86_64")]
const WRITING_HERE: &[libc::c_long] = &[libc::SYS_rename, libc::SYS_renameat, libc::SYS_unlink];
/// `renameat`, for which the libc crate has no name there.
#[cfg(target_arch = "aarch64")]
const WRITING_HERE: &[libc::c_long] = &[38];
#[cfg(target_arch = "x86_64")]
const OPENING_OF_X86: &[libc::c_long] = &[libc::SYS_open];
#[cfg(target_arch = "x86_64")]
const SERVING_OF_X86: &[libc::c_long] = &[libc::SYS_accept, libc::SYS_epoll_wait];
#[cfg(target_arch = "x86_64")]
const REMOVING_OF_X86: &[libc::c_long] = &[libc::SYS_lstat, libc::SYS_unlink];

#[cfg(not(target_arch = "x86_64"))]
const LOOKING_OF_X86: &[libc::c_long] = &[];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const WRITING_HERE: &[libc::c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const OPENING_OF_X86: &[libc::c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const SERVING_OF_X86: &[libc::c_long] = &[libc::SYS_accept];
#[cfg(not(target_arch = "x86_64"))]
const REMOVING_OF_X86: &[libc::c_long] = &[];
