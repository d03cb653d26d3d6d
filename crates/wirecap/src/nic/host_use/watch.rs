//! Uses of an interface that begin while it is taken: a DHCP client or a tcpdump that starts after the
//! capture.
//!
//! Rule: uses that were known when the interface was taken are reported then. Each later one is reported
//! once.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use wirecap_sys::netdev;

use super::view::{HostView, find_holders};
use crate::HostUse;

/// Time between two looks. Each asks the kernel some questions, which takes about a millisecond.
const PERIOD: Duration = Duration::from_secs(5);

/// What is known of the uses of an interface.
#[derive(Debug)]
pub(crate) struct HostWatch {
    known: Vec<HostUse>,
    /// Inodes of the sockets that are known to listen.
    sockets: BTreeSet<u64>,
    looked: Instant,
}

impl HostWatch {
    /// Watches from now on; the `known` uses were found when the interface was looked up.
    pub(crate) fn new(known: &[HostUse]) -> Self {
        let mut watch = Self { known: Vec::new(), sockets: BTreeSet::new(), looked: Instant::now() };
        watch.take_new(known.to_vec());
        watch
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&self) -> bool {
        self.looked.elapsed() >= PERIOD
    }

    /// Uses of the interface, in the calling thread's network namespace, that have begun since the last look,
    /// and that keep an interface. A question that fails is asked again next time.
    pub(crate) fn look(&mut self, ifindex: u32) -> Vec<HostUse> {
        self.looked = Instant::now();
        let Ok(interface) = netdev::interface_with_index(ifindex) else { return Vec::new() };
        let uses = HostView::read().and_then(|host| host.uses_besides(&interface, &self.sockets));
        let begun = self.take_new(uses.unwrap_or_default());
        let mut begun: Vec<_> = begun.into_iter().filter(HostUse::keeps_interface).collect();
        find_holders(&mut begun);
        begun
    }

    /// Those that were not known before.
    fn take_new(&mut self, uses: Vec<HostUse>) -> Vec<HostUse> {
        let begun: Vec<_> = uses.into_iter().filter(|host_use| !self.knows(host_use)).collect();
        for host_use in &begun {
            match host_use {
                HostUse::Listener { sockets, .. } => self.sockets.extend(sockets),
                host_use => self.known.push(host_use.clone()),
            }
        }
        begun
    }

    fn knows(&self, host_use: &HostUse) -> bool {
        match host_use {
            HostUse::Listener { sockets, .. } => sockets.iter().all(|socket| self.sockets.contains(socket)),
            // Only the first of many routes is known, which may be another one next time.
            HostUse::Route { .. } => self.known.iter().any(|known| matches!(known, HostUse::Route { .. })),
            // Its holders are asked for only once.
            HostUse::IngressProgram { program_id, .. } => self.known.iter().any(
                |known| matches!(known, HostUse::IngressProgram { program_id: id, .. } if id == program_id),
            ),
            host_use => self.known.contains(host_use),
        }
    }
}

#[cfg(test)]
mod tests {
    use wirecap_sys::{netdev::Route, process::Process};

    use super::*;

    #[test]
    fn each_new_use_is_reported_once() {
        let listener = |socket| HostUse::Listener {
            protocol: 3,
            on_all_interfaces: false,
            processes: Vec::new(),
            sockets: vec![socket],
        };
        let route = |last| HostUse::Route {
            destination: Route {
                destination: [192, 0, 2, last].into(),
                prefix_length: 32,
                table: 254,
                by_kernel: false,
            },
            table: 254,
        };
        let mut watch = HostWatch::new(&[listener(7)]);
        assert_eq!(watch.take_new(vec![listener(7), route(1)]), [route(1)]);
        assert_eq!(watch.take_new(vec![listener(7), route(2)]), [], "a route leads over it, as before");
        assert_eq!(watch.take_new(vec![listener(8), route(1)]), [listener(8)]);
        assert_eq!(watch.take_new(vec![listener(8)]), []);
        let program = |processes| HostUse::IngressProgram { program_id: 9, program: None, processes };
        let holder = Process { pid: 7, name: "mirror".into() };
        let mut watch = HostWatch::new(&[program(vec![holder])]);
        assert_eq!(watch.take_new(vec![program(Vec::new())]), [], "the same program");
    }
}
