//! What a port has set where others can undo it, looked after while it is captured.
//!
//! ```text
//!   about once a second:  entries of its queues in a shared table ── gone? ─► written again, and told
//!                         symmetric RSS ─────────────────────────── gone? ─► told
//! ```
//!
//! Why an entry may go: see `shared.rs`. RSS is of the whole NIC, and whoever has made it symmetric changes it back.

use std::{
    collections::BTreeSet,
    mem::take,
    time::{Duration, Instant},
};

use super::{
    QueueSet,
    rss::SymmetricRss,
    shared::{Attachment, Mended},
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
    /// Queues whose entries were gone at some time.
    lost: BTreeSet<u16>,
    /// Of these, those that [`look_after`] has not told of.
    untold: BTreeSet<u16>,
    /// Why entries are not written again, if they are not.
    failure: Option<String>,
    /// RSS is not symmetric any more.
    asymmetric: bool,
    asymmetry_told: bool,
}

impl Upkeep {
    /// Looks, once in a period at most. After the end there is nothing to look at.
    pub(crate) fn look(&mut self, port: &XdpPort) {
        if self.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            return;
        }
        self.looked = Some(Instant::now());
        if let Some(Attachment::Shared(membership)) = &port.link {
            self.note(membership.mend(port.program()));
        }
        self.asymmetric |= port.rss.as_ref().is_some_and(SymmetricRss::is_lost);
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
        let asymmetric = self.asymmetric && !self.asymmetry_told;
        self.asymmetry_told |= asymmetric;
        lost.into_iter().chain(asymmetric.then(|| PortEvent::Asymmetric(port.into()))).collect()
    }

    /// What was found so far, in words.
    pub(crate) fn warnings(&self, port: &str) -> Vec<String> {
        let lost = QueueSet::new(self.lost.iter().copied()).map(|queues| {
            let since = match &self.failure {
                None => "until it was put back about a second later".into(),
                Some(reason) => format!("since then, as it cannot be put back: {reason}"),
            };
            format!(
                "{port}: the program was taken out of the table of those who share the interface; packets of queues \
                 {queues} went to the host, uncounted, {since}"
            )
        });
        let asymmetric = self.asymmetric.then(|| {
            format!(
                "{port}: RSS is not symmetric any more, since somebody else has changed it: both directions of a \
                 connection may come in by different queues"
            )
        });
        lost.into_iter().chain(asymmetric).collect()
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
    fn asymmetry_is_told_of_once_and_stays_a_warning() {
        let mut upkeep = Upkeep { asymmetric: true, ..Upkeep::default() };
        assert_eq!(upkeep.events("in0"), [PortEvent::Asymmetric("in0".into())]);
        assert_eq!(upkeep.events("in0"), []);
        assert!(upkeep.warnings("in0")[0].starts_with("in0: RSS is not symmetric any more"));
    }
}
