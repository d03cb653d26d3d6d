//! Finding out how interfaces are used.
//!
//! Rule: the cheap questions about all interfaces are asked once, those about one with a filter in the
//! kernel.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use wirecap_headers::MacAddress;
use wirecap_sys::{
    bpf,
    netdev::{
        self, HardwareType, Interface, InterfaceAddress, PacketSocket, PppoeSession, Surroundings,
        UpperInterface,
    },
};

use super::AccessChoice;
use crate::{
    Error,
    report::{HostUse, PassiveReason, Sight},
};

/// A snapshot of what surrounds the interfaces of the calling thread's network namespace.
///
/// ```no_run
/// let host = wirecap::HostView::read()?;
/// match host.choose("eth1")?.left_to_host {
///     Some(reason) => println!("passive, {reason:?}"),
///     None => println!("over AF_XDP"),
/// }
/// # Ok::<(), wirecap::Error>(())
/// ```
#[derive(Debug)]
pub struct HostView(Surroundings);

impl HostView {
    /// Takes the snapshot.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn read() -> Result<Self, Error> {
        Ok(Self(Surroundings::read()?))
    }

    /// What [`Access::Auto`](crate::Access::Auto) resolves to on an interface, and why.
    ///
    /// # Errors
    /// When there is no such interface, or the kernel cannot be asked.
    pub fn choose(&self, name: &str) -> Result<AccessChoice, Error> {
        self.choose_for(&netdev::interface(name)?)
    }

    /// As [`HostView::choose`], of an interface that was looked up.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn choose_for(&self, interface: &Interface) -> Result<AccessChoice, Error> {
        if interface.hardware_type != HardwareType::ETHERNET {
            let kind = interface.hardware_type.to_string();
            return Ok(AccessChoice::new(interface, Some(PassiveReason::NotEthernet { kind }), Vec::new()));
        }
        let uses = self.uses(interface)?;
        Ok(AccessChoice::new(interface, PassiveReason::for_uses(&uses), uses))
    }

    /// All ways in which an interface is used, the most telling one first.
    ///
    /// # Errors
    /// When the kernel cannot be asked for what has to be known: addresses, routes, what is on top.
    pub fn uses(&self, interface: &Interface) -> Result<Vec<HostUse>, Error> {
        let mut uses = self.uses_besides(interface, &BTreeSet::new())?;
        find_holders(&mut uses);
        Ok(uses)
    }

    /// As [`HostView::uses`], without listeners whose sockets, by their inodes, are known, and without the
    /// holders of programs.
    pub(crate) fn uses_besides(
        &self,
        interface: &Interface,
        known: &BTreeSet<u64>,
    ) -> Result<Vec<HostUse>, Error> {
        let mut uses: Vec<_> =
            host_addresses(&interface.addresses).map(|address| HostUse::Address { address }).collect();
        // A route leads over each interface with an address.
        let is_numbered = !uses.is_empty();
        uses.extend(of_uppers(&self.0.uppers(interface.ifindex)));
        if !is_numbered {
            let route = netdev::find_route(interface.ifindex, |route| !route.is_automatic())?;
            uses.extend(route.map(|destination| HostUse::Route { table: destination.table, destination }));
        }
        uses.extend(self.of_other_namespaces(interface));
        uses.extend(self.of_proc(interface, known));
        uses.extend(ingress(interface.ifindex));
        uses.extend(interface.xdp_programs.iter().map(|attached| HostUse::XdpProgram {
            program_id: attached.program_id,
            program: bpf::Program::name_by_id(attached.program_id).ok(),
        }));
        // What is not known comes last.
        uses.sort_by_key(|host_use| matches!(host_use, HostUse::Unknown { .. }));
        Ok(uses)
    }

    /// What takes frames to addresses that are not the interface's, and what is on top of it where it cannot
    /// be seen.
    fn of_other_namespaces(&self, interface: &Interface) -> Vec<HostUse> {
        let is_foreign =
            |address: &MacAddress| interface.mac != Some(*address) && !self.0.has_interface_with(*address);
        let table = netdev::bridge_table(interface.ifindex);
        let foreign = table.map(|addresses| addresses.into_iter().filter(is_foreign).collect());
        of_hidden_uppers(foreign, self.0.has_hidden_upper(interface.ifindex))
    }

    fn of_proc(&self, interface: &Interface, known: &BTreeSet<u64>) -> Vec<HostUse> {
        let mut uses = of_pppoe(self.0.pppoe_sessions(&interface.name));
        // If the kernel does not list them, [`Sight::HiddenUppers`] says so: both come from the same tables.
        let groups = self.0.groups(interface.ifindex).unwrap_or_default();
        uses.extend(groups.into_iter().map(|group| HostUse::MulticastGroup { group }));
        match self.0.listeners(interface.ifindex) {
            Ok(mut sockets) => {
                sockets.retain(|socket| !known.contains(&socket.inode));
                uses.extend(self.listeners(&sockets));
            }
            Err(cause) => uses.push(unknown(Sight::Listeners, cause)),
        }
        uses
    }

    /// The listeners, grouped: a program may have a socket for each of its threads.
    fn listeners(&self, sockets: &[PacketSocket]) -> Vec<HostUse> {
        let mut alike: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for socket in sockets {
            let key = (self.0.holders(socket), socket.protocol, socket.ifindex == 0);
            alike.entry(key).or_default().push(socket.inode);
        }
        let listener = |((processes, protocol, on_all_interfaces), sockets)| HostUse::Listener {
            protocol,
            on_all_interfaces,
            processes,
            sockets,
        };
        alike.into_iter().map(listener).collect()
    }
}

