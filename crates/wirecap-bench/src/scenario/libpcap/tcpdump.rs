//! Unmodified `tcpdump -w` on the system's libpcap and on wirecap: to /dev/null, which shows the library, and
//! to memory; one queue and four. All threads of tcpdump are on one core.
//!
//! | queues | generator | what is compared |
//! |---|---|---|
//! | 1 | frames in the kernel, to queue 0 | the highest lossless rate |
//! | 4, one of them used | the same | the highest lossless rate |
//! | 4 | an AF_XDP socket for each queue | CPU time: both get all that this generator makes |
//!
//! On veth the first generator cannot choose the queue. The second one makes fewer packets, and fewer still
//! for a receiver by XDP, for which veth copies each of them once more.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::json;
use wirecap_lab::table::{Table, millions, verdict};
use wirecap_traffic::FrameSpec;

use super::{
    super::{
        Context, FCS_BYTES, SHORT_FRAME, figures, measured, one_queue, ratios, wirecap_path, write::Scratch,
    },
    target,
};
use crate::{
    arguments::Scenario,
    bed::{Amount, FLOWS, Link, Traffic},
    run::wait_until_quiet,
    search::{self, Rated, Rates},
    sender::PacedSender,
    stats::{Summary, show},
    tcpdump::{Library, Tcpdump},
};

const BUFFER_KIB: u32 = 65_536;
const TOOLS: [Tcpdump; 2] = [
    Tcpdump { library: Library::Wirecap, buffer_kib: Some(BUFFER_KIB) },
    Tcpdump { library: Library::System, buffer_kib: Some(BUFFER_KIB) },
];
const ON_WIRECAP: usize = 0;
const ON_LIBPCAP: usize = 1;

const FRAMES: [usize; 2] = [SHORT_FRAME, 512 - FCS_BYTES];
const LOADS: [Load; 3] = [Load::OneQueue, Load::OneOfFour, Load::Four];
/// Packets per second to four queues together: more than the generator makes.
const FULL_SPEED_PPS: f64 = 4_000_000.0;
/// How long tcpdump may take to end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Which queues there are, and which get packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    OneQueue,
    OneOfFour,
    Four,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::OneQueue => "one queue",
            Self::OneOfFour => "four queues, one of them used",
            Self::Four => "four queues",
        }
    }

    fn queues(self) -> u32 {
        if self == Self::OneQueue { 1 } else { 4 }
    }

    /// The part of libpcap's lossless rate that has to be reached with frames of this length; `None` if the
    /// generator decides on it.
    fn target(self, frame_len: usize) -> Option<f64> {
        (self != Self::Four).then(|| target(frame_len))
    }
}

/// Where a file is written.
#[derive(Debug, Clone, Copy)]
struct Place<'p> {
    name: &'static str,
    /// `None`: /dev/null.
    directory: Option<&'p Path>,
}

/// One run of tcpdump.
struct Run {
    sent: u64,
    seconds: f64,
    captured: u64,
    cpu: Duration,
}

impl Rated for Run {
    fn sent_pps(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.captured)
    }
}

impl Run {
    fn captured_pps(&self) -> f64 {
        self.captured as f64 / self.seconds
    }

    fn lost_percent(&self) -> f64 {
        100.0 * self.lost() as f64 / self.sent as f64
    }

    fn cpu_ns_per_packet(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.captured as f64
    }
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let memory = context.arguments.tmpfs.clone();
    let places = [
        Place { name: "/dev/null", directory: None },
        Place { name: "memory", directory: Some(memory.as_path()) },
    ];
    for place in places {
        for load in LOADS {
            for frame_len in FRAMES {
                one(context, place, load, frame_len)?;
            }
        }
    }
    Ok(())
}

