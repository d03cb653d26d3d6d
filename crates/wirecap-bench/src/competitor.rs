//! The competitors: wirecap in several modes and the peers of bench/peers, all as child processes with one
//! protocol.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use wirecap_testing::SendAccount;

use crate::bed::{Bed, Link, RECEIVER, SENDER_CORE, Traffic, receiver_core, sent_json};
use crate::child::{self, xdp_count};
use crate::cores;
use crate::run::{Process, ReadySign};
use crate::wire::{FAR, Wire};

/// A receiver stops this long after its last packet. libpcap hands over the last packets 100 ms late, and on
/// a busy machine the generator may pause before its end.
const IDLE_MS: u64 = 1000;
/// The longest time that peers accept for it: longer than any run.
const NEVER_MS: u64 = 1_000_000;
/// How long a receiver may take to end after the last packet was sent.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A program that captures packets, with its flags.
#[derive(Debug, Clone)]
pub struct Competitor {
    /// Name in the tables.
    pub name: String,
    program: PathBuf,
    /// Arguments before the interface.
    command: Vec<String>,
    flags: Vec<String>,
    /// Variables of its environment.
    environment: Vec<(String, String)>,
}

/// The directory of the built peers.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(Default))]
pub struct Peers(PathBuf);

impl Peers {
    /// Builds the peers, into a directory beside this program.
    ///
    /// # Errors
    /// With the output of make.
    pub fn build(sources: &Path) -> Result<Self> {
        ensure!(sources.exists(), "{}: run it in the source tree, or give --peers DIR", sources.display());
        let bin = env::current_exe()?.with_file_name("peers");
        let target = format!("BIN={}", bin.display());
        let make = || Command::new("make").arg("-s").arg("-C").arg(sources).arg(&target).output();
        let output = make().context("cannot run make; install make, gcc and libpcap-dev")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "make -C {}: {said}", sources.display());
        Ok(Self(bin))
    }

    /// The program of a peer.
    pub fn path(&self, program: &str) -> PathBuf {
        self.0.join(program)
    }

    /// A peer with its flags.
    pub fn competitor(&self, name: &str, program: &str, flags: &str) -> Competitor {
        Competitor {
            name: name.into(),
            program: self.path(program),
            command: Vec::new(),
            flags: words(flags),
            environment: Vec::new(),
        }
    }
}

fn words(flags: &str) -> Vec<String> {
    flags.split_whitespace().map(Into::into).collect()
}

impl Competitor {
    /// wirecap with the flags of [`child`].
    ///
    /// # Errors
    /// If the path of this program cannot be found.
    pub fn wirecap(name: &str, flags: &str) -> Result<Self> {
        Self::of_this_program(name, child::COMMAND, flags)
    }

    /// wirecap with packed delivery; its workers drain their own queues, and sleep. `more_flags` are of
    /// [`child`], too.
    ///
    /// # Errors
    /// If the path of this program cannot be found.
    pub fn packed(name: &str, more_flags: &str) -> Result<Self> {
        Self::wirecap(name, &format!("--xdp-mode packed --dispatch pull --wait sleep {more_flags}"))
    }

    /// wirecap as a tap with one worker; the host drops the packets. `more_flags` are of [`child`].
    ///
    /// # Errors
    /// If the path of this program cannot be found.
    pub fn tapped(name: &str, more_flags: &str) -> Result<Self> {
        Self::of_this_program(
            name,
            child::COMMAND,
            &format!("--tap --dispatch pull --wait sleep {more_flags}"),
        )
    }

    /// An XDP program that counts packets and drops them: the cheapest receiver.
    ///
    /// # Errors
    /// If the path of this program cannot be found.
    pub fn xdp_drop() -> Result<Self> {
        Self::of_this_program("XDP_DROP", xdp_count::COMMAND, "")
    }

    /// An XDP program that counts packets and passes them to the host: the cheapest tap.
    ///
    /// # Errors
    /// If the path of this program cannot be found.
    pub fn xdp_pass() -> Result<Self> {
        Self::of_this_program("XDP_PASS", xdp_count::COMMAND, "--pass")
    }

