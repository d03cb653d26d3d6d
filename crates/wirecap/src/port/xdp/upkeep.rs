//! What a port has set where others can undo it, looked after while it is captured.
//!
//! ```text
//!   about once a second:  its program on the interface ────────────── gone? ─► attached again, and reported
//!                         entries of its queues in a shared table ── gone? ─► written again, and reported
//!                         symmetric RSS ─────────────────────────── gone? ─► set again unless another program has set it, and reported
//!   every five seconds:   uses of its interface by others ─────────── begun? ─► reported
//! ```
//!
//! Why a program may be gone: `shared/reattach.rs`; an entry: `shared/mod.rs`; symmetric RSS: `nic/rss/`.

use std::{
    collections::BTreeSet,
    mem::{replace, take},
};

use wirecap_sys::bpf;

use super::shared::{Attachment, EntryCheck};
use crate::{
    Diagnostic, HostUse, PortEvent, QueueSet,
    diagnostic::{Cause, Recovery, RssRecovery},
    nic::host_use::watch::HostWatch,
    port::detachment::Detachment,
};

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Also says when it is time to look at all the rest.
    detachment: Detachment,
    /// Uses of its interface that begin while it is taken.
    pub(super) host: Option<HostWatch>,
    pub(super) begun: Vec<HostUse>,
    /// How many of these were reported.
    begun_reported: usize,
    /// Queues whose entries were gone at some time.
    lost: BTreeSet<u16>,
    /// Of these, those that were not reported.
    unreported: BTreeSet<u16>,
    /// Why entries are not written again, if they are not.
    failure: Option<Cause>,
    /// The last time that RSS was not symmetric any more.
    lapse: Option<RssRecovery>,
    lapse_reported: bool,
}

impl Upkeep {
    /// Whether it is time to look.
    pub(crate) fn is_due(&mut self) -> bool {
        self.detachment.is_due()
    }

    /// Looks whether `program` is still on its interface, what else has begun to use that, and whether its
    /// entries are there.
    pub(crate) fn look_at_attachment(&mut self, attachment: &mut Attachment, program: &bpf::Program) {
        if let Some(lost) = attachment.look(program) {
            self.detachment.note(lost);
        }
        if let Some(host) = self.host.as_mut().filter(|host| host.is_due()) {
            self.begun.extend(attachment.new_uses(host));
        }
        if let Attachment::Shared(membership) = attachment {
            self.note(membership.mend(program));
        }
    }

    /// Notes that RSS was not symmetric any more.
    pub(crate) fn note_lapse(&mut self, lapse: RssRecovery) {
        (self.lapse, self.lapse_reported) = (Some(lapse), false);
    }

    /// Looks for the last time, before the program is detached.
    pub(crate) fn look_at_end(&mut self, attachment: &Attachment) {
        if let Some(lost) = attachment.look_at_end() {
            self.detachment.note(lost);
        }
    }

    fn note(&mut self, EntryCheck { missing, failure }: EntryCheck) {
        // An entry that cannot be written is found missing at each look, and reported once.
        if self.failure.is_none() || failure.is_none() {
            self.unreported.extend(&missing);
        }
        self.lost.extend(missing);
        self.failure = failure.map(Cause::from);
    }

    /// What was found and not reported yet.
    pub(crate) fn events(&mut self, port: &str) -> Vec<PortEvent> {
        let detached = self.detachment.report_once();
        let lost = QueueSet::new(take(&mut self.unreported));
        let lapse = self.lapse.clone().filter(|_| !replace(&mut self.lapse_reported, true));
        let warnings = self.diagnostics(detached, lost, lapse);
        let warnings = warnings.map(|warning| PortEvent::Warning { port: port.into(), warning });
        let mut events: Vec<_> = warnings.collect();
        let uses = self.begun[self.begun_reported..].to_vec();
        self.begun_reported = self.begun.len();
        events.extend((!uses.is_empty()).then(|| PortEvent::InUse { port: port.into(), uses }));
        events
    }

    /// All that was found so far.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Diagnostic> {
        let lost = QueueSet::new(self.lost.iter().copied());
        self.diagnostics(self.detachment.last(), lost, self.lapse.clone())
    }

    fn diagnostics(
        &self,
        detached: Option<Recovery>,
        lost: Option<QueueSet>,
        lapse: Option<RssRecovery>,
    ) -> impl Iterator<Item = Diagnostic> + use<> {
        let detached = detached.map(|recovery| Diagnostic::Detached { recovery });
        let of_queues = self.failure.clone().map_or(Recovery::Restored, Recovery::Failed);
        let lost = lost.map(|queues| Diagnostic::QueuesLost { queues, recovery: of_queues });
        let lapse = lapse.map(|recovery| Diagnostic::RssChanged { recovery });
        [detached, lost, lapse].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::RssLoss;

    fn warning(port: &str, warning: Diagnostic) -> Vec<PortEvent> {
        vec![PortEvent::Warning { port: port.into(), warning }]
    }

    fn warnings(upkeep: &Upkeep) -> Vec<Diagnostic> {
        upkeep.warnings().collect()
    }

    #[test]
    fn a_failure_to_restore_queues_is_reported_once() {
        let mut upkeep = Upkeep::default();
        let failure = || Some(bpf::Error::BadName("x".into()));
        let lost = |queues: &str, failure: Option<bpf::Error>| Diagnostic::QueuesLost {
            queues: queues.parse().unwrap(),
            recovery: failure.map_or(Recovery::Restored, |failure| Recovery::Failed(failure.into())),
        };
        upkeep.note(EntryCheck { missing: vec![1, 2], failure: failure() });
        assert_eq!(upkeep.events("in0@0-3"), warning("in0@0-3", lost("1-2", failure())));
        upkeep.note(EntryCheck { missing: vec![1, 2], failure: failure() });
        assert_eq!(upkeep.events("in0@0-3"), []);
        assert_eq!(warnings(&upkeep), [lost("1-2", failure())]);
        upkeep.note(EntryCheck { missing: vec![1, 2], failure: None });
        upkeep.note(EntryCheck { missing: vec![], failure: None });
        upkeep.note(EntryCheck { missing: vec![3], failure: None });
        assert_eq!(upkeep.events("in0@0-3"), warning("in0@0-3", lost("1-3", None)));
        assert_eq!(warnings(&upkeep), [lost("1-3", None)]);
    }

    #[test]
    fn each_lapse_is_reported_once_and_the_last_stays_a_warning() {
        let mut upkeep = Upkeep { lapse: Some(RssRecovery::Restored), ..Upkeep::default() };
        for lapse in [RssRecovery::Restored, RssRecovery::Failed(RssLoss::SetByOthers)] {
            let changed = Diagnostic::RssChanged { recovery: lapse.clone() };
            upkeep.note_lapse(lapse);
            assert_eq!(upkeep.events("in0"), warning("in0", changed.clone()));
            assert_eq!(upkeep.events("in0"), []);
            assert_eq!(warnings(&upkeep), [changed]);
        }
    }
}
