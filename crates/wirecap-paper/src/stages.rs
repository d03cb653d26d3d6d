//! Where the time of a packet goes: CPU cycles by stage, found by switching on one stage after the other (as
//! paper 001, "Profiling and optimization of software-based network-analysis applications", Figures 6 and 9).
//!
//! ```text
//!   sender's core    generator, driver │ host's stack │ program, filter │ record, time │ copy ►│
//!   receiver's core                                                                            │► hand-over │ reading
//! ```
//!
//! veth does the receive work on the sender's core, which is never idle: the time between two packets is what
//! they cost there. A stage is the difference of two such times, one with it and one without, of the same
//! round.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};
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
    trial::{DRAIN, TIMEOUT, by_queue},
};

/// Rounds, unless `--rounds` says more: differences of times need more of them than losses.
const MIN_ROUNDS: u32 = 5;
/// A packet that is lost is not copied, so it costs less: with more of them, in percent, a setting is
/// measured again.
const MAX_LOST_PERCENT: f64 = 0.1;
/// How often a setting is measured in a round, at most.
const ATTEMPTS: usize = 4;
/// Bytes of a frame without its FCS, and how the titles call it.
const FRAMES: [(usize, &str); 2] = [(60, "64-byte frames"), (1496, "1,500-byte frames")];
/// How long each setting is measured.
const DURATION: Duration = Duration::from_secs(1);
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

    /// Whether packets reach a program.
    fn delivers(self) -> bool {
        !matches!(
            self,
            Self::Drop | Self::Stack | Self::PackedFilter | Self::CellsFilter | Self::TpacketFilter
        )
    }

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

/// Costs by setting, of one round.
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

    /// What a program costs on the receiver's core without reading packets, and what reading them adds.
    fn received(&self, unread: Setting, read: Setting) -> [Option<f64>; 2] {
        let hand_over = self.of(unread).receiver;
        [Some(hand_over), Some(self.of(read).receiver - hand_over)]
    }
}

/// The stages, in the order of the packet's path.
const STAGES: [&str; 7] =
    ["generator, driver", "host's stack", "program, filter", "record, time", "copy", "hand-over", "reading"];

/// The stages of an engine; `None` for those that it does not have, or that cannot be told apart.
type Stages<T> = [Option<T>; STAGES.len()];

/// The engines.
const ENGINES: [&str; 4] = ["wirecap, packed", "wirecap, cells", "TPACKET_V3", "libpcap"];

/// The stages of each engine in one round, in nanoseconds.
fn stages(costs: &Costs) -> [Stages<f64>; ENGINES.len()] {
    use Setting::{
        CellsCopy, CellsFilter, CellsRead, Drop, LibpcapCopy, LibpcapRead, PackedCopy, PackedFilter,
        PackedRead, PackedTime, Stack, TpacketCopy, TpacketFilter, TpacketRead, TpacketRecord,
    };
    let base = Some(costs.of(Drop).sender);
    let added = |by, to| Some(costs.added(by, to));
    let stack = added(Stack, Drop);
    let packed = costs.received(PackedTime, PackedRead);
    let cells = costs.received(CellsCopy, CellsRead);
    let tpacket = costs.received(TpacketCopy, TpacketRead);
    let libpcap = costs.received(LibpcapCopy, LibpcapRead);
    [
        [
            base,
            None,
            added(PackedFilter, Drop),
            added(PackedTime, PackedCopy),
            added(PackedCopy, PackedFilter),
            packed[0],
            packed[1],
        ],
        [base, None, added(CellsFilter, Drop), None, added(CellsCopy, CellsFilter), cells[0], cells[1]],
        [
            base,
            stack,
            added(TpacketFilter, Stack),
            added(TpacketRecord, TpacketFilter),
            added(TpacketCopy, TpacketRecord),
            tpacket[0],
            tpacket[1],
        ],
        [base, stack, None, None, added(LibpcapCopy, Stack), libpcap[0], libpcap[1]],
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
        let rounds = measure(laboratory, frame_len, frames)?;
        let (table, chart) = show(&rounds, frames, laboratory.mhz());
        laboratory.measured(&format!("Stages, {frames}"), table, chart)?;
    }
    Ok(())
}

