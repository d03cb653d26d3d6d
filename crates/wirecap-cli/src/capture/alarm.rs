//! Warns of losses while a capture runs.
//!
//! Rule: the first loss of a port is reported within a second, further ones at growing intervals while losses
//! continue; each line has everything that was lost since the line before.

use std::time::{Duration, Instant};

use wirecap::{Report, report::PortReport};

use crate::{
    message::{Message, Topic},
    text::{
        loss::{Losses, Output},
        plural::counted,
    },
};

/// The time between two warnings of a port, at first and at most.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(60);

/// Warns of losses.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// What packets wait for.
    output: Output,
    /// By port, in the order of the report.
    ports: Vec<PortAlarm>,
}

/// The warnings of one port.
#[derive(Debug, Default)]
struct PortAlarm {
    /// The losses that were reported.
    losses: Losses,
    /// When the port may be warned of again, and the length of this silence.
    silence: Option<(Instant, Duration)>,
}

impl Alarm {
    pub(super) fn new(output: Output) -> Self {
        Self { output, ports: Vec::new() }
    }

    /// Messages about the losses since the last messages.
    pub(super) fn messages(&mut self, report: &Report, now: Instant) -> Vec<Message> {
        self.ports.resize_with(report.ports.len(), PortAlarm::default);
        let ports = self.ports.iter_mut().zip(&report.ports);
        ports.filter_map(|(warned, port)| warned.message(port, self.output, now)).collect()
    }
}

impl PortAlarm {
    fn message(&mut self, port: &PortReport, output: Output, now: Instant) -> Option<Message> {
        if self.silence.is_some_and(|(until, _)| now < until) {
            return None;
        }
        let losses = Losses::of_port(port);
        let since = losses.since(&self.losses);
        if since.total() == 0 {
            self.silence = None;
            return None;
        }
        let silence = self.silence.map_or(SHORTEST, |(_, silence)| (2 * silence).min(LONGEST));
        (self.losses, self.silence) = (losses, Some((now + silence, silence)));
        let text = format!(
            "{} lost {}, {} so far: {}",
            port.name,
            counted(since.total(), "packet"),
            losses.total(),
            since.describe(output)
        );
        Some(Message::warning(text).about(Topic::Lost))
    }
}

#[cfg(test)]
mod tests {
    use wirecap::{Capture, port::null::NullPort};

    use super::*;

    #[test]
    fn a_loss_is_reported_at_once_and_then_at_ever_longer_intervals() {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
        let mut report = Capture::builder().port(port).chunks_per_pool(4).open().unwrap().report();
        let (mut alarm, start) = (Alarm::default(), Instant::now());
        let mut printed = Vec::new();
        for second in 0..100 {
            report.ports[0].queues[0].account.lost.no_free_cell += u64::from((3..95).contains(&second));
            let messages = alarm.messages(&report, start + Duration::from_secs(second));
            printed.extend(messages.into_iter().map(|message| (second, message.to_string())));
        }
        let seconds: Vec<_> = printed.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [3, 13, 33, 73], "{printed:#?}");
        let first = "wirecap: WARNING: null lost 1 packet, 1 so far: no_free_cell 1 (the pool was used up";
        assert!(printed[0].1.starts_with(first), "{printed:#?}");
        assert!(printed[1].1.contains("null lost 10 packets, 11 so far"), "{printed:#?}");
        // A loss within the interval is reported after it; after a quiet interval, a loss is news again.
        let mut at = |seconds, lost| {
            report.ports[0].queues[0].account.lost.no_free_cell += lost;
            alarm.messages(&report, start + Duration::from_secs(seconds)).len()
        };
        let later = [(132, 0), (133, 0), (192, 0), (193, 0), (201, 1), (205, 1), (211, 0)];
        assert_eq!(later.map(|(seconds, lost)| at(seconds, lost)), [0, 1, 0, 0, 1, 0, 1]);
    }
}
