//! What an interface says it has transmitted.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use crate::error::Error;

/// Of the calling thread's namespace; `/proc/net` would be the first thread's.
const PATH: &str = "/proc/thread-self/net/dev";
/// Columns after the name: 8 of reception, then bytes, packets, errors, drops.
const COLUMN_PACKETS: usize = 9;
const COLUMN_DROPPED: usize = 11;
/// How long to wait for the counters to reach what was sent: some drivers refresh them once a second.
const SETTLE: Duration = Duration::from_secs(2);

/// What an interface has taken since a moment.
#[derive(Debug)]
pub struct LinkWatch {
    interface: String,
    before: LinkCounters,
}

/// How an interface's transmit counters grew. Other traffic on it counts, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// By so much `tx_packets` grew. For veth these are the frames the other end has taken from its ring,
    /// whatever it then did with them.
    pub frames: u64,
    /// By so much `tx_dropped` grew.
    pub dropped: u64,
}

impl LinkWatch {
    /// From this moment on. To be called, as [`LinkWatch::settled`], by a thread in the interface's network
    /// namespace.
    ///
    /// # Errors
    /// [`Error::Counters`], when it is not there for instance.
    pub fn new(interface: &str) -> Result<Self, Error> {
        Ok(Self { interface: interface.into(), before: LinkCounters::read(interface)? })
    }

    /// What it took and dropped, once it has counted `frames`: the last of them may still be under way when
    /// the kernel returns, and some drivers count once a second. Waits for it for 2 s at most.
    ///
    /// # Errors
    /// [`Error::Counters`], when it is gone for instance.
    pub fn settled(&self, frames: u64) -> Result<Taken, Error> {
        let deadline = Instant::now() + SETTLE;
        loop {
            let now = LinkCounters::read(&self.interface)?;
            let taken = Taken {
                frames: now.sent.saturating_sub(self.before.sent),
                dropped: now.dropped.saturating_sub(self.before.dropped),
            };
            if taken.frames + taken.dropped >= frames || Instant::now() >= deadline {
                return Ok(taken);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Transmit counters of an interface, in frames since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkCounters {
    pub sent: u64,
    pub dropped: u64,
}

impl LinkCounters {
    /// Reads those of `interface`.
    pub(crate) fn read(interface: &str) -> Result<Self, Error> {
        let failed = |cause| Error::Counters { interface: interface.into(), path: PATH, cause };
        let table = fs::read_to_string(PATH).map_err(failed)?;
        find(&table, interface).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }
}

fn find(table: &str, interface: &str) -> Option<LinkCounters> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let column = |index| line.split_whitespace().nth(index)?.parse().ok();
    Some(LinkCounters { sent: column(COLUMN_PACKETS)?, dropped: column(COLUMN_DROPPED)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_line_and_columns() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                     veth10: 0 0 0 0 0 0 0 0 0 7 0 0 0 0 0 0\n  veth1:21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36\n";
        assert_eq!(find(table, "lo"), Some(LinkCounters { sent: 10, dropped: 12 }));
        assert_eq!(find(table, "veth1"), Some(LinkCounters { sent: 30, dropped: 32 }));
        assert_eq!(find(table, "veth2"), None);
        assert!(LinkCounters::read("lo").is_ok());
    }
}
