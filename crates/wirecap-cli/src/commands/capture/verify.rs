//! `wirecap capture --verify`: what became of the frames of `wirecap generate`.
//!
//! ```text
//!   worker 0 ─ batch ─► marks, times ─┐ one lock,        per queue, in order
//!   worker 1 ─ batch ─► marks, times ─┴─ per batch ──► sequencer ──────────► Verifier: lost, duplicated, reordered, latency
//! ```
//!
//! Rule: a worker gives its batch back before it takes the lock, so that waiting workers hold no cells.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use serde_json::{Map, Value};
use wirecap::{Batch, Capture, Report};
use wirecap_record::{Queues, Sequencer};
use wirecap_traffic::{Marks, Percentiles, RunVerdict, Verdict, Verifier};

use crate::{
    capture::{
        job::{BatchHandler, Job},
        written_files::FilesProgress,
    },
    print::{layout::paragraph, table::Table},
    text::plural::counted,
};

/// The job that verifies captured frames.
pub(crate) struct VerifyJob {
    /// Frames in each run, if known.
    expected: Option<u64>,
    verifier: Arc<Mutex<OrderedVerifier>>,
}

/// A verifier that gets the batches of each queue in order.
#[derive(Debug)]
struct OrderedVerifier {
    verifier: Verifier,
    queues: usize,
    sequencer: Sequencer<Vec<Arrival>>,
    /// Batches that are next in order.
    ready: VecDeque<Vec<Arrival>>,
    /// Emptied buffers, to be reused.
    empty: Vec<Vec<Arrival>>,
}

/// The arrival of a frame.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    marks: Option<Marks>,
    arrived_ns: u64,
}

impl VerifyJob {
    /// `expected` is the number of frames in each run, if known.
    pub(crate) fn new(expected: Option<u64>) -> Self {
        Self { expected, verifier: Arc::new(Mutex::new(OrderedVerifier::new(0, expected))) }
    }

    /// The verdict so far.
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

    /// Notes a batch, or keeps it until those before it in its queue have arrived. Returns an empty buffer.
    fn note(&mut self, queue: usize, first_number: u64, seen: Vec<Arrival>) -> Vec<Arrival> {
        let numbers = first_number..first_number + seen.len() as u64;
        self.sequencer.accept(queue, numbers, seen, &mut self.ready);
        self.note_ready(queue);
        self.empty.pop().unwrap_or_default()
    }

    /// Notes the batches that still wait for one with which a worker panicked.
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

/// The verifier's handler of one worker.
pub(crate) struct VerifyWorker {
    verifier: Arc<Mutex<OrderedVerifier>>,
    queues: Arc<Queues>,
    buffer: Vec<Arrival>,
}

impl BatchHandler for VerifyWorker {
    fn batch(&mut self, batch: Batch) {
        self.buffer.clear();
        for packet in &batch {
            // The first cell of a packet in several has far more than the marks.
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

impl Job for VerifyJob {
    const COMMAND: &'static str = "capture";
    const HAS_ENGINE_FLAGS: bool = true;
    type BatchHandler = VerifyWorker;

    fn begin(
        &mut self,
        capture: &mut Capture,
        workers: usize,
        _: Option<FilesProgress>,
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

/// Why verification failed, if it did.
fn failure(verdict: &Verdict) -> Option<String> {
    if verdict.runs.is_empty() {
        return Some("verified: no frame of wirecap generate arrived".into());
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
        (verdict.unmarked, "frames that are not of wirecap generate"),
        (verdict.runs.iter().map(|run| run.unexpected).sum(), "frames with numbers beyond the expected ones"),
        (verdict.of_further_runs, "frames of further runs than the first eight"),
        (
            verdict.runs.iter().map(|run| run.too_late).sum(),
            "frames too late to check for duplicates; they count as lost",
        ),
        (
            verdict.runs.iter().map(|run| run.before_sent).sum(),
            "frames that arrived before they were sent: the clocks of both ends differ",
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

/// The latency of the frames of each run.
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
        let nothing = failure(&Verifier::default().verdict());
        assert_eq!(nothing.as_deref(), Some("verified: no frame of wirecap generate arrived"));
    }
}
