//! Uses of an interface that begin while it is taken: a DHCP client or a tcpdump that starts after the
//! capture.
//!
//! Rule: uses that were known when the interface was taken are reported then. Each later one is reported
//! once. But a program that begins to use it again and again is not reported for ever: a job that listens for
//! a moment every minute, or a filter that is replaced by another one of its name.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use wirecap_sys::{netdev, process::Process};

use super::view::{HostView, find_holders};
use crate::HostUse;

/// Time between two looks. Each asks the kernel some questions, which takes about a millisecond.
const PERIOD: Duration = Duration::from_secs(5);
/// How many uses by one program are reported. Programs are told apart by their names.
const MOST_BY_ONE_PROGRAM: usize = 8;
/// Sockets that are remembered, and other uses. Those that are forgotten are asked for once more.
const MAX_SOCKETS: usize = 10_000;

/// What is known of the uses of an interface.
#[derive(Debug)]
pub(crate) struct HostWatch {
    known: Vec<HostUse>,
    /// Inodes of the sockets that are known to listen.
    sockets: BTreeSet<u64>,
    /// Those that were reported, with the programs behind them.
    reported: Vec<HostUse>,
    looked: Instant,
}

impl HostWatch {
    /// Watches from now on; the `known` uses were found when the interface was looked up.
    pub(crate) fn new(known: &[HostUse]) -> Self {
        let (reported, looked) = (known.to_vec(), Instant::now());
        let mut watch = Self { known: Vec::new(), sockets: BTreeSet::new(), reported, looked };
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
        self.not_reported(begun)
    }

    /// Those that are not by a program that was reported often enough.
    fn not_reported(&mut self, mut begun: Vec<HostUse>) -> Vec<HostUse> {
        begun.retain(|host_use| {
            let same = self.reported.iter().filter(|reported| is_by_same_program(reported, host_use));
            let is_rare = same.count() < MOST_BY_ONE_PROGRAM;
            if is_rare {
                self.reported.push(host_use.clone());
            }
            is_rare
        });
        begun
    }

    /// Those that were not known before.
    fn take_new(&mut self, uses: Vec<HostUse>) -> Vec<HostUse> {
        let begun: Vec<_> = uses.into_iter().filter(|host_use| !self.knows(host_use)).collect();
        if self.sockets.len() > MAX_SOCKETS {
            self.sockets.clear();
        }
        let forgotten = self.known.len().saturating_sub(MAX_SOCKETS);
        self.known.drain(..forgotten);
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

/// Whether two uses are the same one, or by processes or BPF programs of the same names.
fn is_by_same_program(one: &HostUse, other: &HostUse) -> bool {
    use HostUse::{IngressProgram, Listener, XdpProgram};
    fn names(processes: &[Process]) -> BTreeSet<&str> {
        processes.iter().map(|process| process.name.as_str()).collect()
    }
    match (one, other) {
        (
            Listener { protocol: a, on_all_interfaces: on_all_a, processes: of_a, .. },
            Listener { protocol: b, on_all_interfaces: on_all_b, processes: of_b, .. },
        ) if !of_a.is_empty() => (a, on_all_a, names(of_a)) == (b, on_all_b, names(of_b)),
        (IngressProgram { program: Some(a), .. }, IngressProgram { program: Some(b), .. })
        | (XdpProgram { program: Some(a), .. }, XdpProgram { program: Some(b), .. }) => a == b,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use wirecap_sys::netdev::Route;

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

    #[test]
    fn a_program_that_comes_again_and_again_is_not_reported_for_ever() {
        let mut watch = HostWatch::new(&[]);
        let listener = |name: &str, pid, socket| HostUse::Listener {
            protocol: 3,
            on_all_interfaces: false,
            processes: vec![Process { pid, name: name.into() }],
            sockets: vec![socket],
        };
        let filter = |program: Option<&str>, program_id| HostUse::IngressProgram {
            program_id,
            program: program.map(str::to_owned),
            processes: Vec::new(),
        };
        let mut reported = 0;
        for number in 1..=1_000 {
            let begun = vec![
                listener("arping", number, number.into()),
                listener("dhclient", 1_000 + number, 9_000 + u64::from(number)),
                filter(Some("cil_from_netdev"), number),
            ];
            assert_eq!(watch.take_new(begun.clone()).len(), 3, "another socket, another program");
            reported += watch.not_reported(begun).len();
        }
        assert_eq!(reported, 3 * MOST_BY_ONE_PROGRAM);
        // Without a name, nothing says that it is the same.
        let nameless = (1..=100).map(|number| filter(None, number)).collect();
        assert_eq!(watch.not_reported(nameless).len(), 100);
    }
}
