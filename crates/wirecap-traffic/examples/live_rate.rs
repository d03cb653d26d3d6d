//! How fast the live generator is on this machine: into a veth pair whose other end drops. Needs root.
//!
//! `cargo run --release -p wirecap-traffic --example live_rate [BYTES] [SECONDS]`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_sys::bpf::{Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XDP_DROP, XdpMode};
use wirecap_testing::{LiveSender, SendAccount};
use wirecap_traffic::{FrameSpec, IpVersion, LiveOptions};

const WINDOW: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let len = arguments.next().map_or(Ok(60), |bytes| bytes.parse())?;
    let seconds = arguments.next().map_or(Ok(2), |seconds| seconds.parse::<usize>())?;

    let (left, right) = (Namespace::new("rate_l")?, Namespace::new("rate_r")?);
    let veth = VethPair::new(&left, "l0", &right, "r0", VethOptions { mtu: 3500, ..VethOptions::default() })?;
    let mut asm = Assembler::new();
    asm.mov_imm(Reg::R0, XDP_DROP).exit();
    let insns = asm.finish()?;
    let drop_all = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "drop_all", &insns))?;
    let receiver = veth.b().ifindex()?;
    let _link = right.enter(|| Link::attach_xdp(&drop_all, receiver, XdpMode::Native))?;

    let sender = veth.a().ifindex()?;
    for (ip, name) in [(IpVersion::V4, "IPv4"), (IpVersion::V6, "IPv6")] {
        // IPv6 headers are longer.
        let len = if ip == IpVersion::V6 { usize::max(len, 80) } else { len };
        for batch in [64, 256] {
            let frame = FrameSpec { len, ip, ..FrameSpec::default() };
            let options = LiveOptions { frame, batch, ..LiveOptions::default() };
            let mut generator = left.enter(|| LiveSender::new(sender, options))?;
            let windows: Vec<SendAccount> = left.enter(|| {
                let window = || generator.run_for(WINDOW);
                std::iter::repeat_with(window).take(10 * seconds).collect::<Result<_, _>>()
            })?;
            report(name, len, batch, &windows);
        }
    }
    Ok(())
}

/// The best window beside the mean: other work on the machine takes from the mean only.
fn report(name: &str, len: usize, batch: u32, windows: &[SendAccount]) {
    let frames: u64 = windows.iter().map(|sent| sent.frames).sum();
    let taken: u64 = windows.iter().map(|sent| sent.taken).sum();
    let time: f64 = windows.iter().map(|sent| sent.seconds).sum();
    let best = windows.iter().map(SendAccount::frames_per_second).fold(0.0, f64::max);
    let (mean, best) = (frames as f64 / time / 1e6, best / 1e6);
    println!(
        "{name} {len} bytes, batch {batch}: mean {mean:.2}, best {best:.2} Mpps; {frames} sent, {taken} taken"
    );
}
