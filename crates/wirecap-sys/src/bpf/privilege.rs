//! What the verifier lets this thread do.

use std::{fs, io};

use super::{
    attr::{Command, MapElem},
    syscall::bpf,
};

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Whether this thread has the capabilities to load and attach programs of traffic control that work with
/// packet addresses: CAP_NET_ADMIN, and CAP_BPF with CAP_PERFMON or CAP_SYS_ADMIN.
pub fn may_attach_classifiers() -> bool {
    is_effective(CAP_NET_ADMIN)
        && (is_effective(CAP_SYS_ADMIN) || is_effective(CAP_BPF) && is_effective(CAP_PERFMON))
}

/// The capabilities that a capture may need, and whether this thread has each.
pub fn capabilities() -> [(&'static str, bool); 5] {
    let named = [
        ("CAP_NET_ADMIN", CAP_NET_ADMIN),
        ("CAP_NET_RAW", CAP_NET_RAW),
        ("CAP_BPF", CAP_BPF),
        ("CAP_PERFMON", CAP_PERFMON),
        ("CAP_IPC_LOCK", CAP_IPC_LOCK),
    ];
    named.map(|(name, capability)| (name, is_effective(capability)))
}

/// Whether a refused access (`EACCES`) may be one that the verifier allows with CAP_PERFMON: arithmetic on
/// packet addresses.
pub(super) fn lacks_perfmon(refusal: &io::Error) -> bool {
    let is_access = refusal.raw_os_error() == Some(libc::EACCES);
    is_access && !may_calculate_addresses()
}

/// Whether the verifier allows programs of this thread arithmetic on packet addresses: with CAP_PERFMON. In a
/// user namespace the kernel may refuse it all the same.
pub fn may_calculate_addresses() -> bool {
    [CAP_PERFMON, CAP_SYS_ADMIN].into_iter().any(is_effective)
}

/// Whether the kernel refuses every call of bpf(2) to this thread, also those about what is open: before
/// Linux 5.19 to threads without CAP_BPF, if `kernel.unprivileged_bpf_disabled` is set.
pub fn reading_is_refused() -> bool {
    let mut attr = MapElem { map_fd: u32::MAX, ..MapElem::default() };
    // SAFETY: there is no map of this number, so the kernel reads and writes nothing.
    let read = unsafe { bpf(Command::MapLookupElem, &mut attr) };
    read.is_err_and(|cause| cause.raw_os_error() == Some(libc::EPERM))
}

/// Whether this thread has a capability.
fn is_effective(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|sets| u64::from_str_radix(sets.trim(), 16).ok());
    effective.is_some_and(|effective| effective & (1 << capability) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_LINUX_CAPABILITY_VERSION_3` of <linux/capability.h>.
    const VERSION: u32 = 0x2008_0522;
    /// `struct __user_cap_header_struct`.
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }

    /// `struct __user_cap_data_struct`: 32 capabilities in each set.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }

    const _: () = assert!(size_of::<Header>() == 8 && size_of::<[Sets; 2]>() == 24);

    #[test]
    fn what_proc_shows_is_what_capget_returns() {
        let mut header = Header { version: VERSION, pid: 0 };
        let mut sets = [Sets::default(); 2];
        // SAFETY: capget(2) gets a header and, for this version, two sets, both ours; the kernel writes
        // within them.
        assert_eq!(unsafe { libc::syscall(libc::SYS_capget, &mut header, &mut sets) }, 0);
        for capability in 0..41 {
            let effective = sets[capability as usize / 32].effective & (1 << (capability % 32)) != 0;
            assert_eq!(is_effective(capability), effective, "{capability}");
        }
    }

    #[test]
    fn whoever_has_capabilities_may_read_maps() {
        if is_effective(CAP_BPF) {
            assert!(!reading_is_refused());
        }
    }

    #[test]
    fn only_a_refused_access_lacks_a_capability() {
        assert!(!lacks_perfmon(&io::Error::from_raw_os_error(libc::EINVAL)));
    }
}
