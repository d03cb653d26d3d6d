//! What was not as asked for: said on standard error, in the record, and by the exit code.

use std::fmt;

use wirecap_record::RecordError;

use super::output;

use crate::text::plural::{counted, is, was};

/// Something that makes the exit code 1.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("a worker thread panicked, please report this; what the others captured is kept")]
    WorkerPanicked,
    #[error("a worker ended before it was asked to, please report this; what was captured is kept")]
    WorkerEnded,
    #[error("every interface is gone, so the capture has ended; what was captured is kept")]
    InterfacesGone,
    /// These are gone, of several.
    #[error(
        "the capture is not complete: {} {} removed while it ran; all else is kept",
        .0.join(", "),
        was(.0.len() as u64)
    )]
    Removed(Vec<String>),
    /// A trace file could not be read to its end: why, in the words of its reader.
    #[error("{0}")]
    Trace(String),
    #[error("{}", not_written(.output, .cause, .kept))]
    Write { output: String, cause: RecordError, kept: Kept },
    /// The output did not take packets in time that were sent on all the same.
    #[error(
        "{} {} sent on and not written, since {output} did not take them in time",
        counted(*.packets, "packet"),
        was(*.packets)
    )]
    NotTaken { output: String, packets: u64 },
    /// Another program has removed the file.
    #[error(
        "{output} was deleted while it was written; its {} {} lost",
        counted(*.packets, "packet"),
        is(*.packets)
    )]
    Deleted { output: String, packets: u64 },
    #[error("another program has cut {0} while it was written; packets are missing in it, and it is damaged")]
    Cut(String),
    /// What was to be done with the packets failed, in words.
    #[error("{0}")]
    Job(String),
}

/// What of the packets is in an output that took no more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets that were captured and are not in it.
    pub(super) unwritten: u64,
}

fn not_written(output: &str, cause: &RecordError, kept: &Kept) -> String {
    match cause {
        RecordError::GivenUp => format!("writing {output} was given up on a signal; {kept}"),
        RecordError::Stalled(timeout) => format!(
            "cannot write {output}: it took nothing for {} s at the end; at least {} are in it, and it may end within \
             one; {}",
            timeout.as_secs(),
            kept.volume(),
            kept.rest()
        ),
        cause => format!("{}; {kept}", output::cannot_write(output, cause)),
    }
}

impl Kept {
    fn volume(&self) -> String {
        format!("{} ({})", counted(self.packets, "packet"), counted(self.bytes, "byte"))
    }

    fn rest(&self) -> String {
        format!("{} {} captured but not written", counted(self.unwritten, "packet"), was(self.unwritten))
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "kept {}, the last one complete; {}", self.volume(), self.rest())
    }
}

/// All of them in one line; `None` without any.
pub(super) fn in_one_line(failures: &[Failure]) -> Option<String> {
    let lines: Vec<_> = failures.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}
