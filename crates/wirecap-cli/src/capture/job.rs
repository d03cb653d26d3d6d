//! What is done with packets besides capturing them.
//!
//! ```text
//!   worker ─ batch ─► encoded for the file, if there is one ─► BatchHandler::batch ─► dropped, sent on, …
//!                                                              BatchHandler::idle      when none comes
//! ```
//!
//! Rule: the capture owns threads, signals, file and account; a job adds to each of them, and takes nothing
//! over.

use std::time::Duration;

use anyhow::Result;
use wirecap::{Batch, Capture, HostUse, Report};
use wirecap_record::Progress;

use super::end::End;

/// How long a worker may wait for packets when nothing else is to be done.
const LONG: Duration = Duration::from_secs(1);

/// What a worker does with each batch.
pub(crate) trait BatchHandler: Send + 'static {
    /// Takes a batch: what was to be read of it has been.
    fn batch(&mut self, batch: Batch);

    /// Nothing came for as long as this.
    fn timeout(&self) -> Duration {
        LONG
    }

    /// Nothing came.
    fn idle(&mut self) {}

    /// There will be no more.
    fn end(&mut self) {}
}

/// A command that captures.
pub(crate) trait Job {
    /// Its name on the command line.
    const COMMAND: &'static str;

    /// What its workers do.
    type BatchHandler: BatchHandler;

    /// Gets ready: the work of each worker. `output` is what is written, if anything is.
    ///
    /// # Errors
    /// What keeps it from starting.
    fn begin(
        &mut self,
        capture: &mut Capture,
        workers: usize,
        output: Option<Progress>,
    ) -> Result<Vec<Self::BatchHandler>>;

    /// Looks at how it goes, many times a second: lines to print, and why the capture has to end, if so.
    fn look(&mut self, _: &Capture) -> (Vec<String>, Option<End>) {
        (Vec::new(), None)
    }

    /// Whether such a user of a port goes without the packets that the job takes.
    fn deprives(&self, _: &HostUse) -> bool {
        true
    }

    /// What goes on when the output takes no more, in words; `None` if nothing does, and the capture ends. A
    /// job that goes on does not wait for the output: packets that the output does not take in time are
    /// counted, and not written.
    fn without_output(&self) -> Option<&'static str> {
        None
    }

    /// All workers have ended: what is said from now on is the whole of it.
    fn end(&mut self) {}

    /// Why the job failed, in words: exit code 1.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Packets that were captured, and lost afterwards.
    fn lost(&self, _: &Report) -> u64 {
        0
    }

    /// What is added to the account in words.
    fn describe(&self, _: &Report) -> String {
        String::new()
    }

    /// What is added to the account as JSON: an object whose members are added to those of the report.
    fn json(&self, _: &Report) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}

/// Nothing: packets are captured.
#[derive(Debug)]
pub(crate) struct JustCapture;

impl BatchHandler for () {
    fn batch(&mut self, batch: Batch) {
        drop(batch);
    }
}

impl Job for JustCapture {
    const COMMAND: &'static str = "capture";
    type BatchHandler = ();

    fn begin(&mut self, _: &mut Capture, workers: usize, _: Option<Progress>) -> Result<Vec<()>> {
        Ok(vec![(); workers])
    }
}
