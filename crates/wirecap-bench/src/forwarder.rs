//! The forwarders between the two interfaces of a [`Wire`]: programs, and the kernel by itself.
//!
//! | kind | core of its work |
//! |---|---|
//! | wirecap, the bare loop, testpmd | core 1; the kernel copies a packet into a frame on core 0, where veth receives |
//! | bridge, mirred | core 1, by receive packet steering: core 0 only makes the packet buffer |
//! | XDP redirect | core 1, by threaded NAPI: it works while receiving, which steering cannot move |
//!
//! Rule: a forwarder does all its work on one core, and the generator uses another, as far as the two can be
//! separated.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use wirecap_sys::bpf::{
    Assembler, Helper, Link, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec, Reg, XDP_ABORTED,
    XdpMode,
};

use crate::bed::receiver_core;
use crate::run::{Process, ReadySign};
use crate::wire::{FAR, NEAR, Wire};

/// The bare loop has as many frames per side as wirecap with M = 256 and R = 32, rings of the same length,
/// and the same limit of packets per send call. It ends on a signal.
const BARE_FLAGS: &str = "--frames 8192 --tx-ring 2048 --tx-budget 2048 --idle-ms 600000 --batch 256";
/// How long a program may take to end.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long testpmd takes to start its cores after it attaches its XDP programs.
const TESTPMD_START: Duration = Duration::from_secs(1);

