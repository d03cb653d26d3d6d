//! `wirecap capture --verify`: what became of frames of `wirecap generate`.
//!
//! ```text
//!   worker 0 ─ batch ─► marks, times ─┐ one lock,        per queue, in order
//!   worker 1 ─ batch ─► marks, times ─┴─ per batch ──► sequencer ──────────► Verifier: lost, duplicated, reordered, latency
//! ```
//!
//! Rule: a batch is given back before the lock is asked for: workers that wait for each other hold no cells.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use serde_json::{Map, Value};
use wirecap::{Batch, Capture, Report};
use wirecap_record::{Progress, Queues, Sequencer};
use wirecap_traffic::{Marks, Percentiles, RunVerdict, Verdict, Verifier};

use crate::{
    capture::job::{BatchHandler, Job},
    print::{layout::paragraph, table::Table},
    text::plural::counted,
};

/// Verifying, as a job of a capture.
pub(crate) struct Verify {
    /// Frames that each run has, if it is known.
    expected: Option<u64>,
    verifier: Arc<Mutex<OrderedVerifier>>,
}

/// What was noted so far.
#[derive(Debug)]
struct OrderedVerifier {
    verifier: Verifier,
    queues: usize,
    sequencer: Sequencer<Vec<Arrival>>,
    /// In order, to be noted.
    ready: VecDeque<Vec<Arrival>>,
    /// Batches that have been noted, to be used again.
    empty: Vec<Vec<Arrival>>,
}

/// A frame that was seen.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    marks: Option<Marks>,
    arrived_ns: u64,
}

impl Verify {
    /// For runs of `expected` frames each, if that is known.
    pub(crate) fn new(expected: Option<u64>) -> Self {
        Self { expected, verifier: Arc::new(Mutex::new(OrderedVerifier::new(0, expected))) }
    }

    /// What was found so far.
    fn verdict(&self) -> Verdict {
        self.verifier.lock().unwrap_or_else(PoisonError::into_inner).verifier.verdict()
    }
}

impl OrderedVerifier {
    fn new(queues: usize, expected: Option<u64>) -> Self {
        Self {
            verifier: Verifier::new(expected),
            queues,
            sequencer: Sequencer::new(queues),
            ready: VecDeque::new(),
            empty: Vec::new(),
        }
    }

    /// Takes note of a batch, or keeps it until those before it in its queue have come. Gives an empty buffer
    /// back.
    fn note(&mut self, queue: usize, first_number: u64, seen: Vec<Arrival>) -> Vec<Arrival> {
        let numbers = first_number..first_number + seen.len() as u64;
        self.sequencer.accept(queue, numbers, seen, &mut self.ready);
        self.note_ready(queue);
        self.empty.pop().unwrap_or_default()
    }

    /// No more come: batches that waited for one that a worker has panicked with are noted all the same.
    fn close(&mut self) {
        for queue in 0..self.queues {
            self.sequencer.drain(queue, &mut self.ready);
            self.note_ready(queue);
        }
    }

    fn note_ready(&mut self, queue: usize) {
        while let Some(mut seen) = self.ready.pop_front() {
            for Arrival { marks, arrived_ns } in seen.drain(..) {
                self.verifier.note(queue as u16, marks, arrived_ns);
            }
            self.empty.push(seen);
        }
    }
}

/// A worker's share of it.
pub(crate) struct VerifyWorker {
    verifier: Arc<Mutex<OrderedVerifier>>,
    queues: Arc<Queues>,
    buffer: Vec<Arrival>,
}

impl BatchHandler for VerifyWorker {
    fn batch(&mut self, batch: Batch) {
        self.buffer.clear();
        for packet in &batch {
            // Of a packet in several cells the first has far more than the marks.
            self.buffer
                .push(Arrival { marks: Marks::read(packet.data()), arrived_ns: packet.timestamp_ns() });
        }
        let (queue, first_number) = (self.queues.index(batch.port(), batch.queue()), batch.first_number());
        drop(batch);
        let Some(queue) = queue else { return };
        let seen = std::mem::take(&mut self.buffer);
        let mut verifier = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        self.buffer = verifier.note(queue, first_number, seen);
    }
}

impl Job for Verify {
    const COMMAND: &'static str = "capture";
    type BatchHandler = VerifyWorker;

    fn begin(
        &mut self,
        capture: &mut Capture,
        workers: usize,
        _: Option<Progress>,
    ) -> Result<Vec<VerifyWorker>> {
        let queues = Arc::new(Queues::of(&capture.report()));
        self.verifier = Arc::new(Mutex::new(OrderedVerifier::new(queues.count(), self.expected)));
        let look = || VerifyWorker {
            verifier: Arc::clone(&self.verifier),
            queues: Arc::clone(&queues),
            buffer: Vec::new(),
        };
        Ok((0..workers).map(|_| look()).collect())
    }

