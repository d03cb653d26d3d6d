//! Failures: reported on standard error, in the record, and by the exit code.

use std::{fmt, path::PathBuf, process::ExitStatus};

use wirecap_record::RecordError;

use super::{
    output::{self, NoRoom},
    series::{FailedCommands, GivenUpCommands},
};

use crate::text::plural::{counted, is, was};

/// Something that makes the exit code 1.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("a worker thread panicked, please report this; the packets of the others are kept")]
    WorkerPanicked,
    #[error("a worker ended too early, please report this; what was captured is kept")]
    WorkerEnded,
    #[error("every interface is gone, so the capture ended; what was captured is kept")]
    InterfacesGone,
    /// Some of several interfaces are gone: their names.
    #[error("the capture is incomplete: {}, while it ran; everything else is kept", were_removed(.0))]
    Removed(Vec<String>),
    /// Interfaces that packets were forwarded between are gone: their names.
    #[error("{}, while packets were forwarded", were_removed(.0))]
    ForwardingCut(Vec<String>),
    /// A trace file could not be read to its end: the message of its reader.
    #[error("{0}")]
    Trace(String),
    #[error("{}", not_written(.output, .cause, .kept))]
    Write { output: String, cause: RecordError, kept: PartialOutput },
    /// Packets were forwarded, but there was no room for the output from the beginning: its error.
    #[error("{0}; nothing was written")]
    NoRoom(NoRoom),
    /// Packets were forwarded, but the output did not accept them in time.
    #[error(
        "{} {} sent on but not written, because {output} did not accept them in time",
        counted(*.packets, "packet"),
        was(*.packets)
    )]
    NotTaken { output: String, packets: u64 },
    /// Another program removed the file.
    #[error(
        "{output} was deleted while it was written; its {} {} lost",
        counted(*.packets, "packet"),
        is(*.packets)
    )]
    Deleted { output: String, packets: u64 },
    #[error(
        "another program truncated {0} while it was written; packets are missing, and the file is damaged"
    )]
    Cut(String),
    /// The command of a series.
    #[error(
        "{} failed with {} of {}, which are complete; warnings above name some",
        .0.command,
        .0.failed,
        counted(.0.files, "file")
    )]
    Command(FailedCommands),
    #[error("{0}")]
    CommandsGivenUp(GivenUpCommands),
    #[error("tcpdump, which prints the packets, failed: {0}")]
    Printer(ExitStatus),
    #[error("the last packets may not be printed: a signal ended the wait for tcpdump")]
    PrintingGivenUp,
    /// The job of the capture failed: its message.
    #[error("{0}")]
    Job(String),
}

/// What is in an output that accepted no more packets.
#[derive(Debug, Clone)]
pub(super) struct PartialOutput {
    pub(super) packets: u64,
    /// `None` if it is not known.
    pub(super) bytes: Option<u64>,
    /// How many files were written.
    pub(super) files: u64,
    /// Packets that were captured but are not in it.
    pub(super) unwritten: u64,
    /// Whether it may have a part of another packet.
    pub(super) may_end_in_packet: bool,
    /// The name of the file, if it has not got its own.
    pub(super) partial: Option<PathBuf>,
}

fn were_removed(names: &[String]) -> String {
    let (names, were) = (names.join(", "), was(names.len() as u64));
    format!("{names} {were} removed, or moved to another network namespace")
}

fn not_written(output: &str, cause: &RecordError, kept: &PartialOutput) -> String {
    match cause {
        RecordError::GivenUp => format!("writing {output} was given up on a signal; {kept}"),
        RecordError::Stalled(timeout) => format!(
            "cannot write {output}: it accepted nothing for {} s at the end; at least {} are in it, and it may end within \
             a packet; {}",
            timeout.as_secs(),
            kept.volume(),
            kept.rest()
        ),
        cause => format!("{}; {kept}", output::cannot_write(output, cause)),
    }
}

impl PartialOutput {
    fn volume(&self) -> String {
        let bytes = self.bytes.map(|bytes| format!(" ({})", counted(bytes, "byte"))).unwrap_or_default();
        counted(self.packets, "packet") + &bytes
    }

    fn rest(&self) -> String {
        format!("{} {} captured but not written", counted(self.unwritten, "packet"), was(self.unwritten))
    }
}

impl fmt::Display for PartialOutput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A ring has deleted the oldest of several files.
        let is_series = self.files > 1;
        write!(formatter, "{} {}", if is_series { "wrote" } else { "kept" }, self.volume())?;
        match self {
            Self { may_end_in_packet: true, packets: 0, .. } => {
                write!(formatter, ", and perhaps a part of one")?;
            }
            Self { may_end_in_packet: true, .. } => write!(formatter, ", and perhaps a part of another")?,
            Self { packets: 1.., .. } => write!(formatter, ", the last one complete")?,
            _ => {}
        }
        match &self.partial {
            Some(partial) if is_series => write!(formatter, "; the last file is {}", partial.display())?,
            Some(partial) => write!(formatter, ", in {}", partial.display())?,
            None => {}
        }
        write!(formatter, "; {}", self.rest())
    }
}

/// All failures in one line; `None` without any.
pub(super) fn in_one_line(failures: &[Failure]) -> Option<String> {
    let lines: Vec<_> = failures.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}
