//! The `packet` port: AF_PACKET beside the host, which keeps its traffic. Both directions are seen.
//!
//! ```text
//!   interface ──┬──► the host's stack, as ever
//!               └──► fanout: by flow, queue or core ──► ring of blocks of socket 0 ── a block is a chunk
//!                                                  └──► ring of blocks of socket 1
//! ```
//!
//! The kernel copies each packet into a block, densely; nothing is copied after that.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use wirecap_core::{Geometry, Pool, PoolId};
use wirecap_sys::{
    netdev::{HardwareType, Interface, Promiscuous},
    packet::{Closer, PacketConfig, PacketError, PacketSocket},
};

use super::{
    AnyQueue, Intake, QueueCounts, ReceiveQueue, preflight,
    source::{OpenOptions, OpenQueue},
};
use crate::{Error, batch::Reader};

/// A block that is not full is handed over after this time.
const RETIRE_MS: u32 = 5;
/// The kernel counts with 32 bits, and begins anew with each reading. So many blocks hold less.
const BLOCKS_BETWEEN_COUNTS: u32 = 256;
/// The kernel hands the last block over within a few of these times.
const LAST_BLOCK: Duration = Duration::from_secs(1);

/// One socket of a passive port.
#[derive(Debug)]
pub(crate) struct PacketQueue {
    socket: PacketSocket,
    cells_per_block: u32,
    last: QueueCounts,
    /// Blocks until the counters are read again.
    until_counted: u32,
}

/// A passive port that is open.
#[derive(Debug)]
pub(crate) struct PacketPort {
    pub(crate) link_type: u16,
    closers: Vec<Closer>,
    /// Kept for as long as the port listens.
    promiscuous: Option<Promiscuous>,
}

/// `LINKTYPE_ETHERNET` of the registry of pcap.
pub(crate) const LINK_TYPE_ETHERNET: u16 = 1;

impl PacketPort {
    /// Ends the listening. Packets on their way come still, see [`wirecap_sys::cpu::wait_for_kernel`].
    pub(crate) fn close(&mut self) {
        self.promiscuous = None;
        for closer in &self.closers {
            // A socket that cannot be closed goes on until it is dropped; the engine ends all the same.
            let _ = closer.close();
        }
    }

    /// Waits until the kernel has handed over what it was filling. Returns whether it has.
    pub(crate) fn wait_for_last_block(&self) -> bool {
        self.closers.iter().all(|closer| closer.wait_for_last_block(LAST_BLOCK))
    }
}

/// Opens a socket for each ring, and listens.
pub(crate) fn open(
    interface: &Interface,
    nic_id: u16,
    rings: &[u16],
    options: &OpenOptions,
) -> Result<(PacketPort, Vec<OpenQueue>), Error> {
    preflight::check_up(interface)?;
    let name = || interface.name.clone();
    let Some(link_type) = interface.hardware_type.link_type() else {
        return Err(Error::LinkType { name: name(), kind: interface.hardware_type.to_string() });
    };
    let (closers, queues) = open_sockets(interface, nic_id, rings, options)
        .map_err(|source| Error::Passive { name: name(), source })?;
    let promiscuous = options.xdp.promiscuous.then(|| Promiscuous::enable(interface.ifindex)).transpose()?;
    Ok((PacketPort { link_type, closers, promiscuous }, queues))
}

fn open_sockets(
    interface: &Interface,
    nic_id: u16,
    rings: &[u16],
    options: &OpenOptions,
) -> Result<(Vec<Closer>, Vec<OpenQueue>), PacketError> {
    let config = PacketConfig {
        ifindex: interface.ifindex,
        geometry: options.geometry,
        retire_ms: RETIRE_MS,
        // What comes in by the loopback interface has gone out by it just before.
        outgoing: interface.hardware_type != HardwareType::LOOPBACK,
    };
    let mut sockets = Vec::new();
    let mut group = None;
    for _ in rings {
        let socket = PacketSocket::open(&config)?;
        match group {
            None if rings.len() == 1 => {}
            None => group = Some(socket.found_group(options.fanout)?),
            Some(group) => socket.join(group, options.fanout)?,
        }
        sockets.push(socket);
    }
    let closers = sockets.iter().map(PacketSocket::closer).collect::<Result<_, _>>()?;
    let mut queues: Vec<OpenQueue> = Vec::new();
    for (mut socket, &ring_id) in sockets.into_iter().zip(rings) {
        let (mut pool, reader) = socket.carve(PoolId { nic_id, ring_id }).expect("a new socket");
        socket.attach(&mut pool);
        // One after the other: what comes meanwhile to those that do not listen yet is not seen by them, and was
        // not there before the capture began.
        socket.listen(None)?;
        let queue = AnyQueue::Packet(PacketQueue::new(socket, options.geometry));
        queues.push((queue, pool, Reader::Blocks(reader)));
    }
    Ok((closers, queues))
}

impl PacketQueue {
    fn new(socket: PacketSocket, geometry: Geometry) -> Self {
        let (cells_per_block, last) = (geometry.cells_per_chunk(), QueueCounts::default());
        Self { socket, cells_per_block, last, until_counted: BLOCKS_BETWEEN_COUNTS }
    }
}

impl ReceiveQueue for PacketQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        // A block takes a whole chunk.
        if max < self.cells_per_block {
            return;
        }
        if let Some(volume) = self.socket.receive() {
            intake.take_block(volume.packets, volume.bytes);
            self.until_counted = self.until_counted.checked_sub(1).unwrap_or_else(|| {
                self.counts();
                BLOCKS_BETWEEN_COUNTS
            });
        }
    }

    fn attach(&mut self, pool: &mut Pool) {
        self.socket.attach(pool);
    }

    fn backlog(&self) -> u32 {
        self.socket.backlog() * self.cells_per_block
    }

    fn counts(&mut self) -> QueueCounts {
        if let Ok(counted) = self.socket.statistics() {
            self.last.seen = counted.packets;
            self.last.no_free_cell = counted.dropped;
        }
        self.last
    }

    fn waker(&self) -> Option<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned().ok()
    }
}
