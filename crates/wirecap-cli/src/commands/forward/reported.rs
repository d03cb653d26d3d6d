//! Packets that were not forwarded, and have been warned of.

use std::time::Instant;

use crate::capture::silence::Silence;

/// By port, what was reported.
#[derive(Debug, Default)]
pub(crate) struct ReportedCounts(Vec<ReportedCount>);

#[derive(Debug, Default)]
struct ReportedCount {
    packets: u64,
    causes: usize,
    silence: Silence,
}

impl ReportedCounts {
    /// How many of `packets` were not yet reported; `None` if there are none, or during a silence, which
    /// another cause ends. They count as reported then.
    pub(crate) fn since(&mut self, port: usize, packets: u64, causes: usize, now: Instant) -> Option<u64> {
        if self.0.len() <= port {
            self.0.resize_with(port + 1, Default::default);
        }
        let reported = &mut self.0[port];
        if reported.silence.lasts(now) && causes <= reported.causes {
            return None;
        }
        // A NIC that was reset begins again.
        reported.packets = reported.packets.min(packets);
        let since = packets - reported.packets;
        if since == 0 {
            reported.silence.end();
            return None;
        }
        (reported.packets, reported.causes) = (packets, causes);
        reported.silence.begin(now);
        Some(since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_packet_is_reported_once_at_growing_intervals_and_a_new_cause_at_once() {
        let (mut reported, start) = (ReportedCounts::default(), Instant::now());
        let mut since =
            |second, packets, causes| reported.since(1, packets, causes, start + Duration::from_secs(second));
        assert_eq!(since(0, 0, 0), None);
        assert_eq!(since(1, 3, 1), Some(3));
        assert_eq!((since(2, 4, 1), since(10, 9, 1)), (None, None), "ten seconds");
        assert_eq!(since(11, 10, 1), Some(7));
        assert_eq!((since(30, 20, 1), since(31, 21, 1)), (None, Some(11)), "twenty");
        assert_eq!(since(32, 22, 2), Some(1), "another cause");
        assert_eq!((since(91, 23, 2), since(92, 24, 2)), (None, Some(2)), "at most a minute");
        assert_eq!((since(200, 24, 2), since(201, 25, 2)), (None, Some(1)), "it was quiet");
        assert_eq!(since(211, 26, 2), Some(1), "so it begins with ten seconds again");
        assert_eq!((since(300, 4, 2), since(301, 6, 2)), (None, Some(2)), "the counter has begun again");
    }
}
