//! Sends bursts of numbered frames into an interface of this network namespace, as fast as they go. Needs root.
//!
//! `cargo run --release -p wirecap-traffic --example burst IFACE FRAMES [BURSTS] [PAUSE_MS]`
//!
//! Sequence numbers go on from burst to burst. Each burst is sent from the next core, and on a veth pair so comes in by
//! the next receive queue, since the kernel chooses that by the sender's core. The other end of a veth pair has to take
//! XDP frames: it does with an XDP program of its own, or after `ethtool -K PEER gro on`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::thread;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use wirecap_traffic::{FrameSpec, LiveGenerator, LiveOptions};

const USAGE: &str = "usage: burst IFACE FRAMES [BURSTS] [PAUSE_MS]";
const THIS_THREAD: Pid = Pid::from_raw(0);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let interface = arguments.next().ok_or(USAGE)?;
    let frames: u64 = arguments.next().ok_or(USAGE)?.parse()?;
    let bursts = arguments.next().map_or(Ok(1), |bursts| bursts.parse::<usize>())?;
    let pause = Duration::from_millis(arguments.next().map_or(Ok(0), |millis| millis.parse())?);

    let ifindex = if_nametoindex(interface.as_str())?;
    let frame = FrameSpec { len: 200, ..FrameSpec::default() };
    let mut generator = LiveGenerator::new(ifindex, LiveOptions { frame, ..LiveOptions::default() })?;
    for core in cores()?.into_iter().cycle().take(bursts) {
        stay_on(core)?;
        let sent = generator.run(frames)?;
        println!(
            "{} frames in {:.1} ms ({:.2} Mpps) from core {core}; {} taken, {} dropped by {interface}",
            sent.frames,
            sent.seconds * 1e3,
            sent.frames_per_second() / 1e6,
            sent.taken,
            sent.dropped
        );
        thread::sleep(pause);
    }
    Ok(())
}

/// The cores this process may use.
fn cores() -> nix::Result<Vec<usize>> {
    let allowed = sched_getaffinity(THIS_THREAD)?;
    Ok((0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false)).collect())
}

fn stay_on(core: usize) -> nix::Result<()> {
    let mut only = CpuSet::new();
    only.set(core)?;
    sched_setaffinity(THIS_THREAD, &only)
}
