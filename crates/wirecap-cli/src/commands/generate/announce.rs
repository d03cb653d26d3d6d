//! The lines at the start: from where and how frames are sent, and what they are like.

use wirecap_sys::xsk::BindMode;
use wirecap_traffic::{FCS_LEN, IpVersion, Popularity, QueueReport, Sizes, Transport, Unit};

use super::plan::{EngineOptions, Plan};
use crate::text::{host_use, numbered, sending::describe, units::rate};

/// Prints the lines, one per fact.
pub(super) fn start(plan: &Plan, queues: &[QueueReport]) {
    if !plan.flags.send.quiet {
        let warnings = host_use::unknown(&plan.interface.name, &plan.choice.uses);
        of_engine(plan, queues).iter().for_each(|fact| note!("{fact}"));
        warnings.for_each(|warning| warn!("{warning}"));
        of_frames(plan).iter().for_each(|fact| note!("{fact}"));
    }
}

fn of_engine(plan: &Plan, queues: &[QueueReport]) -> Vec<String> {
    let interface = &plan.interface;
    let (name, driver) = (&interface.name, interface.driver.as_ref().map_or("none", |driver| &driver.name));
    let mut facts = Vec::new();
    match &plan.engine {
        EngineOptions::Live(_) => {
            facts.push(format!("{name} ({driver}), live frames of the kernel"));
            facts.push(format!("{name}: the core decides on the transmit queue"));
        }
        EngineOptions::Xdp(_) => {
            facts.push(format!("{name} ({driver}), AF_XDP transmit, {}", in_groups(queues)));
            let fallback = queues.iter().find_map(|queue| plan.fallback(queue));
            facts.extend(fallback.map(|fallback| format!("{name}: {}", describe(&fallback))));
        }
    }
    if let Some(reason) = &plan.host_use {
        facts.push(format!("{name}: {}: frames are sent beside the host's own", host_use::reason(reason)));
    }
    facts
}

/// Queues by mode: `queues 0-2: copy, queue 3: zero-copy`.
fn in_groups(queues: &[QueueReport]) -> String {
    let groups = [BindMode::ZeroCopy, BindMode::Copy].map(BindMode::as_str).map(|mode| {
        let alike = queues.iter().filter(|queue| queue.mode == mode);
        let numbers: Vec<_> = alike.map(|queue| queue.queue).collect();
        (!numbers.is_empty()).then(|| format!("{}: {}", numbered("queue", numbers), mode))
    });
    groups.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn of_frames(plan: &Plan) -> Vec<String> {
    let frame = &plan.frame;
    let ip = if frame.ip == IpVersion::V4 { "IPv4" } else { "IPv6" };
    let transport = if frame.transport == Transport::Udp { "UDP" } else { "TCP" };
    let vlan = frame.vlan.map_or_else(String::new, |vlan| format!(", VLAN {vlan}"));
    let flows = match (plan.flags.flows, plan.flags.popularity) {
        (1, _) => "one flow".into(),
        (flows, Popularity::RoundRobin) => format!("{flows} flows that take turns"),
        (flows, Popularity::Uniform) => format!("{flows} flows, equally likely"),
        (flows, Popularity::Zipf(exponent)) => {
            format!("{flows} flows, with a Zipf distribution of exponent {exponent}")
        }
    };
    let run = frame.run;
    vec![
        format!("run {run}: {transport} over {ip}{vlan}, {} bytes with FCS", sizes(&plan.sizes)),
        format!("run {run}: {flows}"),
        format!("run {run}: {}", speed(plan)),
    ]
}

/// `64`, or several with their shares: `7 of 64, 4 of 594, 1 of 1518`.
fn sizes(sizes: &Sizes) -> String {
    match sizes.list() {
        [size] => (size.len + FCS_LEN).to_string(),
        list => {
            let parts: Vec<_> =
                list.iter().map(|size| format!("{} of {}", size.weight, size.len + FCS_LEN)).collect();
            parts.join(", ")
        }
    }
}

fn speed(plan: &Plan) -> String {
    let mut words = match plan.timing.rate {
        None => "as fast as possible".into(),
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
