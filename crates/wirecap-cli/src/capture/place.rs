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
    time::Duration,
};

use anyhow::{Result, anyhow, bail, ensure};
use wirecap::{Capture, Modes, PortSpec, PreparedCapture, QueueSet, port::trace as trace_port};
use wirecap_sys::netdev::Interface;

use super::plan::{Destination, Plan};
use crate::{
    exit::Usage,
    process::{signals::Signals, step::Step},
    text::{self, event},
};

/// How long a pipe takes to open when its writer is there already.
const MOMENT: Duration = Duration::from_millis(20);

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

    /// Its name in messages, if it can be opened only once a program writes it.
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
pub(super) fn look_up(plan: &mut Plan) -> Result<Vec<Place>> {
    let Plan { config, destination, interfaces, .. } = plan;
    let mut look_up = |port: &PortSpec| match port {
        PortSpec::Trace { path } => {
            check_trace(path, destination.as_ref())?;
            Ok(Place::Trace(path.clone()))
        }
        PortSpec::Interface { name, queues, .. } => {
            Ok(Place::Interface(Box::new(interfaces.look_up(name)?), queues.clone()))
        }
        port => unreachable!("no word names {}", port.name()),
    };
    config.ports.iter().map(&mut look_up).collect()
}

/// Finds out everything that is needed before anything is changed. A signal ends the steps that take long:
/// waiting for the writers of pipes, and compiling a filter.
///
/// # Errors
/// Why they cannot be opened. A signal asks for the end.
pub(super) fn prepare(plan: &Plan, places: &[Place], signals: &Signals) -> Result<PreparedCapture> {
    let builder = plan.builder(places.iter().map(Place::queues).sum());
    let builder = builder.give_up(signals.escalation.flag());
    let builder = match plan.output.quiet {
        true => builder,
        false => builder.on_wait(|wait| note!("{}", event::wait(wait))),
    };
    let pipes: Vec<_> = places.iter().filter_map(Place::pipe).collect();
    let pipes = pipes.join(", ");
    let looking_up = match (pipes.as_str(), &plan.config.filter) {
        ("", None) => Step::new(
            "asking the kernel about the interfaces takes long: the machine is busy",
            "the ports were not known yet, so nothing was captured",
        ),
        ("", Some(_)) => Step::compiling(),
        (pipes, _) => Step {
            waits_for: format!("waiting for a program that writes {pipes}"),
            timeout: MOMENT,
            given_up: format!("no program writes {pipes}, so nothing was captured"),
        },
    };
    looking_up.run(signals, plan.output.quiet, || builder.prepare())?.map_err(|error| with_hint(error, plan))
}

/// Brings in the memory, then opens the sockets of each queue. A signal ends both.
///
/// # Errors
/// Why they cannot be opened. A signal asks for the end.
pub(super) fn open(plan: &Plan, prepared: PreparedCapture, signals: &Signals) -> Result<Capture> {
    let reserving = Step::new(
        "bringing in the packet memory takes long: the machine is busy, or its host; --memory 512M needs less",
        "the packet memory was not there yet, so nothing was captured",
    );
    let opened =
        reserving.run(signals, plan.output.quiet, || prepared.reserve())?.and_then(PreparedCapture::open);
    let capture = opened.map_err(|error| with_hint(error, plan))?;
    // Dropping it gives all back.
    if signals.end() { Err(wirecap::Error::GivenUp.into()) } else { Ok(capture) }
}

/// An error of the library with what our flags can do about it.
fn with_hint(error: wirecap::Error, plan: &Plan) -> anyhow::Error {
    match error {
        wirecap::Error::NoMode { .. } if plan.config.xdp_mode != Modes::Best => {
            let error = text::error::of_capture(&error);
            anyhow!("{error}; leave --xdp-mode and --require-zero-copy out to take the best mode that works")
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
    ensure!(
        path != Path::new("-") || !io::stdin().is_terminal(),
        usage!(
            "trace:- reads standard input, which is a terminal here; pipe a trace into it, or name a file"
        )
    );
    if let Some(destination) = destination.filter(|destination| is_written(path, destination)) {
        bail!(usage!(
            "{} is the trace that is read, and would be written over; write to another file",
            destination.describe()
        ));
    }
    Ok(trace_port::check(path)?)
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
