//! The job of a capture: what a command does with the packets.
//!
//! ```text
//!   worker ─ batch ─► encoded for the file, if there is one ─► BatchHandler::batch ─► dropped, sent on, …
//!              │                                               BatchHandler::idle      while none arrives
//!              └─► the file alone, if the handler has no use for what is recorded
//! ```
//!
//! Rule: the capture owns threads, signals, file and account; a job only adds to them.

use std::time::Duration;

use anyhow::Result;
use wirecap::{Batch, Capture, HostUse, Report};

use super::{end::End, written_files::FilesProgress};
use crate::{message::Message, text::loss::ForwardLosses};

/// How long a worker waits for packets when it has nothing else to do.
const LONG: Duration = Duration::from_secs(1);

/// Counts the packets that workers are done with.
pub(crate) type PacketCounter = Box<dyn Fn() -> u64>;

/// What a worker does with each batch.
pub(crate) trait BatchHandler: Send + 'static {
    /// Whether it takes batches that are recorded, too. If not, they may be written from where they lie.
    const USES_RECORDED: bool = true;

    /// Takes a batch, after it was encoded for the file.
    fn batch(&mut self, batch: Batch);

    /// How long to wait for a batch before calling `idle`.
    fn timeout(&self) -> Duration {
        LONG
    }

    /// Called when no batch arrived within [`Self::timeout`].
    fn idle(&mut self) {}

    /// Called after the last batch.
    fn end(&mut self) {}
}

/// A command that captures.
pub(crate) trait Job {
    /// Its name on the command line.
    const COMMAND: &'static str;

    /// What stops while a port has no link, in messages.
    const ACTIVITY: &'static str = "capture";

    /// Whether the end of the program that reads the output is the end of the job, and no failure.
    const READER_ENDS_IT: bool = false;

    /// Whether packets that are not written are only counted.
    const ONLY_COUNTS: bool = false;

    /// Whether it has the flags of the engine, which advice about skewed queues names: -R, -T.
    const HAS_ENGINE_FLAGS: bool = false;

    /// Whether packets go from one interface to another, so that the job is not done without one of them.
    const FORWARDS: bool = false;

    /// What its workers do with batches.
    type BatchHandler: BatchHandler;

    /// Prepares the handler of each worker. `output` is the progress of writing, if packets are written.
    ///
    /// # Errors
    /// Whatever keeps the job from starting.
    fn begin(
        &mut self,
        capture: &mut Capture,
        workers: usize,
        output: Option<FilesProgress>,
    ) -> Result<Vec<Self::BatchHandler>>;

    /// Called many times a second. Returns what to print, and why the capture has to end, if it has to.
    fn look(&mut self, _: &Capture) -> (Vec<Message>, Option<End>) {
        (Vec::new(), None)
    }

    /// What becomes of the job after a port was removed, as text.
    fn after_removal(&self, _: &Capture) -> &'static str {
        "its packets so far are kept"
    }

    /// Lines that a terminal shows above the status line while the capture runs.
    fn table(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Whether such a user of a port misses the packets that the job takes.
    fn deprives(&self, _: &HostUse) -> bool {
        true
    }

    /// What continues when the output fails, as text; `None` if the capture ends then. A job that continues
    /// does not wait for the output: packets that the output does not accept in time are counted, not
    /// written.
    fn without_output(&self) -> Option<&'static str> {
        None
    }

    /// Counts the packets that the workers are done with, if handling them takes long: the end waits for the
    /// others, and shows how many are left.
    fn handled(&self) -> Option<PacketCounter> {
        None
    }

    /// Called when all workers have ended: from now on, figures are final.
    fn end(&mut self) {}

    /// Why the job failed, as text: exit code 1.
    fn failure(&self) -> Option<String> {
        None
    }

    /// What of a report the capture is judged by: without ports whose packets the job does not want.
    fn judged(&self, report: Report) -> Report {
        report
    }

    /// Packets that were lost after they were captured.
    fn lost(&self, _: &Report) -> ForwardLosses {
        ForwardLosses::default()
    }

    /// All packets that were lost: before they were captured, and after it.
    fn lost_in_all(&self, report: &Report) -> u64 {
        let judged = self.judged(report.clone());
        let early: u64 = judged.ports.iter().map(|port| port.dropped_before_xdp).sum();
        judged.total().lost.total() + early + self.lost(report).total()
    }

    /// What the job adds to the account as text.
    fn describe(&self, _: &Report) -> String {
        String::new()
    }

    /// The members that the job adds to the report as JSON.
    fn json(&self, _: &Report) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}

/// The job that does nothing more with packets.
#[derive(Debug)]
pub(crate) struct CaptureJob;

impl BatchHandler for () {
    const USES_RECORDED: bool = false;

    fn batch(&mut self, batch: Batch) {
        drop(batch);
    }
}

impl Job for CaptureJob {
    const COMMAND: &'static str = "capture";
    const ONLY_COUNTS: bool = true;
    const HAS_ENGINE_FLAGS: bool = true;
    type BatchHandler = ();

    fn begin(&mut self, _: &mut Capture, workers: usize, _: Option<FilesProgress>) -> Result<Vec<()>> {
        Ok(vec![(); workers])
    }
}
