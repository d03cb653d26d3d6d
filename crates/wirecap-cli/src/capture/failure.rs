//! What was not as asked for: said on standard error, in the record, and by the exit code.

use std::fmt;

use wirecap_record::RecordError;

use super::output;

use crate::text::plural::{counted, is, was};

/// Something that makes the exit code 1.
#[derive(Debug)]
pub(super) enum Failure {
    WorkerPanicked,
    /// A worker ended before it was asked to.
    WorkerEnded,
    /// Every interface is gone.
    InterfacesGone,
    /// These are gone, of several.
    Removed(Vec<String>),
    /// A trace file could not be read to its end: why, in the words of its reader.
    Trace(String),
    Write {
        output: String,
        cause: RecordError,
        kept: Kept,
    },
    /// The output did not take packets in time that were sent on all the same.
    NotTaken {
        output: String,
        packets: u64,
    },
    /// Another program has removed the file.
    Deleted {
        output: String,
        packets: u64,
    },
    /// Another program has cut the file.
    Cut {
        output: String,
    },
    /// What was to be done with the packets failed, in words.
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

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkerPanicked => formatter
                .write_str("a worker thread panicked, please report this; what the others captured is kept"),
            Self::WorkerEnded => formatter.write_str(
                "a worker ended before it was asked to, please report this; what was captured is kept",
            ),
            Self::InterfacesGone => formatter
                .write_str("every interface is gone, so the capture has ended; what was captured is kept"),
            Self::Removed(ports) => write!(
                formatter,
                "the capture is not complete: {} {} removed while it ran; all else is kept",
                ports.join(", "),
                was(ports.len() as u64)
            ),
            Self::Trace(why) | Self::Job(why) => formatter.write_str(why),
            Self::Write { output, cause: RecordError::GivenUp, kept } => {
                write!(formatter, "writing {output} was given up on a signal; {kept}")
            }
            Self::Write { output, cause: RecordError::Stalled(timeout), kept } => write!(
                formatter,
                "cannot write {output}: it took nothing for {} s at the end; at least {} are in it, and it may end within \
                 one; {}",
                timeout.as_secs(),
                kept.volume(),
                kept.rest()
            ),
            Self::Write { output, cause, kept } => {
                write!(formatter, "{}; {kept}", output::cannot_write(output, cause))
            }
            Self::NotTaken { output, packets } => write!(
                formatter,
                "{} {} sent on and not written, since {output} did not take them in time",
                counted(*packets, "packet"),
                was(*packets)
            ),
            Self::Deleted { output, packets } => write!(
                formatter,
                "{output} was deleted while it was written; its {} {} lost",
                counted(*packets, "packet"),
                is(*packets)
            ),
            Self::Cut { output } => write!(
                formatter,
                "another program has cut {output} while it was written; packets are missing in it, and it is damaged"
            ),
        }
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
        let (packets, bytes) = (counted(self.packets, "packet"), counted(self.bytes, "byte"));
        write!(formatter, "kept {packets} ({bytes}, whole to the last of them); {}", self.rest())
    }
}

/// All of them in one line; `None` without any.
pub(super) fn in_one_line(failures: &[Failure]) -> Option<String> {
    let lines: Vec<_> = failures.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}
