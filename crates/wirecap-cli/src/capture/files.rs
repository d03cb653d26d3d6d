//! The files of a capture: one, or one for each receive queue. Their names, and how they are opened.
//!
//! ```text
//!   -w x.pcapng                               x.pcapng
//!   -w x.pcapng --file-per-queue eth1         x.0.pcapng        x.1.pcapng        …
//!   -w x.pcapng --file-per-queue eth1 eth2    x.eth1.0.pcapng   x.eth1.1.pcapng   …   x.eth2.0.pcapng   …
//! ```
//!
//! Rule: no two queues have the same file, and none has that of a trace that is read.

use std::{collections::HashMap, path::PathBuf};

use anyhow::{Result, bail};
use wirecap::PreparedCapture;
use wirecap_file::Format;
use wirecap_record::Output;

use super::{
    output,
    place::{self, Place},
    plan::{Destination, Plan, labelled},
    written_files::{OutputFile, QueueId},
};
use crate::process::signals::Signals;

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
/// [`Usage`](crate::exit::Usage) if two of them, or one and a trace that is read, would be the same.
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

/// Opens the only output of a capture, if it has one. Waits for the reader of a pipe.
///
/// # Errors
/// Why it cannot be written, and what to do about it.
pub(super) fn open_one(plan: &Plan, signals: &Signals) -> Result<Vec<(OutputFile, Output)>> {
    let Some(destination) = &plan.destination else { return Ok(Vec::new()) };
    let output = match destination {
        Destination::File(path, format) => output::open(path, *format, plan.output.direct_io, signals)?,
        Destination::Stdout => output::stdout(destination.format())?,
        Destination::FilePerQueue(..) => return Ok(Vec::new()),
    };
    Ok(vec![(OutputFile { name: destination.describe(), queue: None }, output)])
}

/// Opens the files of all queues.
///
/// # Errors
/// Why one of them cannot be written, and what to do about it.
pub(super) fn open(
    files: Vec<QueueFile>,
    plan: &Plan,
    signals: &Signals,
) -> Result<Vec<(OutputFile, Output)>> {
    let open = |QueueFile { path, format, queue }| {
        let output = output::open(&path, format, plan.output.direct_io, signals)?;
        Ok((OutputFile { name: path.display().to_string(), queue: Some(queue) }, output))
    };
    files.into_iter().map(open).collect()
}
