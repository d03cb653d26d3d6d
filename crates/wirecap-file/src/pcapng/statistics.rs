//! The Interface Statistics Block: the account of a capture, written into the file it is the account of.

use super::{append_block, block, code, options, time_words};

/// Packets counted on an interface since the capture started. `None`: not counted, and not written.
///
/// # Example
///
/// ```
/// use wirecap_file::pcapng::Counters;
///
/// let counters = Counters { received: Some(1_000), dropped_by_os: Some(3), ..Default::default() };
/// assert_eq!(counters.dropped_by_interface, None);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received by the interface (option `isb_ifrecv`).
    pub received: Option<u64>,
    /// Packets the interface dropped for lack of resources (option `isb_ifdrop`).
    pub dropped_by_interface: Option<u64>,
    /// Packets the filter accepted (option `isb_filteraccept`).
    pub filter_accepted: Option<u64>,
    /// Packets the operating system, here the capture engine, dropped (option `isb_osdrop`).
    pub dropped_by_os: Option<u64>,
    /// Packets delivered to the application (option `isb_usrdeliv`).
    pub delivered_to_user: Option<u64>,
}

/// What was counted on one interface, and when.
///
/// # Example
///
/// ```
/// use wirecap_file::pcapng::{Counters, InterfaceStatistics};
///
/// let statistics = InterfaceStatistics {
///     timestamp_ns: 2_000_000_000,
///     start_ns: Some(1_000_000_000),
///     counters: Counters { received: Some(10), ..Default::default() },
///     comments: &["lost, no free cell: 0"],
///     ..Default::default()
/// };
/// assert_eq!(statistics.interface, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InterfaceStatistics<'a> {
    /// The interface, counted from 0 in the order of the section's interface blocks.
    pub interface: u32,
    /// When the counters were read, in nanoseconds since the Unix epoch.
    pub timestamp_ns: u64,
    /// When the capture started, in nanoseconds since the Unix epoch (option `isb_starttime`).
    pub start_ns: Option<u64>,
    /// When the capture ended, in nanoseconds since the Unix epoch (option `isb_endtime`).
    pub end_ns: Option<u64>,
    /// What was counted.
    pub counters: Counters,
    /// Comments, one option each: the causes of loss the five counters have no place for.
    pub comments: &'a [&'a str],
}

/// Appends an Interface Statistics Block. Several for one interface may be written in the course of a
/// capture; the last one holds.
///
/// # Example
///
/// ```
/// use wirecap_file::pcapng::{InterfaceStatistics, interface_statistics};
///
/// let mut file = Vec::new();
/// interface_statistics(&mut file, &InterfaceStatistics { timestamp_ns: 1, ..Default::default() });
/// assert_eq!(file[0], 5);
/// ```
pub fn interface_statistics(out: &mut Vec<u8>, statistics: &InterfaceStatistics<'_>) {
    append_block(out, block::INTERFACE_STATISTICS, |out| {
        out.extend_from_slice(&statistics.interface.to_le_bytes());
        out.extend_from_slice(&time_words(statistics.timestamp_ns));
        append_time(out, code::ISB_START_TIME, statistics.start_ns);
        append_time(out, code::ISB_END_TIME, statistics.end_ns);
        let counters = &statistics.counters;
        options::append_u64(out, code::ISB_RECEIVED, counters.received);
        options::append_u64(out, code::ISB_DROPPED_BY_INTERFACE, counters.dropped_by_interface);
        options::append_u64(out, code::ISB_FILTER_ACCEPTED, counters.filter_accepted);
        options::append_u64(out, code::ISB_DROPPED_BY_OS, counters.dropped_by_os);
        options::append_u64(out, code::ISB_DELIVERED_TO_USER, counters.delivered_to_user);
        options::append_comments(out, statistics.comments);
        options::append_end(out);
    });
}

/// Appends a time option. Times are two words, high word first, unlike the counters.
fn append_time(out: &mut Vec<u8>, code: u16, time: Option<u64>) {
    if let Some(time) = time {
        options::append(out, code, &time_words(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_follow_the_format() {
        let mut out = Vec::new();
        let statistics = InterfaceStatistics {
            interface: 1,
            timestamp_ns: 0x0102_0304_0506_0708,
            start_ns: Some(0x0000_0001_0000_0002),
            counters: Counters { received: Some(3), delivered_to_user: Some(2), ..Default::default() },
            comments: &["ok"],
            ..Default::default()
        };
        interface_statistics(&mut out, &statistics);
        let expected = [
            &[5, 0, 0, 0, 72, 0, 0, 0, 1, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5][..],
            &[2, 0, 8, 0, 1, 0, 0, 0, 2, 0, 0, 0],
            &[4, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0],
            &[8, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 2, 0, b'o', b'k', 0, 0],
            &[0, 0, 0, 0, 72, 0, 0, 0],
        ]
        .concat();
        assert_eq!(out, expected);
    }
}
