//! Flags that several commands share, in groups that are flattened into the flags of each.
//!
//! | group | capture | forward | generate | replay |
//! |---|---|---|---|---|
//! | [`FileFlags`], [`PoolFlags`], [`WorkerFlags`], [`PortFlags`], [`ProcessFlags`], [`OutputFlags`], [`ServiceFlags`], [`ConfigFlags`] | x | x | | |
//! | [`TimeLimit`] | x | x | x | x |
//! | [`SendFlags`] | | | x | x |
//!
//! A command for which a flag differs slightly, in its default or its help, says so where it flattens the
//! group (`mut_arg`).

use std::{path::PathBuf, str::FromStr, time::Duration};

use anyhow::Result;
use clap::Args;
use wirecap::{Config, Modes, PoolSize, Timestamp, Wait};
use wirecap_core::choices;
use wirecap_sys::xsk::{BindChoice, BindMode};

use crate::{
    print::log::LogFormat,
    settings::{
        CaptureName, MetricsAddress, OutputSettings, ProcessSettings, ServiceSettings, Settings,
        SocketChoice, file,
    },
    sources::{Sourced, Sources},
    values::{ANY, Cores, FileMode, bytes, choice, choice_but, cores, duration, file_size, number, size},
};

/// What arguments that take interfaces call their values.
pub(crate) const INTERFACE: &str = "IFACE";

/// The file that packets are written to.
#[derive(Debug, Args)]
pub(crate) struct FileFlags {
    /// Write the packets to FILE.pcapng, FILE.pcap, a named pipe, or - (pcapng on standard output); without
    /// it they are only counted.
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Keep at most this many bytes of each packet in the file; 0 keeps all [default: 0].
    #[arg(short, long, value_name = "BYTES", value_parser = bytes("--snaplen 128"))]
    snaplen: Option<u32>,
    /// Write the file past the page cache (O_DIRECT): for long captures that are as fast as the disk.
    #[arg(long)]
    direct_io: bool,
    /// Permissions of the file, as for chmod [default: 0640 less the umask, or those of the file that it
    /// replaces].
    #[arg(long, value_name = "MODE", value_parser = FileMode::from_str)]
    file_mode: Option<FileMode>,
    /// Write FILE from the start under its own name, over a file that exists. Without it, it is FILE.partial
    /// until it is complete.
    #[arg(long)]
    in_place: bool,
    /// Begin a new file before one has more than this: 100 (million bytes), 512k, 2G. -w x.pcapng gives
    /// x_00001.pcapng, x_00002.pcapng, ...
    #[arg(short = 'C', long, value_name = "SIZE", value_parser = file_size)]
    rotate_size: Option<u64>,
    /// Begin a new file each time this has passed, by the times of packets: 60, 10m, 1h. The name may say
    /// when, in the local time: -w %Y-%m-%d_%H%M%S.pcapng (man strftime); else files are numbered.
    #[arg(short = 'G', long, value_name = "TIME", value_parser = duration)]
    rotate_time: Option<Duration>,
    /// With -C, keep the last N files: file N+1 replaces the first, also over restarts. With -G, stop after N
    /// files.
    #[arg(short = 'W', long, value_name = "N", value_parser = number::<u64>(1..=u64::MAX, "-W 10"))]
    rotate_files: Option<u64>,
    /// Run COMMAND FILE, without a shell, for each file of -C and -G that is complete: gzip.
    #[arg(short = 'z', long, value_name = "COMMAND")]
    rotate_command: Option<String>,
}

impl FileFlags {
    /// When the next file begins: the size and the time.
    pub(crate) fn rotation(&self) -> (Option<u64>, Option<Duration>) {
        (self.rotate_size, self.rotate_time)
    }

    pub(crate) fn apply(self, output: &mut OutputSettings) {
        output.write = self.write.or(output.write.take());
        set(&mut output.snaplen, self.snaplen);
        output.direct_io |= self.direct_io;
        output.file_mode = self.file_mode.or(output.file_mode);
        output.in_place |= self.in_place;
        output.rotate_size = self.rotate_size.or(output.rotate_size);
        output.rotate_time = self.rotate_time.or(output.rotate_time);
        output.rotate_files = self.rotate_files.or(output.rotate_files);
        output.rotate_command = self.rotate_command.or(output.rotate_command.take());
    }
}

/// When the command ends by itself.
#[derive(Debug, Args)]
pub(crate) struct TimeLimit {
    /// Stop after this time: 10 or 10s, 500ms, 2m, 1h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
}

