//! From settings to a plan: finds every mistake in the settings alone, before anything is opened.

use std::{
    io::{IsTerminal, stdout},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail, ensure};
use wirecap::{Builder, Config, Dispatch};
use wirecap_file::Format;
use wirecap_record::Compression;
use wirecap_sandbox::{Profile, Sandbox, WritePaths};

use super::{
    file_name::{self, labelled},
    job::Job,
    known_interfaces::KnownInterfaces,
    series::{self, Names},
};
use crate::{
    exit::Usage,
    settings::{OutputSettings, ServiceSettings},
    sources::{
        RefusedSettings,
        Setting::{
            self, CaptureCores, CaptureThreads, CopyTo, Count, DirectIo, Expect, FilePerQueue, Print,
            Unmatched, Write,
        },
    },
    text::loss::Output,
};

/// What this program takes beside its capture if it writes packets: those on their way to an output that is
/// behind took 25 MiB at most.
const REST_BYTES_WITH_OUTPUT: u64 = 32 << 20;
/// The same for each of several files: blocks on their way, and the pages for `--direct-io`.
const REST_BYTES_PER_FILE: u64 = 4 << 20;
/// Names of standard output. If these were opened as files, packets and account would overwrite each other.
const STDOUT_NAMES: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// A checked plan of a capture.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What is captured, and how.
    pub(crate) config: Config,
    /// What becomes of the packets.
    pub(crate) output: OutputSettings,
    /// Where the packets are written; `None` only counts them.
    pub(crate) destination: Option<Destination>,
    /// The interfaces that were looked up.
    pub(crate) interfaces: KnownInterfaces,
    /// What its threads give up.
    pub(crate) sandbox: Sandbox,
    /// How the running capture is reached and supervised.
    pub(crate) service: ServiceSettings,
    /// Whether there may be more workers than cores, if their number is not set.
    worker_per_queue: bool,
}

/// Where packets are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A file, in the format of its extension.
    File(PathBuf, Format),
    /// A file for each receive queue, whose names are made from this path.
    FilePerQueue(PathBuf, Format),
    /// Standard output, as pcapng.
    Stdout,
    /// A tcpdump that prints the packets.
    Printer,
}

impl Destination {
    /// The format that is written.
    pub(crate) fn format(&self) -> Format {
        match self {
            Destination::File(_, format) | Destination::FilePerQueue(_, format) => *format,
            Destination::Stdout | Destination::Printer => Format::Pcapng,
        }
    }

    /// As the user named it; `-` for standard output.
    pub(crate) fn name(&self) -> String {
        match self {
            Destination::File(path, _) | Destination::FilePerQueue(path, _) => path.display().to_string(),
            Destination::Stdout => "-".into(),
            Destination::Printer => "tcpdump".into(),
        }
    }

    /// Whether a disk or another program has to keep up.
    fn kind(&self) -> Output {
        let path = match self {
            Destination::File(path, _) => path,
            Destination::FilePerQueue(..) => return Output::File,
            Destination::Printer => return Output::Pipe,
            Destination::Stdout => Path::new("/dev/stdout"),
        };
        let kind = path.metadata().map(|metadata| metadata.file_type());
        let is_pipe = kind.as_ref().map(|kind| kind.is_fifo() || kind.is_socket());
        if is_pipe.unwrap_or(*self == Destination::Stdout) { Output::Pipe } else { Output::File }
    }

    /// Its name in messages.
    fn describe(&self) -> String {
        match self {
            Destination::File(..) | Destination::Printer => self.name(),
            Destination::FilePerQueue(path, _) => labelled(path, "*").display().to_string(),
            Destination::Stdout => "standard output".into(),
        }
    }
}

impl Plan {
    /// Checks the settings against each other.
    ///
    /// # Errors
    /// [`Usage`] and others that [`crate::exit::code_of`] counts as wrong usage.
    pub(crate) fn new(
        mut config: Config,
        output: OutputSettings,
        interfaces: KnownInterfaces,
        sandbox: Sandbox,
    ) -> Result<Self> {
        config.filter = config.filter.filter(|filter| !filter.trim().is_empty());
        check_settings(&config, &output)?;
        config.check()?;
        let per_queue = output.file_per_queue;
        let destination = match output.write.as_deref() {
            Some(path) if per_queue => Some(file_per_queue(path)?),
            Some(path) => Some(destination(path, config.ports.len())?),
            None => output.print.then_some(Destination::Printer),
        };
        check_print(&output, destination.as_ref())?;
        check_copy(&output, destination.as_ref())?;
        ensure!(
            !per_queue || destination.is_some(),
            RefusedSettings::new(|sources| {
                let name = sources.name(FilePerQueue);
                let write = sources.either(FilePerQueue, "-w FILE.pcapng", "write");
                format!("{name} is for packets that are written: add {write}, or leave it out")
            })
        );
        ensure!(
            !output.direct_io
                || !matches!(destination, None | Some(Destination::Stdout | Destination::Printer)),
            RefusedSettings::new(|sources| {
                let name = sources.name(DirectIo);
                let write = sources.either(DirectIo, "-w FILE", "write");
                format!("{name} is for a file on a disk: name one with {write}, or leave it out")
            })
        );
        ensure!(
            !output.direct_io || !output.write.as_deref().is_some_and(is_compressed),
            RefusedSettings::new(|sources| {
                let (direct, write) = (sources.name(DirectIo), sources.name(Write));
                format!(
                    "{direct} has the disk read files from the memory of the packets, but {write} names a compressed one: leave \
                     {direct} out, or write a name without .zst or .lz4"
                )
            })
        );
        let path = match &destination {
            Some(Destination::File(path, _) | Destination::FilePerQueue(path, _)) => Some(path.as_path()),
            Some(Destination::Stdout | Destination::Printer) | None => None,
        };
        series::check(&output, path)?;
        let names_stay = output.rotate_time.is_none() && !output.quiet;
        if let Some(path) = path.filter(|path| names_stay && has_percent(path)) {
            note!(
                "{}: % stays in the name, since only -G or -b duration: put times into names",
                path.display()
            );
        }
        let service = ServiceSettings::default();
        let worker_per_queue = false;
        Ok(Self { config, output, destination, interfaces, sandbox, service, worker_per_queue })
    }

