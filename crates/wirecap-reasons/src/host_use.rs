//! The texts about how the host, and other programs on it, use an interface.
//!
//! | the interface is | the command prints |
//! |---|---|
//! | captured passively | why, in the line of the port (`capture/announce.rs`) |
//! | taken | which users no longer get its packets, as a warning |
//! | used for sending | why zero-copy was not tried (`generate`, `replay`) |
//! | perhaps in use, as the kernel did not answer | what is unknown, as a warning |

use wirecap::{HostUse, PassiveReason, Process, Sight};

/// EtherTypes: of a socket that listens for all frames, and of the link layer discovery protocol.
const ETHERTYPE_ALL: u16 = 3;
const ETHERTYPE_LLDP: u16 = 0x88cc;
/// Uses that are named one by one; the others are counted.
const MAX_NAMED: usize = 4;

/// The text of a use, to stand in brackets: `address 192.0.2.1/24`, `listener tcpdump (pid 7)`.
pub fn describe(host_use: &HostUse) -> String {
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
        HostUse::IngressProgram { program_id, program, processes } => {
            let held = if processes.is_empty() { String::new() } else { format!(" of {}", names(processes)) };
            format!("TCX program{} (id {program_id}){held}", spaced(program.as_deref()))
        }
        HostUse::XdpProgram { program_id, program } => {
            format!("XDP program{} (id {program_id})", spaced(program.as_deref()))
        }
        HostUse::Unknown { what, reason } => format!("{} cannot be determined: {reason}", sight(*what)),
        _ => "a use of an unknown kind".into(),
    }
}

/// The name of a program behind a space; nothing if it is not known.
///
/// ```
/// use wirecap_reasons::host_use::spaced;
///
/// assert_eq!(format!("program{} (id 7)", spaced(Some("filter"))), "program filter (id 7)");
/// assert_eq!(format!("program{} (id 7)", spaced(None)), "program (id 7)");
/// ```
pub fn spaced(program: Option<&str>) -> String {
    program.map(|name| format!(" {name}")).unwrap_or_default()
}

/// The texts of several uses.
pub fn list<'u>(uses: impl Iterator<Item = &'u HostUse>) -> String {
    uses.map(describe).collect::<Vec<_>>().join("; ")
}

fn names(processes: &[Process]) -> String {
    let names: Vec<_> = processes.iter().map(Process::to_string).collect();
    if names.is_empty() { "of an unknown process".into() } else { names.join(", ") }
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

/// Why an interface is captured passively, to follow "because".
pub fn reason(reason: &PassiveReason) -> String {
    match reason {
        PassiveReason::NotEthernet { kind } => format!("it is not an Ethernet interface ({kind})"),
        PassiveReason::InUse(uses) => {
            let others = match uses.len().saturating_sub(MAX_NAMED) {
                0 => String::new(),
                others => format!("; and {others} more"),
            };
            format!("the host uses it ({}{others})", list(uses.iter().take(MAX_NAMED)))
        }
        _ => "the host uses it".into(),
    }
}

/// Warnings about an interface that is taken from the host.
pub fn of_taken(port: &str, uses: &[HostUse], is_deprived: impl Fn(&HostUse) -> bool) -> Vec<String> {
    let deprived = |host_use: &&HostUse| {
        // Only wirecap's dispatcher leaves room for a capture; with any other program, opening fails.
        !matches!(host_use, HostUse::XdpProgram { .. } | HostUse::Unknown { .. }) && is_deprived(host_use)
    };
    let taken = deprivation(port, "the host uses it", uses.iter().filter(deprived));
    taken.into_iter().chain(unknown(port, uses)).collect()
}

/// A warning about new uses of an interface that is taken, if they matter.
pub fn begun(port: &str, uses: &[HostUse], is_deprived: impl Fn(&HostUse) -> bool) -> Option<String> {
    deprivation(port, "the host now uses it", uses.iter().filter(|host_use| is_deprived(host_use)))
}

fn deprivation<'u>(port: &str, what: &str, deprived: impl Iterator<Item = &'u HostUse>) -> Option<String> {
    let named = list(deprived);
    (!named.is_empty())
        .then(|| format!("{port}: {what} ({named}) but gets none of the packets that wirecap takes"))
}

