//! One worker's router: what becomes of each packet, in the order of the packets.
//!
//! ```text
//!   begin(now, links)    once a batch
//!   route(packet) ──┬─► Forward: out of this port, its headers are rewritten
//!                   ├─► Discard: for this cause ──► answer: the ICMP error to send back, if there is one
//!                   └─► Wait ──► admit, park ──► settle: ├─ Known ─► route it again
//!                                                        └─ Lost ──► discard it: no neighbour
//! ```
//!
//! Rule: a worker decides by the bytes and the time that it is given, and does nothing else. The caller
//! sends, drops, copies and counts; another thread finds out next hops.

use std::{sync::Arc, time::Instant};

use wirecap_headers::MAX_VLAN_TAGS;

use crate::{
    Admission, Answer, DropCause, MAX_ICMP_ERROR_LEN, Outcome, OutgoingLink, Router,
    answer::DroppedPacket,
    limit::ErrorShares,
    neighbours::{HopStatus, NextHopCache, Resolver, UnresolvedHop},
    router::{Receiver, WholePacket},
    waiting_room::WaitingRoom,
};

/// Ethernet header and the VLAN tags that are looked behind.
const FRAME_OVERHEAD_BYTES: usize = wirecap_headers::ETHERNET_LEN + 4 * MAX_VLAN_TAGS;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes out of this port. Its headers are rewritten for the next hop.
    Forward {
        /// Number of the port.
        port: usize,
        /// Bytes of the frame up to the end of the IP packet. What is behind it is padding, or a trailer of
        /// the link that it came by.
        len: usize,
    },
    /// The Ethernet address of its next hop is not known yet; the packet is as it came.
    Wait(UnresolvedHop),
    /// It goes no further; the packet is as it came, for [`RouterWorker::answer`].
    Discard {
        /// Why.
        cause: DropCause,
    },
}

/// A router's part for one worker: the decisions, and the packets of type `P` that wait for a next hop.
///
/// Nothing is allocated for a packet that is forwarded or discarded, and no clock is read.
///
/// # Example
///
/// ```
/// use std::time::Instant;
/// use wirecap_headers::Ttl;
/// use wirecap_router::{Answer, Decision, DropCause, OutgoingLink, Router, RouterPort, WholePacket};
///
/// let port = |name: &str, mac: &str, address: &str| -> Result<_, Box<dyn std::error::Error>> {
///     let (mac, addresses) = (Some(mac.parse()?), vec![address.parse()?]);
///     Ok(RouterPort { names: vec![name.into()], ifindex: 0, mac, addresses })
/// };
/// let ports = [
///     port("eth1", "02:00:00:00:00:02", "192.0.2.254/24")?,
///     port("eth2", "02:00:00:00:00:04", "198.51.100.254/24")?,
/// ];
/// let routes = "198.51.100.0/24 dev eth2 lladdr 02:00:00:00:00:05".parse()?;
/// let router = Router::new(routes, &ports, Ttl::Decrement)?.start()?;
/// let mut worker = router.worker::<Vec<u8>>(1);
/// worker.begin(Instant::now(), [OutgoingLink { mtu: 1500, fault: None }; 2]);
///
/// // From 192.0.2.1 to 198.51.100.1, with a TTL of 2.
/// let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
/// frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 2, 17, 0xcc, 0xa3, 192, 0, 2, 1, 198, 51, 100, 1]);
/// let whole = WholePacket::FirstPart;
/// assert!(matches!(worker.route(&mut frame, whole, 0), Decision::Forward { port: 1, len: 34 }));
/// assert_eq!(frame[..12], [2, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 4]);
///
/// // If it comes back, its TTL is at its end, and its sender gets an error.
/// frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
/// let cause = DropCause::TtlExpired;
/// assert_eq!(worker.route(&mut frame, whole, 0), Decision::Discard { cause });
/// assert!(matches!(worker.answer(&frame, frame.len(), 0, cause), Answer::Error(error) if error[34] == 11));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RouterWorker<P> {
    router: Arc<Router>,
    next_hops: NextHopCache,
    waiting: WaitingRoom<P>,
    /// By port.
    links: Vec<OutgoingLink>,
    /// The frame of the last ICMP error, its memory used again.
    error: Vec<u8>,
    /// What each source may have of the errors.
    error_shares: ErrorShares,
    /// Waiting packets have not been looked up in the newest table of next hops.
    has_news: bool,
    /// When the batch began.
    now: Instant,
}

