//! What a port has set where others can undo it, looked after while it is captured.
//!
//! ```text
//!   about once a second:  its program on the interface ────────────── gone? ─► attached again, and reported
//!                         entries of its queues in a shared table ── gone? ─► written again, and told
//!                         symmetric RSS ─────────────────────────── gone? ─► set again, if nobody objects, and told
//!   every five seconds:   uses of its interface by others ─────────── begun? ─► reported
//! ```
//!
//! Why a program may go: see `shared/reattach.rs`; an entry: `shared/mod.rs`; RSS: `rss.rs`.

use std::{
    collections::BTreeSet,
    mem::take,
    time::{Duration, Instant},
};

use super::{
    QueueSet,
    host_use::{HostUse, watch::HostWatch},
    rss::{Lapse, SymmetricRss},
    shared::{Attachment, Lost, Mended},
    xdp::XdpPort,
};
use crate::{
    PortEvent,
    open_port::{OpenPort, Taken},
};

/// How often it is looked: a system call for each queue, and some for RSS.
const PERIOD: Duration = Duration::from_secs(1);

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    looked: Option<Instant>,
    /// The last time that the program was not on the interface.
    detached: Option<Lost>,
    detached_reported: bool,
    /// Uses of its interface that begin while it is taken.
    host: Option<HostWatch>,
    begun: Vec<HostUse>,
    /// How many of these [`look_after`] has reported.
    begun_reported: usize,
    /// Queues whose entries were gone at some time.
    lost: BTreeSet<u16>,
    /// Of these, those that [`look_after`] has not told of.
    untold: BTreeSet<u16>,
    /// Why entries are not written again, if they are not.
    failure: Option<String>,
    /// The last time that RSS was not symmetric any more.
    lapse: Option<Lapse>,
    lapse_told: bool,
}

impl Upkeep {
    /// Watches from now on for uses of the interface beside the known ones.
    pub(crate) fn watch_host(&mut self, known: &[HostUse]) {
        self.host = Some(HostWatch::new(known));
    }

    /// The uses that have begun.
    pub(crate) fn begun(&self) -> &[HostUse] {
        &self.begun
    }

    /// Looks, once in a period at most. After the end there is nothing to look at.
    pub(crate) fn look(&mut self, port: &mut XdpPort) {
        if self.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            return;
        }
        self.looked = Some(Instant::now());
        if let Some(lost) = port.look_at_attachment() {
            self.note_detached(lost);
        }
        if let (Some(attachment), Some(host)) = (&port.link, self.host.as_mut().filter(|host| host.is_due()))
        {
            self.begun.extend(attachment.new_uses(host));
        }
        if let Some(Attachment::Shared(membership)) = &port.link {
            self.note(membership.mend(port.program()));
        }
        if let Some(lapse) = port.rss.as_mut().and_then(SymmetricRss::look) {
            (self.lapse, self.lapse_told) = (Some(lapse), false);
        }
    }

    /// Looks for the last time, before the program is detached.
    pub(crate) fn look_at_end(&mut self, attachment: &Attachment) {
        if let Some(lost) = attachment.look_at_end() {
            self.note_detached(lost);
        }
    }

    fn note_detached(&mut self, lost: Lost) {
        // A program that cannot be attached again is missing at each look, and reported once.
        let is_known = matches!((&self.detached, &lost), (Some(Lost::Still(_)), Lost::Still(_)));
        self.detached_reported &= is_known;
        self.detached = Some(lost);
    }

    fn note(&mut self, Mended { missing, failure }: Mended) {
        // What cannot be written is found missing each time, and told once.
        if self.failure.is_none() || failure.is_none() {
            self.untold.extend(&missing);
        }
        self.lost.extend(missing);
        self.failure = failure.map(|error| error.to_string());
    }

    fn events(&mut self, port: &str) -> Vec<PortEvent> {
        let queues = QueueSet::new(take(&mut self.untold));
        let failure = self.failure.clone();
        let lost = queues.map(|queues| PortEvent::QueuesLost { port: port.into(), queues, failure });
        let lapse = self.lapse.as_ref().filter(|_| !std::mem::replace(&mut self.lapse_told, true));
        let asymmetric = lapse.map(|lapse| {
            let failure = match lapse {
                Lapse::Mended => None,
                Lapse::Left(reason) => Some(reason.clone()),
            };
            PortEvent::Asymmetric { port: port.into(), failure }
        });
        let detached =
            self.detached.as_ref().filter(|_| !std::mem::replace(&mut self.detached_reported, true));
        let detached = detached.map(|lost| PortEvent::Detached {
            port: port.into(),
            failure: match lost {
                Lost::Again => None,
                Lost::Still(reason) => Some(reason.clone()),
                Lost::AtEnd => Some("the capture has ended".into()),
            },
        });
        let uses = self.begun[self.begun_reported..].to_vec();
        self.begun_reported = self.begun.len();
        let in_use = (!uses.is_empty()).then(|| PortEvent::InUse { port: port.into(), uses });
        detached.into_iter().chain(lost).chain(asymmetric).chain(in_use).collect()
    }

    /// What was found so far, in words.
    pub(crate) fn warnings(&self, port: &str) -> Vec<String> {
        let lost = QueueSet::new(self.lost.iter().copied()).map(|queues| {
            let since = match &self.failure {
                None => "until it was put back about a second later".into(),
                Some(reason) => format!("since then, as it cannot be put back: {reason}"),
            };
            format!(
                "{port}: the program was taken out of the table of those who share the interface; packets of \
                 {} went to the host, uncounted, {since}",
                queues.in_words()
            )
        });
        let lapse = self.lapse.as_ref().map(|lapse| match lapse {
            Lapse::Mended => format!(
                "{port}: somebody else has put RSS back: for about a second, until it was set again, both directions of a \
                 connection may have come in by different queues"
            ),
            Lapse::Left(reason) => format!(
                "{port}: RSS is not symmetric any more, since somebody else has changed it ({reason}): both directions of a \
                 connection may come in by different queues"
            ),
        });
        let detached = self.detached.as_ref().map(|lost| {
            let until = match lost {
                Lost::Again => "until it was attached again about a second later".into(),
                Lost::Still(reason) => format!("since then, as it cannot be attached again: {reason}"),
                Lost::AtEnd => "from then to the end".into(),
            };
            format!(
                "{port}: the XDP program was taken off by force; packets went to the host, uncounted, {until}"
            )
        });
        detached.into_iter().chain(lost).chain(lapse).collect()
    }
}

