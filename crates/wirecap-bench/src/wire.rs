//! The bed of `forward`: two veth pairs, and a forwarder between them.
//!
//! ```text
//!   sender's namespace, core 0         receiver's namespace, core 1                  sender's namespace
//!   generator ─► wc0 ═══ wc1 ─► (softirq, on the sender's core) ─► forwarder ─► wc2 ═══ wc3: counted, and dropped
//! ```
//!
//! Rule: what arrives at `wc3` counts, by the interface's own counter. Nothing listens there: it has no
//! program and no address, and the stack drops frames for another host as soon as it sees them. veth does
//! that work, too, on the core that sends, which is the forwarder's: all forwarders pay for it alike.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use wirecap_lab::{Interface, Namespace, VethOptions, VethPair};
use wirecap_sys::netdev::{self, LinkReader};
use wirecap_testing::Sent;

use crate::bed::{Bed, Traffic, receiver_core, send_from};

/// By which interface frames come to the forwarder.
pub const NEAR: &str = "wc1";
/// By which they leave it.
pub const FAR: &str = "wc2";
/// After this time without a packet, none is on its way.
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

/// What became of the frames of one run.
#[derive(Debug, Clone, Copy)]
pub struct Passed {
    /// The generator's account.
    pub sent: Sent,
    /// Frames that had arrived when the generator was through.
    pub while_sending: u64,
    /// Frames that arrived in the end.
    pub arrived: u64,
}

impl Passed {
    /// Frames that arrived per second while the generator ran.
    pub fn pps(&self) -> f64 {
        self.while_sending as f64 / self.sent.seconds
    }

    /// Frames that were sent and did not arrive, wherever they were lost.
    pub fn lost(&self) -> u64 {
        self.sent.frames.saturating_sub(self.arrived)
    }
}

impl<'b> Wire<'b> {
    /// Both pairs, up, one queue each.
    ///
    /// # Errors
    /// The error of ip(8) or ethtool(8).
    pub fn new(bed: &'b Bed) -> Result<Self> {
        let (sender, middle) = (&bed.sender, &bed.receiver);
        let pair = |outer, inner| VethPair::new(sender, outer, middle, inner, VethOptions::default());
        let (first, second) = (pair("wc0", NEAR)?, pair("wc3", FAR)?);
        // Without it, or a program, an end of a veth pair takes no frames that were redirected to the other.
        first.b().set_gro(true)?;
        second.a().set_gro(true)?;
        Ok(Self { sender, middle, first, second })
    }

    /// A command where the forwarder is, not bound.
    pub fn command(&self, program: &str) -> Command {
        self.middle.command(program)
    }

    /// A command where the forwarder is, on its core.
    pub fn pinned(&self, program: &str) -> Command {
        let mut command = self.command("taskset");
        command.args(["-c", &receiver_core().to_string(), program]);
        command
    }

    /// Runs a command where the forwarder is, to its end.
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

    /// Runs `work` where the forwarder is.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.middle.enter(work)
    }

    /// The interface by which frames come.
    pub fn near(&self) -> &Interface {
        self.first.b()
    }

    /// The interface by which they leave.
    pub fn far(&self) -> &Interface {
        self.second.b()
    }

    /// Whether both interfaces have an XDP program.
    pub fn has_programs(&self) -> bool {
        let has = |name| netdev::interface(name).is_ok_and(|interface| !interface.xdp_programs.is_empty());
        self.inside(|| has(NEAR) && has(FAR))
    }

    /// Sets a file of the near interface in /sys/class/net.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_near(&self, file: &str, value: &str) -> Result<()> {
        let path = format!("/sys/class/net/{NEAR}/{file}");
        self.inside(|| fs::write(&path, value)).with_context(|| format!("write {value} to {path}"))
    }

    /// Sends, and looks what arrives.
    ///
    /// # Errors
    /// Those of the generator; if the counter cannot be read.
    pub fn pass(&self, traffic: Traffic) -> Result<Passed> {
        let (from, to) = (self.first.a().ifindex()?, self.second.a().ifindex()?);
        self.sender.enter(|| {
            let mut reader = LinkReader::open()?;
            let mut count = || anyhow::Ok(reader.statistics(to)?.rx_packets);
            let before = count()?;
            let sent = send_from(from, traffic)?;
            let while_sending = count()? - before;
            let arrived = quiet(&mut count)? - before;
            Ok(Passed { sent, while_sending, arrived })
        })
    }
}

/// Waits until a counter stands still, and reads it.
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
    fn what_arrives_later_is_no_rate_and_no_loss() {
        let sent = Sent { frames: 1000, taken: 1000, dropped: 0, seconds: 2.0 };
        let passed = Passed { sent, while_sending: 800, arrived: 990 };
        assert_eq!((passed.pps(), passed.lost()), (400.0, 10));
    }

    #[test]
    fn a_counter_is_read_when_it_stands_still() {
        let mut calls = 0_u64;
        let mut count = || {
            calls += 1;
            Ok(calls.min(5))
        };
        assert_eq!(quiet(&mut count).unwrap(), 5);
    }
}
