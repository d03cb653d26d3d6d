//! Sentences about how the host, and other programs on it, use an interface.
//!
//! | the interface is | the command says |
//! |---|---|
//! | captured beside the host | why, in the line of the port (`capture/announce.rs`) |
//! | taken | which users go without its packets, as a warning |
//! | sent from | why zero-copy was left alone (`generate`, `replay`) |
//! | perhaps in use, since the kernel did not answer | what is unknown, as a warning |

use wirecap::HostUse;

use crate::text::host_use::{describe, list};

/// Warnings about an interface that is taken.
pub(crate) fn of_taken(port: &str, uses: &[HostUse], is_deprived: impl Fn(&HostUse) -> bool) -> Vec<String> {
    let deprived = |host_use: &&HostUse| {
        // Only the dispatcher of wirecap leaves room for a capture; with any other program opening fails.
        !matches!(host_use, HostUse::XdpProgram { .. } | HostUse::Unknown { .. }) && is_deprived(host_use)
    };
    let named = list(uses.iter().filter(deprived));
    let taken = (!named.is_empty()).then(|| {
        format!("{port}: the host uses it ({named}) and gets none of the packets that wirecap takes")
    });
    taken.into_iter().chain(unknown(port, uses)).collect()
}

/// A warning about uses that have begun of an interface that is taken, if they matter.
pub(crate) fn begun(port: &str, uses: &[HostUse], is_deprived: impl Fn(&HostUse) -> bool) -> Option<String> {
    let named = list(uses.iter().filter(|host_use| is_deprived(host_use)));
    (!named.is_empty()).then(|| {
        format!(
            "{port}: the host has begun to use it ({named}) and gets none of the packets that wirecap takes"
        )
    })
}

/// Warnings about what cannot be known of an interface.
pub(crate) fn unknown(port: &str, uses: &[HostUse]) -> impl Iterator<Item = String> {
    let unknown = uses.iter().filter(|host_use| matches!(host_use, HostUse::Unknown { .. }));
    unknown.map(move |unknown| format!("{port}: {}; it may be in use by others", describe(unknown)))
}

#[cfg(test)]
mod tests {
    use wirecap::{InterfaceAddress, Process, Sight};

    use super::*;

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
                "eth1: the host uses it (address 192.0.2.1/24; listener suricata (pid 7)) and gets none of the packets that \
                 wirecap takes",
                "eth1: its bridge table cannot be known: not permitted; it may be in use by others",
            ]
        );
        let router = of_taken("eth1", &uses[..2], |host_use| !matches!(host_use, HostUse::Address { .. }));
        assert!(
            router[0].starts_with("eth1: the host uses it (listener suricata (pid 7)) and"),
            "{router:?}"
        );
        assert_eq!(of_taken("eth1", &uses[2..3], |_| true), [""; 0]);
        let begun = begun("eth1", &uses[..2], |host_use| !matches!(host_use, HostUse::Listener { .. }));
        assert!(
            begun.unwrap().starts_with("eth1: the host has begun to use it (address 192.0.2.1/24) and gets")
        );
    }
}
