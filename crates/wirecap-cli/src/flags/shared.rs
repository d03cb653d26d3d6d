//! Flags that several commands take alike, in groups that go into their flags.
//!
//! | group | capture | forward | generate | replay |
//! |---|---|---|---|---|
//! | [`FileFlags`], [`PoolFlags`], [`WorkerFlags`], [`PortFlags`], [`OutputFlags`] | x | x | | |
//! | [`TimeLimit`] | x | x | x | x |
//! | [`SendFlags`] | | | x | x |
//!
//! Where a command means a flag a little differently, it says so where it takes the group (`mut_arg`): another default, other words.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use wirecap_sys::xsk::{BindChoice, BindMode};

use crate::values::{Cores, Number, cores, duration, number, size};

/// The file that packets are written to.
#[derive(Debug, Args)]
pub(crate) struct FileFlags {
    /// Write the packets to FILE.pcapng, FILE.pcap, a named pipe, or - (pcapng on standard output); without it
    /// they are only counted.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Keep at most this many bytes of each packet in the file; 0 keeps all.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = number::<u32>(Number::of("--snaplen 128")))]
    pub(crate) snaplen: u32,
}

/// When it ends by itself.
#[derive(Debug, Args)]
pub(crate) struct TimeLimit {
    /// Stop after this time: 10 or 10s, 500ms, 2m, 1h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
}

/// The pool of each receive queue.
#[derive(Debug, Args)]
pub(crate) struct PoolFlags {
    /// M, cells per chunk: a power of two.
    #[arg(short = 'M', value_name = "CELLS", default_value_t = 256, value_parser = number::<u32>(Number::of("-M 256")))]
    pub(crate) cells_per_chunk: u32,
    /// R, chunks per receive queue. A queue can buffer R x M packets [default: 128, or fewer, so that all take no more than an
    /// eighth of the memory that is available].
    #[arg(short = 'R', value_name = "CHUNKS", value_parser = number::<u32>(Number::of("-R 128")))]
    pub(crate) chunks_per_pool: Option<u32>,
    /// Memory for the cells of all receive queues together, from which R follows: 512M, 2G.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "chunks_per_pool")]
    pub(crate) memory: Option<u64>,
    /// Size of a cell: 2048 or 4096. Larger packets take several cells.
    #[arg(long, value_name = "BYTES", default_value_t = 2048, value_parser = number::<u32>(Number::of("--cell-bytes 4096")))]
    pub(crate) cell_bytes: u32,
}

/// The threads that take packets.
#[derive(Debug, Args)]
pub(crate) struct WorkerFlags {
    /// Number of workers [default: one for each receive queue, but no more than cores].
    #[arg(long = "workers", id = "workers", value_name = "N", value_parser = number::<usize>(Number::of("--workers 4")))]
    pub(crate) number: Option<usize>,
    /// Cores for the workers, in turn: 0,2-3 [default: not bound].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub(crate) cores: Option<Cores>,
    /// What workers do while nothing comes.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) wait: WaitFlag,
}

/// How packets come from an interface.
#[derive(Debug, Args)]
pub(crate) struct PortFlags {
    /// Which way of attaching to the interfaces is used.
    #[arg(long, value_enum, default_value_t)]
    xdp_mode: XdpModeFlag,
    /// Fail where packets would be copied: as --xdp-mode zero-copy.
    #[arg(long, conflicts_with = "xdp_mode")]
    require_zero_copy: bool,
    /// Where the times of packets come from [default: kernel with -w or --verify, and beside the host; batch otherwise].
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) timestamp: Option<TimestampFlag>,
}

impl PortFlags {
    /// Which ways of attaching are allowed.
    pub(crate) fn xdp_mode(&self) -> XdpModeFlag {
        if self.require_zero_copy { XdpModeFlag::ZeroCopy } else { self.xdp_mode }
    }

    /// The flag that allows some ways only, if there is one.
    pub(crate) fn restricts(&self) -> Option<&'static str> {
        let named = (self.xdp_mode != XdpModeFlag::default()).then_some("--xdp-mode");
        if self.require_zero_copy { Some("--require-zero-copy") } else { named }
    }
}

/// What is said of a capture, and how.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Print the account as one JSON object, as the last line of standard output (of standard error with -w -).
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the statistics so far on standard error as often as this: 10s, 1m. With --json, the account so far, as one
    /// JSON object in a line, where the account goes at the end.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) stats: Option<Duration>,
    /// Exit code 3 if packets were lost, and nothing else failed.
    #[arg(long)]
    pub(crate) fail_on_loss: bool,
    /// Print nothing but errors, losses, and what --json or --stats ask for.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How packets are sent by a command that does nothing else, and what is said of it.
#[derive(Debug, Args)]
pub(crate) struct SendFlags {
    /// How packets get to the driver [default: best; copy where the host uses the interface].
    #[arg(long, value_enum)]
    pub(crate) tx_mode: Option<SendModeFlag>,
    /// Core of the thread that sends [default: not bound].
    #[arg(long, value_name = "CORE", value_parser = number::<usize>(Number::of("--core 1")))]
    pub(crate) core: Option<usize>,
    /// Print the report as one JSON object, as the last line of standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors, losses, and what --json asks for.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFlag {
    /// Ask again at once; costs a core per thread.
    Busy,
    /// Sleep, shorter than the pool could fill up.
    #[default]
    Sleep,
    /// Sleep in the kernel until a packet comes.
    Block,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum XdpModeFlag {
    /// The best that works.
    #[default]
    Best,
    /// The driver writes into the cells.
    ZeroCopy,
    /// Native XDP, one copy by the kernel.
    Copy,
    /// Works with every driver, slowly.
    Generic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimestampFlag {
    /// The NIC stamps each packet, where its driver offers that to XDP; else an error.
    Hardware,
    /// The XDP program stamps each packet, at some 50 ns each.
    Kernel,
    /// One time for all packets that a look at the ring finds; cheapest. How far off it was is told at the end.
    Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendModeFlag {
    /// The best that works.
    Best,
    /// The driver sends from the cells; else an error.
    ZeroCopy,
    /// One copy by the kernel.
    Copy,
}

impl SendModeFlag {
    /// How a queue is bound to send. Sending takes nothing from the host, but zero-copy may take its queue: where the host uses the
    /// interface, that is not tried unless it is asked for.
    pub(crate) fn bind(flag: Option<Self>, host_uses: bool) -> BindChoice {
        match flag {
            Some(Self::ZeroCopy) => BindChoice::Only(BindMode::ZeroCopy),
            Some(Self::Copy) => BindChoice::Only(BindMode::Copy),
            None if host_uses => BindChoice::Only(BindMode::Copy),
            Some(Self::Best) | None => BindChoice::Best,
        }
    }
}