    fn end(&mut self) {
        self.verifier.lock().unwrap_or_else(PoisonError::into_inner).close();
    }

    fn failure(&self) -> Option<String> {
        failure(&self.verdict())
    }

    fn describe(&self, _: &Report) -> String {
        describe(&self.verdict())
    }

    fn json(&self, _: &Report) -> Map<String, Value> {
        let verdict = serde_json::to_value(self.verdict()).expect("figures");
        Map::from_iter([("verified".to_owned(), verdict)])
    }
}

/// What is wrong with the frames that came.
fn failure(verdict: &Verdict) -> Option<String> {
    if verdict.runs.is_empty() {
        return Some("verified: no frame of wirecap generate came".into());
    }
    let sum = |figure: fn(&RunVerdict) -> u64| verdict.runs.iter().map(figure).sum::<u64>();
    let (lost, duplicated, unexpected) =
        (sum(|run| run.lost), sum(|run| run.duplicated), sum(|run| run.unexpected));
    (lost + duplicated + unexpected > 0).then(|| {
        let lost = counted(lost, "frame");
        format!("verified: {lost} of wirecap generate lost, {duplicated} duplicated, {unexpected} unexpected")
    })
}

fn describe(verdict: &Verdict) -> String {
    let mut text = String::new();
    if !verdict.runs.is_empty() {
        text += &format!("\n{}\n{}", frames(verdict), times(verdict));
    }
    for (frames, what) in [
        (verdict.unmarked, "frames that no wirecap generate made"),
        (
            verdict.runs.iter().map(|run| run.unexpected).sum(),
            "frames with numbers beyond those that were expected",
        ),
        (verdict.of_further_runs, "frames of more runs than can be told apart"),
        (
            verdict.runs.iter().map(|run| run.too_late).sum(),
            "frames too late to know whether they came before; they are among the lost",
        ),
        (
            verdict.runs.iter().map(|run| run.before_sent).sum(),
            "frames that came before they were sent: the clocks of both ends are not the same",
        ),
    ] {
        if frames > 0 {
            text += &paragraph(&format!("verified: {frames} {what}"));
        }
    }
    text
}

/// What became of the frames of each run.
fn frames(verdict: &Verdict) -> Table {
    let mut table =
        Table::new(&["run", "received", "first", "last", "lost", "duplicated", "reordered", "flows"]);
    for run in &verdict.runs {
        let RunVerdict { run, received, first, last, lost, duplicated, reordered, flows, .. } = *run;
        let figures = [run.into(), received, first, last, lost, duplicated, reordered, flows.into()];
        table.row(figures.map(|figure: u64| figure.to_string()).into());
    }
    table
}

/// How long they took.
fn times(verdict: &Verdict) -> Table {
    let mut table = Table::new(&["run", "min us", "p50 us", "p99 us", "p99.9 us", "max us"]);
    for run in &verdict.runs {
        let times = run.latency.map(|times| {
            let Percentiles { min_ns, p50_ns, p99_ns, p999_ns, max_ns } = times;
            [min_ns, p50_ns, p99_ns, p999_ns, max_ns].map(|time_ns| format!("{:.1}", time_ns as f64 / 1e3))
        });
        let times = times.unwrap_or_default();
        table.row([run.run.to_string()].into_iter().chain(times).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(numbers: std::ops::Range<u64>) -> Vec<Arrival> {
        let seen = |sequence| Arrival {
            marks: Some(Marks { run: 3, flow: 0, sequence, sent_ns: 1_000 }),
            arrived_ns: 2_000,
        };
        numbers.map(seen).collect()
    }

    #[test]
    fn batches_of_several_workers_are_put_in_order_first() {
        let mut verifier = OrderedVerifier::new(2, None);
        for (queue, numbers) in [(0, 0..10), (0, 20..30), (1, 0..5), (0, 10..20), (0, 30..31)] {
            verifier.note(queue, numbers.start, batch(if queue == 0 { numbers } else { 100..105 }));
        }
        verifier.note(1, 7, batch(107..110));
        assert_eq!(verifier.verifier.verdict().runs[0].received, 36, "5 and 6 of queue 1 are missing");
        verifier.close();
        let verdict = verifier.verifier.verdict();
        let RunVerdict { received, lost, reordered, duplicated, .. } = verdict.runs[0];
        assert_eq!((received, lost, reordered, duplicated), (39, 71, 0, 0));
        assert!(describe(&verdict).contains("p99.9 us"));
        assert_eq!(
            failure(&verdict).unwrap(),
            "verified: 71 frames of wirecap generate lost, 0 duplicated, 0 unexpected"
        );
        assert!(
            failure(&Verifier::default().verdict()).unwrap().contains("no frame of wirecap generate came")
        );
    }
}
