//! How the host, or another program of it, uses an interface.
//!
//! ```text
//!   HostView::read() ── once ──► HostView ── uses(interface) ──► [HostUse] ── keeps_interface()? ──► PassiveReason: captured beside it
//!                                                                        └── else ───────────────► taken; what is left is reported
//! ```
//!
//! | what | how it is known | keeps the interface |
//! |---|---|---|
//! | an IP address, except link-local IPv6 | rtnetlink | yes |
//! | a bridge, bond, VLAN, macvlan … on top, with an address or up | rtnetlink | yes |
//! | a route over it, except those that the kernel adds for IPv6 | rtnetlink | yes |
//! | an interface of another network namespace on top, that is up | requests for multicast from above | yes |
//! | Ethernet addresses beside its own | bridge table | yes |
//! | a PPPoE session, an IPv4 multicast group | `/proc` | yes |
//! | an AF_PACKET listener: tcpdump, Suricata, a DHCP client | `/proc` | yes, unless for LLDP alone |
//! | a tc filter or TCX program on what comes in | rtnetlink, bpf(2) | yes |
//! | an XDP program | rtnetlink | no: there is room for one, so opening fails |
//!
//! Rule: all commands that take an interface, or send from one, ask here. What cannot be known is a
//! [`HostUse::Unknown`], never left out.

mod view;
pub(crate) mod watch;

use wirecap_sys::netdev::Interface;

pub use self::view::HostView;
use crate::{
    Access,
    nic::tapping,
    report::{HostUse, PassiveReason},
};

/// What [`Access::Auto`] resolves to on an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessChoice {
    /// [`Access::Xdp`]; if it is left to the host, [`Access::Tap`] where the kernel lets this process tap it,
    /// else [`Access::Packet`].
    pub access: Access,
    /// Why it is left to the host, if it is.
    pub left_to_host: Option<PassiveReason>,
    /// All that is known of how it is used; empty if it is no Ethernet interface.
    pub uses: Vec<HostUse>,
}

impl AccessChoice {
    fn new(interface: &Interface, left_to_host: Option<PassiveReason>, uses: Vec<HostUse>) -> Self {
        let access = match &left_to_host {
            None => Access::Xdp,
            Some(_) if tapping::lacks(interface).is_none() => Access::Tap,
            Some(_) => Access::Packet,
        };
        Self { access, left_to_host, uses }
    }

    /// Why frames are sent by copy unless zero-copy is asked for: zero-copy could take packets from those
    /// users.
    pub fn against_zero_copy_sending(&self) -> Option<PassiveReason> {
        let disturbed = self.uses.iter().filter(|host_use| host_use.forbids_zero_copy_sending());
        let disturbed: Vec<_> = disturbed.cloned().collect();
        let in_use = (!disturbed.is_empty()).then_some(PassiveReason::InUse(disturbed));
        in_use.or_else(|| self.left_to_host.clone())
    }
}
