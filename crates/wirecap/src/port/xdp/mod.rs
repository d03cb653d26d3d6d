//! The `xdp` port: an interface captured over AF_XDP.
//!
//! | to read about | open |
//! |---|---|
//! | which modes are tried, and in which order things happen | `open.rs`, `attempt.rs` |
//! | whether packets are packed | `packing.rs` |
//! | a queue that another socket has | `bind.rs` |
//! | sockets of an attempt that fails | `opening_sockets.rs` |
//! | one receive queue at work | `queue.rs`, or `../packed_queue.rs`; its stamps: `../stamp_reader.rs` |
//! | drivers that run the program on other interfaces | `members.rs` |
//! | where the filter runs | `placed_filter.rs`, `sieve.rs` |
//! | how long a frame may be | `frame_room.rs` |
//! | VLAN tags that the NIC takes off | `../vlan_tags.rs` |
//! | what is looked after, given back and reported | `backend.rs`, `upkeep.rs` |
//! | how processes share the queues of an interface | `shared/` |
//!
//! Rule: the program is attached last and detached first, by a BPF link, so that the kernel gives the
//! interface back whatever becomes of this process.

pub(crate) mod attempt;
mod backend;
mod bind;
mod claim;
mod frame_room;
mod members;
mod open;
mod opening_sockets;
mod packing;
mod placed_filter;
pub(super) mod queue;
mod shared;
mod sieve;
mod upkeep;

use wirecap_core::chunk::MAX_RINGS;
use wirecap_file::LINK_TYPE_ETHERNET;
use wirecap_sys::netdev::Interface;

use self::{
    attempt::{AttemptQueues, XdpOpener},
    open::OpenXdpPort,
};
use super::{
    contract::{OpenRequest, PacketSource, PoolMaker, Port, PortFacts, PortPools, PreparedPort},
    open_port::OpenPort,
    queue::{OpenQueue, SocketParts},
};
use crate::{
    Config, Error, HostUse, Modes, QueueSet, Timestamp,
    config::device_name,
    diagnostic::NicDataRefusal,
    filter::OriginInfo,
    nic::{host_use::watch::HostWatch, link::WatchedQueues, preflight, stamping},
    packet::{ChunkReader, Front},
    program::rx_hash,
};

/// An interface to take from the host, or some of its receive queues, which other processes may share.
#[derive(Debug)]
struct XdpPort {
    interface: Interface,
    queues: Option<QueueSet>,
}

/// Finds out whether these queues of an interface, or all of them, can be captured.
pub(super) fn look_up(
    interface: Interface,
    queues: Option<&QueueSet>,
    host_use: Vec<HostUse>,
    config: &Config,
) -> Result<PreparedPort, Error> {
    let current = interface.queues.current.max(1);
    match queues {
        Some(queues) => check_queues(&interface, queues, current)?,
        None if current > MAX_RINGS.into() => {
            return Err(Error::ManyQueues { name: interface.name, queues: current });
        }
        None => {}
    }
    let pools = packing::pool_maker(&interface, config);
    let claims = queues.is_some() && pools == PoolMaker::Packed;
    let facts = PortFacts {
        name: device_name(&interface.name, queues),
        rings: queues.map_or_else(|| (0..current as u16).collect(), |queues| queues.iter().collect()),
        source: PacketSource::Interface { ifindex: interface.ifindex, queues: queues.cloned() },
        link_type: LINK_TYPE_ETHERNET,
        origin: OriginInfo::Incoming { ifindex: interface.ifindex },
        pools,
        numa_node: interface.numa_node,
        host_use,
        is_tapped_by_default: false,
        // The socket, and again for its sending half; or the ring of events, and the claim to the queue.
        files_per_queue: 1 + usize::from(config.transmit_entries > 0 || claims),
    };
    Ok(PreparedPort::new(facts, XdpPort { interface, queues: queues.cloned() }))
}

/// Whether these queues of an interface that has `current` receive queues can be captured.
fn check_queues(interface: &Interface, queues: &QueueSet, current: u32) -> Result<(), Error> {
    preflight::check_kind(interface)?;
    let name = interface.name.clone();
    if let Some(queue) = queues.iter().find(|&queue| u32::from(queue) >= current) {
        return Err(Error::NoSuchQueue { name, queue, queues: current });
    }
    match queues.highest() {
        queue if queue >= MAX_RINGS => Err(Error::QueueNumber { name, queue }),
        _ => Ok(()),
    }
}

impl Port for XdpPort {
    fn check(&self, facts: &PortFacts, config: &Config) -> Result<(), Error> {
        let name = facts.name.clone();
        let refusal = packing::refused_by_settings(&self.interface, config);
        if let Some(reason) = refusal.filter(|_| config.xdp_mode == Modes::Packed) {
            return Err(Error::NotPacked { name, reason });
        }
        let reason = NicDataRefusal::SomeQueues;
        match config.timestamp {
            Some(Timestamp::File) => return Err(Error::NoFile(name)),
            Some(Timestamp::Hardware) if self.queues.is_some() => {
                return Err(Error::NoHardwareTimestamps { name, reason });
            }
            Some(Timestamp::Hardware) => stamping::hardware_clock(&self.interface).map(drop)?,
            _ => {}
        }
        match &self.queues {
            _ if !config.rx_hash => Ok(()),
            Some(_) => Err(rx_hash::refusal(&name, reason)),
            None => rx_hash::offered(&self.interface),
        }
    }

    fn open(self: Box<Self>, mut pools: PortPools, request: &OpenRequest<'_>) -> Result<OpenPort, Error> {
        let facts = request.facts;
        let (interface, shared) = (&self.interface, self.queues.is_some());
        let opener = XdpOpener { request: *request, interface, shared };
        let had_pools = !pools.pools.is_empty();
        let OpenXdpPort { mut port, mut backend, queues, hash_at } = opener.open(&mut pools)?;
        backend.upkeep.host = Some(HostWatch::new(&facts.host_use));
        port.backend = Some(Box::new(backend));
        let front = hash_at.map_or(Front::Nothing, |at| Front::Hash { at });
        let sockets = match queues {
            AttemptQueues::Sockets(sockets) => sockets,
            AttemptQueues::Packed(queues) => {
                port.queues = queues;
                Vec::new()
            }
        };
        let PortPools { pools, memories, far, .. } = pools;
        // Cells that the port allocated itself, if it fell back from blocks.
        if !had_pools {
            port.report.fallbacks.extend(far);
            port.own_memory = memories.into_iter().next();
        }
        for (mut queue, pool) in sockets.into_iter().zip(pools) {
            let sender = queue.socket.take_sender().map_err(|source| Error::Transmit {
                port: facts.name.clone(),
                queue: pool.id().ring_id,
                source,
            })?;
            let socket = Some(SocketParts { sender, registration: queue.registration() });
            let waker = Some(queue.socket.waker());
            // Only now: pools that a failed attempt had are renewed.
            let reader = ChunkReader::Cells(pool.reader(), front);
            port.queues.push(OpenQueue { waker, socket, ..OpenQueue::new(queue, pool, reader) });
        }
        let watched =
            if self.queues.is_some() { WatchedQueues::Some(&facts.rings) } else { WatchedQueues::All };
        port.watch(&self.interface, watched);
        Ok(port)
    }
}
