//! Whether an interface can be tapped, and whether a tap sees what other captures see.

use wirecap_sys::{
    bpf,
    netdev::{self, Interface},
};

use crate::diagnostic::TapRefusal;

/// What is missing to tap an interface, if something is.
pub(crate) fn lacks(interface: &Interface) -> Option<TapRefusal> {
    match bpf::has_tcx(interface.ifindex) {
        Ok(true) if bpf::may_attach_classifiers() => None,
        Ok(false) => Some(TapRefusal::NoTcx),
        Ok(true) | Err(_) => Some(TapRefusal::NotPermitted),
    }
}

/// Why a tap is not the best choice for an interface, if another port sees more.
///
/// A program of traffic control sees a packet that leaves before the kernel finishes it, a packet socket
/// after that (`validate_xmit_skb` and `dev_queue_xmit_nit` in net/core/dev.c). Where the NIC finishes it,
/// both see the same.
pub(crate) fn sees_less(interface: &Interface) -> Option<TapRefusal> {
    // Of an interface that does not say, a tap sees at least all packets.
    let finishes = netdev::finishes_in_software(&interface.name).ok().flatten();
    (finishes == Some(true)).then_some(TapRefusal::OffloadsOff)
}