    /// The plan with other service settings than the defaults.
    pub(crate) fn with_service(self, service: ServiceSettings) -> Self {
        Self { service, ..self }
    }

    /// The plan with a worker for each receive queue by default, for workers that need no core of their own.
    pub(crate) fn with_worker_per_queue(self) -> Self {
        Self { worker_per_queue: true, ..self }
    }

    /// The name of the destination in messages; of several files, a pattern that their names match.
    pub(crate) fn describe_destination(&self) -> Option<String> {
        let destination = self.destination.as_ref()?;
        Some(match destination {
            Destination::File(path, _) | Destination::FilePerQueue(path, _) if self.output.rotates() => {
                let path = match destination {
                    Destination::FilePerQueue(..) => labelled(path, "*"),
                    _ => path.clone(),
                };
                Names::new(&path, &self.output).pattern().display().to_string()
            }
            destination => destination.describe(),
        })
    }

    /// The builder for ports that have `queues` receive queues together.
    pub(crate) fn builder(&self, queues: usize) -> Builder {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let usual = if self.worker_per_queue { queues } else { queues.min(cores) };
        let workers = self.config.workers.unwrap_or(usual);
        let sandbox = self.sandbox.clone();
        let builder = Builder::from(self.config.clone())
            .workers(workers)
            .interfaces(self.interfaces.fresh())
            .on_capture_thread(move || sandbox.enter(&Profile::Worker));
        let rest_bytes = match self.destination {
            // A tap has a stream for each core.
            Some(Destination::FilePerQueue(..)) => {
                let files = queues.max(cores * self.config.ports.len());
                REST_BYTES_WITH_OUTPUT + files as u64 * REST_BYTES_PER_FILE
            }
            Some(_) => REST_BYTES_WITH_OUTPUT,
            None => return builder,
        };
        builder.leave_memory(rest_bytes)
    }

    /// What a thread that writes does with files, the first of which is open, if it is one.
    pub(crate) fn writer(&self, opened: Option<&Path>) -> Profile {
        let mut paths = WritePaths { names_files: opened.is_some(), ..WritePaths::default() };
        if let Some(Destination::File(path, _) | Destination::FilePerQueue(path, _)) = &self.destination {
            paths.add(path);
        }
        // Where links lead.
        opened.into_iter().for_each(|file| paths.add(file));
        Profile::Writer(paths)
    }

    /// Cores that threads are pinned to.
    pub(crate) fn cores(&self) -> Vec<usize> {
        [self.config.worker_cores.as_slice(), &self.config.capture_cores].concat()
    }

    /// What delays the workers of a job when it is slow.
    pub(crate) fn delays(&self, job: &impl Job) -> Output {
        match &self.destination {
            Some(destination) if job.without_output().is_none() => destination.kind(),
            _ => Output::None,
        }
    }

    /// Refuses to write packets to a terminal.
    ///
    /// # Errors
    /// [`Usage`].
    pub(crate) fn check_terminal(&self) -> Result<(), Usage> {
        match self.destination == Some(Destination::Stdout) && stdout().is_terminal() {
            true => Err(usage!(
                "-w - would write binary data to the terminal; pipe it into a program: | tshark -r -"
            )),
            false => Ok(()),
        }
    }

    /// Whether packets go to standard output, so that results go to standard error.
    pub(crate) fn stdout_is_taken(&self) -> bool {
        self.output.print || self.destination == Some(Destination::Stdout)
    }
}

