//! The kernel's own counters of a link (`struct rtnl_link_stats64`, attribute IFLA_STATS64).

use super::error::Result;
use super::link::{self, Selector};
use super::netlink::{Conversation, each_attribute, split_header};

/// Declares the structure once: the fields in the order in which the kernel sends them.
macro_rules! link_statistics {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Counters of a link since it was made (or the driver loaded). Unit: packets unless the name says
        /// bytes.
        ///
        /// A driver need not keep them all, and which losses it counts where is its own affair:
        /// `rx_missed_errors` is the most usual place for packets that found no free buffer, `rx_dropped` the
        /// next. They can be set back to zero by the driver, for instance when the NIC is reset.
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

            /// Reads the kernel's structure. One of an older kernel is shorter: what it lacks is zero.
            pub(super) fn parse(bytes: &[u8]) -> Self {
                let mut words = bytes.chunks_exact(size_of::<u64>()).map(|word| {
                    u64::from_ne_bytes(word.try_into().expect("chunks_exact gives 8 bytes"))
                });
                Self { $($field: words.next().unwrap_or(0),)* }
            }
        }
    };
}

link_statistics! {
    /// Packets the driver received and handed on.
    rx_packets,
    /// Packets sent.
    tx_packets,
    /// Bytes received.
    rx_bytes,
    /// Bytes sent.
    tx_bytes,
    /// Packets received with an error; the sum of the kinds below that the driver distinguishes.
    rx_errors,
    /// Packets not sent because of an error.
    tx_errors,
    /// Packets received and dropped, for want of memory or because the host has no use for them.
    rx_dropped,
    /// Packets dropped on the way out.
    tx_dropped,
    /// Multicast packets received.
    multicast,
    /// Collisions on the wire.
    collisions,
    /// Packets with an impossible length.
    rx_length_errors,
    /// Packets that overran the receiver.
    rx_over_errors,
    /// Packets with a wrong checksum.
    rx_crc_errors,
    /// Packets with a broken alignment.
    rx_frame_errors,
    /// Packets that found the NIC's own memory full.
    rx_fifo_errors,
    /// Packets that the NIC had no buffer of the host for.
    rx_missed_errors,
    /// Transmissions given up.
    tx_aborted_errors,
    /// Transmissions without a carrier.
    tx_carrier_errors,
    /// Transmissions that found the NIC's memory empty.
    tx_fifo_errors,
    /// Heartbeat errors of old Ethernet.
    tx_heartbeat_errors,
    /// Late collisions.
    tx_window_errors,
    /// Compressed packets received (serial lines).
    rx_compressed,
    /// Compressed packets sent.
    tx_compressed,
    /// Packets for an inactive member of a bond or the like, which no protocol took.
    rx_nohandler,
    /// Packets for another host's MAC address, dropped; there with promiscuous mode. Zero on kernels older
    /// than 5.19.
    rx_otherhost_dropped,
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
    fn fields_have_the_places_of_the_kernels_structure() {
        assert_eq!(size_of::<LinkStatistics>(), 25 * 8);
        let statistics = LinkStatistics::parse(&kernel_bytes(25));
        assert_eq!(statistics.rx_packets, 10);
        assert_eq!(statistics.rx_dropped, 70);
        assert_eq!(statistics.rx_fifo_errors, 150);
        assert_eq!(statistics.rx_missed_errors, 160);
        assert_eq!(statistics.rx_nohandler, 240);
        assert_eq!(statistics.rx_otherhost_dropped, 250);
    }

    #[test]
    fn an_older_and_a_newer_kernel_are_understood() {
        let older = LinkStatistics::parse(&kernel_bytes(23));
        assert_eq!((older.tx_compressed, older.rx_nohandler), (230, 0));
        assert_eq!(LinkStatistics::parse(&kernel_bytes(30)), LinkStatistics::parse(&kernel_bytes(25)));
    }

    #[test]
    fn a_difference_does_not_go_below_zero() {
        let earlier = LinkStatistics { rx_packets: 5, rx_bytes: 100, ..Default::default() };
        let later = LinkStatistics { rx_packets: 9, rx_bytes: 40, ..Default::default() };
        let since = later.since(&earlier);
        assert_eq!((since.rx_packets, since.rx_bytes), (4, 0));
    }
}
