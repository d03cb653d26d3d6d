//! The transmit counters of an interface while frames are sent.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;
use wirecap_sys::netdev::{Error, LinkStatistics};

/// How long to wait for the counters to reach what was sent: some drivers refresh them once a second.
const SETTLE: Duration = Duration::from_secs(2);

/// The growth of the transmit counters of an interface since some moment.
#[derive(Debug)]
pub struct TxCounters {
    ifindex: u32,
    before: LinkStatistics,
}

/// How the transmit counters of an interface grew. Other traffic on it counts as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TxDelta {
    /// Packets sent. For veth, packets that the other end took from its ring, whatever it then did with them.
    pub packets: u64,
    /// Bytes sent; some drivers count the checksum (FCS), others do not.
    pub bytes: u64,
    /// Packets dropped on the way out.
    pub dropped: u64,
    /// Packets not sent because of an error.
    pub errors: u64,
}

impl TxCounters {
    /// The counters of interface `ifindex` from now on. Call this and [`TxCounters::settled`] in the network
    /// namespace of the interface.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`] without such an interface.
    pub fn start(ifindex: u32) -> Result<Self, Error> {
        Ok(Self { ifindex, before: LinkStatistics::of_index(ifindex)? })
    }

    /// How the counters grew, once they account for `packets`: the last ones may be under way when the kernel
    /// returns, and some drivers count once a second. Waits for 2 s at most.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`] once the interface is gone.
    pub fn settled(&self, packets: u64) -> Result<TxDelta, Error> {
        let deadline = Instant::now() + SETTLE;
        loop {
            let since = LinkStatistics::of_index(self.ifindex)?.since(&self.before);
            let delta = TxDelta {
                packets: since.tx_packets,
                bytes: since.tx_bytes,
                dropped: since.tx_dropped,
                errors: since.tx_errors,
            };
            if delta.packets + delta.dropped + delta.errors >= packets || Instant::now() >= deadline {
                return Ok(delta);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_from_the_start() {
        assert!(TxCounters::start(i32::MAX as u32).is_err());
        let delta = TxCounters::start(1).unwrap().settled(0).unwrap();
        assert_eq!((delta.dropped, delta.errors), (0, 0), "the loopback interface loses nothing");
    }
}
