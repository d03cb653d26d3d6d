//! Earlier reports: rates over the last two minutes, and when packets were last lost.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use super::figures::{Account, Cause, Report};
use crate::control::sample::{Sample, Share, sort};

/// The time that the line of rates covers.
const SPAN: Duration = Duration::from_secs(120);
/// The most points of that line.
const MAX_POINTS: usize = 1_200;
/// How long a sample is shown.
const SAMPLE_SPAN: Duration = Duration::from_secs(5);

/// Packets that were lost for one reason.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    /// Since the capture was opened.
    pub(super) packets: u64,
    /// When the figure last grew; `None` if that was before the first report.
    pub(super) last: Option<Instant>,
    /// By how much it grew then.
    pub(super) step: u64,
}

/// Packets and bits per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) pps: f64,
    pub(super) bps: f64,
}

/// The parts of the reports so far that the screen shows.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) last: Option<Report>,
    before: Option<Report>,
    /// Packets per second, each with its time.
    points: VecDeque<(Instant, f64)>,
    pub(super) losses: BTreeMap<Cause, Loss>,
    samples: VecDeque<(Instant, Sample)>,
}

impl History {
    /// Adds a report received at `now`.
    pub(super) fn add(&mut self, mut report: Report, now: Instant) {
        let seconds = report.account.seconds;
        if self.last.as_ref().is_some_and(|last| last.account.seconds.total_cmp(&seconds).is_eq()) {
            // The capture is ending: no more packets come, and what it has is written.
            (self.before, self.last) = (Some(report.clone()), Some(report));
            return;
        }
        let is_first = self.last.is_none();
        for (cause, packets) in report.losses() {
            let loss = self.losses.entry(cause).or_insert(Loss { packets: 0, last: None, step: 0 });
            if packets > loss.packets {
                if !is_first {
                    (loss.last, loss.step) = (Some(now), packets - loss.packets);
                }
                loss.packets = packets;
            }
        }
        self.samples.extend(report.sample.take().map(|sample| (now, sample)));
        while self.samples.front().is_some_and(|(at, _)| *at + SAMPLE_SPAN < now) {
            self.samples.pop_front();
        }
        self.before = self.last.replace(report);
        if !is_first {
            self.points.push_back((now, self.delivered().pps));
        }
        while self.points.len() > MAX_POINTS || self.points.front().is_some_and(|(at, _)| *at + SPAN < now) {
            self.points.pop_front();
        }
    }

    /// How much a figure grew per second between the last two reports; 0 before there are two.
    pub(super) fn per_second(&self, figure: impl Fn(&Report) -> Option<u64>) -> f64 {
        let (Some(before), Some(last)) = (&self.before, &self.last) else { return 0.0 };
        let seconds = last.account.seconds - before.account.seconds;
        match (figure(before), figure(last)) {
            (Some(before), Some(last)) if seconds > 0.0 => last.saturating_sub(before) as f64 / seconds,
            _ => 0.0,
        }
    }

    /// Packets and bits per second that workers are given.
    pub(super) fn delivered(&self) -> Rates {
        let delivered = |report: &Report| report.account.delivered();
        Rates {
            pps: self.per_second(|report| Some(delivered(report).0)),
            bps: 8.0 * self.per_second(|report| Some(delivered(report).1)),
        }
    }

    /// The largest rate of each of `columns` equal parts of the last two minutes, the latest last; `None` for
    /// a part without reports.
    pub(super) fn line(&self, columns: usize, now: Instant) -> Vec<Option<f64>> {
        let mut line = vec![None; columns];
        for &(at, pps) in &self.points {
            // The age in whole columns, counted from the right.
            let age = now.saturating_duration_since(at).as_nanos() * columns as u128 / SPAN.as_nanos();
            if let Some(column) = usize::try_from(age).ok().and_then(|age| columns.checked_sub(age + 1)) {
                if let Some(largest) = line.get_mut(column) {
                    *largest = Some(largest.map_or(pps, |largest: f64| largest.max(pps)));
                }
            }
        }
        line
    }

    /// The sample of the last seconds.
    pub(super) fn sample(&self) -> Sample {
        let mut sum = Sample::default();
        let (mut talkers, mut protocols) = (BTreeMap::new(), BTreeMap::new());
        for (_, sample) in &self.samples {
            sum.packets += sample.packets;
            sum.bytes += sample.bytes;
            add(&mut talkers, &sample.talkers);
            add(&mut protocols, &sample.protocols);
        }
        (sum.talkers, sum.protocols) = (in_order(talkers), in_order(protocols));
        sum
    }

    /// The account of the last report.
    pub(super) fn account(&self) -> Option<&Account> {
        self.last.as_ref().map(|report| &report.account)
    }
}

fn add<'s>(sums: &mut BTreeMap<&'s str, (u64, u64)>, shares: &'s [Share]) {
    for Share { name, packets, bytes } in shares {
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + packets, sum.1 + bytes);
    }
}

