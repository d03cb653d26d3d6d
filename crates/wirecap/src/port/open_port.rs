//! A port as the capture has opened it: what it is, and what has to be given back.

use std::sync::Arc;

use wirecap_sys::{
    bpf, cpu,
    netdev::{Interface, LinkState},
};

use crate::{
    Diagnostic, HostUse, LeftToHost, PortEvent,
    filter::PortFilter,
    nic::{
        link::{LinkWatch, Watched},
        outlet::Outlet,
    },
    port::{
        packet::{LINK_TYPE_ETHERNET, PacketPort},
        trace::ReplayPort,
        xdp::{Upkeep, XdpPort},
    },
    report::{FilterReport, LengthLimit, QueueMode, TimestampReport},
};

/// A port of a running capture.
#[derive(Debug)]
pub(crate) struct OpenPort {
    pub(crate) name: String,
    pub(crate) ifindex: Option<u32>,
    pub(crate) driver: Option<String>,
    pub(crate) numa_node: Option<u32>,
    /// What becomes of the interface; `None` for memory, and where the kernel does not tell.
    pub(crate) link: Option<LinkWatch>,
    pub(crate) mode: QueueMode,
    pub(crate) filter: Option<FilterReport>,
    pub(crate) fallbacks: Vec<Diagnostic>,
    /// How its interface was used by the host and by others when it was opened.
    pub(crate) host_use: Vec<HostUse>,
    /// How its packets are stamped one by one; `None` when they have the times of their batches.
    pub(crate) timestamp: Option<TimestampReport>,
    pub(crate) multi_buffer: bool,
    pub(crate) length_limit: Option<LengthLimit>,
    /// What its packets begin with: a number of the pcap registry.
    pub(crate) link_type: u16,
    pub(crate) taken: Taken,
    pub(crate) removed: bool,
    /// What others have undone.
    pub(crate) upkeep: Upkeep,
    /// Its sending side.
    pub(crate) outlet: Arc<Outlet>,
    /// Most cells of a packet that its driver sends.
    pub(crate) most_parts: u32,
}

/// What has to be given back.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The interface.
    Xdp(XdpPort),
    /// The right to listen.
    Passive(PacketPort),
    /// The file.
    Replay(ReplayPort),
    Nothing,
}

impl OpenPort {
    /// A port that is no interface.
    pub(crate) fn of_memory(name: &str, mode: QueueMode) -> Self {
        Self {
            name: name.into(),
            ifindex: None,
            driver: None,
            numa_node: None,
            link: None,
            mode,
            filter: None,
            fallbacks: Vec::new(),
            host_use: Vec::new(),
            timestamp: None,
            multi_buffer: false,
            length_limit: None,
            link_type: LINK_TYPE_ETHERNET,
            taken: Taken::Nothing,
            removed: false,
            upkeep: Upkeep::default(),
            outlet: Arc::default(),
            most_parts: u32::MAX,
        }
    }

    /// An interface under a name of its own, with its queues that are captured. What becomes of it is watched.
    fn of_interface((name, mode): (&str, QueueMode), interface: &Interface, watched: Watched<'_>) -> Self {
        let mut link = LinkWatch::open(interface, watched);
        let driver = interface.driver.as_ref().map(|driver| driver.name.clone());
        let outlet = Outlet::default();
        // It was looked up before its events were followed, and may have changed in between.
        let state = link.as_mut().ok().and_then(LinkWatch::state);
        let LinkState { carrier, mtu } =
            state.unwrap_or(LinkState { carrier: interface.carrier, mtu: interface.mtu });
        outlet.note(carrier, mtu);
        let queues = !matches!(watched, Watched::None);
        let (link, unwatched) = match link {
            Ok(link) => (Some(link), None),
            Err(error) => (None, Some(Diagnostic::LinkNotWatched { queues, cause: error.into() })),
        };
        Self {
            outlet: Arc::new(outlet),
            ifindex: Some(interface.ifindex),
            driver,
            numa_node: interface.numa_node,
            link,
            fallbacks: Vec::from_iter(unwatched),
            ..Self::of_memory(name, mode)
        }
    }

    /// An interface captured beside the host, for a reason if that was not asked for.
    pub(crate) fn passive(
        interface: &Interface,
        port: PacketPort,
        reason: Option<&LeftToHost>,
        filter: Option<&PortFilter>,
    ) -> Self {
        // Queues do not matter here, only what the NIC drops.
        let place = (interface.name.as_str(), QueueMode::Packet);
        let mut open = Self::of_interface(place, interface, Watched::None);
        let reason = reason.map(|reason| Diagnostic::BesideHost { reason: reason.clone() });
        let behind = interface.xdp_programs.iter().map(|attached| Diagnostic::XdpProgramFirst {
            program_id: attached.program_id,
            program: bpf::Program::name_by_id(attached.program_id).ok(),
        });
        let reasons = reason.into_iter().chain(behind).chain(port.fallbacks.iter().cloned());
        open.fallbacks.splice(..0, reasons);
        open.link_type = port.link_type;
        open.length_limit = port.length_limit;
        open.filter = filter.zip(port.filter).map(|(filter, runs)| filter.report(runs));
        open.taken = Taken::Passive(port);
        open
    }

    /// An interface, or some of its queues, taken from the host.
    pub(crate) fn active(
        name: &str,
        interface: &Interface,
        port: XdpPort,
        watched: Watched<'_>,
        filter: Option<&PortFilter>,
    ) -> Self {
        let mut open = Self::of_interface((name, port.mode), interface, watched);
        let inexact = (!cpu::can_wait_for_kernel()).then_some(Diagnostic::EndNotAwaited);
        open.fallbacks.splice(..0, port.fallbacks.iter().cloned().chain(inexact));
        open.filter = filter.zip(port.filter).map(|(filter, runs)| filter.report(runs));
        open.timestamp = port.timestamp();
        open.multi_buffer = port.multi_buffer;
        open.length_limit = port.length_limit;
        if port.mode == QueueMode::ZeroCopy {
            let most = interface.xdp_features.and_then(|features| features.zero_copy_max_segments);
            open.most_parts = most.unwrap_or(u32::MAX);
        }
        open.taken = Taken::Xdp(port);
        open
    }

    /// Looks whether its interface can send now, and tells if that has changed.
    pub(crate) fn look_at_link(&mut self) -> Option<PortEvent> {
        let LinkState { carrier, mtu } = self.link.as_mut()?.state()?;
        let was_up = self.outlet.note(carrier, mtu);
        let event = if carrier { PortEvent::Up } else { PortEvent::Down };
        (was_up != carrier).then(|| event(self.name.clone()))
    }

    /// The AF_XDP port, if it is one.
    pub(crate) fn xdp(&self) -> Option<&XdpPort> {
        match &self.taken {
            Taken::Xdp(port) => Some(port),
            Taken::Passive(_) | Taken::Replay(_) | Taken::Nothing => None,
        }
    }

    /// The trace file, if it is one.
    pub(crate) fn replay(&self) -> Option<&ReplayPort> {
        match &self.taken {
            Taken::Replay(port) => Some(port),
            Taken::Xdp(_) | Taken::Passive(_) | Taken::Nothing => None,
        }
    }
}
