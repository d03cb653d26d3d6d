//! Warns of losses while a capture runs.
//!
//! Rule: the first loss of a port is reported within a second, further ones at growing intervals while losses
//! continue; each line has everything that was lost since the line before. At the end, a line says when the
//! first and the last loss were noticed.

use std::time::{Duration, Instant};

use jiff::{Timestamp, tz::TimeZone};
use wirecap::{Report, report::PortReport};

use super::pulse;
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
    /// Packets lost so far, as of the last look.
    lost: u64,
    /// When the first and the last loss were noticed.
    noticed: Option<(Timestamp, Timestamp)>,
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
        Self { output, ..Self::default() }
    }

    /// Messages about the losses since the last messages. `stood` is how long the process hardly ran until a
    /// moment ago.
    pub(super) fn messages(&mut self, report: &Report, now: Instant, stood: Duration) -> Vec<Message> {
        self.note_time(report, Timestamp::now());
        self.ports.resize_with(report.ports.len(), PortAlarm::default);
        let why = pulse::describe(stood);
        let ports = self.ports.iter_mut().zip(&report.ports);
        let texts = ports.filter_map(|(warned, port)| warned.text(port, self.output, now));
        let texts = texts.map(|text| why.iter().fold(text, |text, why| format!("{text}; {why}")));
        texts.map(|text| Message::warning(text).about(Topic::Lost)).collect()
    }

    /// Notes the time of losses since the last call.
    pub(super) fn note_time(&mut self, report: &Report, now: Timestamp) {
        let lost = Losses::of(report).total();
        if std::mem::replace(&mut self.lost, lost) < lost {
            self.noticed = Some((self.noticed.map_or(now, |(first, _)| first), now));
        }
    }

    /// When the first and the last loss were noticed, as text; `None` if none was while the capture ran.
    pub(super) fn describe_times(&self) -> Option<String> {
        let (first, last) = self.noticed?;
        let text = |time: Timestamp| time.to_zoned_datetime(TimeZone::system()).strftime("%F %T").to_string();
        let (first, last) = (text(first), text(last));
        Some(match first == last {
            true => format!("the loss was noticed at {first}"),
            false => format!("the first loss was noticed at {first}, the last at {last}"),
        })
    }
}

impl PortAlarm {
    fn text(&mut self, port: &PortReport, output: Output, now: Instant) -> Option<String> {
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
        Some(format!(
            "{} lost {}, {} so far: {}",
            port.name,
            counted(since.total(), "packet"),
            losses.total(),
            since.describe(output)
        ))
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
            let messages = alarm.messages(&report, start + Duration::from_secs(second), Duration::ZERO);
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
            alarm.messages(&report, start + Duration::from_secs(seconds), Duration::ZERO).len()
        };
        let later = [(132, 0), (133, 0), (192, 0), (193, 0), (201, 1), (205, 1), (211, 0)];
        assert_eq!(later.map(|(seconds, lost)| at(seconds, lost)), [0, 1, 0, 0, 1, 0, 1]);
    }
    #[test]
    fn a_loss_while_the_process_stood_says_so_and_when() {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
        let mut report = Capture::builder().port(port).chunks_per_pool(4).open().unwrap().report();
        let (mut alarm, start) = (Alarm::default(), Instant::now());
        let mut at = |seconds: u64, lost: u64, stood: u64| {
            report.ports[0].queues[0].account.lost.no_free_cell += lost;
            let time = Timestamp::from_second(1_790_000_000 + seconds as i64).unwrap();
            alarm.note_time(&report, time);
            let now = start + Duration::from_secs(seconds);
            let messages = alarm.messages(&report, now, Duration::from_secs(stood));
            let text = messages.first().map(|message| message.to_string()).unwrap_or_default();
            (text.contains("hardly ran for 3.0 s"), text.contains("hardly ran"), alarm.describe_times())
        };
        assert_eq!(at(1, 0, 0), (false, false, None));
        let (stood, _, times) = at(5, 7, 3);
        let first = times.unwrap();
        assert!(stood && first.starts_with("the loss was noticed at 2026-09-2"), "{first}");
        let (_, stood, times) = at(100, 1, 0);
        assert!(!stood, "of another loss");
        let last = times.unwrap();
        assert!(
            last.starts_with(&first.replace("the loss", "the first loss")) && last.contains(", the last at "),
            "{last}"
        );
    }
}
