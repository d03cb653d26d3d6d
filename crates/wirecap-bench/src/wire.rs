//! The bed of `forward`: two veth pairs, and a forwarder between them.
//!
//! ```text
//!   sender's namespace, core 0         receiver's namespace, core 1                  sender's namespace
//!   generator ─► wc0 ═══ wc1 ─► (softirq, on the sender's core) ─► forwarder ─► wc2 ═══ wc3: counted, and dropped
//! ```
//!
//! Rule: the figure is the number of frames that arrive at `wc3`, by the interface's own counter. Nothing
//! listens there: `wc3` has no program and no address, and the stack drops frames for another host as soon as
//! it sees them. veth does that work on the sending core, which is the forwarder's, so it costs all
//! forwarders the same.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use wirecap_lab::{Interface, Namespace, VethOptions, VethPair};
use wirecap_sys::netdev::{self, LinkReader};
use wirecap_testing::SendAccount;

use crate::bed::{Bed, Traffic, receiver_core, send_from};

/// The interface through which frames reach the forwarder.
pub const NEAR: &str = "wc1";
/// The interface through which frames leave it.
pub const FAR: &str = "wc2";
/// After this time without a packet, none is in transit.
const QUIET: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(10);

/// The two pairs.
#[derive(Debug)]
pub struct Wire<'b> {
    sender: &'b Namespace,
    middle: &'b Namespace,
    first: VethPair,
    second: VethPair,
}

/// The frames of one run.
#[derive(Debug, Clone, Copy)]
pub struct WireCounts {
    /// The generator's account.
    pub sent: SendAccount,
    /// Frames that had arrived when the generator finished.
    pub while_sending: u64,
    /// Frames that arrived in the end.
    pub arrived: u64,
}

impl WireCounts {
    /// Frames that arrived per second while the generator ran.
    pub fn pps(&self) -> f64 {
        self.while_sending as f64 / self.sent.seconds
    }

    /// Frames that were sent but did not arrive, wherever they were lost.
    pub fn lost(&self) -> u64 {
        self.sent.frames.saturating_sub(self.arrived)
    }
}

impl<'b> Wire<'b> {
    /// Makes both pairs, up, with this number of queues each.
    ///
    /// # Errors
    /// The error of ip(8) or ethtool(8).
    pub fn new(bed: &'b Bed, queues: u32) -> Result<Self> {
        let (sender, middle) = (&bed.sender, &bed.receiver);
        let options = VethOptions { queues, ..VethOptions::default() };
        let pair = |outer, inner| VethPair::new(sender, outer, middle, inner, options.clone());
        let (first, second) = (pair("wc0", NEAR)?, pair("wc3", FAR)?);
        // Without GRO or a program, an end of a veth pair accepts no frames redirected to the other end.
        first.b().set_gro(true)?;
        second.a().set_gro(true)?;
        Ok(Self { sender, middle, first, second })
    }

    /// A command in the forwarder's namespace, not pinned.
    pub fn command(&self, program: &str) -> Command {
        self.middle.command(program)
    }

    /// A command in the forwarder's namespace, pinned to its core.
    pub fn pinned(&self, program: &str) -> Command {
        let mut command = self.command("taskset");
        command.args(["-c", &receiver_core().to_string(), program]);
        command
    }

    /// Runs a command in the forwarder's namespace to its end.
    ///
    /// # Errors
    /// With its output.
    pub fn run(&self, program: &str, arguments: &str) -> Result<()> {
        let mut command = self.command(program);
        let output = command.args(arguments.split_whitespace()).output();
        let output = output.with_context(|| format!("cannot run {program}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {arguments}: {said}");
        Ok(())
    }

    /// Runs `work` in the forwarder's namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.middle.enter(work)
    }

    /// The interface through which frames arrive.
    pub fn near(&self) -> &Interface {
        self.first.b()
    }

    /// The interface through which frames leave.
    pub fn far(&self) -> &Interface {
        self.second.b()
    }

    /// Whether both interfaces have an XDP program.
    pub fn has_programs(&self) -> bool {
        let has = |name| netdev::interface(name).is_ok_and(|interface| !interface.xdp_programs.is_empty());
        self.inside(|| has(NEAR) && has(FAR))
    }

    /// Writes a file of the near interface in /sys/class/net.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_near(&self, file: &str, value: &str) -> Result<()> {
        let path = format!("/sys/class/net/{NEAR}/{file}");
        self.inside(|| fs::write(&path, value)).with_context(|| format!("write {value} to {path}"))
    }

    /// Sends, and counts the arrivals.
    ///
    /// # Errors
    /// Those of the generator; if the counter cannot be read.
    pub fn pass(&self, traffic: Traffic) -> Result<WireCounts> {
        let from = self.first.a().ifindex()?;
        let (sent, while_sending, arrived) = self.count(|| send_from(from, traffic))?;
        Ok(WireCounts { sent, while_sending, arrived })
    }

    /// Runs `send` in the sender's namespace. Returns its result, the frames that had arrived by then, and
    /// those that arrived in the end.
    ///
    /// # Errors
    /// Those of `send`; if the counter cannot be read.
    pub fn count<T: Send>(&self, send: impl FnOnce() -> Result<T> + Send) -> Result<(T, u64, u64)> {
        let to = self.second.a().ifindex()?;
        self.sender.enter(|| {
            let mut reader = LinkReader::open()?;
            let mut count = || anyhow::Ok(reader.statistics(to)?.rx_packets);
            let before = count()?;
            let sent = send()?;
            let while_sending = count()? - before;
            let arrived = quiet(&mut count)? - before;
            Ok((sent, while_sending, arrived))
        })
    }
}

/// Waits until a counter stops growing, and returns its value.
fn quiet(count: &mut impl FnMut() -> Result<u64>) -> Result<u64> {
    let (mut last, mut since, start) = (count()?, Instant::now(), Instant::now());
    while since.elapsed() < QUIET && start.elapsed() < TIMEOUT {
        thread::sleep(Duration::from_millis(20));
        let next = count()?;
        if next != last {
            (last, since) = (next, Instant::now());
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_frames_count_neither_in_the_rate_nor_as_lost() {
        let sent = SendAccount { frames: 1000, taken: 1000, dropped: 0, seconds: 2.0 };
        let passed = WireCounts { sent, while_sending: 800, arrived: 990 };
        assert_eq!((passed.pps(), passed.lost()), (400.0, 10));
    }

    #[test]
    fn the_counter_is_read_after_it_stops_growing() {
        let mut calls = 0_u64;
        let mut count = || {
            calls += 1;
            Ok(calls.min(5))
        };
        assert_eq!(quiet(&mut count).unwrap(), 5);
    }
}
