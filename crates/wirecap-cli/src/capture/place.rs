//! Where packets come from: interfaces and trace files, looked up, then opened.
//!
//! Rule: a trace file is never the file that is written.

use std::{
    fmt::Display,
    fs::{File, Metadata},
    io::{self, ErrorKind, IsTerminal},
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, anyhow, ensure};
use wirecap::{
    Capture, Modes, PortSpec, PreparedCapture, QueueSet, config::prefix::TRACE, port::trace as trace_port,
};
use wirecap_file::{Reader, Record};
use wirecap_sys::netdev::Interface;

use super::plan::{Destination, Plan};
use crate::{
    exit::Usage,
    process::{signals::Signals, step::Step},
    sources::{RefusedSettings, Setting},
    text::{self, error::is_unexpanded, event},
};

/// The longest time to open a pipe that has a writer.
const MOMENT: Duration = Duration::from_millis(20);
/// After this time it is announced that reserving memory takes long: memory of a capture that has just ended
/// is waited for without a word.
const RESERVING_TIMEOUT: Duration = Duration::from_secs(4);

/// What is known about a port before it is opened.
#[derive(Debug)]
pub(super) enum Place {
    /// An interface, and its receive queues if not all are captured.
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

    /// Its name in the names of files.
    pub(super) fn label(&self) -> String {
        match self {
            Place::Interface(interface, _) => interface.name.clone(),
            Place::Trace(path) if path == Path::new("-") => "stdin".into(),
            Place::Trace(path) => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// Its name in messages, if it is a pipe, which can be opened only once a program writes it.
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

/// Looks up all ports; a misspelt name ends here.
///
/// # Errors
/// [`Usage`] for a trace file that would be overwritten, and for terminals; no such port.
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

/// Prepares the capture without changing anything on the machine. A signal ends the steps that take long:
/// waiting for the writers of pipes, and compiling a filter.
///
/// # Errors
/// Why the ports cannot be opened; a signal requested the end.
pub(super) fn prepare(plan: &Plan, places: &[Place], signals: &Signals) -> Result<PreparedCapture> {
    let builder = plan.builder(places.iter().map(Place::queues).sum());
    let builder = builder.give_up(signals.escalation.flag());
    let builder = match plan.output.quiet {
        true => builder,
        false => builder.on_wait(|wait| note!("{}", event::wait(wait))),
    };
    let pipes: Vec<_> = places.iter().filter_map(Place::pipe).collect();
    let pipes = pipes.join(", ");
    let has_filter = plan.config.filter.is_some() || plan.config.excluded.is_some();
    let looking_up = match (pipes.as_str(), has_filter) {
        ("", false) => Step::new(
            "asking the kernel about the interfaces takes long: the machine is busy",
            "the ports were not looked up, so nothing was captured",
        ),
        ("", true) => Step::compiling(),
        (pipes, _) => Step {
            waits_for: format!("waiting for a program that writes {pipes}"),
            timeout: MOMENT,
            given_up: format!("no program writes {pipes}, so nothing was captured"),
        },
    };
    run(&looking_up, plan, signals, || builder.prepare())
}

/// Reserves the memory, then opens the sockets of each queue. A signal ends both.
///
/// # Errors
/// Why the ports cannot be opened; a signal requested the end.
pub(super) fn open(plan: &Plan, prepared: PreparedCapture, signals: &Signals) -> Result<Capture> {
    let reserving = Step {
        timeout: RESERVING_TIMEOUT,
        ..Step::new(
            "reserving the packet memory takes long: this machine, or its host, is busy; --memory 512M needs less",
            "the packet memory was not reserved, so nothing was captured",
        )
    };
    let reserved = run(&reserving, plan, signals, || prepared.reserve())?;
    let capture = reserved.open().map_err(|error| with_hint(error, plan))?;
    // Dropping the capture gives everything back.
    if signals.end() { Err(wirecap::Error::GivenUp.into()) } else { Ok(capture) }
}

/// Runs a step of the library, which may notice a signal before the step does.
fn run<T: Send + 'static>(
    step: &Step,
    plan: &Plan,
    signals: &Signals,
    work: impl FnOnce() -> Result<T, wirecap::Error> + Send + 'static,
) -> Result<T> {
    step.run(signals, plan.output.quiet, work)?.map_err(|error| match error {
        wirecap::Error::GivenUp => anyhow!("{}", step.given_up),
        error => with_hint(error, plan),
    })
}

/// An error of the library, with the flags that help.
fn with_hint(error: wirecap::Error, plan: &Plan) -> anyhow::Error {
    match error {
        wirecap::Error::NoMode { .. } if plan.config.xdp_mode != Modes::Best => {
            let error = text::error::of_capture(&error);
            anyhow!("{error}; leave --xdp-mode and --require-zero-copy out to take the best mode that works")
        }
        // A single word may have been meant as the name of an interface.
        wirecap::Error::Filter(wirecap_filter::Error::Expression { expression, message, hint })
            if !expression.contains(char::is_whitespace) =>
        {
            let error = format!(
                "there is no interface {}, and it is not a filter: {message}; {hint}",
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
            "{TRACE}- reads standard input, which is a terminal here; pipe a trace into it, or name a file"
        )
    );
    if let Some(destination) = destination {
        ensure!(!is_written(path, &of_destination(destination)), would_be_overwritten(destination.name()));
    }
    trace_port::check(path).map_err(|error| match is_unexpanded(path) {
        true => anyhow!("{error}; a pattern behind {TRACE} is not expanded, so name each file"),
        false => error.into(),
    })
}

/// The earliest time of a first packet of trace files, in nanoseconds since 1970; `None` unless all ports are
/// readable trace files.
pub(super) fn first_packet_ns(places: &[Place]) -> Option<u64> {
    let first = |place: &Place| match place {
        Place::Trace(path) if path.is_file() => {
            let mut reader = Reader::open(path).ok()?;
            loop {
                if let Record::Packet(packet) = reader.next().ok()?? {
                    return packet.timestamp_ns;
                }
            }
        }
        Place::Trace(_) | Place::Interface(..) => None,
    };
    places.iter().map(first).collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// Checks that a file that is written is no trace that is read.
///
/// # Errors
/// [`Usage`] that names the file.
pub(super) fn check_not_read(places: &[Place], path: &Path) -> Result<(), Usage> {
    check_no_trace(&traces(places), path)
}

/// The trace files among them.
pub(super) fn traces(places: &[Place]) -> Vec<PathBuf> {
    let trace = |place: &Place| match place {
        Place::Trace(path) => Some(path.clone()),
        Place::Interface(..) => None,
    };
    places.iter().filter_map(trace).collect()
}

/// The same, for traces that are read.
///
/// # Errors
/// [`Usage`] that names the file.
pub(super) fn check_no_trace(traces: &[PathBuf], path: &Path) -> Result<(), Usage> {
    let written = path.metadata();
    let is_read = traces.iter().any(|read| is_written(read, &written));
    if is_read { Err(would_be_overwritten(path.display())) } else { Ok(()) }
}

/// Refuses a copy to the pipe, or the file, that is written.
pub(super) fn check_copied_elsewhere(plan: &Plan) -> Result<(), RefusedSettings> {
    let (Some(pipe), Some(destination)) = (plan.output.copy_pipe(), &plan.destination) else { return Ok(()) };
    let is_same =
        plan.output.write.as_deref() == Some(pipe) || is_written(pipe, &of_destination(destination));
    if !is_same {
        return Ok(());
    }
    let is_pipe = pipe.metadata().is_ok_and(|found| found.file_type().is_fifo());
    Err(RefusedSettings::new(move |sources| {
        let (copy, write) = (sources.name(Setting::CopyTo), sources.name(Setting::Write));
        let what = if is_pipe { "pipe" } else { "file" };
        format!("{copy} and {write} are the same {what}: a copy goes to another pipe, or to an interface")
    }))
}

fn of_destination(destination: &Destination) -> io::Result<Metadata> {
    match destination {
        Destination::File(path, _) => path.metadata(),
        Destination::Stdout => of_fd(&io::stdout()),
        // The files of queues are checked when their names are known.
        Destination::Printer | Destination::FilePerQueue(..) => Err(ErrorKind::NotFound.into()),
    }
}

fn would_be_overwritten(name: impl Display) -> Usage {
    usage!("{name} is the trace that is read, and would be overwritten; write to another file")
}

/// Whether a file or pipe is the one that is written, under any name.
fn is_written(path: &Path, written: &io::Result<Metadata>) -> bool {
    let read = if path == Path::new("-") { of_fd(&io::stdin()) } else { path.metadata() };
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    // Devices such as /dev/null have no contents to lose; a pipe would wait for itself.
    let is_kept = |metadata: &Metadata| metadata.is_file() || metadata.file_type().is_fifo();
    match (&read, written) {
        (Ok(read), Ok(written)) => is_kept(read) && identity(read) == identity(written),
        _ => false,
    }
}

fn of_fd(fd: &impl AsFd) -> io::Result<Metadata> {
    File::from(fd.as_fd().try_clone_to_owned()?).metadata()
}
