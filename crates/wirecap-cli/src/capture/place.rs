//! Where packets come from, looked at before anything is opened: interfaces and trace files.
//!
//! Rule: the kernel is asked about interfaces only, and a trace file is never the file that is written.

use std::{
    fs::{File, Metadata},
    io::{self, IsTerminal},
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, anyhow};
use wirecap::{PortSpec, port::replay};
use wirecap_sys::{
    input::Input,
    netdev::{self, Interface},
    xsk::PollSet,
};

use super::watch::Signals;
use crate::{
    exit::{Usage, tell},
    plan::{Destination, Plan},
};

/// How often signals are looked at while a pipe is waited for.
const TICK: Duration = Duration::from_millis(50);

/// What is known of a port before it is opened.
#[derive(Debug)]
pub(super) enum Place {
    /// What the kernel says about an interface.
    Interface(Box<Interface>),
    /// A trace file, or `-` for standard input.
    Trace(PathBuf),
}

impl Place {
    /// Its receive queues.
    pub(super) fn queues(&self) -> usize {
        match self {
            Place::Interface(interface) => interface.queues.current.max(1) as usize,
            Place::Trace(_) => 1,
        }
    }
}

/// Looks at all of them; a misspelt name ends here.
///
/// # Errors
/// [`Usage`] for a trace file that would be written over, and terminals; else why there is no such port.
pub(super) fn look_up(plan: &Plan) -> Result<Vec<Place>> {
    let look_up = |name: &String| match PortSpec::from(name.as_str()) {
        PortSpec::Replay { path } => {
            check_trace(&path, plan.destination.as_ref())?;
            Ok(Place::Trace(path))
        }
        _ => {
            let interface = netdev::interface(name).map_err(wirecap::Error::from)?;
            Ok(Place::Interface(Box::new(interface)))
        }
    };
    plan.interfaces.iter().map(look_up).collect()
}

/// Waits until somebody has begun to write each pipe that is replayed. As long as what is returned is kept, the pipes are
/// open, so that their writers stay.
///
/// # Errors
/// A signal asks for the end, or a pipe cannot be opened.
pub(super) fn wait_for_writers(places: &[Place], signals: &Signals) -> Result<Vec<Input>> {
    let wait = |path: &PathBuf| {
        let input = if path == Path::new("-") { Input::stdin() } else { Input::open(path) };
        let input = input.map_err(|cause| anyhow!("cannot read {}: {cause}", path.display()))?;
        let mut ready = PollSet::new(Vec::from_iter(input.waker()));
        let mut waiting = false;
        while !ready.is_empty() && !ready.wait(TICK) {
            if !waiting {
                tell(format_args!("wirecap: waiting for a program that writes {}", path.display()));
                waiting = true;
            }
            if signals.end() {
                return Err(anyhow!("nobody writes {}, so nothing was captured", path.display()));
            }
        }
        Ok(input)
    };
    let paths = places.iter().filter_map(|place| match place {
        Place::Interface(_) => None,
        Place::Trace(path) => Some(path),
    });
    paths.map(wait).collect()
}

fn check_trace(path: &Path, destination: Option<&Destination>) -> Result<()> {
    if path == Path::new("-") && io::stdin().is_terminal() {
        let message =
            "replay:- reads standard input, which is a terminal here; pipe a trace into it, or name a file";
        return Err(Usage(message.into()).into());
    }
    if let Some(destination) = destination.filter(|destination| is_written(path, destination)) {
        let output = match destination {
            Destination::File(path, _) => path.display().to_string(),
            Destination::Stdout => "standard output".into(),
        };
        let message = format!(
            "{output} is the trace that is replayed, and would be written over; write to another file"
        );
        return Err(Usage(message).into());
    }
    Ok(replay::check(path)?)
}

/// Whether what is read is what is written, by whatever names.
fn is_written(path: &Path, destination: &Destination) -> bool {
    let of_fd = |fd: &dyn AsFd| File::from(fd.as_fd().try_clone_to_owned()?).metadata();
    let read = if path == Path::new("-") { of_fd(&io::stdin()) } else { path.metadata() };
    let written = match destination {
        Destination::File(path, _) => path.metadata(),
        Destination::Stdout => of_fd(&io::stdout()),
    };
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    // Devices such as /dev/null are the same and yet no contents are lost; a pipe would wait for itself.
    let is_kept = |metadata: &Metadata| metadata.is_file() || metadata.file_type().is_fifo();
    match (read, written) {
        (Ok(read), Ok(written)) => is_kept(&read) && identity(read) == identity(written),
        _ => false,
    }
}
