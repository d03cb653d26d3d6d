//! What becomes of a port's interface while it is captured: packets that are lost before XDP sees them, and
//! receive queues that are added (`ethtool -L`), for which the port has no sockets.

use std::time::{Duration, Instant};

use wirecap_sys::netdev::{self, Interface, LinkReader, LinkState, LinkStatistics};

/// How often the number of queues is looked at: the kernel announces a change to no listener that only follows the
/// links, and the driver is asked under a lock of the whole network stack.
const QUEUES_PERIOD: Duration = Duration::from_secs(1);

/// Which receive queues of an interface are captured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Watched<'a> {
    /// All there are now.
    All,
    /// These; the others are no concern of ours.
    Some(&'a [u16]),
    /// None: queues do not matter.
    None,
}

/// An interface since its port was opened.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    /// Of the network namespace the port was opened in, wherever the report is made.
    reader: LinkReader,
    ifindex: u32,
    before: LinkStatistics,
    /// The last counts since then, for when the interface is gone.
    since: LinkStatistics,
    /// Receive queues from this number on are not captured, where all were to be.
    captured: u32,
    /// The highest receive queue that is captured, where only some were to be.
    highest: Option<u32>,
    /// Receive queues there were when it was last looked.
    queues: u32,
    /// The number that was reported last.
    reported: u32,
    looked: Instant,
}

impl LinkWatch {
    /// Begins to watch an interface.
    pub(crate) fn open(interface: &Interface, watched: Watched<'_>) -> netdev::Result<Self> {
        let ifindex = interface.ifindex;
        let mut reader = LinkReader::open()?;
        let before = reader.statistics(ifindex)?;
        let current = interface.queues.current;
        let (captured, highest) = match watched {
            Watched::All => (current.max(1), None),
            Watched::Some(queues) => (u32::MAX, queues.iter().copied().max().map(u32::from)),
            Watched::None => (u32::MAX, None),
        };
        let (since, queues, looked) = (before.since(&before), current, Instant::now());
        let reported = if highest.is_some() { current } else { captured };
        Ok(Self { reader, ifindex, before, since, captured, highest, queues, reported, looked })
    }

    /// How many receive queues are captured, where all were to be.
    pub(crate) fn captured(&self) -> u32 {
        self.captured
    }

    /// Packets the NIC or its driver had no room for.
    pub(crate) fn dropped(&mut self) -> u64 {
        let since = self.statistics();
        since.rx_missed_errors + since.rx_fifo_errors
    }

    /// Packets that were given to the interface, by whomever, and that it has not sent.
    pub(crate) fn unsent(&mut self) -> u64 {
        let since = self.statistics();
        since.tx_dropped + since.tx_errors
    }

    fn statistics(&mut self) -> &LinkStatistics {
        if let Ok(now) = self.reader.statistics(self.ifindex) {
            self.since = now.since(&self.before);
        }
        &self.since
    }

    /// Whether it can send now, and how long packets may be; `None` if it is gone.
    pub(crate) fn state(&mut self) -> Option<LinkState> {
        self.reader.state(self.ifindex).ok()
    }

    /// How many transmit queues it has now; `None` if the kernel does not say.
    pub(crate) fn transmit_queues(&mut self) -> Option<u32> {
        self.reader.transmit_queues(self.ifindex).ok().flatten()
    }

    /// The number of receive queues, if one of them is not captured. Looks once a second at most, unless it has
    /// to be `exact`.
    pub(crate) fn uncaptured(&mut self, exact: bool) -> Option<u32> {
        self.look(exact);
        (self.queues > self.captured).then_some(self.queues)
    }

    /// The number of receive queues, if one that is captured is not among them any more.
    pub(crate) fn missing(&mut self, exact: bool) -> Option<u32> {
        self.look(exact);
        self.highest.filter(|&highest| highest >= self.queues).map(|_| self.queues)
    }

    fn look(&mut self, exact: bool) {
        if exact || self.looked.elapsed() >= QUEUES_PERIOD {
            if let Ok(queues) = self.reader.queues(self.ifindex) {
                self.queues = queues.current;
            }
            self.looked = Instant::now();
        }
    }

    /// The number of receive queues, if it grew since it was last reported.
    pub(crate) fn added(&mut self) -> Option<u32> {
        let queues = self.uncaptured(false).filter(|&queues| queues > self.reported)?;
        self.reported = queues;
        Some(queues)
    }

    /// The number of receive queues, if a captured one was taken away since it was last reported.
    pub(crate) fn taken_away(&mut self) -> Option<u32> {
        let queues = self.missing(false).filter(|&queues| queues < self.reported)?;
        self.reported = queues;
        Some(queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_queues_that_are_taken_away_are_told_of_once() {
        let loopback = netdev::interface("lo").unwrap();
        assert_eq!(loopback.queues.current, 1);
        let mut interface =
            Interface { queues: netdev::Queues { current: 4, ..loopback.queues }, ..loopback };
        let mut watch = LinkWatch::open(&interface, Watched::Some(&[0, 3])).unwrap();
        assert_eq!((watch.missing(false), watch.uncaptured(true), watch.taken_away()), (None, None, Some(1)));
        assert_eq!((watch.missing(false), watch.taken_away()), (Some(1), None));
        let mut others = LinkWatch::open(&interface, Watched::Some(&[0])).unwrap();
        assert_eq!((others.missing(true), others.taken_away()), (None, None), "not ours");

        interface.queues.current = 0;
        let mut all = LinkWatch::open(&interface, Watched::All).unwrap();
        assert_eq!((all.uncaptured(true), all.added(), all.missing(true)), (None, None, None));
    }
}
