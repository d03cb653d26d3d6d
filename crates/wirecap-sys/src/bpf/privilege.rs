//! What the verifier lets this thread do.

use std::io;

/// `_LINUX_CAPABILITY_VERSION_3` of <linux/capability.h>.
const VERSION: u32 = 0x2008_0522;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

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

/// Whether a refused access (`EACCES`) may be one that the verifier allows with CAP_PERFMON: arithmetic on packet addresses.
pub(super) fn lacks_perfmon(refusal: &io::Error) -> bool {
    let is_access = refusal.raw_os_error() == Some(libc::EACCES);
    is_access && ![CAP_PERFMON, CAP_SYS_ADMIN].into_iter().any(is_effective)
}

/// Whether this thread has a capability.
fn is_effective(capability: u32) -> bool {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: a header and, for this version, two sets, both ours; the kernel writes within them.
    let failed = unsafe { libc::syscall(libc::SYS_capget, &mut header, &mut sets) } != 0;
    !failed && sets[capability as usize / 32].effective & (1 << (capability % 32)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_capget_returns_is_what_proc_shows() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let effective = u64::from_str_radix(line.trim(), 16).unwrap();
        for capability in 0..41 {
            assert_eq!(is_effective(capability), effective >> capability & 1 == 1, "{capability}");
        }
    }

    #[test]
    fn only_a_refused_access_lacks_a_capability() {
        assert!(!lacks_perfmon(&io::Error::from_raw_os_error(libc::EINVAL)));
    }
}