/// All settings in turn, round by round.
fn measure(laboratory: &mut Laboratory, frame_len: usize, frames: &str) -> Result<Vec<Costs>> {
    let rounds = laboratory.arguments.rounds.max(MIN_ROUNDS);
    let mut all = Vec::new();
    for round in 1..=rounds {
        laboratory.progress(&format!("stages, {frames}: round {round} of {rounds}"));
        let mut costs = [Cost::default(); Setting::ALL.len()];
        for (setting, cost) in Setting::ALL.into_iter().zip(&mut costs) {
            *cost = least_lossy(laboratory, setting, frame_len, round)?;
        }
        all.push(Costs(costs));
    }
    Ok(all)
}

/// The first measurement with hardly a loss, or the one with the least.
fn least_lossy(laboratory: &mut Laboratory, setting: Setting, frame_len: usize, round: u32) -> Result<Cost> {
    let mut best: Option<Cost> = None;
    for _ in 0..ATTEMPTS {
        laboratory.check_stopped()?;
        let cost = once(laboratory, setting, frame_len)?;
        let kept = json!({ "bytes": frame_len, "sender_ns": cost.sender, "receiver_ns": cost.receiver,
            "lost_percent": cost.lost_percent });
        laboratory.keep("stages", &format!("{setting:?}"), round, &kept)?;
        if best.is_none_or(|best| cost.lost_percent < best.lost_percent) {
            best = Some(cost);
        }
        if cost.lost_percent <= MAX_LOST_PERCENT {
            break;
        }
    }
    best.context("at least one attempt")
}

fn once(laboratory: &Laboratory, setting: Setting, frame_len: usize) -> Result<Cost> {
    let link = laboratory.bed.link(1)?;
    let dropped = if setting == Setting::Drop { Some(link.drop_all()?) } else { None };
    let competitor = setting.competitor(laboratory)?;
    let process = competitor.map(|program| program.start_until_interrupted(&link, &[])).transpose()?;
    let sent = link.send(Traffic { frame_len, rate_pps: None, amount: Amount::For(DURATION) })?;
    drop(dropped);
    let sender = 1e9 / sent.frames_per_second();
    let Some(process) = process else { return Ok(Cost { sender, ..Cost::default() }) };
    thread::sleep(DRAIN);
    process.interrupt()?;
    let outcome = Outcome::read(process.wait(TIMEOUT)?.json()?)?;
    let received: u64 = by_queue(&outcome.all)?.iter().map(|(received, _)| received).sum();
    ensure!((received > 0) == setting.delivers(), "{setting:?}: {received} packets received");
    if received == 0 {
        return Ok(Cost { sender, ..Cost::default() });
    }
    let lost_percent = 100.0 * sent.frames.saturating_sub(received) as f64 / sent.frames as f64;
    Ok(Cost { sender, receiver: outcome.cpu_ns_per_packet(), lost_percent })
}

