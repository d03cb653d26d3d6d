//! A port as the capture has opened it: what it reports, its queues, and what has to be given back.

use std::{fmt::Debug, sync::Arc};

use wirecap_sys::{
    memory::PacketMemory,
    netdev::{FrameSocket, Interface, LinkState},
};

use super::queue::OpenQueue;
use crate::{
    Diagnostic, PortEvent,
    nic::{
        link::{LinkWatch, WatchedQueues},
        outlet::Outlet,
    },
    report::{PortReport, QueueMode},
};

/// What a port keeps while it is captured, and gives back at the end. No method has a default, so that a
/// backend that wraps another one does not compile without forwarding it.
pub(crate) trait PortBackend: Debug + Send {
    /// Looks after what others can undo, where a look is due. Returns what happened to `port` since the last
    /// call.
    fn look_after(&mut self, port: &str) -> Vec<PortEvent>;

    /// Gives everything back; there is nothing to restore on an interface that `is_gone`. A second call does
    /// nothing. Returns whether packets may still be on their way to a queue.
    fn close(&mut self, is_gone: bool) -> bool;

    /// Waits for packets that were on their way when it was closed. Returns why some may be missing.
    fn settle(&mut self) -> Option<Diagnostic>;

    /// Leaves everything as it is to a forked process, and closes the descriptors. Instead of
    /// [`close`](Self::close), which does nothing afterwards.
    fn abandon(&mut self);

    /// Adds what only it knows to the report of its port, which has everything else.
    fn report(&mut self, report: &mut PortReport);
}

/// A port of a running capture.
#[derive(Debug)]
pub(crate) struct OpenPort {
    /// Its report, as far as it is known without counters: `untagged`, `unhashed` and `cut` are 0 where
    /// they are counted.
    pub(crate) report: PortReport,
    pub(crate) mode: QueueMode,
    /// `None` of a port that has nothing to give back. Dropped before the queues: a program goes before its
    /// sockets do.
    pub(crate) backend: Option<Box<dyn PortBackend>>,
    /// Its receive queues, until the engine takes them.
    pub(crate) queues: Vec<OpenQueue>,
    pub(crate) ifindex: Option<u32>,
    /// Watches the interface; `None` for memory, and where the kernel does not say.
    pub(crate) link: Option<LinkWatch>,
    /// Whether its file is read.
    pub(crate) is_read: bool,
    /// Its sending side.
    pub(crate) outlet: Arc<Outlet>,
    /// Maximum number of cells of a packet that its driver sends.
    pub(crate) max_parts: u32,
    /// A part of the memory of its cells, if it allocated that itself: it fell back from blocks.
    pub(crate) own_memory: Option<Arc<PacketMemory>>,
    /// Sends frames that the port does not hear, until the caller takes it.
    pub(crate) sender: Option<FrameSocket>,
}

impl OpenPort {
    /// A port that is no interface, without queues, whose packets have the times of their batches.
    pub(crate) fn new(name: &str, mode: QueueMode, link_type: u16) -> Self {
        let report = PortReport { name: name.into(), link_type, ..PortReport::default() };
        Self {
            report,
            mode,
            backend: None,
            queues: Vec::new(),
            ifindex: None,
            link: None,
            is_read: false,
            outlet: Arc::default(),
            max_parts: u32::MAX,
            own_memory: None,
            sender: None,
        }
    }

    /// Begins to watch its interface.
    pub(crate) fn watch(&mut self, interface: &Interface, watched: WatchedQueues<'_>) {
        let queues = !matches!(watched, WatchedQueues::None);
        match LinkWatch::open(interface, watched) {
            Ok(link) => self.link = Some(link),
            Err(error) => {
                self.report.fallbacks.push(Diagnostic::LinkNotWatched { queues, cause: error.into() });
            }
        }
        // It was looked up before its events were followed, and may have changed in between.
        let state = self.link.as_mut().and_then(LinkWatch::state);
        let Interface { up, carrier, mtu, .. } = *interface;
        let LinkState { carrier, mtu, .. } = state.unwrap_or(LinkState { up, carrier, mtu, mac: None });
        self.outlet.note(carrier, mtu);
        self.ifindex = Some(interface.ifindex);
        self.report.driver = interface.driver.as_ref().map(|driver| driver.name.clone());
    }

    /// Looks after the port. Returns what happened to it since the last call.
    pub(crate) fn look_after(&mut self) -> Vec<PortEvent> {
        let events =
            self.backend.as_mut().map_or_else(Vec::new, |backend| backend.look_after(&self.report.name));
        self.is_read |= events.iter().any(|event| matches!(event, PortEvent::Read(_)));
        events
    }

    /// Gives everything back. Returns whether packets may still be on their way.
    pub(crate) fn close(&mut self) -> bool {
        let removed = self.report.removed;
        self.backend.as_mut().is_some_and(|backend| backend.close(removed))
    }

    /// Waits for packets that were on their way when it was closed.
    pub(crate) fn settle(&mut self) {
        self.report.fallbacks.extend(self.backend.as_mut().and_then(|backend| backend.settle()));
    }

    /// Leaves everything to a forked process.
    pub(crate) fn abandon(&mut self) {
        self.backend.iter_mut().for_each(|backend| backend.abandon());
        self.link = None;
    }

    /// Looks whether its interface can send now. Returns the change, if there is one.
    pub(crate) fn look_at_link(&mut self) -> Option<PortEvent> {
        let LinkState { up, carrier, mtu, .. } = self.link.as_mut()?.state()?;
        let was_up = self.outlet.note(carrier, mtu);
        (was_up != carrier).then(|| link_event(up, carrier)(self.report.name.clone()))
    }
}

/// The event of a port whose link has this state now.
pub(crate) fn link_event(up: bool, carrier: bool) -> fn(String) -> PortEvent {
    match (up, carrier) {
        (true, true) => PortEvent::Up,
        (true, false) => PortEvent::NoCarrier,
        (false, _) => PortEvent::Down,
    }
}