/// The pool of each receive queue.
#[derive(Debug, Args)]
pub(crate) struct PoolFlags {
    /// M, cells per chunk: a power of two [default: 256].
    #[arg(short = 'M', value_name = "CELLS", value_parser = number::<u32>(ANY, "-M 256"))]
    cells_per_chunk: Option<u32>,
    /// R, chunks per receive queue. A queue can buffer R x M packets [default: 128, or fewer, so that all
    /// queues together take at most an eighth of the available memory].
    #[arg(short = 'R', value_name = "CHUNKS", value_parser = number::<u32>(ANY, "-R 128"))]
    chunks_per_pool: Option<u32>,
    /// Memory for the cells of all receive queues together, which determines R: 512M, 2G.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "chunks_per_pool")]
    memory: Option<u64>,
    /// The same in MiB, as with dumpcap: -B 512.
    #[arg(short = 'B', value_name = "MIB", value_parser = number::<u32>(1..=u32::MAX.into(), "-B 512"),
          conflicts_with_all = ["memory", "chunks_per_pool"])]
    buffer_mib: Option<u32>,
    /// Size of a cell: 2048 or 4096. Larger packets take several cells [default: 2048].
    #[arg(long, value_name = "BYTES", value_parser = bytes("--cell-bytes 4096"))]
    cell_bytes: Option<u32>,
}

impl PoolFlags {
    pub(crate) fn apply(&self, config: &mut Config) {
        set(&mut config.cells_per_chunk, self.cells_per_chunk);
        set(&mut config.pool_size, self.chunks_per_pool.map(PoolSize::Chunks));
        set(&mut config.pool_size, self.memory.map(PoolSize::Memory));
        if let Some(mib) = self.buffer_mib.filter(|&mib| mib >= LARGE_MIB) {
            note!("-B {mib} is {:.1} GiB, as with dumpcap; tcpdump's -B counts KiB", f64::from(mib) / 1024.0);
        }
        let buffer = self.buffer_mib.map(|mib| u64::from(mib) << 20);
        set(&mut config.pool_size, buffer.map(PoolSize::Memory));
        set(&mut config.cell_bytes, self.cell_bytes);
    }
}

/// A buffer of `-B` that may have been meant in the unit of tcpdump, whose default is 2048.
const LARGE_MIB: u32 = 1024;

/// The threads that take packets.
#[derive(Debug, Args)]
pub(crate) struct WorkerFlags {
    /// Number of workers [default: one per receive queue, at most one per core].
    #[arg(long = "workers", id = "workers", value_name = "N", value_parser = number::<usize>(ANY, "--workers 4"))]
    number: Option<usize>,
    /// Cores to pin the workers to, in turn: 0,2-3 [default: not pinned].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    cores: Option<Cores>,
    /// What idle workers do [default: sleep].
    #[arg(long, value_parser = choice::<Wait>())]
    wait: Option<Wait>,
}

impl WorkerFlags {
    pub(crate) fn apply(self, config: &mut Config) {
        config.workers = self.number.or(config.workers);
        set(&mut config.worker_cores, self.cores.map(|cores| cores.0));
        set(&mut config.wait, self.wait);
    }
}

/// How packets are received from an interface.
#[derive(Debug, Args)]
pub(crate) struct PortFlags {
    /// How to attach to the interfaces [default: best].
    #[arg(long, value_parser = choice::<Modes>())]
    xdp_mode: Option<Modes>,
    /// Fail where packets would be copied; the same as --xdp-mode zero-copy.
    #[arg(long, conflicts_with = "xdp_mode")]
    require_zero_copy: bool,
    /// Source of the packets' timestamps [default: kernel with -w or --verify, on passive ports, and where
    /// packets are packed; batch otherwise].
    #[arg(long, value_name = "SOURCE", value_parser = choice_but(Timestamp::File))]
    timestamp: Option<Timestamp>,
}

impl PortFlags {
    pub(crate) fn apply(&self, config: &mut Config) {
        let zero_copy = self.require_zero_copy.then_some(Modes::ZeroCopy);
        set(&mut config.xdp_mode, self.xdp_mode.or(zero_copy));
        config.timestamp = self.timestamp.or(config.timestamp);
    }
}

/// What the process may do once everything is open.
#[derive(Debug, Args)]
pub(crate) struct ProcessFlags {
    /// Become USER once everything is open; only root can. Files are opened with the permissions of USER, and
    /// belong to USER.
    #[arg(short = 'Z', long = "relinquish-privileges", id = "user", value_name = "USER")]
    user: Option<String>,
    /// Keep all privileges. By default, once everything is open, each thread gives up the capabilities,
    /// system calls and files that it does not need.
    #[arg(long)]
    no_sandbox: bool,
}

