//! Uses of an interface in words.

use std::fmt;

use wirecap_sys::process::Process;

use crate::report::{HostUse, LeftToHost, Sight, host_use::ETHERTYPE_LLDP};

/// Uses that are named one by one; the others are counted.
const MAX_NAMED: usize = 4;
/// EtherType of a socket that listens for all.
const ETHERTYPE_ALL: u16 = 3;

impl fmt::Display for HostUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostUse::Address { address } => write!(f, "address {address}"),
            HostUse::Upper { name, is_master: true, address: Some(address) } => {
                write!(f, "member of {name}, which has address {address}")
            }
            HostUse::Upper { name, is_master: false, address: Some(address) } => {
                write!(f, "{name} on top of it has address {address}")
            }
            HostUse::Upper { name, is_master: true, address: None } => write!(f, "member of {name}"),
            HostUse::Upper { name, is_master: false, address: None } => {
                write!(f, "{name} on top of it is up")
            }
            HostUse::HiddenUpper { addresses } => {
                f.write_str("an interface of another network namespace on top of it")?;
                let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                if addresses.is_empty() { Ok(()) } else { write!(f, ": {}", addresses.join(", ")) }
            }
            HostUse::ForeignAddress { address } => {
                write!(f, "Ethernet address {address} in its bridge table")
            }
            HostUse::Route { destination, .. } if destination.prefix_length == 0 => {
                f.write_str("the default route")
            }
            HostUse::Route { destination, .. } => write!(f, "route {destination}"),
            HostUse::PppoeSession { session, peer } => write!(f, "PPPoE session {session} with {peer}"),
            HostUse::MulticastGroup { group } => write!(f, "multicast group {group}"),
            HostUse::Listener { protocol, on_all_interfaces, processes, .. } => {
                write!(f, "listener {}", in_words(processes))?;
                match *protocol {
                    ETHERTYPE_ALL => {}
                    ETHERTYPE_LLDP => f.write_str(" for LLDP")?,
                    protocol => write!(f, " for EtherType {protocol:04x}")?,
                }
                f.write_str(if *on_all_interfaces { " on all interfaces" } else { "" })
            }
            HostUse::IngressFilter { filter } => write!(f, "tc filter {filter}"),
            HostUse::IngressProgram { program_id, program } => {
                write!(f, "TCX program {} (id {program_id})", program.as_deref().unwrap_or("?"))
            }
            HostUse::XdpProgram { program_id, program } => {
                write!(f, "XDP program {} (id {program_id})", program.as_deref().unwrap_or("?"))
            }
            HostUse::Unknown { what, reason } => write!(f, "{what} cannot be known: {reason}"),
        }
    }
}

fn in_words(processes: &[Process]) -> String {
    let words: Vec<_> = processes.iter().map(Process::to_string).collect();
    if words.is_empty() { "that cannot be seen".into() } else { words.join(", ") }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sight::Addresses => "addresses, routes and interfaces on top",
            Sight::HiddenUppers => "interfaces of other network namespaces on top of it",
            Sight::BridgeTable => "its bridge table",
            Sight::PppoeSessions => "PPPoE sessions over it",
            Sight::Listeners => "listeners",
            Sight::IngressFilters => "tc filters and TCX programs",
        })
    }
}

impl fmt::Display for LeftToHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeftToHost::NotEthernet { kind } => write!(f, "it is no Ethernet interface ({kind})"),
            LeftToHost::InUse(uses) => {
                let named: Vec<_> = uses.iter().take(MAX_NAMED).map(HostUse::to_string).collect();
                write!(f, "the host uses it ({}", named.join("; "))?;
                let others = uses.len() - named.len();
                f.write_str(&if others == 0 { ")".to_owned() } else { format!("; and {others} more)") })
            }
        }
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
        assert_eq!(listener(3, false, &[7]).to_string(), "listener tcpdump (pid 7)");
        let all = listener(3, true, &[7, 8]).to_string();
        assert_eq!(all, "listener tcpdump (pid 7), tcpdump (pid 8) on all interfaces");
        assert_eq!(listener(0x88cc, false, &[7]).to_string(), "listener tcpdump (pid 7) for LLDP");
        assert_eq!(
            listener(0x800, false, &[]).to_string(),
            "listener that cannot be seen for EtherType 0800"
        );
    }

    #[test]
    fn sessions_programs_and_unknown_uses_have_words() {
        let peer = wirecap_headers::MacAddress([2, 0, 0, 0, 0, 1]);
        let words = |host_use: HostUse| host_use.to_string();
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
        let uses =
            |count: u32| LeftToHost::InUse((1..=count).map(|pid| listener(3, false, &[pid])).collect());
        assert_eq!(uses(1).to_string(), "the host uses it (listener tcpdump (pid 1))");
        assert!(uses(4).to_string().ends_with("; listener tcpdump (pid 4))"), "{}", uses(4));
        assert!(uses(6).to_string().ends_with("; listener tcpdump (pid 4); and 2 more)"), "{}", uses(6));
    }

    #[test]
    fn lldp_xdp_and_the_unknown_do_not_keep_an_interface() {
        let xdp = HostUse::XdpProgram { program_id: 1, program: None };
        let unknown = HostUse::Unknown { what: Sight::Addresses, reason: String::new() };
        let others = [listener(ETHERTYPE_LLDP, false, &[1]), xdp.clone(), unknown];
        assert_eq!(LeftToHost::for_uses(&others), None);
        assert!(xdp.forbids_zero_copy_sending());
        let ids = listener(ETHERTYPE_ALL, false, &[7]);
        let all = [others.as_slice(), std::slice::from_ref(&ids)].concat();
        assert_eq!(LeftToHost::for_uses(&all), Some(LeftToHost::InUse(vec![ids])));
    }
}
