//! The files of a capture: one, or one for each receive queue. Their names, and how they are opened.
//!
//! ```text
//!   -w x.pcapng                               x.pcapng
//!   -w x.pcapng --file-per-queue eth1         x.0.pcapng        x.1.pcapng        …
//!   -w x.pcapng --file-per-queue eth1 eth2    x.eth1.0.pcapng   x.eth1.1.pcapng   …   x.eth2.0.pcapng   …
//! ```
//!
//! Rule: no two queues have the same file, and none has that of a trace that is read.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use wirecap::PreparedCapture;
use wirecap_file::Format;
use wirecap_record::{Output, Rotation};
use wirecap_sys::clock::system_ns;

use super::{
    file_name::labelled,
    output::{self, NoRoom, Opening},
    place::{self, Place},
    plan::{Destination, Plan},
    series::{self, Commands, Names, Series, SeriesBegin},
    written_files::{OutputFile, QueueId},
};
use crate::{exit::Usage, print::stdio::print_message, process::signals::Signals};

/// The file of a queue, before it is opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueFile {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) queue: QueueId,
}

/// The file of each queue, in the order of ports and queues; none without `--file-per-queue`.
///
/// # Errors
/// [`Usage`] if two of them, or one and a trace that is read, would be the same.
pub(super) fn of_queues(plan: &Plan, places: &[Place], prepared: &PreparedCapture) -> Result<Vec<QueueFile>> {
    let Some(Destination::FilePerQueue(template, format)) = &plan.destination else { return Ok(Vec::new()) };
    let (mut files, mut known) = (Vec::new(), HashMap::new());
    for (port, (place, queues)) in places.iter().zip(prepared.queues_of_ports()).enumerate() {
        for &number in queues {
            let label = match places {
                [_] => number.to_string(),
                _ => format!("{}.{number}", place.label()),
            };
            let path = labelled(template, &label);
            if let Some(other) = known.insert(path.clone(), port) {
                bail!(usage!(
                    "the packets of {} and of {} would both be written to {}: capture them by two commands, or leave \
                     --file-per-queue out",
                    plan.config.ports[other],
                    plan.config.ports[port],
                    path.display()
                ));
            }
            place::check_not_read(places, &path)?;
            files.push(QueueFile { path, format: *format, queue: QueueId { port, number } });
        }
    }
    Ok(files)
}

/// An output that is open.
#[derive(Debug)]
pub(super) struct OpenOutput {
    pub(super) file: OutputFile,
    pub(super) output: Output,
    /// What follows the file, if it is the first of a series.
    pub(super) rotation: Option<Rotation>,
    /// What the thread that writes a series does first.
    pub(super) begin: Option<SeriesBegin>,
}

impl OpenOutput {
    /// An output that no files follow.
    pub(super) fn stream(file: OutputFile, output: Output) -> Self {
        Self { file, output, rotation: None, begin: None }
    }
}

/// Opens the outputs of a capture.
#[derive(Debug)]
pub(super) struct Opener<'a> {
    pub(super) plan: &'a Plan,
    pub(super) places: &'a [Place],
    pub(super) signals: &'a Signals,
    pub(super) commands: Option<&'a Commands>,
}

impl Opener<'_> {
    /// Opens the only output, if there is one. Waits for the reader of a pipe.
    ///
    /// # Errors
    /// Why it cannot be written, and what to do about it.
    pub(super) fn one(&self) -> Result<Vec<OpenOutput>> {
        let (Some(destination), Some(name)) = (&self.plan.destination, self.plan.describe_destination())
        else {
            return Ok(Vec::new());
        };
        let file = OutputFile::of_all(name);
        match destination {
            Destination::File(path, format) => Ok(vec![self.open(file, path, *format)?]),
            Destination::Stdout => Ok(vec![OpenOutput::stream(file, output::stdout(destination.format())?)]),
            // Opened later, or started.
            Destination::FilePerQueue(..) | Destination::Printer => Ok(Vec::new()),
        }
    }

    /// Opens the files of all queues.
    ///
    /// # Errors
    /// Why one of them cannot be written, and what to do about it.
    pub(super) fn of_queues(&self, files: Vec<QueueFile>) -> Result<Vec<OpenOutput>> {
        let open = |QueueFile { path, format, queue }| {
            let name = match self.plan.output.rotates() {
                true => Names::new(&path, &self.plan.output).pattern(),
                false => path.clone(),
            };
            self.open(OutputFile::of_queue(name.display().to_string(), queue), &path, format)
        };
        files.into_iter().map(open).collect()
    }

    /// Opens a file, or the first of a series.
    fn open(&self, file: OutputFile, path: &Path, format: Format) -> Result<OpenOutput> {
        let Self { plan, places, signals, commands } = self;
        let opening = Opening::of(&plan.output);
        if !plan.output.rotates() {
            let output = self.as_user(|| output::open(path, format, opening, signals))?;
            let rotation = plan.output.stop_size.map(series::end_at_size);
            return Ok(OpenOutput { file, output, rotation, begin: None });
        }
        let begins_ns = place::first_packet_ns(places).unwrap_or_else(system_ns);
        let series = self.as_user(|| Series::find(path, &plan.output, begins_ns))?;
        place::check_not_read(places, series.first())?;
        let output = self.as_user(|| output::open(series.first(), format, opening, signals))?;
        if let Some(message) = series.describe().filter(|message| !plan.output.quiet || message.is_warning())
        {
            print_message(&message);
        }
        let traces = place::traces(places);
        let open_next = move |path: &Path| {
            place::check_no_trace(&traces, path).map_err(|error| io::Error::other(error.to_string()))?;
            opening.open(path, format)
        };
        let commands = commands.map(Commands::queue);
        let (rotation, begin) = series.rotation(&plan.output, commands, open_next);
        Ok(OpenOutput { file, output, rotation: Some(rotation), begin: Some(begin) })
    }

    /// Opens as the user that the process becomes: a directory where the later files of a series could not be
    /// created is refused at once.
    pub(super) fn as_user<T>(&self, open: impl FnOnce() -> Result<T>) -> Result<T> {
        let opened = self.plan.sandbox.with_files_of_user(open);
        let opened = opened.map_err(|cause| anyhow!("cannot open files as the user of -Z: {cause}"))?;
        opened.map_err(|error| match self.plan.sandbox.report().user {
            Some(user) if !error.is::<Usage>() => {
                let text = format!("as the user {user} of -Z: {error}");
                if error.is::<NoRoom>() { NoRoom(text).into() } else { anyhow!(text) }
            }
            _ => error,
        })
    }
}
