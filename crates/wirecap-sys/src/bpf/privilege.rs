//! What the verifier lets this thread do.

use std::io;

use super::{
    attr::{Command, MapElem},
    syscall::bpf,
};
use crate::confinement::capabilities::{Capability, effective};

/// Whether this thread has the capabilities to load and attach programs of traffic control that work with
/// packet addresses: CAP_NET_ADMIN, and CAP_BPF with CAP_PERFMON or CAP_SYS_ADMIN.
pub fn may_attach_classifiers() -> bool {
    let has = effective().unwrap_or_default();
    has.has(Capability::NetAdmin)
        && (has.has(Capability::SysAdmin) || has.has(Capability::Bpf) && has.has(Capability::Perfmon))
}

/// The capabilities that a capture may need, and whether this thread has each.
pub fn capabilities() -> [(&'static str, bool); 5] {
    let has = effective().unwrap_or_default();
    [Capability::NetAdmin, Capability::NetRaw, Capability::Bpf, Capability::Perfmon, Capability::IpcLock]
        .map(|capability| (capability.name(), has.has(capability)))
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
    let has = effective().unwrap_or_default();
    has.has(Capability::Perfmon) || has.has(Capability::SysAdmin)
}

/// Whether the kernel refuses every call of bpf(2) to this thread, also those about what is open: before
/// Linux 5.19 to threads without CAP_BPF, if `kernel.unprivileged_bpf_disabled` is set.
pub fn reading_is_refused() -> bool {
    let mut attr = MapElem { map_fd: u32::MAX, ..MapElem::default() };
    // SAFETY: there is no map of this number, so the kernel reads and writes nothing.
    let read = unsafe { bpf(Command::MapLookupElem, &mut attr) };
    read.is_err_and(|cause| cause.raw_os_error() == Some(libc::EPERM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_with_cap_bpf_may_read_maps() {
        if effective().unwrap().has(Capability::Bpf) {
            assert!(!reading_is_refused());
        }
    }

    #[test]
    fn only_a_refused_access_lacks_a_capability() {
        assert!(!lacks_perfmon(&io::Error::from_raw_os_error(libc::EINVAL)));
    }
}
