//! Where packets come from: interfaces and trace files, looked at before anything is opened, then opened.
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
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use wirecap::{Capture, LookedUp, Modes, PortSpec, QueueSet, port::replay};
use wirecap_sys::netdev::{self, Interface};

use super::watch::Signals;
use crate::{
    exit::{Usage, tell},
    plan::{Destination, Plan},
};

/// How long a pipe takes to open when its writer is there already.
const MOMENT: Duration = Duration::from_millis(20);
/// How often signals are looked at while a pipe is waited for.
const TICK: Duration = Duration::from_millis(50);
/// How often it is looked at whether a filter is compiled, which mostly takes no longer than this.
const GLANCE: Duration = Duration::from_millis(1);
/// A filter that takes longer is told of.
const LONG_FOR_A_FILTER: Duration = Duration::from_secs(1);

/// What is known of a port before it is opened.
#[derive(Debug)]
pub(super) enum Place {
    /// What the kernel says about an interface, and the receive queues of it if not all are asked for.
    Interface(Box<Interface>, Option<QueueSet>),
    /// A trace file, or `-` for standard input.
    Trace(PathBuf),
}

impl Place {
    /// Its receive queues.
    pub(super) fn queues(&self) -> usize {
        match self {
            Place::Interface(_, Some(queues)) => queues.iter().len(),
            Place::Interface(interface, None) => interface.queues.current.max(1) as usize,
            Place::Trace(_) => 1,
        }
    }

    /// Its name in messages, if somebody has to write it before it can be opened.
    fn pipe(&self) -> Option<String> {
        match self {
            Place::Trace(path) if path == Path::new("-") => {
                let is_file =
                    File::from(io::stdin().as_fd().try_clone_to_owned().ok()?).metadata().ok()?.is_file();
                (!is_file).then(|| "standard input".into())
            }
            Place::Trace(path) if !path.is_file() => Some(path.display().to_string()),
            Place::Trace(_) | Place::Interface(..) => None,
        }
    }
}

/// Looks at all of them; a misspelt name ends here.
///
/// # Errors
/// [`Usage`] for a trace file that would be written over, and terminals; else why there is no such port.
pub(super) fn look_up(plan: &Plan) -> Result<Vec<Place>> {
    let look_up = |port: &PortSpec| match port {
        PortSpec::Replay { path } => {
            check_trace(path, plan.destination.as_ref())?;
            Ok(Place::Trace(path.clone()))
        }
        PortSpec::Interface { name, queues, .. } => {
            let interface = netdev::interface(name).map_err(wirecap::Error::from)?;
            Ok(Place::Interface(Box::new(interface), queues.clone()))
        }
        port => unreachable!("no word stands for {}", port.name()),
    };
    plan.ports.iter().map(look_up).collect()
}

/// Opens the ports. Pipes are opened, too, and waited for until somebody has begun to write them: a signal ends that.
///
/// # Errors
/// Why they cannot be opened. A signal asks for the end.
pub(super) fn open(plan: &Plan, places: &[Place], signals: &Signals) -> Result<Capture> {
    let builder = plan.builder(places.iter().map(Place::queues).sum());
    let pipes: Vec<_> = places.iter().filter_map(Place::pipe).collect();
    let pipes = pipes.join(", ");
    if pipes.is_empty() && plan.filter.is_none() {
        return builder.open().map_err(|error| with_hint(error, plan));
    }
    // By a thread of its own, since it waits where nothing but the end of the process can reach it. Until all pipes are
    // there nothing is changed that would have to be given back; after that nothing waits, and this thread opens.
    let looking = thread::spawn(|| builder.look_up());
    let (reason, patience, given_up) = if pipes.is_empty() {
        let reason = "libpcap is compiling the filter: long lists of addresses and names take it long, networks do not";
        (reason.to_owned(), LONG_FOR_A_FILTER, "the filter was not compiled".to_owned())
    } else {
        (format!("waiting for a program that writes {pipes}"), MOMENT, format!("nobody writes {pipes}"))
    };
    let begun = Instant::now();
    let mut told = false;
    while !looking.is_finished() {
        if !told && begun.elapsed() >= patience {
            tell(format_args!("wirecap: {reason}"));
            told = true;
        }
        if signals.end() {
            return Err(anyhow!("{given_up}, so nothing was captured"));
        }
        thread::sleep(if told { TICK } else { GLANCE });
    }
    looking.join().expect("no panic").and_then(LookedUp::open).map_err(|error| with_hint(error, plan))
}

/// An error of the library with what our flags can do about it.
fn with_hint(error: wirecap::Error, plan: &Plan) -> anyhow::Error {
    match error {
        wirecap::Error::NoMode { .. } if plan.modes != Modes::Best => {
            anyhow!("{error}; leave --xdp-mode out to take the best mode that works")
        }
        // One word may have been meant as a name.
        wirecap::Error::Filter(wirecap_filter::Error::Expression { expression, message, hint })
            if !expression.contains(char::is_whitespace) =>
        {
            let error = format!(
                "there is no interface {}, and as a filter it makes no sense: {message}; {hint}",
                wirecap_filter::shortened(&expression)
            );
            Usage(error).into()
        }
        error => error.into(),
    }
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
