//! What an AF_XDP port keeps while it is captured: looked after, given back, reported.

use std::sync::Arc;

use wirecap_sys::netdev::PromiscuousMode;

use super::{claim::QueueClaim, shared::Attachment, upkeep::Upkeep};
use crate::{
    Diagnostic, PortEvent,
    nic::{rss::SymmetricRss, stamping::Stamping},
    port::{open_port::PortBackend, queue::QueueCounts},
    program::CaptureProgram,
    report::{PortReport, QueueMode, QueueReport},
};

/// Dropping it gives the interface back.
#[derive(Debug)]
pub(crate) struct XdpBackend {
    /// `None` once the port has settled.
    pub(super) link: Option<Attachment>,
    /// Given up behind the link.
    pub(super) claims: Vec<QueueClaim>,
    pub(super) program: Arc<CaptureProgram>,
    pub(super) promiscuous: Option<PromiscuousMode>,
    pub(super) rss: Option<SymmetricRss>,
    pub(super) stamping: Option<Stamping>,
    pub(super) upkeep: Upkeep,
}

impl XdpBackend {
    /// Looks, once in a period at most. After the end there is nothing to look at.
    fn look(&mut self) {
        let Self { link, program, rss, upkeep, .. } = self;
        if !upkeep.is_due() {
            return;
        }
        if let Some(link) = link {
            upkeep.look_at_attachment(link, program.entrance());
        }
        if let Some(lapse) = rss.as_mut().and_then(SymmetricRss::look) {
            upkeep.note_lapse(lapse);
        }
    }

    fn detach(&mut self) {
        if let Some(link) = self.link.take() {
            // It fails when the interface is gone; closing the link is all there is to do then.
            let _ = link.detach();
        }
        self.claims.clear();
    }

    /// What happened on the receive queues that are not captured and had packets.
    fn uncaptured(&self) -> impl Iterator<Item = QueueReport> {
        let counts = |queue| Some((queue, self.program.counts(queue).ok()?));
        let had_packets = |(_, counts): &(u32, QueueCounts)| counts.seen > 0;
        // Without a socket the program leaves all its packets to the host.
        let report = |(queue, counts): (u32, QueueCounts)| {
            counts.report(queue.try_into().unwrap_or(u16::MAX), QueueMode::Host)
        };
        self.program.uncaptured().filter_map(counts).filter(had_packets).map(report)
    }
}

impl PortBackend for XdpBackend {
    fn look_after(&mut self, port: &str) -> Vec<PortEvent> {
        self.look();
        self.upkeep.events(port)
    }

    fn close(&mut self, is_gone: bool) -> bool {
        let was_attached = self.link.is_some();
        if let Some(link) = &mut self.link {
            if !is_gone {
                self.upkeep.look_at_end(link);
            }
            if link.divert(&self.program.leave_all).is_err() {
                self.detach();
            }
        }
        // Only now: packets that come while the NIC is set up anew are the host's.
        self.promiscuous = None;
        self.stamping.iter_mut().for_each(Stamping::end);
        self.rss.iter_mut().for_each(SymmetricRss::leave);
        was_attached
    }

    fn settle(&mut self) -> Option<Diagnostic> {
        self.detach();
        None
    }

    /// The program stays as long as a process has its link open.
    fn abandon(&mut self) {
        self.link.take().into_iter().for_each(Attachment::abandon);
        self.claims.drain(..).for_each(QueueClaim::abandon);
        self.promiscuous = None;
        self.stamping.iter_mut().for_each(Stamping::abandon);
        self.rss.iter_mut().for_each(SymmetricRss::abandon);
    }

    fn report(&mut self, report: &mut PortReport) {
        self.look();
        report.queues.extend(self.uncaptured());
        report.host_use.extend_from_slice(&self.upkeep.begun);
        report.rss = self.rss.as_ref().map(SymmetricRss::report);
        report.warnings.extend(self.upkeep.warnings());
        let left_on = self.stamping.as_ref().and_then(|stamping| stamping.left_on.clone());
        report.warnings.extend(left_on.map(|cause| Diagnostic::StampingLeftOn { cause }));
    }
}
