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

use crate::{
    exit::{Usage, tell},
    plan::{Destination, Plan},
    signals::Signals,
};

/// How long a pipe takes to open when its writer is there already.
const MOMENT: Duration = Duration::from_millis(20);
/// How often signals are looked at while a pipe is waited for.
const TICK: Duration = Duration::from_millis(50);
/// How often it is looked at whether a filter is compiled, which mostly takes no longer than this.
const GLANCE: Duration = Duration::from_millis(1);
/// A filter, or memory, that takes longer is told of.
const LONG: Duration = Duration::from_secs(1);

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

/// Opens the ports. What takes long before anything is changed that would have to be given back is ended by a signal: pipes
/// are waited for until somebody has begun to write them, a filter is compiled, memory brought in.
///
/// # Errors
/// Why they cannot be opened. A signal asks for the end.
pub(super) fn open(plan: &Plan, places: &[Place], signals: &Signals) -> Result<Capture> {
    let builder = plan.builder(places.iter().map(Place::queues).sum());
    let builder = match plan.quiet {
        true => builder,
        false => builder.on_wait(|reason| tell(format_args!("wirecap: {reason}"))),
    };
    let pipes: Vec<_> = places.iter().filter_map(Place::pipe).collect();
    let pipes = pipes.join(", ");
    let looking_up = match (pipes.as_str(), &plan.filter) {
        ("", None) => Step {
            waits_for: "asking the kernel about the interfaces takes long: the machine is busy".into(),
            patience: LONG,
            given_up: "the ports were not known yet".into(),
        },
        ("", Some(_)) => Step {
            waits_for: "libpcap is compiling the filter: long lists of addresses and names take it long, networks do not"
                .into(),
            patience: LONG,
            given_up: "the filter was not compiled".into(),
        },
        (pipes, _) => Step {
            waits_for: format!("waiting for a program that writes {pipes}"),
            patience: MOMENT,
            given_up: format!("nobody writes {pipes}"),
        },
    };
    let looked_up = looking_up.run(signals, plan.quiet, || builder.look_up())?;
    let reserving = Step {
        waits_for: "bringing in the packet memory takes long: the machine is busy; lower -R or -M needs less"
            .into(),
        patience: LONG,
        given_up: "the packet memory was not there yet".into(),
    };
    let opened = match looked_up {
        Ok(looked_up) => reserving.run(signals, plan.quiet, || looked_up.reserve())?.and_then(LookedUp::open),
        Err(error) => Err(error),
    };
    opened.map_err(|error| with_hint(error, plan))
}

/// Something that may take long and changes nothing, so that it can be given up.
struct Step {
    /// Told when it takes longer than `patience`.
    waits_for: String,
    patience: Duration,
    /// Said when a signal has ended it.
    given_up: String,
}

impl Step {
    /// By a thread of its own, since it waits where nothing but the end of the process can reach it.
    ///
    /// # Errors
    /// A signal has ended it.
    fn run<T: Send + 'static>(
        &self,
        signals: &Signals,
        quiet: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let working = thread::spawn(work);
        let begun = Instant::now();
        let mut told = quiet;
        while !working.is_finished() {
            if !told && begun.elapsed() >= self.patience {
                tell(format_args!("wirecap: {}", self.waits_for));
                told = true;
            }
            if signals.end() {
                return Err(anyhow!("{}, so nothing was captured", self.given_up));
            }
            thread::sleep(if begun.elapsed() >= self.patience { TICK } else { GLANCE });
        }
        Ok(working.join().expect("no panic"))
    }
}

/// An error of the library with what our flags can do about it.
fn with_hint(error: wirecap::Error, plan: &Plan) -> anyhow::Error {
    match error {
        wirecap::Error::NoMode { .. } if plan.modes != Modes::Best => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_given_up_on_a_signal_and_else_waited_for() {
        let step = Step { waits_for: "waiting".into(), patience: LONG, given_up: "it was not there".into() };
        let begun = Instant::now();
        let given_up =
            step.run(&Signals::sent(), true, || thread::sleep(Duration::from_secs(60))).unwrap_err();
        assert_eq!(given_up.to_string(), "it was not there, so nothing was captured");
        assert!(begun.elapsed() < Duration::from_secs(30));
        let done = step.run(&Signals::default(), true, || {
            thread::sleep(Duration::from_millis(30));
            7
        });
        assert_eq!(done.unwrap(), 7);
    }
}
