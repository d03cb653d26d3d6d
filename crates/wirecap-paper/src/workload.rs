//! What is sent to the engines: a trace, the queue of each of its packets, and the same as runs for the
//! simulator.
//!
//! ```text
//!   the stand-in, a part of it ─► trace.pcap ─┐              ┌─► side: the queue of each packet ─► replay
//!   a trace of the user's ────────────────────┴─► RSS ───────┴─► Traffic ─► simulator
//! ```
//!
//! Rule: every engine gets the same packets at the same times in the same queues.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;
use wirecap_file::{LINK_TYPE_ETHERNET, Reader, Record};
use wirecap_profile::{
    Rss,
    rss::{FirstHeader, HashFields, IndirectionTable, RssKey},
};
use wirecap_sim::{
    SECOND_NS,
    experiments::skew,
    traffic::{Run, Traffic},
};

use crate::stand_in;

/// The hot queue of the stand-in begins to be hot then, in seconds.
const HOT_FROM_S: f64 = 10.0;
/// The end of the stand-in, in seconds.
pub const END_S: f64 = 32.0;

/// Bytes of an Ethernet header.
const HEADER_LEN: usize = 14;
/// Bytes of the longest frame, without its FCS, of the laboratory's interfaces.
const LONGEST_FRAME: usize = 1514;
/// The longest trace: each packet takes 24 bytes of memory.
const MAX_PACKETS: u64 = 50_000_000;

/// Packets for a number of queues.
#[derive(Debug)]
pub struct Workload {
    /// Number of receive queues.
    pub queues: usize,
    /// The trace.
    pub file: PathBuf,
    /// The queue of each packet, as `wirecap replay` reads it.
    pub side: PathBuf,
    /// The same packets, for the simulator.
    pub traffic: Traffic,
    /// Packets of the trace that no engine gets: shorter than a header, or longer than the interface allows.
    pub left_out: u64,
    /// Its files.
    _directory: TempDir,
}

/// RSS as a NIC does it by default: Microsoft's key, addresses and ports, a table of 128 entries.
///
/// # Errors
/// If a table cannot have this number of queues.
pub fn rss_of(queues: usize) -> Result<Rss> {
    Ok(Rss::new(&RssKey::default(), IndirectionTable::equal(queues)?, HashFields::Ports))
}

/// `seconds` of the stand-in for a number of queues. A tenth of them is before the hot queue is hot, or more
/// if there are not as many after it.
pub fn stand_in(queues: usize, seconds: f64, seed: u64) -> Traffic {
    let whole = skew::traffic(queues, seed);
    let from_s = (HOT_FROM_S - seconds / 10.0).min(END_S - seconds);
    if seconds >= END_S { whole } else { part(&whole, from_s, seconds) }
}

/// The packets of a time, which then begins at 0.
fn part(traffic: &Traffic, from_s: f64, seconds: f64) -> Traffic {
    let (from_ns, until_ns) = (from_s * SECOND_NS as f64, (from_s + seconds) * SECOND_NS as f64);
    let is_in = |run: &&Run| run.from_ns >= from_ns && run.from_ns < until_ns;
    let shift = |run: &Run| Run { from_ns: run.from_ns - from_ns, ..*run };
    Traffic {
        queues: traffic.queues.iter().map(|runs| runs.iter().filter(is_in).map(shift).collect()).collect(),
    }
}

impl Workload {
    /// Writes traffic as a trace.
    ///
    /// # Errors
    /// If the directory of temporary files has no room.
    pub fn generated(traffic: Traffic, seed: u64, memory: &Path) -> Result<Self> {
        let directory = temporary(memory)?;
        let (queues, file) = (traffic.queues.len(), directory.path().join("trace.pcap"));
        let rss = rss_of(queues)?;
        let to = File::create(&file).with_context(|| file.display().to_string())?;
        stand_in::write(&traffic, &rss, seed, BufWriter::new(to))
            .with_context(|| format!("{}: --tmpfs DIR is another place", file.display()))?;
        let side = directory.path().join("queues");
        place(&file, &rss, &side)?;
        Ok(Self { queues, file, side, traffic, left_out: 0, _directory: directory })
    }

    /// The user's trace, on this number of queues.
    ///
    /// # Errors
    /// If it cannot be read, or has no times, or is not of Ethernet.
    pub fn of_trace(file: &Path, queues: usize, memory: &Path) -> Result<Self> {
        let directory = temporary(memory)?;
        let side = directory.path().join("queues");
        let (traffic, left_out) = place(file, &rss_of(queues)?, &side)?;
        Ok(Self { queues, file: file.into(), side, traffic, left_out, _directory: directory })
    }

    /// From the first packet to the last, in seconds.
    pub fn seconds(&self) -> f64 {
        let last = |runs: &Vec<Run>| {
            runs.last().map_or(0.0, |run| run.from_ns + run.gap_ns * run.packets.saturating_sub(1) as f64)
        };
        self.traffic.queues.iter().map(last).fold(0.0, f64::max) / SECOND_NS as f64
    }

    /// Packets of each queue.
    pub fn packets(&self) -> Vec<u64> {
        self.traffic.queues.iter().map(|runs| runs.iter().map(|run| run.packets).sum()).collect()
    }
}

/// Start of the names of our directories, before the number of their process.
const PREFIX: &str = "wirecap-paper-";