fn unknown(what: Sight, reason: impl ToString) -> HostUse {
    HostUse::Unknown { what, reason: reason.to_string() }
}

fn of_pppoe(sessions: Result<Vec<PppoeSession>, impl ToString>) -> Vec<HostUse> {
    let session = |PppoeSession { number, peer, .. }| HostUse::PppoeSession { session: number, peer };
    sessions.map_or_else(
        |cause| vec![unknown(Sight::PppoeSessions, cause)],
        |sessions| sessions.into_iter().map(session).collect(),
    )
}

/// From the addresses in the bridge table that are of no interface here, and whether an upper is hidden.
fn of_hidden_uppers(
    foreign: Result<Vec<MacAddress>, impl ToString>,
    hidden: Result<bool, impl ToString>,
) -> Vec<HostUse> {
    let mut uses = Vec::new();
    let foreign = foreign.unwrap_or_else(|error| {
        uses.push(unknown(Sight::BridgeTable, error));
        Vec::new()
    });
    match hidden {
        Ok(true) => uses.push(HostUse::HiddenUpper { addresses: foreign }),
        hidden => {
            uses.extend(foreign.into_iter().map(|address| HostUse::ForeignAddress { address }));
            uses.extend(hidden.err().map(|cause| unknown(Sight::HiddenUppers, cause)));
        }
    }
    uses
}

/// The kernel adds link-local IPv6 addresses by itself, so they are no sign of use.
fn host_addresses(addresses: &[InterfaceAddress]) -> impl Iterator<Item = InterfaceAddress> {
    addresses.iter().copied().filter(|address| !address.is_ipv6_link_local())
}

/// What is on top of an interface and in use, what has an address first, then what the interface is a member
/// of. What is switched off and has no address is not in use; a bridge or bond is, since the interface was
/// made a member of it.
fn of_uppers(uppers: &[UpperInterface]) -> Vec<HostUse> {
    let mut uses: Vec<_> = uppers
        .iter()
        .filter_map(|upper| {
            let address = host_addresses(&upper.addresses).next();
            let rank = Reverse((address.is_some(), upper.is_master));
            let is_used = address.is_some() || upper.is_master || upper.up;
            is_used.then(|| {
                (rank, HostUse::Upper { name: upper.name.clone(), is_master: upper.is_master, address })
            })
        })
        .collect();
    uses.sort_by_key(|(rank, _)| *rank);
    uses.into_iter().map(|(_, host_use)| host_use).collect()
}

/// Adds the processes that hold the TCX programs among these uses. If there are any, it looks at every open
/// file of the machine.
pub(super) fn find_holders(uses: &mut [HostUse]) {
    let ids: Vec<u32> = uses
        .iter()
        .filter_map(|host_use| match host_use {
            HostUse::IngressProgram { program_id, .. } => Some(*program_id),
            _ => None,
        })
        .collect();
    let mut holders = bpf::holders_of_programs(&ids);
    for host_use in uses {
        if let HostUse::IngressProgram { program_id, processes, .. } = host_use {
            *processes = holders.remove(program_id).unwrap_or_default();
        }
    }
}

