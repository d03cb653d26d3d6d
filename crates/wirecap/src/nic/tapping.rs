//! Whether the kernel lets this process tap an interface.

use wirecap_sys::{bpf, netdev::Interface};

use crate::diagnostic::TapRefusal;

/// What is missing to tap an interface, if something is.
pub(crate) fn lacks(interface: &Interface) -> Option<TapRefusal> {
    match bpf::has_tcx(interface.ifindex) {
        Ok(true) if bpf::may_attach_classifiers() => None,
        Ok(false) => Some(TapRefusal::NoTcx),
        Ok(true) | Err(_) => Some(TapRefusal::NotPermitted),
    }
}
