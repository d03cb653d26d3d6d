//! VLAN tags that the XDP program never sees.
//!
//! A NIC may take the tag off a packet and hand it to the driver beside it. The host's stack knows where to look for it; in a cell the
//! packet is without. No driver is asked to leave tags on: the setting is the NIC's, and the host's VLANs use it, too.

use wirecap_sys::netdev::Interface;

/// What becomes of VLAN tags on this interface, in words; `None` if they stay on. Of a virtual device it is not said: its packets
/// come as somebody on this machine has made them.
pub(super) fn lost(interface: &Interface) -> Option<String> {
    let is_nic = interface.driver.as_ref().is_some_and(|driver| driver.bus.is_some());
    (is_nic && interface.takes_vlan_tags).then(|| {
        let name = &interface.name;
        format!(
            "VLAN tags are missing from packets: the NIC takes them off before XDP sees them; to have them: ethtool -K {name} rxvlan \
             off"
        )
    })
}

#[cfg(test)]
mod tests {
    use wirecap_sys::netdev::{self, Driver};

    use super::*;

    #[test]
    fn nics_that_take_tags_off_are_told_of() {
        let interface = |bus: Option<&str>, takes_vlan_tags| {
            let driver =
                Driver { name: "igb".into(), version: None, firmware: None, bus: bus.map(Into::into) };
            Interface { driver: Some(driver), takes_vlan_tags, ..netdev::interface("lo").unwrap() }
        };
        let nic = Some("0000:01:00.0");
        assert!(lost(&interface(nic, true)).is_some_and(|words| words.ends_with("ethtool -K lo rxvlan off")));
        assert_eq!(lost(&interface(nic, false)), None);
        assert_eq!(lost(&interface(None, true)), None, "a virtual device");
    }
}
