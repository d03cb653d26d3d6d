//! Warns of losses while a capture runs.
//!
//! Rule: the first loss of a port is reported within a second, further ones at growing intervals while losses
//! continue; each line has everything that was lost since the line before. At the end, a line says when the
//! first and the last loss were noticed.

use std::{
    fmt,
    time::{Duration, Instant},
};

use jiff::{Timestamp, tz::TimeZone};
use wirecap::{Report, report::PortReport};

use super::{pulse, silence::Silence};
use crate::{
    message::{Message, Topic},
    text::{
        loss::{Losses, Output},
        plural::counted,
    },
};

/// Warns of losses.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// What packets wait for.
    output: Output,
    /// By port, in the order of the report.
    ports: Vec<PortAlarm>,
    /// Packets lost so far, as of the last look.
    lost: u64,
    times: Option<LossTimes>,
}

/// When the first and the last loss were noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LossTimes {
    first: Timestamp,
    last: Timestamp,
}

/// What a port has lost.
#[derive(Debug, PartialEq)]
struct LossNotice {
    port: String,
    /// What packets wait for.
    output: Output,
    /// Since the notice before.
    since: Losses,
    /// Packets so far.
    total: u64,
    /// How long the process hardly ran until a moment ago.
    stood: Duration,
}

/// The warnings of one port.
#[derive(Debug, Default)]
struct PortAlarm {
    /// The losses that were reported.
    losses: Losses,
    silence: Silence,
}

impl Alarm {
    pub(super) fn new(output: Output) -> Self {
        Self { output, ..Self::default() }
    }

    /// Messages about the losses since the last messages. `stood` is how long the process hardly ran until a
    /// moment ago.
    pub(super) fn messages(&mut self, report: &Report, now: Instant, stood: Duration) -> Vec<Message> {
        self.note_time(report, Timestamp::now());
        let notices = self.notices(report, now, stood).into_iter();
        notices.map(|notice| Message::warning(notice.to_string()).about(Topic::Lost)).collect()
    }

    fn notices(&mut self, report: &Report, now: Instant, stood: Duration) -> Vec<LossNotice> {
        self.ports.resize_with(report.ports.len(), PortAlarm::default);
        let ports = self.ports.iter_mut().zip(&report.ports);
        ports.filter_map(|(warned, port)| warned.notice(port, self.output, now, stood)).collect()
    }

    /// Notes the time of losses since the last call.
    pub(super) fn note_time(&mut self, report: &Report, now: Timestamp) {
        let lost = Losses::of(report).total();
        if std::mem::replace(&mut self.lost, lost) < lost {
            let first = self.times.map_or(now, |times| times.first);
            self.times = Some(LossTimes { first, last: now });
        }
    }

    /// When losses were noticed; `None` if none was while the capture ran.
    pub(super) fn times(&self) -> Option<LossTimes> {
        self.times
    }
}

impl fmt::Display for LossTimes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |time: Timestamp| time.to_zoned_datetime(TimeZone::system()).strftime("%F %T").to_string();
        let (first, last) = (text(self.first), text(self.last));
        match first == last {
            true => write!(formatter, "the loss was noticed at {first}"),
            false => write!(formatter, "the first loss was noticed at {first}, the last at {last}"),
        }
    }
}

impl fmt::Display for LossNotice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, output, since, total, stood } = self;
        let (lost, causes) = (counted(since.total(), "packet"), since.describe(*output, *stood));
        write!(formatter, "{port} lost {lost}, {total} so far: {causes}")?;
        pulse::describe(*stood).map_or(Ok(()), |why| write!(formatter, "; {why}"))
    }
}

impl PortAlarm {
    fn notice(
        &mut self,
        port: &PortReport,
        output: Output,
        now: Instant,
        stood: Duration,
    ) -> Option<LossNotice> {
        if self.silence.lasts(now) {
            return None;
        }
        let losses = Losses::of_port(port);
        let since = losses.since(&self.losses);
        if since.total() == 0 {
            self.silence.end();
            return None;
        }
        let total = losses.total();
        self.losses = losses;
        self.silence.begin(now);
        Some(LossNotice { port: port.name.clone(), output, since, total, stood })
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
        let time = |seconds| Timestamp::from_second(1_790_000_000 + seconds).unwrap();
        let mut at = |seconds: u64, lost: u64, stood: u64| {
            report.ports[0].queues[0].account.lost.no_free_cell += lost;
            alarm.note_time(&report, time(seconds as i64));
            let (now, stood) = (start + Duration::from_secs(seconds), Duration::from_secs(stood));
            let notice = alarm.notices(&report, now, stood).pop();
            (notice.map(|notice| (notice.total, notice.stood.as_secs())), alarm.times())
        };
        assert_eq!(at(1, 0, 0), (None, None));
        let once = LossTimes { first: time(5), last: time(5) };
        assert_eq!(at(5, 7, 3), (Some((7, 3)), Some(once)));
        let twice = LossTimes { last: time(100), ..once };
        assert_eq!(at(100, 1, 0), (Some((8, 0)), Some(twice)));
        assert!(once.to_string().starts_with("the loss was noticed at 2026-09-2"), "{once}");
        assert!(twice.to_string().starts_with("the first loss was noticed at 2026-09-2"), "{twice}");
    }
}
