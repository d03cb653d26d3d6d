//! Where the time of a packet goes: CPU cycles by stage, found by switching on one stage after the other (as
//! paper 001, "Profiling and optimization of software-based network-analysis applications", Figures 6 and 9).
//!
//! ```text
//!   sender's core    generator, driver │ host's stack │ program, filter │ record, time │ copy ►│
//!   receiver's core                                                                            │► hand-over │ reading
//! ```
//!
//! veth does the receive work on the sender's core, which is never idle: the time between two packets is what
//! they cost there. A stage is the difference of two such times, one with it and one without.

use std::thread;

use anyhow::Result;
use serde_json::json;
use wirecap_bench::{
    bed::{Amount, Traffic},
    competitor::{Competitor, Outcome},
    stats::Summary,
};
use wirecap_lab::table::Table;
use wirecap_report::{Axis, Chart, Plot, Series};

use crate::{
    arguments::Experiment,
    laboratory::Laboratory,
    trial::{DRAIN, TIMEOUT},
};

/// Rounds, unless `--rounds` says more: differences of times need more of them than losses.
const LEAST_ROUNDS: u32 = 5;
/// Bytes of a frame without its FCS, and how the titles call it.
const FRAMES: [(usize, &str); 2] = [(60, "64-byte frames"), (1496, "1,500-byte frames")];
/// How long each setting is measured.
const SECONDS: u64 = 1;
const PACKED: &str = "-M 256 -R 128 --dispatch pull --wait sleep --xdp-mode packed";
const CELLS: &str = "-M 256 -R 128 --dispatch pull --wait sleep --timestamp batch";
const BLOCKS: &str = "--block-kib 1024 --blocks 64";

/// What receives the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// A program of one instruction drops them.
    Drop,
    /// The host's stack drops them.
    Stack,
    /// wirecap's program, whose filter matches none of them.
    PackedFilter,
    /// Packed without a time of their own; not read.
    PackedCopy,
    /// With their times; not read.
    PackedTime,
    /// The same, and read.
    PackedRead,
    /// The same filter, in front of AF_XDP.
    CellsFilter,
    /// Copied into cells by AF_XDP; not read.
    CellsCopy,
    /// The same, and read.
    CellsRead,
    /// TPACKET_V3 with a filter that matches none of them.
    TpacketFilter,
    /// One byte of each is kept: all but the copy; not read.
    TpacketRecord,
    /// All of each is kept; not read.
    TpacketCopy,
    /// The same, and read.
    TpacketRead,
    /// libpcap; not read.
    LibpcapCopy,
    /// The same, and read.
    LibpcapRead,
}

impl Setting {
    const ALL: [Self; 15] = [
        Self::Drop,
        Self::Stack,
        Self::PackedFilter,
        Self::PackedCopy,
        Self::PackedTime,
        Self::PackedRead,
        Self::CellsFilter,
        Self::CellsCopy,
        Self::CellsRead,
        Self::TpacketFilter,
        Self::TpacketRecord,
        Self::TpacketCopy,
        Self::TpacketRead,
        Self::LibpcapCopy,
        Self::LibpcapRead,
    ];

    /// The program that receives; `None` if the kernel alone does. The generator's frames are UDP.
    fn competitor(self, laboratory: &Laboratory) -> Result<Option<Competitor>> {
        let wirecap = |flags: &str| Competitor::wirecap("wirecap", flags).map(Some);
        let peer =
            |program: &str, flags: &str| Ok(Some(laboratory.peers().competitor(program, program, flags)));
        match self {
            Self::Drop | Self::Stack => Ok(None),
            Self::PackedFilter => wirecap(&format!("{PACKED} --filter tcp")),
            Self::PackedCopy => wirecap(&format!("{PACKED} --filter udp --timestamp batch --untouched")),
            Self::PackedTime => wirecap(&format!("{PACKED} --filter udp --untouched")),
            Self::PackedRead => wirecap(&format!("{PACKED} --filter udp")),
            Self::CellsFilter => wirecap(&format!("{CELLS} --filter tcp")),
            Self::CellsCopy => wirecap(&format!("{CELLS} --filter udp --untouched")),
            Self::CellsRead => wirecap(&format!("{CELLS} --filter udp")),
            Self::TpacketFilter => peer("tpacket_count", &format!("{BLOCKS} --protocol 6")),
            Self::TpacketRecord => {
                peer("tpacket_count", &format!("{BLOCKS} --protocol 17 --snaplen 1 --touch 0"))
            }
            Self::TpacketCopy => peer("tpacket_count", &format!("{BLOCKS} --protocol 17 --touch 0")),
            Self::TpacketRead => peer("tpacket_count", &format!("{BLOCKS} --protocol 17")),
            Self::LibpcapCopy => peer("pcap_count", "--buffer-mib 64 --touch 0"),
            Self::LibpcapRead => peer("pcap_count", "--buffer-mib 64"),
        }
    }
}

/// What a packet costs with a setting, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Cost {
    /// Time between two packets on the sender's core.
    sender: f64,
    /// CPU time of the receiver.
    receiver: f64,
    /// Packets lost, in percent of those that were to be received.
    lost_percent: f64,
}