/// Removes the directories that killed laboratories have left behind.
pub fn sweep(memory: &Path) {
    let is_stale = |name: &str| {
        let owner: Option<u32> = name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok();
        owner.map(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    for entry in fs::read_dir(memory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().and_then(is_stale) == Some(true) {
            // Another laboratory may be faster.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn temporary(memory: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .tempdir_in(memory)
        .with_context(|| format!("{}: --tmpfs DIR is another place", memory.display()))
}

/// Writes the queue of each packet of a trace, one a line. Returns the packets that are sent, as runs, and
/// the number of those that are not.
fn place(file: &Path, rss: &Rss, side: &Path) -> Result<(Traffic, u64)> {
    let name = || file.display().to_string();
    let mut queues: Vec<Vec<Run>> = vec![Vec::new(); rss.queues()];
    let (mut first_ns, mut latest_ns, mut packets, mut left_out) = (None, 0, 0_u64, 0);
    let mut out = BufWriter::new(File::create(side).with_context(|| side.display().to_string())?);
    // Its errors name the cause; a chain of causes would repeat it.
    let damaged = |error: wirecap_file::Error| anyhow!("{}: {error}", name());
    let mut reader = Reader::open(file).map_err(damaged)?;
    while let Some(record) = reader.next().map_err(damaged)? {
        let Record::Packet(packet) = record else { continue };
        ensure!(
            packet.link_type == LINK_TYPE_ETHERNET,
            "{}: its packets have link type {}, but the laboratory's interfaces are Ethernet",
            name(),
            packet.link_type
        );
        packets += 1;
        ensure!(packets <= MAX_PACKETS, "{}: more than {MAX_PACKETS} packets; cut it with editcap", name());
        let time_ns = packet.timestamp_ns.with_context(|| format!("{}: a packet has no time", name()))?;
        let queue = rss.queue(packet.data, FirstHeader::Ethernet);
        // The replay reads a number for each packet, even if it does not send it.
        writeln!(out, "{queue}")?;
        let len = packet.data.len().max(packet.original_len as usize);
        if packet.data.len() < HEADER_LEN || len > LONGEST_FRAME {
            left_out += 1;
            continue;
        }
        // In the order of the file: none leaves before the one in front of it.
        latest_ns = latest_ns.max(time_ns.saturating_sub(*first_ns.get_or_insert(time_ns)));
        queues[queue].push(Run { from_ns: latest_ns as f64, gap_ns: 0.0, packets: 1 });
    }
    out.flush()?;
    ensure!(packets > 0, "{}: it has no packets", name());
    ensure!(
        packets > left_out,
        "{}: all {packets} packets are left out: they have no Ethernet header, or more than {LONGEST_FRAME} bytes",
        name()
    );
    Ok((Traffic { queues }, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_stand_in_is_mostly_hot() {
        let traffic = stand_in(6, 6.0, 1);
        let rate = |queue: usize, from: f64, until: f64| {
            let is_in = |run: &&Run| (from..until).contains(&(run.from_ns / 1e9));
            let packets: u64 = traffic.queues[queue].iter().filter(is_in).map(|run| run.packets).sum();
            packets as f64 / (until - from)
        };
        assert!((70_000.0..90_000.0).contains(&rate(0, 0.6, 6.0)), "{}", rate(0, 0.6, 6.0));
        assert!(rate(0, 0.0, 0.6) < 30_000.0);
        assert!((15_000.0..25_000.0).contains(&rate(3, 0.0, 6.0)), "{}", rate(3, 0.0, 6.0));
        assert_eq!(stand_in(6, END_S, 1), skew::traffic(6, 1));
        for seconds in [24.5, 30.0, 31.9] {
            let last = stand_in(6, seconds, 1).queues[0].last().map(|run| run.from_ns / 1e9);
            assert!(last.is_some_and(|last| (seconds - 0.1..seconds).contains(&last)), "{seconds}: {last:?}");
        }
    }

    #[test]
    fn a_trace_is_placed_as_it_was_made() {
        let traffic = stand_in(4, 0.05, 1);
        let made = Workload::generated(traffic.clone(), 1, &std::env::temp_dir()).unwrap();
        assert_eq!(made.packets().iter().sum::<u64>(), traffic.packets());
        let read = Workload::of_trace(&made.file, 4, &std::env::temp_dir()).unwrap();
        assert_eq!(read.packets(), made.packets());
        let lines = std::fs::read_to_string(&read.side).unwrap();
        assert_eq!(lines, std::fs::read_to_string(&made.side).unwrap());
        assert_eq!(lines.lines().count() as u64, read.packets().iter().sum::<u64>());
    }

    #[test]
    fn directories_of_dead_processes_are_removed() {
        let memory = tempfile::tempdir().unwrap();
        let of = |pid: u32| memory.path().join(format!("{PREFIX}{pid}-x"));
        let (dead, ours, foreign) = (of(u32::MAX), of(std::process::id()), memory.path().join("other"));
        for directory in [&dead, &ours, &foreign] {
            fs::create_dir(directory).unwrap();
        }
        sweep(memory.path());
        assert_eq!([&dead, &ours, &foreign].map(|path| path.exists()), [false, true, true]);
    }

    #[test]
    fn a_file_that_is_no_trace_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("no-trace");
        std::fs::write(&path, "hello, hello, hello, hello").unwrap();
        let error = format!("{:#}", Workload::of_trace(&path, 2, directory.path()).unwrap_err());
        assert!(error.contains("no-trace"), "{error}");
    }
}
