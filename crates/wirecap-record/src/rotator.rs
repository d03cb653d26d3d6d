//! Requests to begin the next file of a series now, from any thread.
//!
//! ```text
//!   Rotator::rotate(now) ─► Requests ─► Series, in the thread that writes: packets from `now` on are for the next file
//!        CompleteFile ◄─────────────────┘ once the file before is complete
//! ```
//!
//! Rule: the writer reads one flag per round; it takes the lock only when a request waits.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::SystemTime,
};

use super::description::nanoseconds;

/// A file that is complete because the next one was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteFile {
    /// The file.
    pub path: PathBuf,
    /// Packets in it.
    pub packets: u64,
    /// The file that is written now; `None` if it was the last of the series, or if the next one begins with
    /// the next packet.
    pub next: Option<PathBuf>,
}

/// Begins the next file of a series on request: [`Recorder::rotator`](crate::Recorder::rotator).
#[derive(Debug, Clone)]
pub struct Rotator(pub(crate) Arc<Requests>);

impl Rotator {
    /// Requests that packets from this time on are written to the next file; of trace files, whose packets
    /// have times of their own, all that are written from now on. The file before it is complete when no
    /// earlier packet can come any more, and may be without packets. It is then sent to the receiver, which
    /// is closed without a value if nothing more is written.
    pub fn rotate(&self, now: SystemTime) -> Receiver<CompleteFile> {
        let (reply, complete) = channel();
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed list drops the reply, and with it the channel.
        if let Some(waiting) = &mut *waiting {
            waiting.push(Request { from_ns: nanoseconds(now), reply });
            self.0.any.store(true, Ordering::Relaxed);
        }
        complete
    }
}

/// A request for the next file.
#[derive(Debug)]
pub(crate) struct Request {
    /// The first time of its packets.
    pub(crate) from_ns: u64,
    pub(crate) reply: Sender<CompleteFile>,
}

/// Requests on their way to the writer.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Whether one waits. Set under the lock by whoever requests, cleared under it by the writer; the lock
    /// orders the list.
    any: AtomicBool,
    /// `None` once nothing more is written.
    waiting: Mutex<Option<Vec<Request>>>,
}

impl Default for Requests {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), waiting: Mutex::new(Some(Vec::new())) }
    }
}

impl Requests {
    /// Takes those that wait.
    pub(crate) fn take(&self) -> Vec<Request> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Relaxed);
        waiting.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Drops those that wait, and refuses others: nothing more is written.
    pub(crate) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_once_and_refused_after_the_end() {
        let rotator = Rotator(Arc::default());
        assert!(rotator.0.take().is_empty());
        let complete = rotator.rotate(SystemTime::UNIX_EPOCH);
        let requests = rotator.0.take();
        assert_eq!((requests.len(), requests[0].from_ns, rotator.0.take().len()), (1, 0, 0));
        drop(requests);
        assert!(complete.recv().is_err());
        let waiting = rotator.rotate(SystemTime::now());
        rotator.0.close();
        assert!(waiting.recv().is_err() && rotator.rotate(SystemTime::now()).recv().is_err());
    }
}
