//! Watches a port's interface while it is captured: packets that are lost before XDP sees them, and receive
//! queues that are added (`ethtool -L`), for which the port has no sockets.

use std::time::{Duration, Instant};

use wirecap_sys::netdev::{self, Interface, LinkReader, LinkState, LinkStatistics};

use crate::Diagnostic;

/// Time between two looks at the number of queues: the kernel announces a change to no listener that only
/// follows the links, and the driver is asked under a lock of the whole network stack.
const QUEUES_PERIOD: Duration = Duration::from_secs(1);

/// Ethernet header and two VLAN tags, which the MTU does not count.
const FRAME_OVERHEAD_BYTES: u32 = 14 + 8;

/// Longest frame that an interface may receive, in bytes.
pub(crate) fn longest_frame(interface: &Interface) -> u32 {
    interface.mtu + FRAME_OVERHEAD_BYTES
}

/// Longest packet that the host sends on an interface or gets from it, in bytes: with segmentation offload,
/// and where received segments are put together, longer than a frame. A virtual interface also gets what the
/// other end of its pair has not cut up.
pub(crate) fn longest_packet(interface: &Interface) -> u32 {
    let peer = interface.peer.and_then(|peer| netdev::interface_with_index(peer).ok());
    let of = |interface: &Interface| interface.longest_aggregate.saturating_add(FRAME_OVERHEAD_BYTES);
    let aggregate = of(interface).max(peer.as_ref().map_or(0, of));
    longest_frame(interface).max(aggregate)
}

/// Which receive queues of an interface are captured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WatchedQueues<'a> {
    /// All there are now.
    All,
    /// These; the others do not matter.
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
    /// Its counters at the last look.
    last: LinkStatistics,
    /// What they have counted since the port was opened.
    since: LinkStatistics,
    /// Receive queues from this number on are not captured, where all were to be.
    captured: u32,
    /// The highest receive queue that is captured, where only some were to be.
    highest: Option<u32>,
    /// Number of receive queues at the last look.
    queues: u32,
    /// The number that was reported last.
    reported: u32,
    looked: Instant,
}

impl LinkWatch {
    /// Begins to watch an interface.
    pub(crate) fn open(interface: &Interface, watched: WatchedQueues<'_>) -> netdev::Result<Self> {
        let ifindex = interface.ifindex;
        let mut reader = LinkReader::open()?;
        let last = reader.statistics(ifindex)?;
        let current = interface.queues.current;
        let (captured, highest) = match watched {
            WatchedQueues::All => (current.max(1), None),
            WatchedQueues::Some(queues) => (u32::MAX, queues.iter().copied().max().map(u32::from)),
            WatchedQueues::None => (u32::MAX, None),
        };
        let (since, queues, looked) = (LinkStatistics::default(), current, Instant::now());
        let reported = if highest.is_some() { current } else { captured };
        Ok(Self { reader, ifindex, last, since, captured, highest, queues, reported, looked })
    }

    /// Packets the NIC or its driver had no room for.
    pub(crate) fn dropped(&mut self) -> u64 {
        let since = self.statistics();
        since.rx_missed_errors + since.rx_fifo_errors
    }

    /// Packets that the interface was given, by any sender, and has not sent.
    pub(crate) fn unsent(&mut self) -> u64 {
        let since = self.statistics();
        since.tx_dropped + since.tx_errors
    }

    fn statistics(&mut self) -> &LinkStatistics {
        if let Ok(now) = self.reader.statistics(self.ifindex) {
            self.since.add(&mut self.last, &now);
        }
        &self.since
    }

    /// Whether it can send now, and how long packets may be; `None` if it is gone.
    pub(crate) fn state(&mut self) -> Option<LinkState> {
        self.reader.state(self.ifindex).ok()
    }

    /// Whether it exists no more in its network namespace, which the calling thread may have left. False if
    /// the kernel does not say.
    pub(crate) fn is_gone(&mut self) -> bool {
        matches!(self.reader.statistics(self.ifindex), Err(netdev::Error::NoSuchIndex(_)))
    }

    /// How many transmit queues it has now; `None` if the kernel does not say.
    pub(crate) fn transmit_queues(&mut self) -> Option<u32> {
        self.reader.transmit_queues(self.ifindex).ok().flatten()
    }

    /// A warning if queues are not captured, or captured ones are gone. Looks at most once a second, unless
    /// it has to be `exact`.
    pub(crate) fn warning(&mut self, exact: bool) -> Option<Diagnostic> {
        if exact || self.looked.elapsed() >= QUEUES_PERIOD {
            if let Ok(queues) = self.reader.queues(self.ifindex) {
                self.queues = queues.current;
            }
            self.looked = Instant::now();
        }
        let Self { captured, highest, queues, .. } = *self;
        if queues > captured {
            return Some(Diagnostic::QueuesNotCaptured { captured, queues });
        }
        highest.filter(|&highest| highest >= queues).map(|_| Diagnostic::QueuesGone { queues })
    }

    /// The warning, if more queues are not captured, or more captured ones are gone, than when it was last
    /// reported.
    pub(crate) fn news(&mut self) -> Option<Diagnostic> {
        let warning = self.warning(false)?;
        let is_worse = match self.highest {
            None => self.queues > self.reported,
            Some(_) => self.queues < self.reported,
        };
        is_worse.then(|| {
            self.reported = self.queues;
            warning
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_queues_that_disappear_are_reported_once() {
        let loopback = netdev::interface("lo").unwrap();
        assert_eq!(loopback.queues.current, 1);
        let mut interface =
            Interface { queues: netdev::Queues { current: 4, ..loopback.queues }, ..loopback };
        let mut watch = LinkWatch::open(&interface, WatchedQueues::Some(&[0, 3])).unwrap();
        let gone = Some(Diagnostic::QueuesGone { queues: 1 });
        assert_eq!(
            (watch.warning(false), watch.warning(true), watch.news()),
            (None, gone.clone(), gone.clone())
        );
        assert_eq!((watch.warning(false), watch.news()), (gone, None));
        let mut others = LinkWatch::open(&interface, WatchedQueues::Some(&[0])).unwrap();
        assert_eq!((others.warning(true), others.news()), (None, None), "no captured queue is lost");

        interface.queues.current = 0;
        let mut all = LinkWatch::open(&interface, WatchedQueues::All).unwrap();
        assert_eq!((all.warning(true), all.news()), (None, None));
    }
}