/// Costs by setting.
#[derive(Debug, Clone, PartialEq)]
struct Costs([Cost; Setting::ALL.len()]);

impl Costs {
    fn of(&self, setting: Setting) -> Cost {
        self.0[setting as usize]
    }

    /// What a setting costs more than another on the sender's core.
    fn added(&self, by: Setting, to: Setting) -> f64 {
        self.of(by).sender - self.of(to).sender
    }
}

/// The stages, in the order of the packet's path.
const STAGES: [&str; 7] =
    ["generator, driver", "host's stack", "program, filter", "record, time", "copy", "hand-over", "reading"];

/// An engine's stages, in nanoseconds; `None` for those that it does not have.
fn stages(costs: &Costs) -> [(&'static str, [Option<f64>; STAGES.len()]); 4] {
    use Setting::{
        CellsCopy, CellsFilter, CellsRead, Drop, LibpcapCopy, LibpcapRead, PackedCopy, PackedFilter,
        PackedRead, PackedTime, Stack, TpacketCopy, TpacketFilter, TpacketRead, TpacketRecord,
    };
    let base = Some(costs.of(Drop).sender);
    let stack = Some(costs.added(Stack, Drop));
    let received = |copied: Setting, read: Setting| {
        let hand_over = costs.of(copied).receiver;
        [Some(hand_over), Some(costs.of(read).receiver - hand_over)]
    };
    let [packed_handed, packed_read] = received(PackedTime, PackedRead);
    let [cells_handed, cells_read] = received(CellsCopy, CellsRead);
    let [tpacket_handed, tpacket_read] = received(TpacketCopy, TpacketRead);
    let [libpcap_handed, libpcap_read] = received(LibpcapCopy, LibpcapRead);
    // libpcap uses the ring of TPACKET_V3, whose stages in the kernel are therefore its own.
    let kernel = [
        base,
        stack,
        Some(costs.added(TpacketFilter, Stack)),
        Some(costs.added(TpacketRecord, TpacketFilter)),
        Some(costs.added(TpacketCopy, TpacketRecord)),
    ];
    let on_kernel = |handed, read| [kernel[0], kernel[1], kernel[2], kernel[3], kernel[4], handed, read];
    let program = |filter| Some(costs.added(filter, Drop));
    [
        (
            "wirecap, packed",
            [
                base,
                None,
                program(PackedFilter),
                Some(costs.added(PackedTime, PackedCopy)),
                Some(costs.added(PackedCopy, PackedFilter)),
                packed_handed,
                packed_read,
            ],
        ),
        (
            "wirecap, cells",
            [
                base,
                None,
                program(CellsFilter),
                None,
                Some(costs.added(CellsCopy, CellsFilter)),
                cells_handed,
                cells_read,
            ],
        ),
        ("TPACKET_V3", on_kernel(tpacket_handed, tpacket_read)),
        ("libpcap", on_kernel(libpcap_handed, libpcap_read)),
    ]
}

/// Runs the experiment, if it is wanted.
///
/// # Errors
/// Those of the programs.
pub fn run(laboratory: &mut Laboratory) -> Result<()> {
    if !laboratory.arguments.wants(Experiment::Stages) {
        return Ok(());
    }
    for (frame_len, frames) in FRAMES {
        let costs = measure(laboratory, frame_len, frames)?;
        let (table, chart) = show(&costs, frames, laboratory.mhz());
        laboratory.measured(&format!("Stages, {frames}"), table, chart)?;
    }
    Ok(())
}

/// All settings in turn, round by round; of each, the medians.
fn measure(laboratory: &mut Laboratory, frame_len: usize, frames: &str) -> Result<Costs> {
    let rounds = laboratory.arguments.rounds.max(LEAST_ROUNDS);
    let mut costs = vec![Vec::new(); Setting::ALL.len()];
    for round in 1..=rounds {
        laboratory.progress(&format!("stages, {frames}: round {round} of {rounds}"));
        for (setting, costs) in Setting::ALL.into_iter().zip(&mut costs) {
            let cost = once(laboratory, setting, frame_len)?;
            let kept = json!({ "bytes": frame_len, "sender_ns": cost.sender, "receiver_ns": cost.receiver,
                "lost_percent": cost.lost_percent });
            laboratory.keep("stages", &format!("{setting:?}"), round as usize, &kept)?;
            costs.push(cost);
        }
    }
    let median = |costs: &[Cost], figure: fn(&Cost) -> f64| {
        Summary::of(costs.iter().map(figure)).map_or(f64::NAN, |summary| summary.median)
    };
    let mut medians = [Cost::default(); Setting::ALL.len()];
    for (of_setting, costs) in medians.iter_mut().zip(&costs) {
        *of_setting = Cost {
            sender: median(costs, |cost| cost.sender),
            receiver: median(costs, |cost| cost.receiver),
            lost_percent: median(costs, |cost| cost.lost_percent),
        };
    }
    Ok(Costs(medians))
}

fn once(laboratory: &Laboratory, setting: Setting, frame_len: usize) -> Result<Cost> {
    let link = laboratory.bed.link(1)?;
    let dropped = if setting == Setting::Drop { Some(link.drop_all()?) } else { None };
    let competitor = setting.competitor(laboratory)?;
    let process = competitor.map(|program| program.start_until_interrupted(&link, &[])).transpose()?;
    let amount = Amount::For(std::time::Duration::from_secs(SECONDS));
    let sent = link.send(Traffic { frame_len, rate_pps: None, amount })?;
    drop(dropped);
    let sender = 1e9 / sent.frames_per_second();
    let Some(process) = process else { return Ok(Cost { sender, ..Cost::default() }) };
    thread::sleep(DRAIN);
    process.interrupt()?;
    let outcome = Outcome::read(process.wait(TIMEOUT)?.json()?)?;
    if outcome.packets == 0 {
        return Ok(Cost { sender, ..Cost::default() });
    }
    let lost_percent = 100.0 * (sent.frames.saturating_sub(outcome.packets)) as f64 / sent.frames as f64;
    Ok(Cost { sender, receiver: outcome.cpu_ns_per_packet(), lost_percent })
}

/// The stages as a table, and as bars, in cycles of a clock of `mhz`.
fn show(costs: &Costs, frames: &str, mhz: f64) -> (Table, Chart) {
    let cycles = |ns: f64| ns * mhz / 1e3;
    let cell = |ns: Option<f64>| ns.map_or_else(|| "–".to_owned(), |ns| format!("{:.0}", cycles(ns)));
    let head: Vec<&str> = ["engine"].into_iter().chain(STAGES).chain(["all"]).collect();
    let mut table = Table::new(format!("CPU cycles per packet by stage, {frames} (measured)"), &head);
    let engines = stages(costs);
    for (name, stages) in &engines {
        let all: f64 = stages.iter().flatten().sum();
        table.row(
            [(*name).to_owned()].into_iter().chain(stages.iter().copied().map(cell)).chain([cell(Some(all))]),
        );
    }
    let most = Setting::ALL.iter().map(|&setting| costs.of(setting).lost_percent).fold(0.0, f64::max);
    table.note(format!(
        "Cycles of the time stamp counter, {mhz:.0} MHz; medians. Hand-over and reading are on the receiver's core, the rest on the \
         sender's. A stage is a difference of two settings, and may be below 0 by what rounds differ. At most {most:.1} % of the \
         packets were lost in the median of a setting; they were not copied. TPACKET_V3 stamps every packet, in \"record, time\"; \
         packing makes the record with the copy; cells have a time for each batch.",
    ));
    let series = STAGES.iter().enumerate().map(|(stage, name)| Series {
        name: (*name).into(),
        // A bar cannot be below 0; the table has the figure.
        values: engines.iter().map(|(_, stages)| stages[stage].map(|ns| cycles(ns).max(0.0))).collect(),
    });
    let chart = Chart {
        title: format!("CPU cycles per packet by stage, {frames}"),
        description:
            "A bar for each engine, from the generator and the driver at the bottom to the application's \
                      reading at the top."
                .into(),
        plot: Plot::StackedBars {
            groups: engines.iter().map(|(name, _)| (*name).to_owned()).collect(),
            y: Axis::linear("CPU cycles per packet"),
            series: series.collect(),
        },
    };
    (table, chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_what_it_adds() {
        let mut costs = [Cost::default(); Setting::ALL.len()];
        let mut set = |setting: Setting, sender: f64, receiver: f64| {
            costs[setting as usize] = Cost { sender, receiver, lost_percent: 0.0 };
        };
        set(Setting::Drop, 100.0, 0.0);
        set(Setting::Stack, 250.0, 0.0);
        set(Setting::PackedFilter, 120.0, 0.0);
        set(Setting::PackedCopy, 150.0, 0.0);
        set(Setting::PackedTime, 165.0, 40.0);
        set(Setting::PackedRead, 166.0, 45.0);
        set(Setting::TpacketFilter, 260.0, 0.0);
        set(Setting::TpacketRecord, 300.0, 20.0);
        set(Setting::TpacketCopy, 310.0, 20.0);
        set(Setting::TpacketRead, 310.0, 28.0);
        let engines = stages(&Costs(costs));
        let stage = |ns: f64| Some(ns);
        assert_eq!(
            engines[0].1,
            [stage(100.0), None, stage(20.0), stage(15.0), stage(30.0), stage(40.0), stage(5.0)]
        );
        let tpacket = [100.0, 150.0, 10.0, 40.0, 10.0, 20.0, 8.0].map(stage);
        assert_eq!(engines[2], ("TPACKET_V3", tpacket));
        let text = show(&Costs(costs), "64-byte frames", 2000.0).0.to_string();
        assert!(text.contains("| wirecap, packed |               200 |            – |"), "{text}");
    }

    #[test]
    fn settings_are_numbered_as_they_are_listed() {
        for (position, setting) in Setting::ALL.into_iter().enumerate() {
            assert_eq!(setting as usize, position);
        }
    }
}
