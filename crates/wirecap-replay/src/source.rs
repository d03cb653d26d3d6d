//! Where the sending thread gets its frames from.

use crate::{lane::Lane, preloaded::Preloaded, schedule::mean_gap_ns, streamed::Streamed};

/// A frame that lies in cells of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Since the start.
    pub(crate) due_ns: u64,
    /// The first of its cells.
    pub(crate) cell: u32,
    pub(crate) len: u32,
    pub(crate) lane: u16,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Frame(Ready),
    /// Nothing yet.
    Wait(Awaited),
    End,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Cells that the kernel has.
    Cells,
    /// What is read of the file.
    File,
}

/// How often the files are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passes {
    /// `None` goes on until it is stopped.
    pub(crate) count: Option<u64>,
    /// Between passes, in the recorded time; `None` is the mean gap of the trace.
    pub(crate) gap_ns: Option<u64>,
}

impl Passes {
    /// Whether there is none after this one, counted from 0.
    pub(crate) fn is_last(&self, pass: u64) -> bool {
        self.count.is_some_and(|count| pass + 1 >= count)
    }

    pub(crate) fn gap_ns(&self, span_ns: u64, frames: u64) -> u64 {
        self.gap_ns.unwrap_or_else(|| mean_gap_ns(span_ns, frames))
    }
}

/// One of the two.
#[derive(Debug)]
pub(crate) enum Source {
    Preloaded(Preloaded),
    Streamed(Box<Streamed>),
}

impl Source {
    /// The frame that comes next.
    #[inline]
    pub(crate) fn peek(&mut self, lanes: &mut [Lane]) -> Next {
        match self {
            Source::Preloaded(trace) => trace.peek().map_or(Next::End, Next::Frame),
            Source::Streamed(trace) => trace.peek(lanes),
        }
    }

    /// Steps to the frame after it.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match self {
            Source::Preloaded(trace) => trace.advance(),
            Source::Streamed(trace) => trace.advance(),
        }
    }

    /// Uses a moment in which nothing is due. Returns whether there was something to do.
    pub(crate) fn work_ahead(&mut self, lanes: &mut [Lane]) -> bool {
        match self {
            Source::Preloaded(_) => false,
            Source::Streamed(trace) => trace.prepare(lanes, 1),
        }
    }

    pub(crate) fn passes_begun(&self) -> u64 {
        match self {
            Source::Preloaded(trace) => trace.passes_begun(),
            Source::Streamed(trace) => trace.passes_begun(),
        }
    }
}
