//! The verdict on a run, from the frames that arrived.
//!
//! ```text
//!   frame ─► Marks ─► run ─┬─► window: the last numbers, a bit each ──► duplicated, lost
//!                          ├─► newest number of its flow ────────────► reordered
//!                          └─► arrival − time of sending ────────────► latency
//! ```
//!
//! Rule: memory is bounded, and noting a frame takes constant time, whatever arrives.
//! Each of at most eight runs has a window of 1.5 MiB, 8 bytes for each flow (at most 8 MiB) and a histogram.

use serde::Serialize;

use crate::{
    latency::{Latency, Percentiles},
    marks::Marks,
};

/// Runs that are distinguished; frames of further runs are only counted.
const MAX_RUNS: usize = 8;
/// Flows of a run whose order is checked.
const MAX_FLOWS: u32 = 1 << 20;
/// How many of the last numbers, back from the highest, are remembered.
const WINDOW: u64 = 1 << 23;
/// Tolerance, in nanoseconds, between two readings of the clocks of one machine.
const CLOCK_TOLERANCE_NS: u64 = 1_000_000;
/// Checks frames as they arrive.
#[derive(Debug, Default)]
pub struct Verifier {
    runs: Vec<Run>,
    unmarked: u64,
    of_further_runs: u64,
    /// Frames in each run, if known.
    expected: Option<u64>,
}

/// The verdict on all runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The runs, in order of their first frames.
    pub runs: Vec<RunVerdict>,
    /// Frames that no generator of wirecap made.
    pub unmarked: u64,
    /// Frames of further runs than the first eight.
    pub of_further_runs: u64,
}

/// The verdict on a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunVerdict {
    /// Its number.
    pub run: u16,
    /// Frames that arrived.
    pub received: u64,
    /// Lowest sequence number that arrived.
    pub first: u64,
    /// Highest sequence number that arrived.
    pub last: u64,
    /// Numbers between these two that did not arrive; of all expected numbers, if their count is known.
    pub lost: u64,
    /// Numbers that arrived and were not expected; 0 if their count is unknown.
    pub unexpected: u64,
    /// Frames that arrived again.
    pub duplicated: u64,
    /// Frames after a later one of their flow on the same queue (RFC 4737, section 3); without duplicates.
    pub reordered: u64,
    /// Frames more than 8,388,608 numbers late, too late to check for duplicates; they count as lost.
    pub too_late: u64,
    /// Flows, of the first 1,048,576, whose order is checked.
    pub flows: u32,
    /// From sending to arrival.
    pub latency: Option<Percentiles>,
    /// Frames that arrived more than a millisecond before they were sent, by the clocks; not in `latency`.
    pub before_sent: u64,
}

impl Verifier {
    /// A verifier without frames. With the number of frames in each run, it also finds those that are missing
    /// at the start and the end of a run.
    pub fn new(expected: Option<u64>) -> Self {
        Self { expected, ..Self::default() }
    }

    /// Notes a frame with these marks (`None` for any other frame) that arrived on a queue at a time, in
    /// nanoseconds since 1970, UTC. Frames of one queue must be noted in the order of arrival.
    #[inline]
    pub fn note(&mut self, queue: u16, marks: Option<Marks>, arrived_ns: u64) {
        let Some(marks) = marks else {
            self.unmarked += 1;
            return;
        };
        // Runs follow each other, so it is nearly always the last one.
        let found = self.runs.iter().rposition(|run| run.counts.run == marks.run);
        let index = match found {
            Some(index) => index,
            None if self.runs.len() < MAX_RUNS => {
                self.runs.push(Run::new(marks));
                self.runs.len() - 1
            }
            None => {
                self.of_further_runs += 1;
                return;
            }
        };
        self.runs[index].note(queue, marks, arrived_ns, self.expected);
    }

    /// The verdict so far.
    pub fn verdict(&self) -> Verdict {
        let runs = self.runs.iter().map(|run| run.verdict(self.expected)).collect();
        Verdict { runs, unmarked: self.unmarked, of_further_runs: self.of_further_runs }
    }
}

