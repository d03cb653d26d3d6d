//! How fast the live generator is on this machine: into a veth pair whose other end drops. Needs root.
//!
//! `cargo run --release -p wirecap-traffic --example live_rate [BYTES] [SECONDS]`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use wirecap_lab::{Namespace, VethOptions, VethPair};
use wirecap_sys::bpf::{Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XDP_DROP, XdpMode};
use wirecap_traffic::{FrameSpec, IpVersion, LiveGenerator, LiveOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let len = arguments.next().map_or(Ok(60), |bytes| bytes.parse())?;
    let seconds = arguments.next().map_or(Ok(2), |seconds| seconds.parse())?;

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
        let len = if ip == IpVersion::V6 { usize::max(len, 74) } else { len };
        for batch in [64, 256] {
            let frame = FrameSpec { len, ip, ..FrameSpec::default() };
            let options = LiveOptions { frame, batch, ..LiveOptions::default() };
            let mut generator = left.enter(|| LiveGenerator::new(sender, options))?;
            let sent = left.enter(|| generator.run_for(Duration::from_secs(seconds)))?;
            let (rate, lost) = (sent.frames_per_second() / 1e6, sent.frames - sent.taken.min(sent.frames));
            println!(
                "{name} {len} bytes, batch {batch}: {rate:.2} Mpps, {} frames, {lost} not taken",
                sent.frames
            );
        }
    }
    Ok(())
}
