//! Whether a packet that goes no further is answered by an ICMP error, and by which.
//!
//! ```text
//!   packet, as it came ─ cause ─► a problem for its sender? ─► one that may be answered? ─► address to answer from ─► limit ─► frame
//!                                     └────────────────────────┴─ silence                    └────────────────────────┴─ suppressed
//! ```
//!
//! Rule: no error waits. It is sent at once by the port that the packet came in by, or not at all.

use wirecap_headers::Layout;

use crate::{
    DropCause, IcmpProblem, IcmpSource, Offender, OutgoingLink, Route, addresses::is_link_local,
    router::Router, source::Source,
};

/// How the sender of a discarded packet is informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'w> {
    /// Not at all: the cause is not the sender's concern, or an error would breed errors.
    Silence,
    /// Not at all, though an error is due: there are too many, or the router has no address to answer from.
    Suppressed,
    /// This frame, by the port that the packet came in by.
    Error(&'w [u8]),
}

/// A packet that goes no further.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DroppedPacket<'f> {
    /// Its first part, as it came.
    pub(crate) data: &'f [u8],
    /// Bytes of all of it.
    pub(crate) len: usize,
    /// The port that it came in by.
    pub(crate) from: usize,
    pub(crate) cause: DropCause,
}

impl Router {
    /// Answers a packet, if `may_send` allows one more error about this problem to this source. The frame of
    /// an error is written in place of what `into` holds.
    pub(crate) fn answer<'w>(
        &self,
        discarded: &DroppedPacket<'_>,
        links: &[OutgoingLink],
        may_send: impl FnOnce(IcmpProblem, Source) -> bool,
        into: &'w mut Vec<u8>,
    ) -> Answer<'w> {
        let &DroppedPacket { data, len, from, cause } = discarded;
        let Some(problem) = self.problem(cause, data, links) else { return Answer::Silence };
        let Some(offender) = Offender::of(data, len) else { return Answer::Silence };
        let sender = offender.sender();
        let is_for_many = [sender, offender.destination()].map(|host| self.addresses.is_broadcast(host));
        if is_for_many.contains(&true) || !offender.has_error(problem) {
            return Answer::Silence;
        }
        let Some(address) = self.addresses.for_sender(from, sender) else { return Answer::Suppressed };
        let source = IcmpSource { mac: self.macs.of(from), address };
        if may_send(problem, Source::new(from, offender.sender_mac(), sender))
            && offender.answer(problem, source, into)
        {
            Answer::Error(into)
        } else {
            Answer::Suppressed
        }
    }

    /// The problem to report to the sender of a discarded packet. `None` if the packet is not for the router,
    /// the user does not want it, or its loss is only bad luck.
    fn problem(&self, cause: DropCause, data: &[u8], links: &[OutgoingLink]) -> Option<IcmpProblem> {
        match cause {
            DropCause::TtlExpired => Some(IcmpProblem::Expired),
            DropCause::NoNeighbour => Some(IcmpProblem::HostUnreachable),
            DropCause::StrictSourceRoute => Some(IcmpProblem::StrictSourceRoute),
            DropCause::NoRoute | DropCause::MartianSource | DropCause::TooLong => {
                let layout = Layout::of(data)?;
                let ip = layout.ip()?;
                let (from, to) = (ip.source(data)?, ip.destination(data)?);
                match (cause, self.routes.to(to)) {
                    // A drop route drops silently.
                    (_, Some(Route::Drop)) => None,
                    (DropCause::NoRoute, _) => Some(IcmpProblem::NoRoute),
                    (DropCause::TooLong, Some(Route::Via { device, .. })) => {
                        let longest = links[self.port_of[*device]].longest();
                        Some(IcmpProblem::TooLong { mtu: u32::try_from(longest).unwrap_or(u32::MAX) })
                    }
                    // Of all sources that no router forwards from, an error reaches link-local ones of IPv6.
                    (DropCause::MartianSource, _) => {
                        let is_beyond = from.is_ipv6() && is_link_local(from) && !is_link_local(to);
                        is_beyond.then_some(IcmpProblem::BeyondScope)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