/// What traffic control does to what comes in.
fn ingress(ifindex: u32) -> Vec<HostUse> {
    let mut uses = Vec::new();
    match netdev::ingress_filters(ifindex) {
        Ok(filters) => uses.extend(filters.into_iter().map(|filter| HostUse::IngressFilter { filter })),
        Err(error) => uses.push(unknown(Sight::IngressFilters, error)),
    }
    match bpf::ingress_programs(ifindex) {
        Ok(programs) => uses.extend(programs.into_iter().map(|program_id| HostUse::IngressProgram {
            program_id,
            program: bpf::Program::name_by_id(program_id).ok(),
            processes: Vec::new(),
        })),
        // Without the privilege nothing can be taken either.
        Err(bpf::Error::NotPermitted { .. }) => {}
        Err(error) => uses.push(unknown(Sight::IngressFilters, error)),
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upper(name: &str, up: bool, is_master: bool, addresses: &[&str]) -> UpperInterface {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        let addresses = addresses.map(|address| InterfaceAddress { address, prefix_length: 24 }).collect();
        UpperInterface { name: name.into(), up, is_master, addresses }
    }

    #[test]
    fn uppers_with_an_address_come_first_then_masters_then_links_that_are_up() {
        let idle = upper("eth1.4", false, false, &["fe80::1"]);
        let up = upper("eth1.5", true, false, &["fe80::1"]);
        let bond = upper("bond0", false, true, &[]);
        let vlan = upper("bond0.7", false, false, &["fe80::1", "192.0.2.1"]);
        let bridge = upper("br0", true, true, &["192.0.2.2"]);
        let words = |uppers: &[&UpperInterface]| {
            let uppers: Vec<_> = uppers.iter().copied().cloned().collect();
            let name = |host_use| match host_use {
                HostUse::Upper { name, is_master, address } => {
                    format!(
                        "{name} {is_master} {}",
                        address.map(|address| address.to_string()).unwrap_or_default()
                    )
                }
                other => panic!("{other:?}"),
            };
            of_uppers(&uppers).into_iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(words(&[]), [""; 0]);
        assert_eq!(words(&[&idle]), [""; 0]);
        assert_eq!(words(&[&idle, &up]), ["eth1.5 false "]);
        assert_eq!(words(&[&up, &bond]), ["bond0 true ", "eth1.5 false "]);
        let all = ["bond0.7 false 192.0.2.1/24", "bond0 true ", "eth1.5 false "];
        assert_eq!(words(&[&up, &bond, &vlan]), all);
        assert_eq!(words(&[&bridge]), ["br0 true 192.0.2.2/24"]);
    }

    const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

    #[test]
    fn each_pppoe_session_is_a_use_that_keeps_the_interface() {
        let session = PppoeSession { number: 5, peer: PEER, interface: "eth1".into() };
        let uses = of_pppoe(Ok::<_, String>(vec![session]));
        assert_eq!(uses, [HostUse::PppoeSession { session: 5, peer: PEER }]);
        assert_eq!(PassiveReason::for_uses(&uses), Some(PassiveReason::InUse(uses)));
        assert_eq!(of_pppoe(Ok::<_, String>(Vec::new())), []);
    }

    /// What cannot be known is reported, with the reason, and is not taken for a use.
    #[test]
    fn what_cannot_be_known_is_a_use_of_its_own() {
        const DENIED: &str = "/proc/thread-self/net: Permission denied";
        let is_unknown = |what| HostUse::Unknown { what, reason: DENIED.into() };
        let uses = of_pppoe(Err(DENIED));
        assert_eq!(uses, [is_unknown(Sight::PppoeSessions)]);
        assert_eq!(PassiveReason::for_uses(&uses), None);
        let data = serde_json::to_value(&uses).unwrap();
        assert_eq!((&data[0]["kind"], &data[0]["what"]), (&"unknown".into(), &"pppoe_sessions".into()));

        let none = || Ok::<_, &str>(Vec::new());
        assert_eq!(of_hidden_uppers(none(), Err(DENIED)), [is_unknown(Sight::HiddenUppers)]);
        assert_eq!(of_hidden_uppers(Err(DENIED), Ok::<_, &str>(false)), [is_unknown(Sight::BridgeTable)]);
        let (foreign, hidden) = (HostUse::ForeignAddress { address: PEER }, vec![PEER]);
        assert_eq!(
            of_hidden_uppers(Ok::<_, &str>(vec![PEER]), Err(DENIED)),
            [foreign.clone(), is_unknown(Sight::HiddenUppers)]
        );
        assert_eq!(of_hidden_uppers(Ok::<_, &str>(vec![PEER]), Ok::<_, &str>(false)), [foreign]);
        let upper = HostUse::HiddenUpper { addresses: hidden };
        assert_eq!(of_hidden_uppers(Ok::<_, &str>(vec![PEER]), Ok::<_, &str>(true)), [upper]);
    }
}