impl ProcessFlags {
    pub(crate) fn apply(self, process: &mut ProcessSettings) {
        process.user = self.user.or(process.user.take());
        process.sandbox &= !self.no_sandbox;
    }
}

/// What is printed about a capture, and how.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Print the account as one JSON object, as the last line of standard output (of standard error with -w
    /// -).
    #[arg(long)]
    json: bool,
    /// Print the statistics so far on standard error at this interval: 10s, 1m. With --json, print the
    /// account so far as one JSON object on one line, to the stream that gets the account at the end.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    stats: Option<Duration>,
    /// How messages are written on standard error [default: text].
    #[arg(long, value_parser = choice::<LogFormat>())]
    log: Option<LogFormat>,
    /// Exit with code 3 if packets were lost and nothing else failed.
    #[arg(long)]
    fail_on_loss: bool,
    /// Print only errors, losses, and what --json or --stats ask for.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl OutputFlags {
    pub(crate) fn apply(&self, output: &mut OutputSettings) {
        output.json |= self.json;
        output.stats = self.stats.or(output.stats);
        set(&mut output.log, self.log);
        output.fail_on_loss |= self.fail_on_loss;
        output.quiet |= self.quiet;
    }
}

/// How the running capture is reached, watched and supervised.
#[derive(Debug, Args)]
pub(crate) struct ServiceFlags {
    /// A name for wirecap status, stop, rotate and set, instead of the process id.
    #[arg(long, value_name = "NAME")]
    name: Option<CaptureName>,
    /// The socket by which wirecap status, stop, rotate and set reach the capture, or off [default:
    /// /run/wirecap/PID.sock as root, $XDG_RUNTIME_DIR/wirecap/PID.sock as another user].
    #[arg(long, value_name = "PATH")]
    control: Option<SocketChoice>,
    /// Serve metrics for Prometheus (OpenMetrics) over HTTP: on a port of the loopback
    /// interface, like 9417, on ADDRESS:PORT, or on unix:PATH.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<MetricsAddress>,
}

impl ServiceFlags {
    pub(crate) fn apply(self, service: &mut ServiceSettings) {
        service.name = self.name.or(service.name.take());
        service.control = self.control.or(service.control.take());
        service.metrics = self.metrics.or(service.metrics.take());
    }
}

/// Where settings come from that no flag sets, and where they are printed.
#[derive(Debug, Args)]
pub(crate) struct ConfigFlags {
    /// Read settings from FILE (TOML); flags override them. The book lists the keys.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the settings in force, as --config reads them, check them, and exit: with code 2 if something is
    /// wrong with them. What depends on this machine, such as its interfaces, is not checked.
    #[arg(long)]
    pub(crate) print_config: bool,
}

impl ConfigFlags {
    /// The settings without the flags: the defaults, overridden by the file, and where they come from.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn settings<T: Settings>(&self) -> Result<Sourced<T>> {
        match self.config.as_deref() {
            Some(path) => file::read(path),
            None => Ok(Sourced { settings: T::default(), sources: Sources::default() }),
        }
    }
}

/// Overrides a setting if its flag was given.
pub(crate) fn set<T>(setting: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *setting = given;
    }
}

/// How a command that only sends does so, and what it prints.
#[derive(Debug, Args)]
pub(crate) struct SendFlags {
    /// How packets reach the driver [default: best; copy where the host uses the interface].
    #[arg(long, value_parser = choice::<SendMode>())]
    pub(crate) tx_mode: Option<SendMode>,
    /// Core to pin the sending thread to [default: not pinned].
    #[arg(long, value_name = "CORE", value_parser = number::<usize>(ANY, "--core 1"))]
    pub(crate) core: Option<usize>,
    /// Print the report as one JSON object, as the last line of standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only errors, losses, and what --json asks for.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

choices! {
    /// How packets reach the driver.
    pub(crate) enum SendMode {
        /// The best mode that works.
        Best = "best",
        /// The driver sends from the cells; an error if it cannot.
        ZeroCopy = "zero-copy",
        /// The kernel copies each packet once.
        Copy = "copy",
    }
}

impl SendMode {
    /// How to bind a queue for sending. Sending takes no packets from the host, but zero-copy may take its
    /// queue, so where the host uses the interface zero-copy is tried only on request.
    pub(crate) fn bind(flag: Option<Self>, host_uses: bool) -> BindChoice {
        match flag {
            Some(Self::ZeroCopy) => BindChoice::Only(BindMode::ZeroCopy),
            Some(Self::Copy) => BindChoice::Only(BindMode::Copy),
            None if host_uses => BindChoice::Only(BindMode::Copy),
            Some(Self::Best) | None => BindChoice::Best,
        }
    }
}
