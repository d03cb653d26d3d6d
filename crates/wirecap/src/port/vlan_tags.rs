//! VLAN tags that the XDP program does not see in the packet.
//!
//! ```text
//!   the NIC takes tags off ──┬─ the driver hands them to programs, and the program may ask it, or on veth reads them ──► put back (tags.rs)
//!                            └─ else: packets lack them, which is reported of NICs, and in generic mode
//! ```
//!
//! A NIC may take the tag off a packet and hand it to the driver beside it. The host's stack knows where to
//! look for it; in a cell or a block it would be missing. No driver is asked to leave tags on: the setting is
//! the NIC's, and the host's VLANs use it, too.

use wirecap_sys::{bpf, netdev::Interface};

use crate::{Diagnostic, Error, XdpTapRefusal, diagnostic::Cause, program::tags::Tags};

/// How the program puts tags back on an interface, where the driver runs it; or why not, if there was
/// something to be done.
pub(crate) type VlanTags = Result<Tags, Option<Cause>>;

/// Finds out for an interface, of which some queues may be `shared` with others: the kernel takes no program
/// there that is bound to a device. Callers use the answer in native mode only, since elsewhere what [`Tags`]
/// reads on veth is not there. Drivers say since Linux 6.8 whether they have tags; veth's could be read since
/// 6.3, but no kernel before 6.8 is tested.
pub(super) fn prepare(interface: &Interface, shared: bool) -> VlanTags {
    // A virtual device hands on what a program on this machine has made, with the tag beside the packet
    // whatever its setting for tags that come in.
    let may_be_beside = interface.takes_vlan_tags || !is_nic(interface);
    let offered = interface.xdp_features.and_then(|features| features.rx_metadata);
    let cannot_ask = shared && is_nic(interface);
    if cannot_ask || !may_be_beside || !offered.is_some_and(|metadata| metadata.vlan_tag) {
        return Err(None);
    }
    match Tags::of(interface) {
        Ok(tags) if shared && tags.bound_to().is_some() => {
            Err(Some(Cause::words("a program for single queues cannot ask the driver for them")))
        }
        tags => tags.map_err(Some),
    }
}

/// Why VLAN tags cannot be put back in generic mode, on a virtual device that may have them beside its
/// packets. Of a NIC, [`lost`] says that they are missing.
pub(super) fn unseen_in_generic_mode(interface: &Interface) -> Option<Cause> {
    let may_be_beside = !is_nic(interface) && interface.takes_vlan_tags;
    may_be_beside.then(|| Cause::words("in generic mode, programs do not see them"))
}

/// That VLAN tags which are not put back on this interface are missing; `None` if they stay on, and of a
/// virtual device, whose setting says nothing of packets that a program on this machine has made.
pub(super) fn lost(interface: &Interface) -> Option<Diagnostic> {
    let takes_off = is_nic(interface) && interface.takes_vlan_tags;
    takes_off.then(|| Diagnostic::VlanTagsMissing { interface: interface.name.clone() })
}

/// Why VLAN tags cannot be put back, if an attempt with a program that does it may have failed for that: the
/// kernel did not take the program, or the device did not.
pub(super) fn blame(error: &Error) -> Option<Cause> {
    match error {
        Error::Program { source: bpf::Error::Busy { .. }, .. } => None,
        Error::Program { source, .. } => Some(Cause::words(source.to_string())),
        Error::NotTappedByXdp { reason: XdpTapRefusal::Failed(error), .. } => blame(error),
        _ => None,
    }
}

fn is_nic(interface: &Interface) -> bool {
    interface.driver.as_ref().is_some_and(|driver| driver.bus.is_some())
}

#[cfg(test)]
mod tests {
    use wirecap_sys::netdev::{self, Driver, RxMetadata, XdpFeatures};

    use super::*;

    fn interface(bus: Option<&str>, takes_vlan_tags: bool) -> Interface {
        let driver = Driver { name: "igb".into(), version: None, firmware: None, bus: bus.map(Into::into) };
        Interface { driver: Some(driver), takes_vlan_tags, ..netdev::interface("lo").unwrap() }
    }

    const NIC: Option<&str> = Some("0000:01:00.0");

    #[test]
    fn nics_that_remove_tags_are_reported() {
        let missing = Diagnostic::VlanTagsMissing { interface: "lo".into() };
        assert_eq!(lost(&interface(NIC, true)), Some(missing));
        assert_eq!(lost(&interface(NIC, false)), None);
        assert_eq!(lost(&interface(None, true)), None, "a virtual device");
    }

    #[test]
    fn tags_are_put_back_where_the_driver_hands_them_out_and_no_process_shares_the_interface() {
        let looks = |bus, takes, vlan_tag, shared| {
            let metadata = RxMetadata { vlan_tag, ..RxMetadata::default() };
            let features = XdpFeatures { rx_metadata: Some(metadata), ..XdpFeatures::default() };
            let interface = Interface { xdp_features: Some(features), ..interface(bus, takes) };
            // A kernel without the call yields an error with a reason.
            prepare(&interface, shared) != Err(None)
        };
        assert!(looks(NIC, true, true, false));
        assert!(looks(None, false, true, false), "veth has tags beside the packet whatever its setting");
        assert!(!looks(NIC, false, true, false), "tags stay in the packet");
        assert!(!looks(NIC, true, false, false), "the driver hands out no tags");
        assert!(!looks(NIC, true, true, true), "other processes share the interface");
        assert!(looks(None, true, true, true), "of a virtual device there is a reason");
        let unknown = prepare(&interface(NIC, true), false);
        assert!(unknown == Err(None), "an older kernel");
    }

    #[test]
    fn generic_mode_is_to_blame_on_virtual_devices_that_have_tags_beside_their_packets() {
        assert!(unseen_in_generic_mode(&interface(None, true)).is_some());
        assert_eq!(unseen_in_generic_mode(&interface(None, false)), None);
        assert_eq!(unseen_in_generic_mode(&interface(NIC, true)), None, "the NIC is to blame");
    }

    #[test]
    fn a_kernel_that_blinds_constants_is_blamed_with_its_setting() {
        let source = bpf::Error::Blinded { name: "wirecap".into() };
        let cause = blame(&Error::Program { name: "eth1".into(), source }).unwrap();
        assert!(cause.text.contains("net.core.bpf_jit_harden"), "{cause:?}");
        let source = bpf::Error::Busy { interface: "eth1".into(), holder: String::new() };
        assert_eq!(blame(&Error::Program { name: "eth1".into(), source }), None);
    }
}
