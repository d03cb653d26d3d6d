//! The plan of a replay.

use std::path::PathBuf;

use wirecap_core::choices;
use wirecap_sys::xsk::BindChoice;

use crate::{Limits, Placement, Speed, Timing, schedule::mean_gap_ns};

choices! {
    /// What to do with packets of which the file has only the beginning (snapshot length).
    pub enum CutPolicy = Send {
        /// Send the beginning.
        Send = "send",
        /// Append zeros up to the length on the wire.
        Pad = "pad",
        /// Skip them.
        Skip = "skip",
    }
}

/// What to send, where, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Trace files; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// How several files share one time line.
    pub timing: Timing,
    /// Name of the interface, in the network namespace of the calling thread.
    pub interface: String,
    /// How fast.
    pub speed: Speed,
    /// The queues to send from.
    pub placement: Placement,
    /// How often to send the files, at least once; `None` repeats until stopped.
    pub passes: Option<u64>,
    /// Gap between passes, in nanoseconds of recorded time; `None` means the mean gap of the trace.
    pub pass_gap_ns: Option<u64>,
    /// When to stop before the end.
    pub limits: Limits,
    /// What to do with packets of which the file has only the beginning.
    pub cut: CutPolicy,
    /// Memory for cells in bytes; a trace that needs more is streamed.
    pub memory_bytes: u64,
    /// Zero-copy, copy, or the best available mode.
    pub mode: BindChoice,
    /// The core of the sending thread; `None` leaves the choice to the kernel.
    pub core: Option<usize>,
}

impl Plan {
    /// Whether a pass, counted from 0, is the last one.
    pub(crate) fn is_last(&self, pass: u64) -> bool {
        self.passes.is_some_and(|count| pass + 1 >= count)
    }

    /// The gap after a pass of `frames` frames, in nanoseconds of the recorded time.
    pub(crate) fn gap_ns(&self, span_ns: u64, frames: u64) -> u64 {
        self.pass_gap_ns.unwrap_or_else(|| mean_gap_ns(span_ns, frames))
    }

    /// Sends files once from queue 0 of an interface, at the recorded speed, with a GiB of memory for cells.
    /// Set fields to change the rest.
    ///
    /// ```
    /// use wirecap_replay::{Plan, Speed};
    ///
    /// let plan = Plan { speed: Speed::Top, passes: Some(10), ..Plan::new(["trace.pcap"], "eth1") };
    /// assert_eq!((plan.files.len(), plan.interface.as_str()), (1, "eth1"));
    /// ```
    pub fn new(files: impl IntoIterator<Item = impl Into<PathBuf>>, interface: impl Into<String>) -> Self {
        Self {
            files: files.into_iter().map(Into::into).collect(),
            timing: Timing::default(),
            interface: interface.into(),
            speed: Speed::recorded(),
            placement: Placement::One(0),
            passes: Some(1),
            pass_gap_ns: None,
            limits: Limits::default(),
            cut: CutPolicy::default(),
            memory_bytes: 1 << 30,
            mode: BindChoice::Best,
            core: None,
        }
    }
}
