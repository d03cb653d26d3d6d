//! Count only, one queue, 64-byte frames: at the generator's full speed, and at the highest lossless rate.
//!
//! Targets: at least 0.95 of the bare AF_XDP loop that waits in the same way, at least 2.5 times libpcap with
//! 64 MiB, and no loss.

use anyhow::Result;

use super::{Context, SHORT_FRAME, figures, ratios};
use crate::arguments::Scenario;
use crate::bed::{Amount, Traffic};
use crate::competitor::{Competitor, Measured};
use crate::search::{self, Bounds};
use crate::stats::{Summary, show};
use crate::table::{Table, millions, verdict};

/// One round of one competitor.
struct Round {
    full_speed: Measured,
    /// Highest rate at which nothing was lost, in packets per second.
    lossless_pps: f64,
}

const BARE_SLEEP: usize = 3;
const BARE_BUSY: usize = 4;
const LIBPCAP_64: usize = 6;
/// The pairs of a wirecap competitor and its bare loop.
const TARGETS: [(usize, usize); 3] = [(0, BARE_SLEEP), (1, BARE_BUSY), (2, BARE_SLEEP)];

fn competitors(context: &Context) -> Result<Vec<Competitor>> {
    let peer = |name: &str, program: &str, flags: &str| context.peers.competitor(name, program, flags);
    // M = 256 and R = 128 give 32,768 cells; the bare loop gets as many frames, and rings of that length.
    let bare = "--frames 32768 --ring 32768";
    Ok(vec![
        Competitor::wirecap("wirecap pull, sleep", "--dispatch pull --wait sleep")?,
        Competitor::wirecap("wirecap pull, busy", "--dispatch pull --wait busy")?,
        Competitor::wirecap("wirecap push, sleep", "--dispatch push --wait sleep")?,
        peer("bare AF_XDP, sleep 50 µs", "xsk_count", &format!("{bare} --wait sleep-us 50")),
        peer("bare AF_XDP, busy", "xsk_count", &format!("{bare} --wait busy")),
        peer("libpcap 2 MiB", "pcap_count", "--buffer-mib 2"),
        peer("libpcap 64 MiB", "pcap_count", "--buffer-mib 64"),
        peer("TPACKET_V3 64 MiB", "tpacket_count", "--block-kib 1024 --blocks 64"),
    ])
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let competitors = competitors(context)?;
    let results = context.rounds(Scenario::Count, &competitors, |who| who.name.clone(), measure)?;

    let mut table = Table::new(
        "Count only, one queue, 64-byte frames, 4,096 flows",
        &[
            "receiver",
            "received Mpps",
            "loss %",
            "CPU ns/packet",
            "highest lossless Mpps",
            "of libpcap 64 MiB",
        ],
    );
    for (competitor, rounds) in competitors.iter().zip(&results) {
        let summary = |figure: fn(&Round) -> f64| Summary::of(figures(rounds, figure));
        table.row([
            competitor.name.clone(),
            show(summary(|round| millions(round.full_speed.received_pps())), 2),
            show(summary(|round| round.full_speed.loss_percent()), 2),
            show(summary(|round| round.full_speed.outcome.cpu_ns_per_packet()), 0),
            show(summary(|round| millions(round.lossless_pps)), 2),
            show(Summary::of(ratios(rounds, &results[LIBPCAP_64], |round| round.lossless_pps)), 2),
        ]);
    }
    table.note(
        "veth does the receive work on the sender's core, so a slow receiver slows the generator down: both sides together \
         determine the rate. CPU time is the receiver's own. libpcap and TPACKET_V3 run without an XDP program, \
         with GRO on, which is their best case: the host's stack sees the packets, too.",
    );
    context.record.table(&table)?;
    targets(context, &competitors, &results)
}

fn measure(context: &mut Context, who: &Competitor, round: usize) -> Result<Round> {
    let amount = Amount::For(context.run_time());
    let traffic = |rate_pps| Traffic { frame_len: SHORT_FRAME, rate_pps, amount };
    let full_speed = who.measure(&context.bed, traffic(None))?;
    context.keep(Scenario::Count, &who.name, round, &full_speed.json("full speed", None))?;

    let offered = full_speed.sent.frames_per_second();
    let mut lossless_pps = 0.0;
    if full_speed.lost() == 0 {
        lossless_pps = offered;
    } else {
        let bounds = Bounds { low: 0.0, high: offered, precision: context.precision() };
        search::largest(bounds, |rate| {
            let run = who.measure(&context.bed, traffic(Some(rate)))?;
            context.keep(Scenario::Count, &who.name, round, &run.json("search", Some(rate)))?;
            let lossless = run.lost() == 0;
            if lossless {
                // The actual rate: the generator may not reach the requested one.
                lossless_pps = f64::max(lossless_pps, run.sent.frames_per_second());
            }
            anyhow::Ok(lossless)
        })?;
    }
    Ok(Round { full_speed, lossless_pps })
}

fn targets(context: &mut Context, competitors: &[Competitor], results: &[Vec<Option<Round>>]) -> Result<()> {
    let mut table = Table::new(
        "Count only: ratios within each round, and the targets",
        &["wirecap", "of the bare loop (≥ 0.95)", "of libpcap 64 MiB (≥ 2.5)", "no loss", "reached"],
    );
    for (who, bare) in TARGETS {
        let ratio = |other: usize| {
            Summary::of(ratios(&results[who], &results[other], |round| round.full_speed.received_pps()))
        };
        let (of_bare, of_libpcap) = (ratio(bare), ratio(LIBPCAP_64));
        let rounds = &results[who];
        let lossless = rounds.iter().all(|round| round.as_ref().is_some_and(|r| r.full_speed.lost() == 0));
        let at_least =
            |summary: Option<Summary>, target| summary.is_some_and(|summary| summary.median >= target);
        let reached = lossless && at_least(of_bare, 0.95) && at_least(of_libpcap, 2.5);
        table.row([
            format!("{} / {}", competitors[who].name, competitors[bare].name),
            show(of_bare, 3),
            show(of_libpcap, 2),
            verdict(lossless),
            verdict(reached),
        ]);
    }
    context.record.table(&table)
}