/// A program or a kernel feature that forwards packets.
#[derive(Debug, Clone)]
pub struct Forwarder {
    /// Name in the tables.
    pub name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// `wirecap forward`, with flags.
    Wirecap(PathBuf, &'static str),
    /// The bare loop of bench/peers, with flags.
    Bare(PathBuf, &'static str),
    /// DPDK.
    Testpmd,
    /// A bridge of the kernel.
    Bridge,
    /// `tc … action mirred egress redirect`.
    Mirred,
    /// An XDP program that redirects packets.
    Redirect,
}

/// A running forwarder. Dropping it ends it.
pub enum RunningForwarder {
    /// A program, and whether its last line is JSON.
    Program(Process, bool),
    /// The kernel forwards until this is dropped.
    Kernel { _set: Set },
}

/// The configuration of a kernel forwarder; dropping it removes it. Settings of an interface go with the
/// interface.
pub enum Set {
    /// Rules of an interface.
    Rules,
    /// The command that deletes the bridge.
    Bridge(Command),
    /// Attached XDP programs.
    Programs { _links: [Link; 2] },
}

impl Drop for Set {
    fn drop(&mut self) {
        if let Self::Bridge(delete) = self {
            // If this fails, making the next bridge fails and reports it.
            let _ = delete.status();
        }
    }
}

impl Forwarder {
    /// `wirecap forward`.
    pub fn wirecap(name: &'static str, program: PathBuf, flags: &'static str) -> Self {
        Self { name, kind: Kind::Wirecap(program, flags) }
    }

    /// The bare AF_XDP loop.
    pub fn bare(name: &'static str, program: PathBuf, flags: &'static str) -> Self {
        Self { name, kind: Kind::Bare(program, flags) }
    }

    /// DPDK's testpmd, if it can run here.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn testpmd(name: &'static str) -> Result<Self> {
        testpmd_can_run()?;
        Ok(Self { name, kind: Kind::Testpmd })
    }

    /// The kernel's forwarders, which need no program.
    pub fn of_kernel() -> [Self; 3] {
        let of = |name, kind| Self { name, kind };
        [
            of("Linux bridge", Kind::Bridge),
            of("tc mirred redirect", Kind::Mirred),
            of("XDP redirect, in the kernel", Kind::Redirect),
        ]
    }

    /// Starts the forwarder and waits until it forwards.
    ///
    /// # Errors
    /// With its output.
    pub fn start(&self, wire: &Wire<'_>) -> Result<RunningForwarder> {
        match &self.kind {
            Kind::Wirecap(program, flags) => {
                let mut command = wire.pinned(&program.to_string_lossy());
                command.args(["forward", NEAR, FAR, "--json"]).args(flags.split_whitespace());
                let ready = || wire.has_programs();
                Ok(RunningForwarder::Program(
                    Process::start(self.name, command, ReadySign::When(&ready))?,
                    true,
                ))
            }
            Kind::Bare(program, flags) => {
                let mut command = wire.pinned(&program.to_string_lossy());
                command.args([NEAR, "--to", FAR]).args(BARE_FLAGS.split_whitespace());
                command.args(flags.split_whitespace());
                Ok(RunningForwarder::Program(
                    Process::start(self.name, command, ReadySign::Line("READY"))?,
                    true,
                ))
            }
            Kind::Testpmd => self.start_testpmd(wire),
            Kind::Bridge => {
                steer(wire)?;
                wire.run("ip", "link add bridge type bridge")?;
                let mut delete = wire.command("ip");
                delete.args(["link", "del", "bridge"]);
                let set = Set::Bridge(delete);
                for interface in [NEAR, FAR] {
                    wire.run("ip", &format!("link set {interface} master bridge"))?;
                }
                wire.run("ip", "link set bridge up")?;
                Ok(RunningForwarder::Kernel { _set: set })
            }
            Kind::Mirred => {
                steer(wire)?;
                for (from, to) in [(NEAR, FAR), (FAR, NEAR)] {
                    wire.run("tc", &format!("qdisc add dev {from} clsact"))?;
                    // Equivalent to `matchall`, which fewer kernels have.
                    let action = format!("u32 match u32 0 0 action mirred egress redirect dev {to}");
                    wire.run("tc", &format!("filter add dev {from} ingress protocol all {action}"))?;
                }
                Ok(RunningForwarder::Kernel { _set: Set::Rules })
            }
            Kind::Redirect => {
                let links = [(wire.near(), wire.far()), (wire.far(), wire.near())];
                let [there, back] = links.map(|(from, to)| {
                    let (from, to) = (from.ifindex()?, to.ifindex()?);
                    wire.inside(|| redirect(from, to))
                });
                let _links = [there?, back?];
                poll_in_thread(wire)?;
                Ok(RunningForwarder::Kernel { _set: Set::Programs { _links } })
            }
        }
    }

    fn start_testpmd(&self, wire: &Wire<'_>) -> Result<RunningForwarder> {
        let core = receiver_core();
        let mut command = wire.pinned(TESTPMD);
        // Both threads of testpmd share one core; the first only sleeps.
        command.args(["--lcores", &format!("0@{core},1@{core}")]).args(TESTPMD_EAL.split_whitespace());
        for (number, interface) in [NEAR, FAR].into_iter().enumerate() {
            command.args(["--vdev", &format!("net_af_xdp{number},iface={interface}")]);
        }
        command.arg("--").args(TESTPMD_FLAGS.split_whitespace());
        let process = Process::start(self.name, command, ReadySign::When(&|| wire.has_programs()))?;
        std::thread::sleep(TESTPMD_START);
        Ok(RunningForwarder::Program(process, false))
    }
}

impl RunningForwarder {
    /// Ends the forwarder and returns its output.
    ///
    /// # Errors
    /// If it fails.
    pub fn end(self) -> Result<Value> {
        match self {
            Self::Program(process, speaks_json) => {
                process.interrupt()?;
                let ended = process.wait(TIMEOUT)?;
                if speaks_json { ended.json() } else { Ok(json!({ "lines": ended.lines })) }
            }
            Self::Kernel { .. } => Ok(Value::Null),
        }
    }
}

const TESTPMD: &str = "dpdk-testpmd";
/// No huge pages, no PCI, nothing shared with other programs.
const TESTPMD_EAL: &str = "--no-huge --no-pci -m 512 --no-shconf --no-telemetry";
/// With a statistics period, testpmd runs without a terminal until it is interrupted.
const TESTPMD_FLAGS: &str =
    "--forward-mode=io --auto-start --stats-period=3600 --nb-cores=1 --total-num-mbufs=32768";

/// Whether testpmd and its AF_XDP driver are installed.
fn testpmd_can_run() -> Result<()> {
    let mut command = Command::new(TESTPMD);
    command.args(TESTPMD_EAL.split_whitespace()).args(["--vdev", "net_af_xdp0,iface=there-is-none"]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("dpdk-testpmd cannot be run; install dpdk-dev")?;
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    // An installed driver complains about the interface.
    if !said.contains("there-is-none") && !said.contains("rte_pmd_af_xdp") {
        bail!("dpdk-testpmd has no driver net_af_xdp; install librte-net-af-xdp23");
    }
    Ok(())
}

/// Has the kernel process received packets on the forwarder's core (receive packet steering).
fn steer(wire: &Wire<'_>) -> Result<()> {
    wire.set_near("queues/rx-0/rps_cpus", &format!("{:x}", 1_u64 << receiver_core()))
}

/// Has the near interface receive in a thread, on the forwarder's core.
fn poll_in_thread(wire: &Wire<'_>) -> Result<()> {
    wire.set_near("threaded", "1")?;
    let name = format!("napi/{NEAR}-");
    let mut threads: Vec<i32> = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(&name))
        })
        .collect();
    threads.sort_unstable();
    // The newest thread: another bed may have an interface of this name.
    let thread = threads.last().with_context(|| format!("no thread {name}* exists"))?;
    let mut only = CpuSet::new();
    only.set(receiver_core())?;
    sched_setaffinity(Pid::from_raw(*thread), &only).context("pin the polling thread")
}

/// Redirects all frames of one interface to the other, within the driver.
fn redirect(from: u32, to: u32) -> Result<Link> {
    let spec =
        MapSpec { kind: MapKind::DevMap, key_size: 4, value_size: 4, max_entries: 1, name: "bench_far" };
    let map = Map::create(&spec)?;
    map.update(&0_u32.to_ne_bytes(), &to.to_ne_bytes())?;
    let mut asm = Assembler::new();
    asm.load_map_fd(Reg::R1, &map)
        .mov_imm(Reg::R2, 0)
        .mov_imm(Reg::R3, XDP_ABORTED)
        .call(Helper::RedirectMap)
        .exit();
    let program = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "bench_redirect", &asm.finish()?))?;
    Ok(Link::attach_xdp(&program, from, XdpMode::Native)?)
}