    fn of_this_program(name: &str, command: &str, flags: &str) -> Result<Self> {
        let program = std::env::current_exe().context("the path of this program")?;
        let (command, flags) = (vec![command.into()], words(flags));
        Ok(Self { name: name.into(), program, command, flags, environment: Vec::new() })
    }

    /// The same with a variable in its environment.
    pub fn with_environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts the competitor on the receiving end of a link and waits until it is ready.
    ///
    /// # Errors
    /// With its output.
    pub fn start(&self, link: &Link<'_>, more_flags: &[String]) -> Result<Process> {
        self.start_with(link.command("env"), more_flags, IDLE_MS)
    }

    /// Starts the competitor like [`Self::start`], but it runs until it is interrupted.
    ///
    /// # Errors
    /// With its output.
    pub fn start_until_interrupted(&self, link: &Link<'_>, more_flags: &[String]) -> Result<Process> {
        self.start_with(link.command("env"), more_flags, NEVER_MS)
    }

    /// Starts a peer that counts packets between two pairs, where it sends them on until it is interrupted.
    ///
    /// # Errors
    /// With its output.
    pub fn start_forwarding(&self, wire: &Wire<'_>) -> Result<Process> {
        self.start_with(wire.command("env"), &["--forward".into(), FAR.into()], NEVER_MS)
    }

    /// `command` is env(1) in the receiver's namespace.
    fn start_with(&self, mut command: Command, more_flags: &[String], idle_ms: u64) -> Result<Process> {
        // The variables are for the program alone, not for what starts it in the namespace.
        command.args(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(&self.program).args(&self.command).arg(RECEIVER).args(&self.flags).args(more_flags);
        command.args(["--cpu", &receiver_core().to_string(), "--idle-ms", &idle_ms.to_string()]);
        Process::start(&self.name, command, ReadySign::Line("READY"))
    }

    /// Measures wirecap on the null port, which needs no network.
    ///
    /// # Errors
    /// With its output.
    pub fn measure_memory_only(&self) -> Result<Outcome> {
        let mut command = Command::new(&self.program);
        command.args(&self.command).arg(child::NULL).args(&self.flags);
        command.args(["--cpu", &receiver_core().to_string(), "--idle-ms", "100"]);
        let process = Process::start(&self.name, command, ReadySign::Line("READY"))?;
        Outcome::read(process.wait(TIMEOUT)?.json()?)
    }

    /// One run on a new link: start, send, wait for the result.
    ///
    /// # Errors
    /// If either side fails.
    pub fn measure(&self, bed: &Bed, traffic: Traffic) -> Result<Measurement> {
        let before = cores::apart_ns(SENDER_CORE, receiver_core())?;
        let link = bed.link(1)?;
        let process = self.start(&link, &[])?;
        let sent = link.send(traffic)?;
        let outcome = Outcome::read(process.wait(TIMEOUT)?.json()?)?;
        let after = cores::apart_ns(SENDER_CORE, receiver_core())?;
        Ok(Measurement {
            sent,
            outcome,
            cores_apart_ns: before.zip(after).map(|(before, after)| [before, after]),
        })
    }
}

/// The report of a competitor.
#[derive(Debug, Clone, Deserialize)]
pub struct Outcome {
    /// Packets that it read.
    pub packets: u64,
    /// Time from its first packet to its last.
    pub seconds: f64,
    /// CPU time in that span, user and system.
    pub cpu_seconds: f64,
    /// The whole report.
    #[serde(skip)]
    pub all: Value,
}

/// The sum of an engine's counters of loss. Two that peers report are none: `rx_fill_ring_empty_descs` counts
/// looks at the fill ring, whose packets are in `rx_dropped`, and `ps_ifdrop` is a counter of the interface.
pub fn counted_lost(counters: &serde_json::Map<String, Value>) -> u64 {
    let is_loss = |name: &str| name != "rx_fill_ring_empty_descs" && name != "ps_ifdrop";
    counters.iter().filter(|(name, _)| is_loss(name)).filter_map(|(_, packets)| packets.as_u64()).sum()
}

impl Outcome {
    /// Reads a report.
    ///
    /// # Errors
    /// If a field is missing.
    pub fn read(all: Value) -> Result<Self> {
        let outcome = Self::deserialize(&all).with_context(|| format!("not a result: {all}"))?;
        Ok(Self { all, ..outcome })
    }

