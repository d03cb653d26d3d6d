//! The kernel's own counters of a link (`struct rtnl_link_stats64`, attribute IFLA_STATS64).

use super::error::Result;
use super::link::{self, Selector};
use super::netlink::{Conversation, each_attribute, split_header};

/// Declares the structure once: the fields with their places in the kernel's structure.
macro_rules! link_statistics {
    ($($(#[$doc:meta])* $field:ident at $place:literal,)*) => {
        /// Counters of a link since it was made (or the driver loaded). Unit: packets unless the name says
        /// bytes.
        ///
        /// A driver need not keep them all, and decides itself where it counts a loss: packets that found no
        /// free buffer usually count as `rx_missed_errors`, sometimes as `rx_dropped`. The driver may set
        /// counters back to zero, for instance when the NIC is reset.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LinkStatistics {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl LinkStatistics {
            /// What was counted after `earlier`; zero where a counter went back.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }

            /// Adds what was counted since the last call, after `last`, which becomes `now`. A counter that
            /// shows clearly less than before was set back to zero by the driver, and has counted what it
            /// shows.
            pub fn add(&mut self, last: &mut Self, now: &Self) {
                $(self.$field += counted(&mut last.$field, now.$field);)*
            }

            /// Reads the kernel's structure. One of an older kernel is shorter: what it lacks is zero.
            pub(super) fn parse(bytes: &[u8]) -> Self {
                let word = |place: usize| {
                    let word = bytes.get(place * size_of::<u64>()..).and_then(<[u8]>::first_chunk);
                    word.map_or(0, |word| u64::from_ne_bytes(*word))
                };
                Self { $($field: word($place),)* }
            }
        }
    };
}

/// What a counter has counted after `last`, which becomes `now`. Some drivers add counters up while others
/// change them, so a sum may be a little less than the one before: that is no setting back.
fn counted(last: &mut u64, now: u64) -> u64 {
    let was_set_back = last.saturating_sub(now) > MOST_LESS.max(*last / 1000);
    let before = if was_set_back { 0 } else { *last };
    *last = if was_set_back { now } else { now.max(*last) };
    now.saturating_sub(before)
}

/// A sum that is less than the one before by more than this, and by more than a thousandth, was set back.
const MOST_LESS: u64 = 64;

link_statistics! {
    /// Packets the driver received and handed on.
    rx_packets at 0,
    /// Packets sent.
    tx_packets at 1,
    /// Bytes received.
    rx_bytes at 2,
    /// Bytes sent.
    tx_bytes at 3,
    /// Packets received with an error, of whatever kind.
    rx_errors at 4,
    /// Packets not sent because of an error.
    tx_errors at 5,
    /// Packets received and dropped, for want of memory or because the host has no use for them.
    rx_dropped at 6,
    /// Packets dropped on the way out.
    tx_dropped at 7,
    /// Packets that found the NIC's own memory full.
    rx_fifo_errors at 14,
    /// Packets for which the host had left the NIC no buffer.
    rx_missed_errors at 15,
}

impl LinkStatistics {
    /// The counters of the interface `name`. Opens a socket for it: about 10 µs.
    ///
    /// # Errors
    /// [`Error::NoSuchInterface`](super::Error::NoSuchInterface) with suggestions, and the other errors of
    /// this module.
    pub fn of(name: &str) -> Result<Self> {
        statistics(&mut link::open()?, Selector::Name(name))
    }

    /// The counters of the interface with index `ifindex`, whatever its current name is.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](super::Error::NoSuchIndex) once the interface is gone.
    pub fn of_index(ifindex: u32) -> Result<Self> {
        statistics(&mut link::open()?, Selector::Index(ifindex))
    }
}

/// The counters of one interface.
pub(super) fn statistics(rtnetlink: &mut Conversation, selector: Selector<'_>) -> Result<LinkStatistics> {
    const ACTION: &str = "reading the counters of an interface";
    let message = link::raw_link(rtnetlink, selector, 0)?;
    let (_, attributes) = split_header::<16>(ACTION, &message.payload)?;
    let mut statistics = LinkStatistics::default();
    each_attribute(ACTION, attributes, |kind, value| {
        if kind == libc::IFLA_STATS64 {
            statistics = LinkStatistics::parse(value);
        }
        Ok(())
    })?;
    Ok(statistics)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_bytes(words: u64) -> Vec<u8> {
        (1..=words).flat_map(|word| (word * 10).to_ne_bytes()).collect()
    }

    #[test]
    fn fields_are_where_the_kernels_structure_has_them() {
        let statistics = LinkStatistics::parse(&kernel_bytes(25));
        assert_eq!((statistics.rx_packets, statistics.tx_packets), (10, 20));
        assert_eq!((statistics.rx_bytes, statistics.tx_bytes), (30, 40));
        assert_eq!((statistics.rx_errors, statistics.tx_errors), (50, 60));
        assert_eq!((statistics.rx_dropped, statistics.tx_dropped), (70, 80));
        assert_eq!((statistics.rx_fifo_errors, statistics.rx_missed_errors), (150, 160));
    }

    #[test]
    fn an_older_and_a_newer_kernel_are_understood() {
        let older = LinkStatistics::parse(&kernel_bytes(15));
        assert_eq!((older.rx_fifo_errors, older.rx_missed_errors), (150, 0));
        assert_eq!(LinkStatistics::parse(&kernel_bytes(30)), LinkStatistics::parse(&kernel_bytes(25)));
    }

    #[test]
    fn a_difference_does_not_go_below_zero() {
        let earlier = LinkStatistics { rx_packets: 5, rx_bytes: 100, ..Default::default() };
        let later = LinkStatistics { rx_packets: 9, rx_bytes: 40, ..Default::default() };
        let since = later.since(&earlier);
        assert_eq!((since.rx_packets, since.rx_bytes), (4, 0));
    }

    #[test]
    fn a_sum_goes_on_when_a_driver_sets_its_counters_back() {
        let read = |rx_missed_errors| LinkStatistics { rx_missed_errors, ..Default::default() };
        let (mut sum, mut last) = (LinkStatistics::default(), read(1_000));
        for (now, expected) in [
            (1_000, 0),
            (1_007, 7),
            (1_005, 7),
            (1_010, 10),
            (0, 10),
            (0, 10),
            (30, 40),
            (4_000, 4_010),
            (2_000, 6_010),
            (12, 6_022),
        ] {
            sum.add(&mut last, &read(now));
            assert_eq!(sum, read(expected), "{now}");
        }
    }
}