fn one(context: &mut Context, place: Place<'_>, load: Load, frame_len: usize) -> Result<()> {
    let bytes = frame_len + FCS_BYTES;
    let what = format!("to {}, {}, {bytes}-byte frames", place.name, load.name());
    let name = |tool: &Tcpdump| format!("{} {what}", tool.name());
    let results = context.rounds(Scenario::Libpcap, &TOOLS, name, |context, tool, round| {
        search::rates(context.precision(), |rate_pps| {
            let run = write(context, *tool, place, (load, frame_len), rate_pps)?;
            let kept = json!({
                "asked_pps": rate_pps, "sent": run.sent, "seconds": run.seconds, "captured": run.captured,
                "cpu_seconds": run.cpu.as_secs_f64(),
            });
            context.keep(Scenario::Libpcap, &name(tool), round, &kept)?;
            Ok(run)
        })
    })?;
    let columns =
        ["tool", "offered Mpps", "captured Mpps", "loss %", "CPU ns/packet", "highest lossless Mpps"];
    let mut table = Table::new(format!("tcpdump {what}"), &columns);
    for (tool, rounds) in measured(&TOOLS, &results) {
        let summary = |figure: &dyn Fn(&Rates<Run>) -> f64| Summary::of(figures(rounds, figure));
        table.row([
            tool.name(),
            show(summary(&|round| millions(round.full_speed.sent_pps())), 2),
            show(summary(&|round| millions(round.full_speed.captured_pps())), 2),
            show(summary(&|round| round.full_speed.lost_percent()), 2),
            show(summary(&|round| round.full_speed.cpu_ns_per_packet()), 0),
            show(summary(&|round| millions(round.lossless_pps)), 3),
        ]);
    }
    context.record.table(&table)?;
    if results[ON_WIRECAP].is_empty() || results[ON_LIBPCAP].is_empty() {
        return Ok(());
    }
    let of_libpcap = |figure: &dyn Fn(&Rates<Run>) -> f64| {
        Summary::of(ratios(&results[ON_WIRECAP], &results[ON_LIBPCAP], figure))
    };
    let rate = of_libpcap(&|round| round.lossless_pps);
    let least = load.target(frame_len);
    let mut table = Table::new(
        format!("tcpdump {what}: ratios within each round, with the target in brackets"),
        &["lossless rate, of libpcap's", "CPU, of libpcap's", "reached"],
    );
    table.row([
        format!("{}{}", show(rate, 2), least.map_or_else(String::new, |least| format!(" [{least}]"))),
        show(of_libpcap(&|round| round.full_speed.cpu_ns_per_packet()), 2),
        least.map_or_else(|| "–".into(), |least| verdict(one_queue::is_at_least(rate, least))),
    ]);
    context.record.table(&table)
}

fn write(
    context: &Context,
    tool: Tcpdump,
    place: Place<'_>,
    (load, frame_len): (Load, usize),
    rate_pps: Option<f64>,
) -> Result<Run> {
    let scratch = place
        .directory
        .map(|directory| Scratch(directory.join(format!("wirecap-bench-{}.pcap", std::process::id()))));
    let file = scratch.as_ref().map_or_else(|| PathBuf::from("/dev/null"), |scratch| scratch.0.clone());
    let link = context.bed.link(load.queues())?;
    let process = tool.start(&link, &wirecap_path(context)?, &file)?;
    let before = process.cpu_time()?;
    let (sent, seconds) = send(&link, (load, frame_len), rate_pps, context.run_time())?;
    // It has written everything when it no longer uses the processor.
    wait_until_quiet(|| process.cpu_time().ok());
    let cpu = process.cpu_time()? - before;
    process.interrupt()?;
    let captured = Tcpdump::captured(&process.wait(TIMEOUT)?)?;
    Ok(Run { sent, seconds, captured, cpu })
}

/// Sends; returns the frames and how long it took, in seconds.
fn send(
    link: &Link<'_>,
    (load, frame_len): (Load, usize),
    rate_pps: Option<f64>,
    duration: Duration,
) -> Result<(u64, f64)> {
    if load != Load::Four {
        let sent = link.send(Traffic { frame_len, rate_pps, amount: Amount::For(duration) })?;
        return Ok((sent.frames, sent.seconds));
    }
    let rate_pps = rate_pps.unwrap_or(FULL_SPEED_PPS).min(FULL_SPEED_PPS);
    let rates = vec![(rate_pps / f64::from(load.queues())).max(1.0) as u32; load.queues() as usize];
    let frame = FrameSpec { len: frame_len, ..FrameSpec::default() };
    link.with_sender(|ifindex| {
        let mut sender = PacedSender::open(ifindex, &rates, frame, FLOWS)?;
        let start = Instant::now();
        let paced = sender.run(duration, |_, _| ())?;
        Ok((paced.sent.iter().sum(), start.elapsed().as_secs_f64()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_tools_are_right() {
        assert_eq!(TOOLS[ON_WIRECAP].name(), "wirecap run tcpdump -w -B 65536");
        assert_eq!(TOOLS[ON_LIBPCAP].name(), "tcpdump -w -B 65536");
        assert_eq!(FRAMES.map(|len| Load::OneOfFour.target(len)), [Some(2.0), Some(1.0)]);
        assert_eq!(Load::Four.target(SHORT_FRAME), None);
    }

    #[test]
    fn figures_of_a_run() {
        let run = Run { sent: 1000, seconds: 0.5, captured: 900, cpu: Duration::from_micros(90) };
        assert_eq!((run.lost(), run.sent_pps(), run.captured_pps()), (100, 2000.0, 1800.0));
        assert_eq!((run.lost_percent(), run.cpu_ns_per_packet()), (10.0, 100.0));
    }
}