/// Looks after all ports, and says what was found that was not told of yet.
pub(crate) fn look_after(ports: &mut [OpenPort]) -> Vec<PortEvent> {
    let events = ports.iter_mut().flat_map(|OpenPort { name, taken, upkeep, .. }| {
        if let Taken::Xdp(xdp) = taken {
            upkeep.look(xdp);
        }
        upkeep.events(name)
    });
    events.collect()
}

#[cfg(test)]
mod tests {
    use wirecap_sys::bpf;

    use super::*;

    #[test]
    fn what_cannot_be_put_back_is_told_of_once() {
        let mut upkeep = Upkeep::default();
        let failure = || Some(bpf::Error::BadName { name: "x".into() });
        let reason = failure().map(|error| error.to_string());
        let lost = |queues: &str, failure: &Option<String>| {
            let (queues, failure) = (queues.parse().unwrap(), failure.clone());
            vec![PortEvent::QueuesLost { port: "in0@0-3".into(), queues, failure }]
        };
        upkeep.note(Mended { missing: vec![1, 2], failure: failure() });
        assert_eq!(upkeep.events("in0@0-3"), lost("1-2", &reason));
        upkeep.note(Mended { missing: vec![1, 2], failure: failure() });
        assert_eq!(upkeep.events("in0@0-3"), []);
        assert!(upkeep.warnings("in0@0-3")[0].contains("queues 1-2 went to the host, uncounted, since then"));
        upkeep.note(Mended { missing: vec![1, 2], failure: None });
        upkeep.note(Mended { missing: vec![], failure: None });
        upkeep.note(Mended { missing: vec![3], failure: None });
        assert_eq!(upkeep.events("in0@0-3"), lost("1-3", &None));
        assert!(upkeep.warnings("in0@0-3")[0].contains("queues 1-3 went to the host, uncounted, until"));
    }

    #[test]
    fn each_detachment_is_reported_and_a_lasting_one_once() {
        let mut upkeep = Upkeep::default();
        let detached = |failure: Option<&str>| {
            vec![PortEvent::Detached { port: "in0".into(), failure: failure.map(String::from) }]
        };
        assert_eq!(upkeep.warnings("in0"), [""; 0]);
        for _ in 0..2 {
            upkeep.note_detached(Lost::Again);
            assert_eq!((upkeep.events("in0"), upkeep.events("in0")), (detached(None), vec![]));
        }
        upkeep.note_detached(Lost::Still("busy".into()));
        assert_eq!(upkeep.events("in0"), detached(Some("busy")));
        upkeep.note_detached(Lost::Still("still busy".into()));
        assert_eq!(upkeep.events("in0"), []);
        assert!(
            upkeep.warnings("in0")[0].ends_with("since then, as it cannot be attached again: still busy")
        );
        upkeep.note_detached(Lost::Again);
        assert_eq!(upkeep.events("in0"), detached(None));
        assert!(upkeep.warnings("in0")[0].contains("uncounted, until it was attached again"));
        upkeep.note_detached(Lost::AtEnd);
        assert!(upkeep.warnings("in0")[0].ends_with("uncounted, from then to the end"));
    }

    #[test]
    fn each_lapse_is_told_of_once_and_the_last_stays_a_warning() {
        let mut upkeep = Upkeep { lapse: Some(Lapse::Mended), ..Upkeep::default() };
        let asymmetric = |failure| [PortEvent::Asymmetric { port: "in0".into(), failure }];
        assert_eq!(upkeep.events("in0"), asymmetric(None));
        assert_eq!(upkeep.events("in0"), []);
        assert!(
            upkeep.warnings("in0")[0].starts_with("in0: somebody else has put RSS back: for about a second")
        );
        (upkeep.lapse, upkeep.lapse_told) = (Some(Lapse::Left("no such device".into())), false);
        assert_eq!(upkeep.events("in0"), asymmetric(Some("no such device".into())));
        assert_eq!(upkeep.events("in0"), []);
        assert!(upkeep.warnings("in0")[0].contains("is not symmetric any more"));
    }
}