impl<P> RouterWorker<P> {
    /// One of this number of workers.
    pub(crate) fn new(router: &Arc<Router>, resolver: &Resolver, workers: usize) -> Self {
        Self {
            router: Arc::clone(router),
            next_hops: resolver.cache(),
            waiting: WaitingRoom::new(),
            links: vec![OutgoingLink { mtu: 0, fault: None }; router.macs.len()],
            error: Vec::with_capacity(FRAME_OVERHEAD_BYTES + MAX_ICMP_ERROR_LEN),
            error_shares: ErrorShares::new(workers),
            has_news: false,
            now: Instant::now(),
        }
    }

    /// Begins a batch of packets: takes what is new about next hops, and the link of each port.
    pub fn begin(&mut self, now: Instant, links: impl IntoIterator<Item = OutgoingLink>) {
        self.now = now;
        self.has_news |= self.next_hops.refresh(now);
        self.links.iter_mut().zip(links).for_each(|(link, given)| *link = given);
    }

    /// Whether a filter decides on packets, which has to see them as a whole.
    pub fn has_filter(&self) -> bool {
        self.router.has_filter()
    }

    /// Decides about a packet that came in by port `from`; `data` is its first part.
    ///
    /// # Panics
    ///
    /// If the router has no port `from`.
    #[inline]
    pub fn route(&mut self, data: &mut [u8], whole: WholePacket<'_>, from: usize) -> Decision {
        let path = match self.router.path(data, whole, from, &self.links) {
            Ok(path) => path,
            Err(cause) => return Decision::Discard { cause },
        };
        let mac = match path.to {
            Receiver::Mac(mac) => mac,
            Receiver::Hop(pending) => match self.next_hops.look_up(pending) {
                HopStatus::Mac(mac) => mac,
                HopStatus::NotYet => return Decision::Wait(pending),
                HopStatus::Silent => return Decision::Discard { cause: DropCause::NoNeighbour },
            },
        };
        self.router.rewrite(data, &path, mac);
        Decision::Forward { port: path.port, len: path.end }
    }

    /// Answers the sender of a packet of `len` bytes that is discarded for this cause; the other arguments
    /// are those of [`RouterWorker::route`], the packet is as it came.
    ///
    /// # Panics
    ///
    /// If the router has no port `from`.
    #[cold]
    pub fn answer(&mut self, data: &[u8], len: usize, from: usize, cause: DropCause) -> Answer<'_> {
        let discarded = DroppedPacket { data, len, from, cause };
        let (router, shares, now) = (&self.router, &mut self.error_shares, self.now);
        let may_send = |problem, source| shares.allows(problem, source, &router.error_limit, now);
        router.answer(&discarded, &self.links, may_send, &mut self.error)
    }

    /// Whether a packet may wait. Unless the answer is [`Admission::Full`], it has to be parked, or dropped.
    pub fn admit(&mut self, pending: UnresolvedHop) -> Admission<P> {
        self.waiting.admit(pending, self.now)
    }

    /// Has an admitted packet wait.
    pub fn park(&mut self, packet: P, pending: UnresolvedHop) {
        self.waiting.put(packet, pending, self.now);
    }

    /// Takes out the packets that wait no longer, the oldest first.
    pub fn settle(&mut self) -> Vec<(P, Outcome)> {
        if !std::mem::take(&mut self.has_news) && !self.waiting.is_overdue(self.now) {
            return Vec::new();
        }
        self.waiting.settle(self.now, |pending| self.next_hops.look_up(pending))
    }

    /// Whether packets wait.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes out all packets that wait, since there will be no more.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = P> + use<P> {
        self.waiting.take_all()
    }
}

#[cfg(test)]
mod tests;
