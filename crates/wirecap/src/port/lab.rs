//! One end of a veth, opened without an engine, for tests.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use wirecap_core::{Geometry, PoolId};
use wirecap_lab::{Bridge, Namespace, VethOptions, VethPair};
use wirecap_sys::{
    clock::system_ns,
    memory::{LivePool, PacketMemory},
    netdev::{self, Interface},
};
use wirecap_testing::{PacketSender, SendPath};

use super::{
    contract::{OpenRequest, PortFacts, PortPools},
    intake::{BatchTime, Intake},
    open_port::OpenPort,
    opening::{Hooks, OpenContext},
    queue::{OpenQueue, ReceiveQueue},
    xdp::attempt::{AttemptQueues, ProgramFeatures, XdpOpener},
};
use crate::{
    Config, Error, Modes,
    packet::{ChunkReader, Front},
};

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
pub(crate) struct OpenEnd {
    pub(crate) port: OpenPort,
    pub(crate) queue: Box<dyn ReceiveQueue>,
    pool: LivePool,
    pub(crate) reader: ChunkReader,
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
        prepare: impl FnOnce(&Interface) -> Result<ProgramFeatures, Error> + Send,
    ) -> Result<OpenEnd, Error> {
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
        opened.port.backend = Some(Box::new(opened.backend));
        let OpenQueue { queue, pool, reader, .. } = match opened.queues {
            AttemptQueues::Sockets(mut queues) => {
                let pool = pools.pools.remove(0);
                let reader = ChunkReader::Cells(pool.reader(), Front::Nothing);
                OpenQueue::new(queues.remove(0), pool, reader)
            }
            AttemptQueues::Packed(mut queues) => queues.remove(0),
        };
        Ok(OpenEnd { port: opened.port, queue, pool, reader })
    }

    pub(crate) fn send(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        let ifindex = self.source.a().ifindex().unwrap();
        let mut sender = self.outside.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
        for frame in frames {
            sender.send(&frame).unwrap();
        }
    }
}

impl OpenEnd {
    /// Waits for this number of packets and returns their times and bytes. Packets without a time get
    /// `time_ns`, 1 ns apart.
    pub(crate) fn receive(&mut self, packets: u32, time_ns: u64) -> Vec<(u64, Vec<u8>)> {
        let (deadline, mut min_ns, mut received) = (Instant::now() + TIMEOUT, 1, Vec::new());
        while received.len() < packets as usize {
            assert!(Instant::now() < deadline, "{packets} packets do not come: {:?}", self.queue.counts());
            let batch = BatchTime { now_ns: system_ns(), ..BatchTime::certain(time_ns, min_ns, packets) };
            let mut intake = Intake::new(self.pool.filler().unwrap(), batch, None);
            let waiting = self.queue.backlog().min(intake.space());
            self.queue.receive(waiting, &mut intake);
            min_ns = intake.finish().last_ns;
            let Some(handover) = self.pool.hand_over() else {
                thread::yield_now();
                continue;
            };
            match &self.reader {
                ChunkReader::Cells(reader, _) => {
                    let cells = reader.cells(&handover.range);
                    received.extend(cells.map(|(cell, bytes)| (cell.timestamp_ns, bytes.to_vec())));
                }
                ChunkReader::Packed { reader, .. } => {
                    let packets = reader.packets(&handover.range);
                    received.extend(packets.map(|packet| (packet.timestamp_ns(), packet.data().to_vec())));
                }
                ChunkReader::Blocks(_) => unreachable!("blocks of AF_PACKET"),
            }
        }
        received
    }
}
