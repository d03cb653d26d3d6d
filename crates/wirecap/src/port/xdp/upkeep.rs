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
    mem::take,
    time::{Duration, Instant},
};

use wirecap_sys::bpf;

use super::shared::{Attachment, EntryCheck};
use crate::{
    Diagnostic, HostUse, PortEvent, QueueSet,
    diagnostic::{Cause, Recovery},
    nic::host_use::watch::HostWatch,
};

/// Time between two looks: each takes a system call for each queue, and some for RSS.
const PERIOD: Duration = Duration::from_secs(1);

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    looked: Option<Instant>,
    /// The last time that the program was not on the interface.
    detached: Option<Recovery>,
    detached_reported: bool,
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
    lapse: Option<Recovery>,
    lapse_reported: bool,
}

impl Upkeep {
    /// Whether it is time to look.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= PERIOD);
        if is_due {
            self.looked = Some(Instant::now());
        }
        is_due
    }

    /// Looks whether `program` is still on its interface, what else has begun to use that, and whether its
    /// entries are there.
    pub(crate) fn look_at_attachment(&mut self, attachment: &mut Attachment, program: &bpf::Program) {
        if let Some(lost) = attachment.look(program) {
            self.note_detached(lost);
        }
        if let Some(host) = self.host.as_mut().filter(|host| host.is_due()) {
            self.begun.extend(attachment.new_uses(host));
        }
        if let Attachment::Shared(membership) = attachment {
            self.note(membership.mend(program));
        }
    }

    /// Notes that RSS was not symmetric any more.
    pub(crate) fn note_lapse(&mut self, lapse: Recovery) {
        (self.lapse, self.lapse_reported) = (Some(lapse), false);
    }

    /// Looks for the last time, before the program is detached.
    pub(crate) fn look_at_end(&mut self, attachment: &Attachment) {
        if let Some(lost) = attachment.look_at_end() {
            self.note_detached(lost);
        }
    }

    fn note_detached(&mut self, lost: Recovery) {
        // A program that cannot be attached again is missing at each look, and reported once.
        let is_known = matches!((&self.detached, &lost), (Some(Recovery::Failed(_)), Recovery::Failed(_)));
        self.detached_reported &= is_known;
        self.detached = Some(lost);
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
        let is_new = |reported: &mut bool| !std::mem::replace(reported, true);
        let detached = self.detached.clone().filter(|_| is_new(&mut self.detached_reported));
        let lost = QueueSet::new(take(&mut self.unreported));
        let lapse = self.lapse.clone().filter(|_| is_new(&mut self.lapse_reported));
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
        self.diagnostics(self.detached.clone(), lost, self.lapse.clone())
    }

    fn diagnostics(
        &self,
        detached: Option<Recovery>,
        lost: Option<QueueSet>,
        lapse: Option<Recovery>,
    ) -> impl Iterator<Item = Diagnostic> + use<> {
        let of_queues = self.failure.clone().map_or(Recovery::Restored, Recovery::Failed);
        let detached = detached.map(|recovery| Diagnostic::Detached { recovery });
        let lost = lost.map(|queues| Diagnostic::QueuesLost { queues, recovery: of_queues });
        let lapse = lapse.map(|recovery| Diagnostic::RssChanged { recovery });
        [detached, lost, lapse].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn each_detachment_is_reported_and_a_lasting_one_once() {
        let mut upkeep = Upkeep::default();
        let busy = |text| Recovery::Failed(Cause::words(text));
        let detached = |recovery| Diagnostic::Detached { recovery };
        assert_eq!(warnings(&upkeep), []);
        for _ in 0..2 {
            upkeep.note_detached(Recovery::Restored);
            assert_eq!(upkeep.events("in0"), warning("in0", detached(Recovery::Restored)));
            assert_eq!(upkeep.events("in0"), []);
        }
        upkeep.note_detached(busy("busy"));
        assert_eq!(upkeep.events("in0"), warning("in0", detached(busy("busy"))));
        upkeep.note_detached(busy("still busy"));
        assert_eq!(upkeep.events("in0"), []);
        assert_eq!(warnings(&upkeep), [detached(busy("still busy"))]);
        upkeep.note_detached(Recovery::Restored);
        assert_eq!(upkeep.events("in0"), warning("in0", detached(Recovery::Restored)));
        upkeep.note_detached(Recovery::Ended);
        assert_eq!(warnings(&upkeep), [detached(Recovery::Ended)]);
    }

    #[test]
    fn each_lapse_is_reported_once_and_the_last_stays_a_warning() {
        let mut upkeep = Upkeep { lapse: Some(Recovery::Restored), ..Upkeep::default() };
        for lapse in [Recovery::Restored, Recovery::Failed(Cause::words("no such device"))] {
            let changed = Diagnostic::RssChanged { recovery: lapse.clone() };
            upkeep.note_lapse(lapse);
            assert_eq!(upkeep.events("in0"), warning("in0", changed.clone()));
            assert_eq!(upkeep.events("in0"), []);
            assert_eq!(warnings(&upkeep), [changed]);
        }
    }
}
