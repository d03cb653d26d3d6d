//! What is said at the start: from where frames are sent and how, and what they are like.

use wirecap_sys::xsk::BindMode;
use wirecap_traffic::{FCS_LEN, IpVersion, Popularity, QueueMade, Sizes, Transport, Unit};

use super::plan::{EngineOptions, Plan};
use crate::{exit::tell, host_use, terminal::rate};

pub(super) fn start(plan: &Plan, queues: &[QueueMade]) {
    if !plan.quiet {
        tell(engine_line(plan, queues));
        for warning in host_use::unknown(&plan.interface.name, &plan.choice.uses) {
            tell(format_args!("wirecap: WARNING: {warning}"));
        }
        tell(frames_line(plan));
    }
}

fn engine_line(plan: &Plan, queues: &[QueueMade]) -> String {
    let interface = &plan.interface;
    let driver = interface.driver.as_ref().map_or("none", |driver| &driver.name);
    let mut line = format!("wirecap: {} ({driver}), ", interface.name);
    match &plan.engine {
        EngineOptions::Live(_) => {
            line += "live frames of the kernel, as --engine live asks for; the core decides on the queue";
        }
        EngineOptions::Xdp(_) => {
            let modes: Vec<_> = queues.iter().map(queue_in_words).collect();
            line += &format!("AF_XDP transmit (works on any interface): {}", modes.join(", "));
            if let Some(why) = queues.iter().find_map(|queue| queue.fallback.as_ref()) {
                line += &format!("; zero-copy is not available: {why}");
            }
        }
    }
    if let Some(reason) = &plan.host_use {
        line += &format!("; {reason}: frames go out beside the host's own");
        if is_spared(plan, queues) {
            line += ", and zero-copy, which could disturb those, was left alone";
        }
    }
    line
}

/// Whether there could be zero-copy, and it was not tried: where it was, the reason against it is told.
fn is_spared(plan: &Plan, queues: &[QueueMade]) -> bool {
    matches!(plan.engine, EngineOptions::Xdp(_))
        && queues.iter().all(|queue| queue.mode == BindMode::Copy && queue.fallback.is_none())
}

fn queue_in_words(queue: &QueueMade) -> String {
    format!("queue {}: {}", queue.queue, mode(queue.mode))
}

pub(super) fn mode(mode: BindMode) -> &'static str {
    match mode {
        BindMode::ZeroCopy => "zero-copy",
        BindMode::Copy => "copy",
    }
}

fn frames_line(plan: &Plan) -> String {
    let frame = &plan.frame;
    let ip = if frame.ip == IpVersion::V4 { "IPv4" } else { "IPv6" };
    let transport = if frame.transport == Transport::Udp { "UDP" } else { "TCP" };
    let vlan = frame.vlan.map_or_else(String::new, |vlan| format!(", VLAN {vlan}"));
    let flows = match (plan.flows, plan.popularity) {
        (1, _) => "one flow".into(),
        (flows, Popularity::Turns) => format!("{flows} flows that take turns"),
        (flows, Popularity::Uniform) => format!("{flows} flows, each as likely"),
        (flows, Popularity::Zipf(exponent)) => {
            format!("{flows} flows, popular as Zipf with exponent {exponent} has it")
        }
    };
    format!(
        "wirecap: run {}: frames of {}, {transport} over {ip}{vlan}; {flows}; {}",
        frame.run,
        sizes(&plan.sizes),
        speed(plan)
    )
}

fn sizes(sizes: &Sizes) -> String {
    match sizes.list() {
        [size] => format!("{} bytes with FCS", size.len + FCS_LEN),
        list => {
            let parts: Vec<_> =
                list.iter().map(|size| format!("{} of {}", size.weight, size.len + FCS_LEN)).collect();
            format!("several sizes ({} bytes with FCS)", parts.join(", "))
        }
    }
}

fn speed(plan: &Plan) -> String {
    let mut words = match plan.timing.rate {
        None => "as fast as it goes".into(),
        Some(asked) => {
            let frames = rate(asked.frames_per_second(plan.sizes.mean()));
            match asked.unit {
                Unit::Frames => frames,
                Unit::Bits => format!("{:.1} Mbit/s with FCS ({frames})", asked.per_second as f64 / 1e6),
                Unit::WireBits => {
                    format!("{:.1} Mbit/s on the wire ({frames})", asked.per_second as f64 / 1e6)
                }
            }
        }
    };
    if let Some(bursts) = plan.timing.bursts {
        words += &format!(", in bursts of {} with gaps of {:?}", bursts.frames, bursts.gap);
    }
    words
}
