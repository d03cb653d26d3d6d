//! What is in the files of a capture.

use std::{
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

use wirecap::{Report, report::QueueMode};
use wirecap_record::{DeletedFile, Progress, Recorder, Uncopied, WrittenCounts};

use crate::message::{Message, Topic};

/// A receive queue of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueId {
    /// The index of its port.
    pub(super) port: usize,
    /// Its number there.
    pub(super) number: u16,
}

/// A file that is written, or another output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputFile {
    /// As in messages.
    pub(super) name: String,
    /// The queue whose packets it gets; `None` if it gets those of all.
    pub(super) queue: Option<QueueId>,
    /// Where its packets are, if it has not got its name because writing failed; of a series, those of the
    /// last file.
    pub(super) partial: Option<PathBuf>,
}

impl OutputFile {
    /// The output with the packets of all queues.
    pub(super) fn of_all(name: String) -> Self {
        Self { name, queue: None, partial: None }
    }

    /// The file of a queue.
    pub(super) fn of_queue(name: String, queue: QueueId) -> Self {
        Self { name, queue: Some(queue), partial: None }
    }

    /// Packets that were delivered and that it gets.
    pub(super) fn delivered(&self, report: &Report) -> u64 {
        let Some(QueueId { port, number }) = self.queue else { return report.total().delivered };
        let queues = report.ports.get(port).into_iter().flat_map(|port| &port.queues);
        let captured = queues.filter(|queue| queue.queue == number && queue.mode != QueueMode::Host);
        captured.map(|queue| queue.account.delivered).sum()
    }
}

/// What is in the files.
#[derive(Debug, Clone)]
pub(super) struct WrittenFiles {
    /// Together.
    pub(super) total: WrittenCounts,
    /// Each of them.
    pub(super) files: Vec<(OutputFile, WrittenCounts)>,
}

impl WrittenFiles {
    /// Where the packets of the only output are, if it has not got its name.
    pub(super) fn partial(&self) -> Option<&Path> {
        match &*self.files {
            [(OutputFile { queue: None, partial, .. }, _)] => partial.as_deref(),
            _ => None,
        }
    }
}

impl FromIterator<(OutputFile, WrittenCounts)> for WrittenFiles {
    fn from_iter<I: IntoIterator<Item = (OutputFile, WrittenCounts)>>(files: I) -> Self {
        let files = Vec::from_iter(files);
        Self { total: files.iter().map(|(_, counts)| *counts).sum(), files }
    }
}

/// The progress of writing all files.
#[derive(Debug, Clone)]
pub(crate) struct FilesProgress(Arc<[(OutputFile, Progress)]>);

impl FilesProgress {
    /// The progress of these recorders, or `None` without any.
    pub(super) fn of(recorders: &[(OutputFile, Recorder)]) -> Option<Self> {
        let progress = recorders.iter().map(|(file, recorder)| (file.clone(), recorder.progress()));
        (!recorders.is_empty()).then(|| Self(progress.collect()))
    }

    /// How many files there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// What is in them now.
    pub(super) fn written(&self) -> WrittenFiles {
        self.0.iter().map(|(file, progress)| (file.clone(), progress.written())).collect()
    }

    /// Bytes that the outputs have accepted.
    pub(crate) fn output_bytes(&self) -> u64 {
        self.0.iter().map(|(_, progress)| progress.output_bytes()).sum()
    }

    /// Warnings of files that were deleted while they were being written, each once.
    pub(super) fn deleted(&self) -> Vec<Message> {
        let warning = |file: DeletedFile| {
            let mut text =
                format!("{} was deleted while it was being written; its packets ", file.path.display());
            text += &match file.descriptor {
                Some(descriptor) => format!(
                    "are lost when it is closed; until then they can be copied from /proc/{}/fd/{descriptor}",
                    process::id()
                ),
                None => "are lost".into(),
            };
            Message::warning(text).about(Topic::Deleted)
        };
        self.0.iter().flat_map(|(_, progress)| progress.take_deleted()).map(warning).collect()
    }

    /// Whether the reader of the copy has closed it.
    pub(super) fn copy_is_closed(&self) -> bool {
        self.0.iter().any(|(_, progress)| progress.copy_reader().has_closed)
    }

    /// What the reader of the copy has still to take, if all else is written.
    pub(super) fn uncopied(&self) -> Option<Uncopied> {
        self.0.iter().find_map(|(_, progress)| progress.uncopied())
    }

    /// What is in all of them together.
    pub(crate) fn total(&self) -> WrittenCounts {
        self.0.iter().map(|(_, progress)| progress.written()).sum()
    }
}
