//! What became of the packets that came in by a port: counted by the workers, read by the account.
//!
//! Rule: `delivered = forwarded + dropped`, each packet by exactly one cause.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use serde::Serialize;
use wirecap::Refusal;
use wirecap_headers::Refused;
use wirecap_router::Invalid;

use super::latency::{Latency, Percentiles};

/// Why a packet was not forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The other port's ring had no room.
    RingFull,
    /// The other port held its share of the pool.
    OverShare,
    /// Longer than the other port's MTU.
    TooLong,
    /// The other port was down.
    LinkDown,
    /// The other port was deleted.
    Gone,
    /// It cannot be sent at all.
    NotSendable,
    /// Its TTL was at its end.
    TtlExpired,
    /// No room for a VLAN tag in front of it.
    NoHeadRoom,
    /// It was sent to another Ethernet address than the router's.
    NotForUs,
    /// A router's filter does not want it.
    Unwanted,
    /// There is no route to where it goes, or one that says drop.
    NoRoute,
    /// Its next hop does not tell its Ethernet address.
    NoNeighbour,
    /// There was no room to wait for the Ethernet address of its next hop.
    WaitingFull,
    /// It has no IP header that makes sense.
    BadHeader,
    /// The checksum of its IPv4 header is wrong.
    BadChecksum,
    /// By its own account it ends within its header, or beyond the frame.
    BadLength,
    /// It has a strict source route that the router is not on.
    StrictSourceRoute,
    /// It comes from an address of the router itself.
    OwnSource,
    /// It comes from an address that no router forwards from.
    MartianSource,
    /// It goes to an address that no router forwards to.
    MartianDestination,
    /// It goes to all hosts of a network of the router.
    DirectedBroadcast,
}

/// How many causes there are.
const CAUSES: usize = 21;

impl Cause {
    const ALL: [(Self, &'static str); CAUSES] = [
        (Self::RingFull, "ring_full"),
        (Self::OverShare, "over_share"),
        (Self::TooLong, "too_long"),
        (Self::LinkDown, "link_down"),
        (Self::Gone, "gone"),
        (Self::NotSendable, "not_sendable"),
        (Self::TtlExpired, "ttl_expired"),
        (Self::NoHeadRoom, "no_head_room"),
        (Self::NotForUs, "not_for_us"),
        (Self::Unwanted, "unwanted"),
        (Self::NoRoute, "no_route"),
        (Self::NoNeighbour, "no_neighbour"),
        (Self::WaitingFull, "waiting_full"),
        (Self::BadHeader, "bad_header"),
        (Self::BadChecksum, "bad_checksum"),
        (Self::BadLength, "bad_length"),
        (Self::StrictSourceRoute, "strict_source_route"),
        (Self::OwnSource, "own_source"),
        (Self::MartianSource, "martian_source"),
        (Self::MartianDestination, "martian_destination"),
        (Self::DirectedBroadcast, "directed_broadcast"),
    ];
}

impl Cause {
    /// Whether such a packet was to be sent on and was lost, rather than dropped as a rule, a route or a length asks.
    fn is_loss(self) -> bool {
        match self {
            Self::RingFull
            | Self::OverShare
            | Self::LinkDown
            | Self::Gone
            | Self::NotSendable
            | Self::NoHeadRoom
            | Self::WaitingFull => true,
            Self::TooLong
            | Self::TtlExpired
            | Self::NotForUs
            | Self::Unwanted
            | Self::NoRoute
            | Self::NoNeighbour
            | Self::BadHeader
            | Self::BadChecksum
            | Self::BadLength
            | Self::StrictSourceRoute
            | Self::OwnSource
            | Self::MartianSource
            | Self::MartianDestination
            | Self::DirectedBroadcast => false,
        }
    }
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::RingFull,
            Refusal::OverShare => Self::OverShare,
            Refusal::TooLong => Self::TooLong,
            Refusal::LinkDown => Self::LinkDown,
            Refusal::Gone => Self::Gone,
            _ => Self::NotSendable,
        }
    }
}

impl From<Refused> for Cause {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Expired => Self::TtlExpired,
            Refused::NoRoom => Self::NoHeadRoom,
        }
    }
}

impl From<Invalid> for Cause {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Header => Self::BadHeader,
            Invalid::Checksum => Self::BadChecksum,
            Invalid::Length => Self::BadLength,
            Invalid::StrictSourceRoute => Self::StrictSourceRoute,
        }
    }
}

/// The way of packets that come in by one port, as one worker has seen it.
#[derive(Debug)]
pub(super) struct Way {
    forwarded: AtomicU64,
    bytes: AtomicU64,
    /// Checksums that were completed.
    completed: AtomicU64,
    /// ICMP errors about packets that were dropped.
    icmp_sent: AtomicU64,
    icmp_suppressed: AtomicU64,
    dropped: [AtomicU64; CAUSES],
    latency: Mutex<Latency>,
}

impl Way {
    pub(super) fn new() -> Self {
        Self {
            forwarded: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            icmp_sent: AtomicU64::new(0),
            icmp_suppressed: AtomicU64::new(0),
            dropped: Default::default(),
            latency: Mutex::new(Latency::new()),
        }
    }

