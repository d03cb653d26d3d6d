//! The machine, the commit and the time of the figures, without which they mean nothing.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The machine, the code and the command line of one run of the benchmarks.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// When the run began, UTC.
    pub date: String,
    /// Model name of the processor.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Clock of the time stamp counter in MHz, as the kernel reports it for core 0.
    pub cpu_mhz: Option<f64>,
    /// The frequency governor, if the kernel has one.
    pub governor: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Whether it is a virtual machine.
    pub hypervisor: bool,
    /// Other work on the machine: the load average over the last minute, at the start.
    pub load: f64,
    /// Commit of the source tree, `-dirty` if files differ from it.
    pub commit: Option<String>,
    /// The command line.
    pub command: Vec<String>,
}

impl Machine {
    /// Asks the kernel, and git in the current directory. Unknown fields stay empty.
    pub fn inspect() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let load = read("/proc/loadavg");
        Self {
            date: utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").into(),
            cores: cores(),
            cpu_mhz: field(&cpuinfo, "cpu MHz").and_then(|mhz| mhz.parse().ok()),
            governor: fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .ok()
                .map(|governor| governor.trim().into()),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal").and_then(kib).unwrap_or(0) / 1024,
            hypervisor: field(&cpuinfo, "flags").is_some_and(|flags| flags.contains(" hypervisor")),
            load: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
            commit: commit(),
            command: std::env::args().collect(),
        }
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let virtual_machine = if self.hypervisor { ", virtual machine" } else { "" };
        let governor = self.governor.as_deref().map(|name| format!(", governor {name}")).unwrap_or_default();
        let mhz = self.cpu_mhz.map(|mhz| format!(" at {mhz:.0} MHz")).unwrap_or_default();
        format!(
            "{}: {} × {}{mhz}{virtual_machine}{governor}, {} MiB, Linux {}, commit {}, load at the start {}",
            self.date,
            self.cores,
            self.cpu,
            self.memory_mib,
            self.kernel,
            self.commit.as_deref().unwrap_or("unknown"),
            self.load,
        )
    }
}

/// Cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// The number of a line such as `MemTotal: 123 kB`.
fn kib(value: &str) -> Option<u64> {
    value.strip_suffix(" kB")?.trim().parse().ok()
}

/// Resident memory of a process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ResidentMemory {
    /// Resident set.
    pub rss: u64,
    /// Proportional set: each shared page is divided by the number of its users.
    pub pss: u64,
}

impl ResidentMemory {
    /// The sums of the kernel's `smaps_rollup`. `None` if the process is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = |name| field(text, name).and_then(kib).map(|kib| kib * 1024);
        Some(Self { rss: bytes("Rss")?, pss: bytes("Pss")? })
    }
}

/// CPU time that the hypervisor took from the cores of a virtual machine while they had work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StolenTime {
    /// Share of the time of all cores together.
    pub share: f64,
    /// Largest share of one core's time within a second.
    pub worst_second: f64,
}

/// Measures stolen time, second by second.
#[derive(Debug)]
pub struct StealWatch {
    end: mpsc::Sender<()>,
    thread: JoinHandle<StolenTime>,
}

impl StealWatch {
    /// Starts to measure.
    pub fn start() -> Self {
        let (end, ended) = mpsc::channel();
        Self { end, thread: thread::spawn(move || watch_steal(&ended)) }
    }

    /// Stops, and returns the stolen time.
    pub fn end(self) -> StolenTime {
        // The thread runs until this message.
        let _ = self.end.send(());
        self.thread.join().expect("the thread does not panic")
    }
}

fn watch_steal(ended: &mpsc::Receiver<()>) -> StolenTime {
    let (start, first) = (Instant::now(), steal_seconds(&read("/proc/stat")));
    let (mut since, mut before, mut worst_second) = (start, first.clone(), 0.0);
    loop {
        let last = ended.recv_timeout(Duration::from_secs(1)) != Err(mpsc::RecvTimeoutError::Timeout);
        let (now, after) = (Instant::now(), steal_seconds(&read("/proc/stat")));
        if !last {
            let seconds = (now - since).as_secs_f64();
            let shares = before.iter().zip(&after).map(|(before, after)| (after - before) / seconds);
            worst_second = shares.fold(worst_second, f64::max);
            (since, before) = (now, after);
            continue;
        }
        let stolen = after.iter().sum::<f64>() - first.iter().sum::<f64>();
        return StolenTime {
            share: stolen / (now - start).as_secs_f64() / after.len().max(1) as f64,
            worst_second,
        };
    }
}

/// Time stolen from each core since boot (proc_stat(5): the eighth figure, in hundredths of a second).
fn steal_seconds(stat: &str) -> Vec<f64> {
    let cores = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    cores
        .map(|line| line.split(' ').nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0.0) / 100.0)
        .collect()
}

fn commit() -> Option<String> {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|commit| output.status.success() && !commit.is_empty())
}

/// Seconds since 1970 as `2026-01-31T23:59:59Z`.
fn utc(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_leap_years_and_centuries() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "Rss:              123 kB\nPss:     7 kB\nmodel name\t: A: B\n";
        assert_eq!(ResidentMemory::parse(text), Some(ResidentMemory { rss: 123 * 1024, pss: 7 * 1024 }));
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn stolen_time_is_read_per_core() {
        let stat =
            "cpu  9 9 9 9 9 9 9 250 0 0\ncpu0 1 2 3 4 5 6 7 150 9 9\ncpu1 1 2 3 4 5 6 7 100 9 9\nintr 1\n";
        assert_eq!(steal_seconds(stat), [1.5, 1.0]);
        let stolen = StealWatch::start().end();
        assert!((0.0..=1.0).contains(&stolen.share), "{stolen:?}");
    }

    #[test]
    fn this_process_has_memory() {
        let resident = ResidentMemory::of(std::process::id()).unwrap();
        assert!(resident.rss > 100_000 && resident.rss >= resident.pss, "{resident:?}");
    }
}