/// Warnings about unknown uses of an interface.
pub fn unknown(port: &str, uses: &[HostUse]) -> impl Iterator<Item = String> {
    let unknown = uses.iter().filter(|host_use| matches!(host_use, HostUse::Unknown { .. }));
    unknown.map(move |unknown| format!("{port}: {}; it may be in use", describe(unknown)))
}

#[cfg(test)]
mod tests {
    use wirecap::InterfaceAddress;

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
        assert_eq!(
            describe(&listener(0x800, false, &[])),
            "listener of an unknown process for EtherType 0800"
        );
    }

    #[test]
    fn sessions_programs_and_unknown_uses_have_texts() {
        let peer = wirecap::headers::MacAddress([2, 0, 0, 0, 0, 1]);
        let words = |host_use: HostUse| describe(&host_use);
        assert_eq!(
            words(HostUse::PppoeSession { session: 5, peer }),
            "PPPoE session 5 with 02:00:00:00:00:01"
        );
        let program = |program: Option<&str>, processes| HostUse::IngressProgram {
            program_id: 9,
            program: program.map(String::from),
            processes,
        };
        let tap = Process { pid: 7, name: "wirecap".into() };
        assert_eq!(
            words(program(Some("wirecap_tap"), vec![tap])),
            "TCX program wirecap_tap (id 9) of wirecap (pid 7)"
        );
        assert_eq!(words(program(None, Vec::new())), "TCX program (id 9)");
        let unknown = HostUse::Unknown { what: Sight::Listeners, reason: "no /proc".into() };
        assert_eq!(words(unknown), "listeners cannot be determined: no /proc");
    }

    #[test]
    fn a_long_list_is_cut() {
        let uses = |count: u32| {
            reason(&PassiveReason::InUse((1..=count).map(|pid| listener(3, false, &[pid])).collect()))
        };
        assert_eq!(uses(1), "the host uses it (listener tcpdump (pid 1))");
        assert!(uses(4).ends_with("; listener tcpdump (pid 4))"), "{}", uses(4));
        assert!(uses(6).ends_with("; listener tcpdump (pid 4); and 2 more)"), "{}", uses(6));
    }

    #[test]
    fn warnings_name_users_without_packets_and_what_is_unknown() {
        let address = InterfaceAddress { address: "192.0.2.1".parse().unwrap(), prefix_length: 24 };
        let uses = [
            HostUse::Address { address },
            HostUse::Listener {
                protocol: 3,
                on_all_interfaces: false,
                processes: vec![Process { pid: 7, name: "suricata".into() }],
                sockets: vec![4711],
            },
            HostUse::XdpProgram { program_id: 1, program: None },
            HostUse::Unknown { what: Sight::BridgeTable, reason: "not permitted".into() },
        ];
        let said = of_taken("eth1", &uses, |_| true);
        assert_eq!(
            said,
            [
                "eth1: the host uses it (address 192.0.2.1/24; listener suricata (pid 7)) but gets none of the packets that \
                 wirecap takes",
                "eth1: its bridge table cannot be determined: not permitted; it may be in use",
            ]
        );
        let router = of_taken("eth1", &uses[..2], |host_use| !matches!(host_use, HostUse::Address { .. }));
        assert!(
            router[0].starts_with("eth1: the host uses it (listener suricata (pid 7)) but"),
            "{router:?}"
        );
        assert_eq!(of_taken("eth1", &uses[2..3], |_| true), [""; 0]);
        let begun = begun("eth1", &uses[..2], |host_use| !matches!(host_use, HostUse::Listener { .. }));
        assert!(begun.unwrap().starts_with("eth1: the host now uses it (address 192.0.2.1/24) but gets"));
    }
}