fn in_order(sums: BTreeMap<&str, (u64, u64)>) -> Vec<Share> {
    let share = |(name, (packets, bytes)): (&str, _)| Share { name: name.to_owned(), packets, bytes };
    let mut shares: Vec<_> = sums.into_iter().map(share).collect();
    sort(&mut shares);
    shares
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A report of a capture of one interface with two queues, of which one has lost packets.
    pub(in super::super) fn report(seconds: f64, packets: u64, lost: u64) -> Report {
        let queue = |queue: u64, lost: u64| {
            json!({
                "queue": queue, "mode": "packed", "seen": packets + lost, "filtered": 0, "delivered": packets,
                "lost": { "no_free_block": lost, "rx_ring_full": 0 }, "pool_used_percent": 40.0 * queue as f64,
                "pool_peak_percent": 80.0 * queue as f64
            })
        };
        let worker = |packets: u64| json!({ "packets": packets, "bytes": 100 * packets, "offloaded_in": 0, "offloaded_out": 0, "core": null });
        let report = json!({
            "status": {
                "pid": 4711, "name": "uplink", "command": "capture", "ports": ["eth1"],
                "started": "2026-11-26T02:00:00.000Z", "state": "running", "seconds": seconds, "seen": 2 * packets + lost,
                "delivered": 2 * packets, "lost": lost, "threshold_percent": 60, "output": "x.pcapng"
            },
            "account": {
                "seconds": seconds,
                "ports": [{ "name": "eth1", "dropped_before_xdp": 0, "queues": [queue(0, 0), queue(1, lost)] }],
                "workers": [worker(packets), worker(packets)],
                "written": { "packets": 2 * packets, "bytes": 200 * packets, "output_files": 1 }
            },
            "offloads": [{ "home": 0, "helper": 1, "packets": packets / 10 }],
            "sample": {
                "packets": 2, "bytes": 200,
                "talkers": [{ "name": "192.0.2.1 > 192.0.2.2", "packets": 2, "bytes": 200 }],
                "protocols": [
                    { "name": "tcp 443", "packets": 1, "bytes": 150 }, { "name": "arp", "packets": 1, "bytes": 50 }
                ]
            }
        });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn rates_are_between_the_last_two_reports() {
        let (mut history, now) = (History::default(), Instant::now());
        history.add(report(10.0, 1_000, 0), now);
        assert_eq!(history.delivered(), Rates::default(), "nothing is known yet");
        history.add(report(10.5, 2_000, 0), now);
        assert_eq!(history.delivered(), Rates { pps: 4_000.0, bps: 3_200_000.0 });
        // A capture that is ending: no packets come, and the last ones are written.
        let mut ending = report(10.5, 2_000, 0);
        ending.account.written.as_mut().unwrap().bytes = 7;
        history.add(ending, now);
        assert_eq!(history.delivered(), Rates::default());
        assert_eq!(history.account().unwrap().written.as_ref().unwrap().bytes, 7);
    }

    #[test]
    fn a_loss_has_the_time_at_which_it_grew() {
        let (mut history, now) = (History::default(), Instant::now());
        let second = Duration::from_secs(1);
        history.add(report(1.0, 0, 5), now);
        let (cause, loss) = history.losses.first_key_value().unwrap();
        assert_eq!((cause.place.as_str(), cause.cause.as_str()), ("eth1, queue 1", "no_free_block"));
        assert_eq!((loss.packets, loss.last), (5, None), "it was before");
        history.add(report(2.0, 0, 7), now + second);
        history.add(report(3.0, 0, 7), now + 2 * second);
        let loss = history.losses.first_key_value().unwrap().1;
        assert_eq!((loss.packets, loss.last, loss.step), (7, Some(now + second), 2));
        assert_eq!(history.losses.len(), 1, "causes without packets are none");
    }

    #[test]
    fn what_forwarding_loses_is_a_loss() {
        let (mut history, now) = (History::default(), Instant::now());
        let mut of_forward = report(1.0, 0, 5);
        (of_forward.status.command, of_forward.status.lost) = ("forward".into(), 105);
        history.add(of_forward, now);
        let losses = history.losses.iter();
        let losses: Vec<_> = losses.map(|(cause, loss)| (cause.cause.as_str(), loss.packets)).collect();
        assert_eq!(losses, [("no_free_block", 5), ("after_capture", 100)]);
    }

    #[test]
    fn the_line_has_two_minutes_and_the_largest_rate_of_each_part() {
        let (mut history, start) = (History::default(), Instant::now());
        let second = Duration::from_secs(1);
        for seconds in 0..=200_u32 {
            // A burst in each tenth second.
            let bursts = u64::from(seconds / 10);
            history.add(report(seconds.into(), 500 * bursts, 0), start + seconds * second);
        }
        let line = history.line(12, start + 200 * second);
        assert_eq!(line, vec![Some(1_000.0); 12]);
        let line = history.line(12, start + 230 * second);
        assert_eq!(line[9..], [None; 3], "nothing has come for half a minute");
        assert!(history.line(0, start).is_empty());
        assert_eq!(History::default().line(3, start), [None; 3]);
    }

    #[test]
    fn samples_are_summed_over_five_seconds() {
        let (mut history, start) = (History::default(), Instant::now());
        for seconds in 0..20 {
            history.add(report(seconds.into(), 0, 0), start + seconds * Duration::from_secs(1));
        }
        let sample = history.sample();
        assert_eq!((sample.packets, sample.bytes), (12, 1_200));
        assert_eq!(sample.protocols[0], Share { name: "tcp 443".into(), packets: 6, bytes: 900 });
    }
}
