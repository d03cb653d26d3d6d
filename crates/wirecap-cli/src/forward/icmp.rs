//! ICMP errors: the sender of a packet that a router cannot send on is told, by the port that it came in by.
//!
//! ```text
//!   packet, as it came ─ cause ─► what it is told ─► may it be? ─► limit ─► cell of the worker's stock ─► transmitter of the same port
//!                                  router.rs      wirecap-headers    └── no address, too many, no room: suppressed, and counted
//! ```
//!
//! Rule: nothing waits for an error. It is sent at once, or not at all.

use std::{sync::Arc, time::Duration};

use wirecap::{OwnedPacket, Stock, Transmitter};
use wirecap_router::{ICMP_ERROR_MAX, Offender};

use super::{
    limit::Limit,
    router::Router,
    way::{Cause, Way},
};

/// Ethernet header and as many VLAN tags as are looked behind.
const FRAME_OVERHEAD_BYTES: usize = 14 + 4 * wirecap_headers::MAX_VLAN_TAGS;

/// Longest IP packet that each port takes, in bytes: looked at once a batch, since it may change.
#[derive(Debug, Default)]
pub(super) struct Mtus(Vec<usize>);

impl Mtus {
    /// That of a port.
    #[inline]
    pub(super) fn of(&self, port: usize) -> usize {
        self.0[port]
    }

    fn look(&mut self, transmitters: &[Vec<Transmitter>]) {
        self.0.clear();
        let mtu = |lanes: &Vec<Transmitter>| match lanes.first().map_or(0, Transmitter::mtu) {
            // Not known: the transmitter will say.
            0 => usize::MAX,
            mtu => mtu as usize,
        };
        self.0.extend(transmitters.iter().map(mtu));
    }
}

/// What one worker tells senders with.
#[derive(Debug)]
pub(super) struct IcmpErrors {
    pub(super) mtus: Mtus,
    stock: Stock,
    /// Of all workers.
    limit: Arc<Limit>,
    /// The frame that is made, its memory used again.
    frame: Vec<u8>,
    /// Asked for once a batch at most, since a flood is a flood of errors.
    now: Option<Duration>,
}

impl IcmpErrors {
    pub(super) fn new(stock: Stock, limit: &Arc<Limit>) -> Self {
        let frame = Vec::with_capacity(FRAME_OVERHEAD_BYTES + ICMP_ERROR_MAX);
        Self { mtus: Mtus::default(), stock, limit: Arc::clone(limit), frame, now: None }
    }

    /// A batch begins.
    pub(super) fn begin(&mut self, transmitters: &[Vec<Transmitter>]) {
        self.mtus.look(transmitters);
        self.now = None;
    }

    /// Tells the sender of a packet that came in by port `from` why it goes no further, if there is anything to be told; by a transmitter
    /// of that port, which is to be flushed. The packet is as it came.
    pub(super) fn tell(
        &mut self,
        router: &Router,
        (packet, from, cause): (&OwnedPacket<'_>, usize, Cause),
        transmitter: &mut Transmitter,
        way: &Way,
    ) {
        let data = packet.data();
        let Some(problem) = router.problem(cause, data, &self.mtus) else { return };
        let Some(offender) = Offender::of(data, packet.len()) else { return };
        let (sender, destination) = (offender.sender(), offender.destination());
        if router.is_broadcast(sender) || router.is_broadcast(destination) {
            return;
        }
        if !offender.has_error(problem) {
            return;
        }
        let is_sent = router.teller(from, sender).is_some_and(|teller| {
            self.is_allowed() && offender.answer(problem, teller, &mut self.frame) && self.send(transmitter)
        });
        way.count_icmp_error(is_sent);
    }

    /// Keeps a packet that has to wait for its next hop, as a copy: waiting itself it would keep its cells from the pool, and the
    /// cells behind it would go to the kernel in short runs. `None` when there are too many.
    pub(super) fn keep(&mut self, packet: OwnedPacket<'_>) -> Option<OwnedPacket<'static>> {
        self.stock.keep(packet)
    }

    fn is_allowed(&mut self) -> bool {
        let now = *self.now.get_or_insert_with(|| self.limit.now());
        self.limit.allows(now)
    }

    fn send(&mut self, transmitter: &mut Transmitter) -> bool {
        let packet = self.stock.packet(&self.frame);
        packet.is_some_and(|packet| packet.forward(transmitter).is_ok())
    }
}