/// Refuses settings that others make ineffective.
fn check_settings(config: &Config, output: &OutputSettings) -> Result<()> {
    let usual = Config::default();
    let for_push = [
        (CaptureThreads, config.capture_threads != usual.capture_threads),
        (CaptureCores, config.capture_cores != usual.capture_cores),
    ];
    let for_push = for_push.into_iter().find(|(_, is_given)| *is_given);
    let refused = if let (Dispatch::Pull, Some((setting, _))) = (config.dispatch, for_push) {
        RefusedSettings::new(move |sources| {
            let name = sources.name(setting);
            let push = sources.either(setting, "--dispatch push", "dispatch = \"push\"");
            format!("{name} is for capture threads, which only push has: leave it out, or add {push}")
        })
    } else if config.filter.is_none() && config.excluded.is_none() && config.unmatched.is_some() {
        RefusedSettings::new(|sources| {
            let name = sources.name(Unmatched);
            format!("{name} is for packets that do not match a filter: add a filter, or leave it out")
        })
    } else if output.expect.is_some() && !output.verify {
        RefusedSettings::new(|sources| {
            let (name, verify) = (sources.name(Expect), sources.either(Expect, "--verify", "verify = true"));
            format!("{name} is for frames that are verified: add {verify}, or leave it out")
        })
    } else if output.count == Some(0) {
        RefusedSettings::value(
            Count,
            "0 would stop before the first packet: write a number of packets from 1 on, like 1000, or leave it out",
        )
    } else if output.expect == Some(0) {
        RefusedSettings::value(
            Expect,
            "0 leaves no frames to verify: write a number of frames from 1 on, like 1000, or leave it out",
        )
    } else {
        return Ok(());
    };
    Err(refused.into())
}

/// Whether a destination needs no extension: a pipe, or a device such as /dev/null. Not a disk: overwriting
/// one takes an extension in its name. A directory is let through, because opening it gives the better error.
fn needs_no_suffix(path: &Path) -> bool {
    let kind = path.metadata().map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_dir())
}

fn is_compressed(path: &Path) -> bool {
    Compression::from_path(path).is_some()
}

/// A file for each queue. Only a file can have several names.
fn file_per_queue(path: &Path) -> Result<Destination> {
    let is_no_file = path.metadata().is_ok_and(|metadata| !metadata.is_file());
    if is_no_file || STDOUT_NAMES.iter().any(|name| path == Path::new(name)) {
        let path = path.display().to_string();
        bail!(RefusedSettings::new(move |sources| {
            let name = sources.name(FilePerQueue);
            let write = sources.either(Write, "-w FILE.pcapng", "write = \"FILE.pcapng\"");
            format!(
                "{name} makes the names of its files from that of one, which {path} is not: write {write}, or leave {name} out"
            )
        }));
    }
    let format =
        file_name::format(path).map_err(|error| RefusedSettings::about(Write.key(), error.to_string()))?;
    Ok(Destination::FilePerQueue(path.into(), format))
}

fn destination(path: &Path, interfaces: usize) -> Result<Destination> {
    if STDOUT_NAMES.iter().any(|name| path == Path::new(name)) {
        return Ok(Destination::Stdout);
    }
    let format = file_name::format(path)
        .or_else(|error| if needs_no_suffix(path) { Ok(Format::Pcapng) } else { Err(error) })
        .map_err(|error| RefusedSettings::about(Write.key(), error.to_string()))?;
    if format == Format::Pcap && interfaces > 1 {
        let better = path.with_extension("pcapng");
        let message = format!(
            "a pcap file holds packets of one interface, not of {interfaces}; write {} instead",
            better.display()
        );
        bail!(RefusedSettings::about(Write.key(), message));
    }
    Ok(Destination::File(path.into(), format))
}

/// Refuses to print what does not go to one file, or where standard output has the packets.
fn check_print(output: &OutputSettings, destination: Option<&Destination>) -> Result<()> {
    let other = match destination {
        Some(Destination::FilePerQueue(..)) => FilePerQueue,
        Some(Destination::Stdout) => Write,
        _ => return Ok(()),
    };
    ensure!(
        !output.print,
        RefusedSettings::new(move |sources| {
            let (print, other_name) = (sources.name(Print), sources.name(other));
            match other {
                Write => format!(
                    "{print} prints on standard output, where the packets of {other_name} go: name a file with {other_name}, or \
                     leave one of them out"
                ),
                _ => format!("{print} prints what goes to one file: leave {print} or {other_name} out"),
            }
        })
    );
    Ok(())
}

/// Refuses a copy of what is not written to one file or pipe.
fn check_copy(output: &OutputSettings, destination: Option<&Destination>) -> Result<()> {
    if output.copy_pipe().is_none() {
        return Ok(());
    }
    let remedies: &[Setting] = match destination {
        None => &[Write],
        Some(Destination::Printer) => &[Write, Print],
        Some(Destination::FilePerQueue(..)) => &[FilePerQueue],
        Some(Destination::File(..) | Destination::Stdout) if output.print => &[Print],
        Some(Destination::File(..) | Destination::Stdout) => return Ok(()),
    };
    bail!(RefusedSettings::new(move |sources| {
        let copy = sources.name(CopyTo);
        let remedy = |setting: &Setting| match setting {
            Write => format!("add {}", sources.either(CopyTo, "-w FILE", "write")),
            setting => format!("leave {} out", sources.name(*setting)),
        };
        let remedies = remedies.iter().map(remedy).collect::<Vec<_>>().join(", and ");
        format!("{copy} with a pipe copies what is written to one file: {remedies}")
    }))
}

fn has_percent(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b'%')
}

#[cfg(test)]
mod tests;
