//! Every flag, declared once: what is here is the help, and what the plan is made from.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};

const EXAMPLES: &str = "\
Examples:
  wirecap capture eth1 -w trace.pcapng             until Ctrl-C
  wirecap capture eth1 -c 1000 -w - | tshark -r -  a thousand packets into another program
  wirecap capture eth1 eth2 --duration 10s --json  only count, on two interfaces
  wirecap capture eth1 -M 256 -R 500 -T 60 -w x.pcapng --workers 4 --cores 0,2-4
  wirecap interfaces                               what there is, and what XDP can do on it

Exit codes:
  0  as asked
  1  the capture failed, or ended before it was asked to; what was captured is kept
  2  the command line makes no sense; nothing was done";

/// Lossless packet capture on multi-queue interfaces, over AF_XDP.
#[derive(Debug, Parser)]
#[command(name = "wirecap", version, after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Capture every packet of one or more interfaces, into a file or just counted.
    ///
    /// The interfaces belong to the capture while it runs: the host does not see their packets. An interface
    /// with an IP address is therefore refused, unless it is named xdp:NAME.
    #[command(after_help = EXAMPLES, allow_negative_numbers = true)]
    Capture(Box<CaptureFlags>),
    /// List the interfaces: queues, speed, what XDP can do, and who holds XDP on them now.
    Interfaces(InterfacesFlags),
}

/// What to capture, how, and where to.
#[derive(Debug, Args)]
pub(crate) struct CaptureFlags {
    /// Interfaces; xdp:NAME takes one that has an IP address.
    #[arg(value_name = "IFACE", required = true)]
    pub(crate) interfaces: Vec<String>,

    /// Write the packets to FILE.pcapng, FILE.pcap, or - (pcapng on standard output); without it they are
    /// only counted.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Stop after N packets: exactly N are in the file. Without -w, N or a few more are counted.
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Stop after this time: 10 or 10s, 500ms, 2m, 1h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Keep at most this many bytes of each packet in the file; 0 keeps all.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) snaplen: u32,

    /// M, cells per chunk: a power of two.
    #[arg(short = 'M', value_name = "CELLS", default_value_t = 256)]
    pub(crate) cells_per_chunk: u32,
    /// R, chunks per receive queue. A queue can buffer R x M packets.
    #[arg(short = 'R', value_name = "CHUNKS", default_value_t = 128)]
    pub(crate) chunks_per_pool: u32,
    /// T: how full a worker's pools are, in percent, when its buddies begin to help (advanced mode)
    /// [default: 60].
    #[arg(short = 'T', value_name = "PERCENT", value_parser = value_parser!(u32).range(0..=100))]
    pub(crate) threshold_percent: Option<u32>,
    /// Whether workers help each other.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: ModeFlag,
    /// Who drains the receive queues.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) dispatch: DispatchFlag,
    /// Number of workers [default: one for each receive queue, but no more than cores].
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// Cores for the workers, in turn: 0,2-3 [default: not bound].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub(crate) cores: Option<Cores>,
    /// Number of capture threads (push) [default: 1].
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    pub(crate) capture_threads: Option<u16>,
    /// Cores for the capture threads (push), in turn [default: not bound].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub(crate) capture_cores: Option<Cores>,
    /// What workers do while nothing comes.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) wait: WaitFlag,
    /// Size of a cell: 2048 or 4096. Larger packets take several cells.
    #[arg(long, value_name = "BYTES", default_value_t = 2048)]
    pub(crate) cell_bytes: u32,
    /// Entries of the kernel's rings, a power of two [default: as many as the pool has cells].
    #[arg(long, value_name = "N")]
    pub(crate) ring: Option<u32>,
    /// Which way of attaching to the interface is used.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) xdp_mode: XdpModeFlag,
    /// Leave out packets that are for other stations.
    #[arg(long)]
    pub(crate) no_promiscuous: bool,

    /// Print the account as one JSON object, as the last line of standard output (of standard error with -w -).
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no start lines and no progress; warnings, errors and the account remain.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How the interfaces are listed.
#[derive(Debug, Args)]
pub(crate) struct InterfacesFlags {
    /// Print one JSON array.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeFlag {
    /// Each receive queue is on its own.
    Basic,
    /// Over T, a worker's buddies help.
    #[default]
    Advanced,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DispatchFlag {
    /// Capture threads, which hand chunks to workers.
    Push,
    /// The workers themselves.
    #[default]
    Pull,
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

/// A list of cores. A type of its own, as clap takes a `Vec` for a flag given several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

/// Highest core number Linux can be built for.
const MAX_CORE: usize = 8191;

/// Reads a list of cores: numbers and ranges, separated by commas.
fn cores(text: &str) -> Result<Cores, String> {
    let number = |text: &str| {
        text.parse::<usize>().ok().filter(|&core| core <= MAX_CORE).ok_or_else(|| {
            format!("{text:?} is no core number; write numbers and ranges with commas, like 0,2-3")
        })
    };
    let mut list = Vec::new();
    for item in text.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("the range {item} runs backwards; write {last}-{first}"));
        }
        list.extend(first..=last);
    }
    Ok(Cores(list))
}

/// Reads a time: a number, perhaps with a fraction, of ms, s (or nothing), m or h.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("{unit:?} is no unit of time; use ms, s, m or h, like 500ms or 2m")),
    };
    let plain = digits.chars().all(|digit| digit.is_ascii_digit() || digit == '.');
    let number: f64 = digits
        .parse()
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| format!("{digits:?} is no number; write a time like 10s, 500ms or 2m"))?;
    match Duration::try_from_secs_f64(number * unit_s) {
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) => Err("a capture of no time captures nothing".into()),
        Err(_) => Err("this is longer than time can be counted".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn durations() {
        let ms = |text| duration(text).map(|time| time.as_millis());
        assert_eq!(ms("10"), Ok(10_000));
        assert_eq!(ms("10s"), Ok(10_000));
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("2m"), Ok(120_000));
        assert_eq!(ms("1h"), Ok(3_600_000));
        assert_eq!(ms("1.5s"), Ok(1_500));
        for bad in ["", "s", "0", "0ms", "-1", "1d", "10 s", "1e3", "inf", "NaN", "1..2", "9e99", "+5", "5ss"]
        {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(duration(&"9".repeat(40)).is_err());
    }

    #[test]
    fn core_lists() {
        let list = |text| cores(text).map(|cores| cores.0);
        assert_eq!(list("0"), Ok(vec![0]));
        assert_eq!(list("0,2-4"), Ok(vec![0, 2, 3, 4]));
        assert_eq!(list("3,1"), Ok(vec![3, 1]));
        for bad in ["", ",", "a", "1-", "-1", "1-2-3", "0,", "99999", "0-99999999999999999999"] {
            assert!(cores(bad).is_err(), "{bad}");
        }
        assert!(cores("4-2").unwrap_err().contains("2-4"));
    }
}
