//! One end of a veth, opened without an engine, for tests.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use wirecap_core::{Geometry, PoolId};
use wirecap_lab::{Bridge, Namespace, VethOptions, VethPair};
use wirecap_sys::{
    memory::{LivePool, PacketMemory},
    netdev::{self, Interface},
};
use wirecap_testing::{PacketSender, SendPath};

use super::{
    contract::{OpenRequest, PortFacts, PortPools},
    intake::{BatchTime, Intake},
    open_port::OpenPort,
    opening::{Hooks, OpenContext},
    queue::ReceiveQueue,
    xdp::{
        attempt::{AttemptQueues, Prepared, XdpOpener},
        queue::XdpQueue,
    },
};
use crate::{Config, Error, Modes};

/// How long packets have to come.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A pair of namespaces with a veth pair, whose end `in0` is opened. What is sent goes over a bridge, so that
/// VLAN tags stand beside the packets.
pub(crate) struct Lab {
    outside: Namespace,
    pub(crate) inside: Namespace,
    source: VethPair,
    _bridge: Bridge,
    _veth: VethPair,
}

/// An end that is open.
pub(crate) struct Opened {
    pub(crate) port: OpenPort,
    pub(crate) queue: XdpQueue,
    pub(crate) pool: LivePool,
}

impl Lab {
    pub(crate) fn new(label: &str) -> Self {
        let outside = Namespace::new(&format!("{label}_out")).unwrap();
        let inside = Namespace::new(&format!("{label}_in")).unwrap();
        let veth = VethPair::new(&outside, "out0", &inside, "in0", VethOptions::default()).unwrap();
        let source = VethPair::new(&outside, "src0", &outside, "src1", VethOptions::default()).unwrap();
        let bridge = Bridge::new(&outside, "br0", &["src1", "out0"]).unwrap();
        Self { outside, inside, source, _bridge: bridge, _veth: veth }
    }

    /// Opens the end for packets that are handled as prepared.
    pub(crate) fn open(
        &self,
        modes: Modes,
        prepare: impl FnOnce(&Interface) -> Result<Prepared, Error> + Send,
    ) -> Result<Opened, Error> {
        let geometry = Geometry::new(64, 4, 2048).unwrap();
        let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), 2048).unwrap());
        let pool = memory.carve(PoolId { nic_id: 0, ring_id: 0 }, geometry).unwrap();
        let mut pools = PortPools { pools: vec![pool], memories: vec![memory], ..PortPools::none() };
        let config = Config { promiscuous: false, xdp_mode: modes, ..Config::default() };
        let context = OpenContext { config: &config, hooks: &Hooks::default(), geometry, ring_entries: 256 };
        let mut opened = self.inside.enter(|| {
            let interface = netdev::interface("in0")?;
            let prepared = prepare(&interface)?;
            let facts = PortFacts::without_interface("in0".into(), vec![0]);
            let request = OpenRequest { context, facts: &facts, filter: None, nic_id: 0, registrations: &[] };
            let opener = XdpOpener { request, interface: &interface, shared: false };
            opener.open_prepared(prepared, &mut pools)
        })?;
        let pool = pools.pools.remove(0);
        let AttemptQueues::Sockets(mut queues) = opened.queues else { panic!("a queue without a socket") };
        let queue = queues.remove(0);
        opened.port.backend = Some(Box::new(opened.backend));
        Ok(Opened { port: opened.port, queue, pool })
    }

    pub(crate) fn send(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        let ifindex = self.source.a().ifindex().unwrap();
        let mut sender = self.outside.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
        for frame in frames {
            sender.send(&frame).unwrap();
        }
    }
}

impl Opened {
    /// The bytes of so many packets, once they have come.
    pub(crate) fn receive(&mut self, packets: u32) -> Vec<Vec<u8>> {
        let deadline = Instant::now() + TIMEOUT;
        while self.queue.backlog() < packets {
            assert!(Instant::now() < deadline, "{packets} packets do not come: {:?}", self.queue.counts());
            thread::yield_now();
        }
        let mut intake = Intake::new(self.pool.filler().unwrap(), BatchTime::certain(1, 1, packets), None);
        let space = intake.space();
        self.queue.receive(space, &mut intake);
        intake.finish();
        let handover = self.pool.hand_over().unwrap();
        self.pool.reader().cells(&handover.range).map(|(_, bytes)| bytes.to_vec()).collect()
    }
}
