//! What an interface says it has transmitted.

use std::{fs, io};

use crate::error::Error;

/// Of the calling thread's namespace; `/proc/net` would be the first thread's.
const PATH: &str = "/proc/thread-self/net/dev";
/// Columns after the name: 8 of reception, then bytes, packets, errors, drops.
const COLUMN_PACKETS: usize = 9;
const COLUMN_DROPPED: usize = 11;

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