#[derive(Debug)]
struct Run {
    /// The counts so far: all but `last`, `lost`, `duplicated`, `too_late` and `latency`.
    counts: RunVerdict,
    window: Window,
    /// For each flow, the queue of its last frame, counted from 1, and the newest number that arrived by it:
    /// 16 and 48 bits. 0: no frame of this flow. The kernel supplies zeroed pages on first use.
    newest: Box<[u64]>,
    latency: Latency,
}

impl Run {
    fn new(first: Marks) -> Self {
        Self {
            counts: RunVerdict { run: first.run, first: first.sequence, ..RunVerdict::default() },
            window: Window::new(first.sequence),
            newest: vec![0; MAX_FLOWS as usize].into(),
            latency: Latency::default(),
        }
    }

    #[inline]
    fn note(&mut self, queue: u16, marks: Marks, arrived_ns: u64, expected: Option<u64>) {
        self.counts.received += 1;
        match marks.sent_ns {
            0 => {}
            sent_ns if sent_ns > arrived_ns.saturating_add(CLOCK_TOLERANCE_NS) => {
                self.counts.before_sent += 1
            }
            sent_ns => self.latency.note(arrived_ns.saturating_sub(sent_ns), 1),
        }
        if self.window.note(marks.sequence) {
            self.counts.first = self.counts.first.min(marks.sequence);
            self.counts.unexpected += u64::from(expected.is_some_and(|expected| marks.sequence >= expected));
            self.check_order(queue, marks);
        }
    }

    #[inline]
    fn check_order(&mut self, queue: u16, marks: Marks) {
        let Some(newest) = self.newest.get_mut(marks.flow as usize) else { return };
        self.counts.flows += u32::from(*newest == 0);
        let now = ((u64::from(queue) + 1) << 48) | marks.sequence;
        if *newest >> 48 == now >> 48 && *newest > now {
            self.counts.reordered += 1;
        } else {
            *newest = now;
        }
    }

    fn verdict(&self, expected: Option<u64>) -> RunVerdict {
        let Window { highest, duplicated, too_late, .. } = self.window;
        let RunVerdict { received, first, unexpected, .. } = self.counts;
        let distinct = received - duplicated - too_late;
        let lost = expected.unwrap_or(highest - first + 1) - (distinct - unexpected);
        let latency = self.latency.percentiles();
        RunVerdict { last: highest, lost, duplicated, too_late, latency, ..self.counts }
    }
}

/// Which of the last numbers arrived.
///
/// ```text
///   numbers   0 … 63 │ 64 … 127 │ …            word 131,073 is word 0 again: on its next lap
///   words        0   │    1     │ … │ 131,072
/// ```
///
/// Advancing clears nothing: a word of an earlier lap counts as empty.
#[derive(Debug)]
struct Window {
    /// A bit for each number.
    bits: Box<[u64]>,
    /// The lap of each word. INVARIANT: that of the last number noted in it.
    laps: Box<[u32]>,
    highest: u64,
    duplicated: u64,
    too_late: u64,
}

/// One word more than [`WINDOW`] bits fill, so that a window never meets itself, wherever in a word it
/// starts.
const WORDS: u64 = WINDOW / 64 + 1;

impl Window {
    /// A window before number `first`.
    fn new(first: u64) -> Self {
        let (bits, laps) = (vec![0; WORDS as usize].into(), vec![0; WORDS as usize].into());
        Self { bits, laps, highest: first, duplicated: 0, too_late: 0 }
    }

    /// Notes a number. Returns whether it arrived for the first time, as far as is known.
    #[inline]
    fn note(&mut self, number: u64) -> bool {
        self.highest = self.highest.max(number);
        if self.highest - number >= WINDOW {
            self.too_late += 1;
            return false;
        }
        let (word, lap) = ((number / 64 % WORDS) as usize, (number / 64 / WORDS) as u32);
        debug_assert!(self.laps[word] <= lap, "no word of the window is on a later lap");
        if self.laps[word] != lap {
            (self.bits[word], self.laps[word]) = (0, lap);
        }
        let bit = 1 << (number % 64);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.duplicated += u64::from(!is_new);
        is_new
    }
}

#[cfg(test)]
mod tests;
