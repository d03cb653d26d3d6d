//! The cheapest receivers: an XDP program that counts packets and drops them, or passes them to the host, in
//! the protocol of the peers.
//!
//! ```text
//!   wirecap-bench __xdp IFACE … ──► READY on stderr ──► reads the counter until idle or signalled ──► one JSON line
//! ```
//!
//! Rule: no packet reaches this process. Its CPU time is that of reading the counter once per `PAUSE`.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use serde_json::json;
use wirecap_sys::{
    bpf::{
        Assembler, Error, Link, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec, Reg, Size,
        XDP_DROP, XDP_PASS, XdpMode,
    },
    cpu, netdev,
};
use wirecap_testing::cpu_time;

use super::{PAUSE, end_flag, tally::Tally};

/// First argument of this child.
pub const COMMAND: &str = "__xdp";

#[derive(Debug, Parser)]
#[command(name = "wirecap-bench __xdp")]
struct Arguments {
    /// Interface.
    interface: String,
    /// Packets go to the host.
    #[arg(long)]
    pass: bool,
    /// Core of the process.
    #[arg(long)]
    cpu: Option<usize>,
    /// The child stops this long after the last packet.
    #[arg(long, default_value_t = 500)]
    idle_ms: u64,
}

/// Runs the child, given the arguments after [`COMMAND`].
///
/// # Errors
/// If the program cannot be loaded or attached.
pub fn main(arguments: impl Iterator<Item = String>) -> Result<()> {
    let arguments = Arguments::parse_from(std::iter::once(COMMAND.to_owned()).chain(arguments));
    if let Some(core) = arguments.cpu {
        cpu::pin_to_core(core)?;
    }
    let signalled = end_flag()?;
    let counter = counter()?;
    let (peer, action) = if arguments.pass { ("xdp_pass", XDP_PASS) } else { ("xdp_drop", XDP_DROP) };
    let program = load(&counter, action)?;
    let ifindex = netdev::interface(&arguments.interface)?.ifindex;
    let _attached = Link::attach_xdp(&program, ifindex, XdpMode::Native)?;
    eprintln!("READY");

    let idle = Duration::from_millis(arguments.idle_ms);
    let (mut tally, mut last) = (Tally::default(), None);
    let stopped_by = loop {
        let (now, new) = (Instant::now(), read(&counter)? - tally.packets);
        if new > 0 {
            tally.begin(now);
            tally.add(new as usize, 0, now);
            last = Some(now);
        } else {
            tally.pause();
        }
        if signalled.load(Ordering::Relaxed) {
            break "signal";
        }
        if last.is_some_and(|last| now.duration_since(last) >= idle) {
            break "idle";
        }
        thread::sleep(PAUSE);
    };
    tally.pause();
    let result = json!({
        "peer": peer,
        "mode": "native",
        "buffer_bytes": 0,
        "packets": tally.packets,
        "seconds": tally.seconds(),
        "cpu_seconds": tally.cpu_seconds(),
        "cpu_seconds_process": cpu_time::process_cpu_seconds(),
        "stopped_by": stopped_by,
        "left_in_ring": 0,
        "dropped": {},
    });
    println!("{result}");
    Ok(())
}

/// Where the program counts packets.
fn counter() -> Result<Map, Error> {
    let kind = MapKind::Array;
    Map::create(&MapSpec { kind, key_size: 4, value_size: 8, max_entries: 1, name: "bench_counted" })
}

fn load(counter: &Map, action: i32) -> Result<Program, Error> {
    let mut asm = Assembler::new();
    asm.load_map_value(Reg::R1, counter, 0).mov_imm(Reg::R2, 1);
    // Atomic: an interface may have several receive queues.
    asm.atomic_add(Size::Double, Reg::R1, 0, Reg::R2);
    asm.mov_imm(Reg::R0, action).exit();
    Program::load(&ProgramSpec::new(ProgramKind::Xdp, "bench_count", &asm.finish()?))
}

fn read(counter: &Map) -> Result<u64, Error> {
    let value = counter.lookup(&0_u32.to_ne_bytes())?.expect("an array has all its entries");
    Ok(u64::from_ne_bytes(value.try_into().expect("a value of eight bytes")))
}
