//! The thread that keeps next hops: it waits for requests of workers and for the kernel's events, and for
//! nothing else.
//!
//! ```text
//!   workers ── request, and a wake-up if it sleeps►┐
//!   kernel ── neighbour found, failed, removed ───►├─ NextHops ──► a new table for the workers
//!   kernel ── link up, its Ethernet address ──────►┘      └──► the kernel: ask, forget
//! ```
//!
//! Rule: events are read before requests, so that what is decided about a request rests on what the kernel
//! knows now.

use std::{
    os::fd::AsFd,
    sync::{Arc, mpsc::TryRecvError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use wirecap_sys::netdev::{
    AskedNeighbour, Error, LinkChanges, LinkEvent, LinkReader, Neighbour, NeighbourChanges, NeighbourEvent,
    Neighbours, changes,
};

use super::{
    Hop,
    channel::ResolverEnd,
    next_hops::{Kernel, NextHops, REFRESH, Refusal, hop_of},
};
use crate::own_macs::OwnMacs;

/// The shortest time between two rounds: what comes within it is dealt with together.
const BREATH: Duration = Duration::from_micros(500);
/// Requests that are dealt with before events are read again.
const REQUESTS_PER_ROUND: usize = 64;

/// The resolver's thread, with what it asks the kernel by.
pub(super) struct ResolverThread {
    neighbours: PortNeighbours,
    events: NeighbourChanges,
    links: LinkChanges,
    link_reader: LinkReader,
    macs: Arc<OwnMacs>,
    next_hops: NextHops,
    channel: ResolverEnd,
}

/// The neighbours of some interfaces.
struct PortNeighbours {
    neighbours: Neighbours,
    /// By port, the index of its interface.
    ports: Vec<u32>,
}

impl Kernel for PortNeighbours {
    fn ask(&mut self, hop: Hop) -> Result<AskedNeighbour, Refusal> {
        let asked = self.neighbours.ask(self.ports[hop.port], hop.address);
        asked.map_err(|error| match error.errno() {
            Some(errno) if errno == Errno::ENOBUFS as i32 => Refusal::TableFull,
            _ => Refusal::Other,
        })
    }

    fn get(&mut self, hop: Hop) -> Option<Neighbour> {
        self.neighbours.get(self.ports[hop.port], hop.address).ok().flatten()
    }

    fn forget(&mut self, hop: Hop) {
        // If it cannot be, the kernel itself gives up in a few seconds.
        let _ = self.neighbours.forget(self.ports[hop.port], hop.address);
    }
}

impl ResolverThread {
    /// For these ports, by their interface indexes, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(super) fn open(ports: Vec<u32>, macs: Arc<OwnMacs>, channel: ResolverEnd) -> Result<Self, Error> {
        Ok(Self {
            events: NeighbourChanges::open()?,
            links: changes()?,
            link_reader: LinkReader::open()?,
            macs,
            neighbours: PortNeighbours { neighbours: Neighbours::open()?, ports },
            next_hops: NextHops::new(channel.counts(), Instant::now()),
            channel,
        })
    }

    /// Runs until the last worker is gone.
    pub(super) fn run(mut self) {
        // They may have changed since the ports were looked up.
        self.read_macs();
        loop {
            let now = Instant::now();
            self.read_links();
            self.read_events(now);
            if !self.read_requests(now) {
                return;
            }
            self.next_hops.refresh(&mut self.neighbours, now);
            if let Some(table) = self.next_hops.take_table() {
                self.channel.publish(table);
            }
            thread::sleep(BREATH);
            self.sleep();
        }
    }

    fn read_links(&mut self) {
        // Messages that make no sense are passed over, as are those about other links.
        while let Ok(Some(event)) = self.links.next_event() {
            match event {
                LinkEvent::State { ifindex, carrier, mac, .. } => {
                    if let Some(port) = self.neighbours.ports.iter().position(|&port| port == ifindex) {
                        mac.into_iter().for_each(|mac| self.macs.set(port, mac));
                        if carrier {
                            self.next_hops.link_is_up(port);
                        }
                    }
                }
                LinkEvent::Overrun => {
                    (0..self.neighbours.ports.len()).for_each(|port| self.next_hops.link_is_up(port));
                    self.read_macs();
                }
                _ => {}
            }
        }
    }

    /// Asks for the Ethernet addresses of all ports.
    fn read_macs(&mut self) {
        for (port, &ifindex) in self.neighbours.ports.iter().enumerate() {
            let mac = self.link_reader.state(ifindex).ok().and_then(|state| state.mac);
            mac.into_iter().for_each(|mac| self.macs.set(port, mac));
        }
    }

    fn read_events(&mut self, now: Instant) {
        while let Ok(Some(event)) = self.events.next_event() {
            let ports = &self.neighbours.ports;
            match event {
                NeighbourEvent::State(neighbour) => {
                    if let Some(hop) = hop_of(ports, neighbour.ifindex, neighbour.address) {
                        self.next_hops.changed(hop, neighbour, now);
                    }
                }
                NeighbourEvent::Removed { ifindex, address } => {
                    if let Some(hop) = hop_of(ports, ifindex, address) {
                        self.next_hops.removed(hop);
                    }
                }
                _ => self.next_hops.look_again(&mut self.neighbours, now),
            }
        }
    }

    /// Deals with what workers want. Returns whether there is still a worker.
    fn read_requests(&mut self, now: Instant) -> bool {
        for _ in 0..REQUESTS_PER_ROUND {
            match self.channel.next_request() {
                Ok(pending) => self.next_hops.want(&mut self.neighbours, pending, now),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    /// Waits until there is something to do, or to look after.
    fn sleep(&self) {
        if !self.channel.falls_asleep() {
            return;
        }
        let fds = [self.events.as_fd(), self.links.as_fd(), self.channel.alarm()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        // An interruption is as good a reason to look as any.
        let _ = poll(&mut fds, PollTimeout::try_from(REFRESH).unwrap_or(PollTimeout::NONE));
        self.channel.wakes();
    }
}