/// The medians of the stages over the rounds as a table, and as bars: in cycles of a clock of `mhz`, or in
/// nanoseconds if it is unknown.
fn show(rounds: &[Costs], frames: &str, mhz: Option<f64>) -> (Table, Chart) {
    let (unit, factor) = match mhz {
        Some(mhz) => ("CPU cycles", mhz / 1e3),
        None => ("CPU nanoseconds", 1.0),
    };
    let of_rounds: Vec<_> = rounds.iter().map(stages).collect();
    let median = |engine: usize, stage: usize| {
        let figures: Option<Vec<f64>> = of_rounds.iter().map(|engines| engines[engine][stage]).collect();
        figures.and_then(|figures| Some(Summary::of(figures)?.median * factor))
    };
    let engines: [Stages<f64>; ENGINES.len()] =
        std::array::from_fn(|engine| std::array::from_fn(|stage| median(engine, stage)));
    let head: Vec<&str> = ["engine"].into_iter().chain(STAGES).chain(["all"]).collect();
    let title = format!("{unit} per packet by stage, {frames}");
    let mut table = Table::new(format!("{title} (measured)"), &head);
    let cell = |figure: &Option<f64>| figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.0}"));
    for (name, stages) in ENGINES.iter().zip(&engines) {
        let all = Some(stages.iter().flatten().sum());
        table.row([(*name).to_owned()].into_iter().chain(stages.iter().chain([&all]).map(cell)));
    }
    let most = rounds.iter().flat_map(|costs| &costs.0).map(|cost| cost.lost_percent).fold(0.0, f64::max);
    let clock = mhz.map_or_else(String::new, |mhz| {
        format!("Cycles at {mhz:.0} MHz, the processor's clock as the kernel names it. ")
    });
    table.note(format!(
        "{clock}Hand-over and reading are on the receiver's core, the rest on the sender's. A stage is the difference of two settings in \
         the same round, in the median of {} rounds; a small one may be below 0. At most {most:.1} % of the packets of a setting were \
         lost. Packing makes the record with the copy; cells have a time for each batch; libpcap has no filter here, and its record, \
         time and copy are one figure.",
        rounds.len(),
    ));
    (table, chart(title, unit, &engines))
}

/// A bar cannot be below 0: a stage that is, is taken from the one behind it, so that the sum is right.
fn chart(title: String, unit: &str, engines: &[Stages<f64>; ENGINES.len()]) -> Chart {
    let bars = engines.map(|stages| {
        let mut owed = 0.0;
        stages.map(|figure| {
            figure.map(|figure| {
                let rest = figure + owed;
                owed = rest.min(0.0);
                rest.max(0.0)
            })
        })
    });
    let series = STAGES.iter().enumerate().map(|(stage, name)| Series {
        name: (*name).into(),
        values: bars.iter().map(|stages| stages[stage]).collect(),
    });
    Chart {
        title,
        description: "A bar for each engine, from the generator and the driver at the bottom to the \
                      application's reading at the top. A stage below 0 in the table is taken from the next one."
            .into(),
        plot: Plot::StackedBars {
            groups: ENGINES.map(str::to_owned).to_vec(),
            y: Axis::linear(format!("{unit} per packet")),
            series: series.collect(),
        },
    }
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
        let round = Costs(costs);
        let [packed, _, tpacket, _] = stages(&round);
        let stage = |ns: f64| Some(ns);
        assert_eq!(
            packed,
            [stage(100.0), None, stage(20.0), stage(15.0), stage(30.0), stage(40.0), stage(5.0)]
        );
        assert_eq!(tpacket, [100.0, 150.0, 10.0, 40.0, 10.0, 20.0, 8.0].map(stage));
        let text = show(&[round], "64-byte frames", Some(2000.0)).0.to_string();
        assert!(text.contains("| wirecap, packed |               200 |            – |"), "{text}");
    }

    #[test]
    fn a_stage_below_nothing_is_taken_from_the_next_bar() {
        let stages = [Some(100.0), None, Some(20.0), Some(50.0), Some(-30.0), Some(40.0), Some(-1.0)];
        let chart = chart("stages".into(), "CPU cycles", &[stages; ENGINES.len()]);
        let Plot::StackedBars { series, .. } = chart.plot else { panic!("stacked bars") };
        let bars: Vec<_> = series.iter().map(|series| series.values[0]).collect();
        assert_eq!(bars, [Some(100.0), None, Some(20.0), Some(50.0), Some(0.0), Some(10.0), Some(0.0)]);
    }

    #[test]
    fn settings_are_numbered_as_they_are_listed() {
        for (position, setting) in Setting::ALL.into_iter().enumerate() {
            assert_eq!(setting as usize, position);
        }
    }
}
