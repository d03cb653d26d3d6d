//! Uses of an interface in words.

use wirecap::{HostUse, LeftToHost, Process, Sight};

/// EtherTypes of a socket that listens for all frames, and of the link layer discovery protocol.
const ETHERTYPE_ALL: u16 = 3;
const ETHERTYPE_LLDP: u16 = 0x88cc;
/// Uses that are named one by one; the others are counted.
const MAX_NAMED: usize = 4;

/// A use in words that fit into brackets: `address 192.0.2.1/24`, `listener tcpdump (pid 7)`.
pub(crate) fn describe(host_use: &HostUse) -> String {
    match host_use {
        HostUse::Address { address } => format!("address {address}"),
        HostUse::Upper { name, is_master: true, address: Some(address) } => {
            format!("member of {name}, which has address {address}")
        }
        HostUse::Upper { name, is_master: false, address: Some(address) } => {
            format!("{name} on top of it has address {address}")
        }
        HostUse::Upper { name, is_master: true, address: None } => format!("member of {name}"),
        HostUse::Upper { name, is_master: false, address: None } => format!("{name} on top of it is up"),
        HostUse::HiddenUpper { addresses } => {
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            let addresses =
                if addresses.is_empty() { String::new() } else { format!(": {}", addresses.join(", ")) };
            format!("an interface of another network namespace on top of it{addresses}")
        }
        HostUse::ForeignAddress { address } => format!("Ethernet address {address} in its bridge table"),
        HostUse::Route { destination, .. } if destination.prefix_length == 0 => "the default route".into(),
        HostUse::Route { destination, .. } => format!("route {destination}"),
        HostUse::PppoeSession { session, peer } => format!("PPPoE session {session} with {peer}"),
        HostUse::MulticastGroup { group } => format!("multicast group {group}"),
        HostUse::Listener { protocol, on_all_interfaces, processes, .. } => {
            let protocol = match *protocol {
                ETHERTYPE_ALL => String::new(),
                ETHERTYPE_LLDP => " for LLDP".into(),
                protocol => format!(" for EtherType {protocol:04x}"),
            };
            let all = if *on_all_interfaces { " on all interfaces" } else { "" };
            format!("listener {}{protocol}{all}", names(processes))
        }
        HostUse::IngressFilter { filter } => format!("tc filter {filter}"),
        HostUse::IngressProgram { program_id, program } => {
            format!("TCX program {} (id {program_id})", program.as_deref().unwrap_or("?"))
        }
        HostUse::XdpProgram { program_id, program } => {
            format!("XDP program {} (id {program_id})", program.as_deref().unwrap_or("?"))
        }
        HostUse::Unknown { what, reason } => format!("{} cannot be known: {reason}", sight(*what)),
        _ => "a use that has no name here".into(),
    }
}

/// Several uses in words.
pub(crate) fn list<'u>(uses: impl Iterator<Item = &'u HostUse>) -> String {
    uses.map(describe).collect::<Vec<_>>().join("; ")
}

fn names(processes: &[Process]) -> String {
    let names: Vec<_> = processes.iter().map(Process::to_string).collect();
    if names.is_empty() { "that cannot be seen".into() } else { names.join(", ") }
}

fn sight(sight: Sight) -> &'static str {
    match sight {
        Sight::Addresses => "addresses, routes and interfaces on top",
        Sight::HiddenUppers => "interfaces of other network namespaces on top of it",
        Sight::BridgeTable => "its bridge table",
        Sight::PppoeSessions => "PPPoE sessions over it",
        Sight::Listeners => "listeners",
        Sight::IngressFilters => "tc filters and TCX programs",
        _ => "some uses",
    }
}

/// Why an interface is captured beside the host, in words that fit behind "since".
pub(crate) fn reason(reason: &LeftToHost) -> String {
    match reason {
        LeftToHost::NotEthernet { kind } => format!("it is no Ethernet interface ({kind})"),
        LeftToHost::InUse(uses) => {
            let others = match uses.len().saturating_sub(MAX_NAMED) {
                0 => String::new(),
                others => format!("; and {others} more"),
            };
            format!("the host uses it ({}{others})", list(uses.iter().take(MAX_NAMED)))
        }
        _ => "the host uses it".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(protocol: u16, on_all_interfaces: bool, pids: &[u32]) -> HostUse {
        let processes = pids.iter().map(|&pid| Process { pid, name: "tcpdump".into() }).collect();
        HostUse::Listener { protocol, on_all_interfaces, processes, sockets: Vec::new() }
    }

    #[test]
    fn listeners_are_named_with_their_protocol() {
        assert_eq!(describe(&listener(3, false, &[7])), "listener tcpdump (pid 7)");
        let all = describe(&listener(3, true, &[7, 8]));
        assert_eq!(all, "listener tcpdump (pid 7), tcpdump (pid 8) on all interfaces");
        assert_eq!(describe(&listener(0x88cc, false, &[7])), "listener tcpdump (pid 7) for LLDP");
        assert_eq!(describe(&listener(0x800, false, &[])), "listener that cannot be seen for EtherType 0800");
    }

    #[test]
    fn sessions_programs_and_unknown_uses_have_words() {
        let peer = wirecap::headers::MacAddress([2, 0, 0, 0, 0, 1]);
        let words = |host_use: HostUse| describe(&host_use);
        assert_eq!(
            words(HostUse::PppoeSession { session: 5, peer }),
            "PPPoE session 5 with 02:00:00:00:00:01"
        );
        let program = |program: Option<&str>| HostUse::IngressProgram {
            program_id: 9,
            program: program.map(String::from),
        };
        assert_eq!(words(program(Some("mirror"))), "TCX program mirror (id 9)");
        assert_eq!(words(program(None)), "TCX program ? (id 9)");
        let unknown = HostUse::Unknown { what: Sight::Listeners, reason: "no /proc".into() };
        assert_eq!(words(unknown), "listeners cannot be known: no /proc");
    }

    #[test]
    fn a_long_list_is_cut() {
        let uses = |count: u32| {
            reason(&LeftToHost::InUse((1..=count).map(|pid| listener(3, false, &[pid])).collect()))
        };
        assert_eq!(uses(1), "the host uses it (listener tcpdump (pid 1))");
        assert!(uses(4).ends_with("; listener tcpdump (pid 4))"), "{}", uses(4));
        assert!(uses(6).ends_with("; listener tcpdump (pid 4); and 2 more)"), "{}", uses(6));
    }
}
