//! The test bed: two network namespaces on a veth pair, the generator on one core, the receiver on another.
//!
//! ```text
//!   core 0                                                   core 1
//!   generator ─► tx ═══ veth ═══ rx queue ─► (softirq, on the sender's core) ─► ring ─► receiver
//! ```
//!
//! Rule: each measurement has its own pair, without any state of the run before. The receiving end has GRO
//! on: without an XDP program it accepts redirected frames only then, and libpcap is measured in its best
//! case.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_sys::{
    bpf::{self, Assembler, Program, ProgramKind, ProgramSpec, Reg, XDP_DROP, XdpMode},
    cpu,
    netdev::{self, LinkStatistics},
};
use wirecap_testing::{LiveSender, SendAccount};
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::machine;

/// Name of the receiving interface.
pub const RECEIVER: &str = "wc1";
/// Name of the sending interface.
pub const SENDER: &str = "wc0";
/// Core of the generator; on veth the receive softirq, too.
pub const SENDER_CORE: usize = 0;
/// Flows of the generators.
pub const FLOWS: u32 = 4096;

/// Core of the receiver.
pub fn receiver_core() -> usize {
    1.min(machine::cores() - 1)
}

/// How much to send.
#[derive(Debug, Clone, Copy)]
pub enum Amount {
    /// A number of frames.
    Frames(u64),
    /// A duration.
    For(Duration),
}

/// Traffic to queue 0.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// Frame length in bytes, without FCS.
    pub frame_len: usize,
    /// Frames per second; `None` means as fast as possible.
    pub rate_pps: Option<f64>,
    /// How much to send.
    pub amount: Amount,
}

/// The two namespaces.
#[derive(Debug)]
pub struct Bed {
    /// The namespace of the generator.
    pub sender: Namespace,
    /// The namespace of the tools.
    pub receiver: Namespace,
}

/// One veth pair on the bed.
#[derive(Debug)]
pub struct Link<'b> {
    bed: &'b Bed,
    pair: VethPair,
}

impl Bed {
    /// Makes the namespaces. Needs root.
    ///
    /// # Errors
    /// The error of ip(8).
    pub fn new() -> Result<Self> {
        let made = || Ok::<_, wirecap_lab::Error>((Namespace::new("send")?, Namespace::new("receive")?));
        let (sender, receiver) =
            made().context("cannot make network namespaces; the benchmarks need root")?;
        Ok(Self { sender, receiver })
    }

    /// Makes a new pair with `queues` queues.
    ///
    /// # Errors
    /// The error of ip(8) or ethtool(8).
    pub fn link(&self, queues: u32) -> Result<Link<'_>> {
        let options = VethOptions { queues, ..VethOptions::default() };
        let pair = VethPair::new(&self.sender, SENDER, &self.receiver, RECEIVER, options)?;
        pair.b().set_gro(true)?;
        Ok(Link { bed: self, pair })
    }
}

impl Link<'_> {
    /// A command on the receiving side, not pinned.
    pub fn command(&self, program: &str) -> Command {
        self.bed.receiver.command(program)
    }

    /// A command on the receiving side, pinned to the receiver's core.
    pub fn pinned(&self, program: &str) -> Command {
        let mut command = self.bed.receiver.command("taskset");
        command.args(["-c", &receiver_core().to_string(), program]);
        command
    }

    /// A command on the sending side, pinned to the sender's core. The interface there is [`SENDER`].
    pub fn sender(&self, program: &str) -> Command {
        let mut command = self.bed.sender.command("taskset");
        command.args(["-c", &SENDER_CORE.to_string(), program]);
        command
    }

    /// Drops all arriving frames in XDP while the returned link is held: the cheapest receiver.
    ///
    /// # Errors
    /// If the program cannot be loaded or attached.
    pub fn drop_all(&self) -> Result<bpf::Link> {
        let mut asm = Assembler::new();
        asm.mov_imm(Reg::R0, XDP_DROP).exit();
        let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "drop_all", &asm.finish()?))?;
        let ifindex = self.pair.b().ifindex()?;
        Ok(self.bed.receiver.enter(|| bpf::Link::attach_xdp(&program, ifindex, XdpMode::Native))?)
    }

    /// Frames sent so far, by the counters of the sending interface.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn transmitted(&self) -> Result<u64> {
        let ifindex = self.pair.a().ifindex()?;
        let statistics = self.bed.sender.enter(|| LinkStatistics::of_index(ifindex))?;
        Ok(statistics.tx_packets)
    }

    /// Whether an XDP program is attached to the receiving end.
    pub fn has_program(&self) -> bool {
        let interface = self.bed.receiver.enter(|| netdev::interface(RECEIVER));
        interface.is_ok_and(|interface| !interface.xdp_programs.is_empty())
    }

    /// Sends from the kernel's live-frame generator; blocks until done.
    ///
    /// # Errors
    /// Those of the generator.
    pub fn send(&self, traffic: Traffic) -> Result<SendAccount> {
        let ifindex = self.pair.a().ifindex()?;
        self.bed.sender.enter(|| send_from(ifindex, traffic))
    }

    /// Runs `work` in the sender's namespace, on the sender's core, with the index of the sending interface.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn with_sender<T: Send>(&self, work: impl FnOnce(u32) -> Result<T> + Send) -> Result<T> {
        let ifindex = self.pair.a().ifindex()?;
        self.on_sender_core(|| work(ifindex))
    }

    fn on_sender_core<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.bed.sender.enter(|| {
            go_to_sender_core()?;
            work()
        })
    }
}

fn go_to_sender_core() -> Result<()> {
    cpu::pin_to_core(SENDER_CORE)?;
    cpu::precise_sleeps();
    Ok(())
}

/// Sends from the kernel's live-frame generator through an interface of this thread's namespace; blocks until
/// done. Pins the thread to the sender's core.
///
/// # Errors
/// Those of the generator.
pub fn send_from(ifindex: u32, traffic: Traffic) -> Result<SendAccount> {
    go_to_sender_core()?;
    let Traffic { frame_len, rate_pps, amount } = traffic;
    let options = LiveOptions {
        frame: FrameSpec { len: frame_len, ..FrameSpec::default() },
        flows: FLOWS,
        ..LiveOptions::default()
    };
    let mut sender = LiveSender::new(ifindex, options)?;
    if let Some(rate) = rate_pps.filter(|&rate| rate >= 1.0) {
        sender = sender.at(rate as u64);
    }
    Ok(match amount {
        Amount::Frames(frames) => sender.run(frames)?,
        Amount::For(duration) => sender.run_for(duration)?,
    })
}

/// The generator's account, for the record.
pub fn sent_json(sent: &SendAccount) -> Value {
    json!({ "frames": sent.frames, "taken": sent.taken, "dropped": sent.dropped, "seconds": sent.seconds })
}
