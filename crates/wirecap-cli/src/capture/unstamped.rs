//! Tells while a capture runs, once for each port, that packets have no time of their own.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use wirecap::{
    Capture, Report, Timestamp,
    report::{PortReport, QueueMode},
};

/// How often it is looked for: the counters of all queues are read.
const PERIOD: Duration = Duration::from_secs(1);

/// Looks for packets without a stamp.
#[derive(Debug)]
pub(crate) struct Unstamped {
    /// `None` when there is nothing left to find.
    next_look: Option<Instant>,
    /// Ports that were told of.
    told: HashSet<String>,
}

impl Unstamped {
    pub(crate) fn new() -> Self {
        Self { next_look: Some(Instant::now()), told: HashSet::new() }
    }

    /// Lines about ports that have such packets by now, if it is time to look.
    pub(crate) fn look(&mut self, capture: &Capture) -> Vec<String> {
        let now = Instant::now();
        if self.next_look.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let report = capture.report();
        let lines = self.lines(&report);
        let is_left = |port: &PortReport| stamps_packets(port) && !self.told.contains(&port.name);
        self.next_look = report.ports.iter().any(is_left).then(|| now + PERIOD);
        lines
    }

    fn lines(&mut self, report: &Report) -> Vec<String> {
        let unstamped =
            report.ports.iter().filter(|port| stamps_packets(port) && port.timestamp.unstamped > 0);
        let news = unstamped.filter(|port| self.told.insert(port.name.clone()));
        news.map(line).collect()
    }
}

/// Whether its packets are stamped one by one, and may fail to be.
fn stamps_packets(port: &PortReport) -> bool {
    matches!(port.timestamp.source, Timestamp::Hardware | Timestamp::Kernel)
        && port.queues.iter().any(|queue| queue.mode != QueueMode::Packet)
}

fn line(port: &PortReport) -> String {
    let (name, source, unstamped) = (&port.name, port.timestamp.source.as_str(), port.timestamp.unstamped);
    format!(
        "wirecap: WARNING: {name}: packets have no {source} time, {unstamped} so far: they bear the time at which their \
         batch was taken"
    )
}

#[cfg(test)]
mod tests {
    use wirecap::port::null::NullPort;

    use super::*;

    fn report(source: Timestamp, unstamped: u64) -> (Capture, Report) {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
        let capture = Capture::builder().port(port).chunks_per_pool(4).open().unwrap();
        let mut report = capture.report();
        (report.ports[0].timestamp.source, report.ports[0].timestamp.unstamped) = (source, unstamped);
        (capture, report)
    }

    #[test]
    fn packets_without_a_stamp_are_told_of_once() {
        let (_capture, report) = report(Timestamp::Hardware, 7);
        let mut unstamped = Unstamped::new();
        let lines = unstamped.lines(&report);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("WARNING: null: packets have no hardware time, 7 so far"), "{lines:?}");
        assert_eq!(unstamped.lines(&report), Vec::<String>::new(), "once");
    }

    #[test]
    fn there_is_nothing_to_tell_of_packets_that_have_their_stamps_or_are_to_have_none() {
        for (source, count) in [(Timestamp::Kernel, 0), (Timestamp::Batch, 7)] {
            let (capture, report) = report(source, count);
            let mut unstamped = Unstamped::new();
            assert_eq!(unstamped.lines(&report), Vec::<String>::new(), "{source:?}");
            // The capture itself has times of batches: one look says that there is nothing to look for.
            assert_eq!(unstamped.look(&capture), Vec::<String>::new());
            assert_eq!(unstamped.next_look, None);
        }
    }
}