    /// Counts packets of one batch that were forwarded.
    pub(super) fn count_forwarded(&self, packets: u64, bytes: u64) {
        self.forwarded.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_completed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self, cause: Cause) {
        self.dropped[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an ICMP error that was sent, or was not though there was one to be sent.
    pub(super) fn count_icmp_error(&self, is_sent: bool) {
        let errors = if is_sent { &self.icmp_sent } else { &self.icmp_suppressed };
        errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Taken once per batch; nobody else does but the account.
    pub(super) fn latency(&self) -> MutexGuard<'_, Latency> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of packets that come in by one port, all workers together.
#[derive(Debug, Clone, Serialize)]
pub(super) struct WayReport {
    /// By which port they came in.
    pub(super) from: String,
    /// Where they went, if that is one port.
    pub(super) to: Option<String>,
    /// Packets given to the other port's driver or kernel.
    pub(super) forwarded: u64,
    /// Bytes of these.
    pub(super) bytes: u64,
    /// Checksums that their senders had left to be computed, and that were.
    pub(super) checksums_completed: u64,
    /// ICMP errors by which a router has told senders of packets that it dropped.
    pub(super) icmp_errors_sent: u64,
    /// Those that were not sent: too many in a second, no room in the transmit ring, no address to tell from.
    pub(super) icmp_errors_suppressed: u64,
    /// Packets that were not forwarded, by cause.
    pub(super) dropped: serde_json::Map<String, serde_json::Value>,
    /// Those of them that no rule asked to drop.
    #[serde(skip)]
    pub(super) lost: u64,
    /// From the packets' timestamps to when the kernel was told to send them.
    pub(super) latency: Option<Percentiles>,
}

impl WayReport {
    pub(super) fn new<'w>(from: &str, to: Option<&str>, ways: impl Iterator<Item = &'w Way>) -> Self {
        let (mut forwarded, mut bytes, mut completed) = (0, 0, 0);
        let (mut icmp_sent, mut icmp_suppressed) = (0, 0);
        let (mut dropped, mut latency) = ([0; CAUSES], Latency::new());
        for way in ways {
            forwarded += way.forwarded.load(Ordering::Relaxed);
            bytes += way.bytes.load(Ordering::Relaxed);
            completed += way.completed.load(Ordering::Relaxed);
            icmp_sent += way.icmp_sent.load(Ordering::Relaxed);
            icmp_suppressed += way.icmp_suppressed.load(Ordering::Relaxed);
            for (sum, packets) in dropped.iter_mut().zip(&way.dropped) {
                *sum += packets.load(Ordering::Relaxed);
            }
            latency.add(&way.latency());
        }
        Self {
            from: from.into(),
            to: to.map(String::from),
            forwarded,
            bytes,
            checksums_completed: completed,
            icmp_errors_sent: icmp_sent,
            icmp_errors_suppressed: icmp_suppressed,
            dropped: Cause::ALL
                .iter()
                .map(|&(cause, name)| (name.into(), dropped[cause as usize].into()))
                .collect(),
            lost: Cause::ALL
                .iter()
                .filter(|(cause, _)| cause.is_loss())
                .map(|&(cause, _)| dropped[cause as usize])
                .sum(),
            latency: latency.percentiles(),
        }
    }

    /// ICMP errors there were to be sent.
    pub(super) fn icmp_errors(&self) -> u64 {
        self.icmp_errors_sent + self.icmp_errors_suppressed
    }

    /// Packets not forwarded, with the names of the causes there are.
    pub(super) fn causes(&self) -> impl Iterator<Item = (&str, u64)> {
        let causes =
            self.dropped.iter().map(|(name, packets)| (name.as_str(), packets.as_u64().unwrap_or(0)));
        causes.filter(|&(_, packets)| packets > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_of_all_workers_are_added_up() {
        let ways = [Way::new(), Way::new()];
        ways[0].count_forwarded(3, 180);
        ways[1].count_forwarded(4, 400);
        ways[1].count_dropped(Refusal::TooLong.into());
        ways[0].count_dropped(Refusal::Full.into());
        ways[0].count_completed();
        [true, false, true].into_iter().for_each(|is_sent| ways[1].count_icmp_error(is_sent));
        ways[0].count_icmp_error(true);
        ways[0].latency().note(0, 2_000, 3);
        let report = WayReport::new("a", Some("b"), ways.iter());
        assert_eq!((report.forwarded, report.bytes, report.checksums_completed), (7, 580, 1));
        assert_eq!((report.icmp_errors_sent, report.icmp_errors_suppressed), (3, 1));
        assert_eq!(report.causes().collect::<Vec<_>>(), [("ring_full", 1), ("too_long", 1)]);
        assert_eq!(report.lost, 1, "what is too long was not to be sent");
        assert_eq!(report.dropped.len(), CAUSES);
        assert!(report.latency.is_some_and(|latency| latency.max_ns.abs_diff(2_000) < 20));
        for (index, (cause, _)) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index);
        }
    }
}