    /// CPU time per packet in nanoseconds.
    pub fn cpu_ns_per_packet(&self) -> f64 {
        self.cpu_seconds * 1e9 / self.packets as f64
    }

    /// Packets under a cause of loss, all causes together.
    pub fn dropped(&self) -> u64 {
        self.all["dropped"].as_object().map_or(0, counted_lost)
    }

    /// The longest delay of a paced worker's wake-up, in milliseconds; not a number for those without pace.
    pub fn latest_wake_ms(&self) -> f64 {
        self.all["latest_wake_ms"].as_f64().unwrap_or(f64::NAN)
    }

    /// wirecap only: packets that no cause explains.
    pub fn unexplained(&self) -> i64 {
        self.all["unexplained"].as_i64().unwrap_or(0)
    }
}

/// Both sides of a run.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// The generator's account.
    pub sent: SendAccount,
    /// The receiver's report.
    pub outcome: Outcome,
    /// How long a cache line took from the sender's core to the receiver's, before and afterwards, in
    /// nanoseconds. `None` if they are the same.
    pub cores_apart_ns: Option<[f64; 2]>,
}

impl Measurement {
    /// Frames that were sent but not read.
    pub fn lost(&self) -> u64 {
        self.sent.frames.saturating_sub(self.outcome.packets)
    }

    /// Loss in percent of the frames sent.
    pub fn loss_percent(&self) -> f64 {
        100.0 * self.lost() as f64 / self.sent.frames as f64
    }

    /// Packets read per second. The longer of the two durations counts: libpcap hands over its first packets
    /// late and would seem faster than the generator.
    pub fn received_pps(&self) -> f64 {
        self.outcome.packets as f64 / self.outcome.seconds.max(self.sent.seconds)
    }

    /// The longer of both times in [`cores_apart_ns`](Self::cores_apart_ns). NaN without any.
    pub fn most_apart_ns(&self) -> f64 {
        self.cores_apart_ns.map_or(f64::NAN, |[before, after]| before.max(after))
    }

    /// The run as JSON, for the record.
    pub fn json(&self, kind: &str, asked_pps: Option<f64>) -> Value {
        json!({
            "kind": kind, "asked_pps": asked_pps, "sent": sent_json(&self.sent), "received": self.outcome.all,
            "lost": self.lost(), "cores_apart_ns": self.cores_apart_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measurement {
        let all = json!({
            "packets": 900, "seconds": 0.5, "cpu_seconds": 0.00018,
            "dropped": { "rx_dropped": 70, "rx_ring_full": 30, "rx_fill_ring_empty_descs": 999, "ps_ifdrop": 7 },
        });
        let sent = SendAccount { frames: 1000, taken: 1000, dropped: 0, seconds: 1.0 };
        Measurement { sent, outcome: Outcome::read(all).unwrap(), cores_apart_ns: Some([40.0, 250.0]) }
    }

    #[test]
    fn figures_of_a_run() {
        let measured = measured();
        assert_eq!((measured.lost(), measured.loss_percent()), (100, 10.0));
        assert_eq!(measured.received_pps(), 900.0, "the longer duration counts, so not 1800");
        assert!((measured.outcome.cpu_ns_per_packet() - 200.0).abs() < 1e-6);
        assert_eq!(measured.outcome.dropped(), 100);
        assert_eq!(measured.most_apart_ns(), 250.0);
        assert!(Measurement { cores_apart_ns: None, ..measured }.most_apart_ns().is_nan());
    }

    #[test]
    fn a_report_without_its_fields_is_an_error() {
        assert!(Outcome::read(json!({ "packets": 1 })).is_err());
    }
}
