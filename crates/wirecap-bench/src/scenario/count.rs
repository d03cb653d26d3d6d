//! Count only, one queue, frames of three sizes: at the generator's full speed, and at the highest lossless
//! rate.
//!
//! Targets, with 64-byte frames and packets in cells: at least 0.95 of the bare AF_XDP loop that waits in the
//! same way, at least 2.5 times libpcap with 64 MiB, and no loss. Packed and tapped packets have no target.

use anyhow::Result;

use super::{Context, FCS_BYTES, SHORT_FRAME, figures, measured, ratios};
use crate::arguments::Scenario;
use crate::bed::{Amount, Traffic};
use crate::competitor::{Competitor, Measured, Peers};
use crate::search::{self, Bounds};
use crate::stats::{Summary, show};
use crate::table::{Table, millions, verdict};

/// One round of one competitor.
struct Round {
    full_speed: Measured,
    /// Highest rate at which nothing was lost, in packets per second.
    lossless_pps: f64,
}

/// Frame lengths without FCS.
const FRAMES: [usize; 3] = [SHORT_FRAME, 512 - FCS_BYTES, 1500 - FCS_BYTES];

const PACKED: usize = 3;
const PACKED_STAMPED: usize = 4;
const TAPPED: usize = 5;
const TAPPED_BY_XDP: usize = 6;
const BARE_SLEEP: usize = 7;
const BARE_BUSY: usize = 8;
const LIBPCAP_64: usize = 10;
const TPACKET: usize = 11;
const XDP_DROP: usize = 12;
/// The pairs of a wirecap competitor and its bare loop.
const PAIRS: [(usize, usize); 7] = [
    (0, BARE_SLEEP),
    (1, BARE_BUSY),
    (2, BARE_SLEEP),
    (PACKED, BARE_SLEEP),
    (PACKED_STAMPED, BARE_SLEEP),
    (TAPPED, BARE_SLEEP),
    (TAPPED_BY_XDP, BARE_SLEEP),
];

fn competitors(peers: &Peers) -> Result<Vec<Competitor>> {
    let peer = |name: &str, program: &str, flags: &str| peers.competitor(name, program, flags);
    // M = 256 and R = 128 give 32,768 cells, or blocks of as much memory; the bare loop gets as many frames,
    // and rings of that length.
    let bare = "--frames 32768 --ring 32768";
    Ok(vec![
        Competitor::wirecap("wirecap pull, sleep", "--dispatch pull --wait sleep")?,
        Competitor::wirecap("wirecap pull, busy", "--dispatch pull --wait busy")?,
        Competitor::wirecap("wirecap push, sleep", "--dispatch push --wait sleep")?,
        Competitor::packed("wirecap, packed", "--timestamp batch")?,
        Competitor::packed("wirecap, packed, stamped", "")?,
        Competitor::tapped("wirecap, tapped", "")?,
        Competitor::tapped("wirecap, tapped by XDP", "--tap-hook xdp")?,
        peer("bare AF_XDP, sleep 50 µs", "xsk_count", &format!("{bare} --wait sleep-us 50")),
        peer("bare AF_XDP, busy", "xsk_count", &format!("{bare} --wait busy")),
        peer("libpcap 2 MiB", "pcap_count", "--buffer-mib 2"),
        peer("libpcap 64 MiB", "pcap_count", "--buffer-mib 64"),
        peer("TPACKET_V3 64 MiB", "tpacket_count", "--block-kib 1024 --blocks 64"),
        Competitor::xdp_drop()?,
    ])
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let competitors = competitors(&context.peers)?;
    for frame_len in FRAMES {
        one(context, &competitors, frame_len)?;
    }
    Ok(())
}

fn one(context: &mut Context, competitors: &[Competitor], frame_len: usize) -> Result<()> {
    let bytes = frame_len + FCS_BYTES;
    let name = |who: &Competitor| format!("{}, {bytes} bytes", who.name);
    let results = context.rounds(Scenario::Count, competitors, name, |context, who, round| {
        measure(context, who, frame_len, (&name(who), round))
    })?;

    let mut table = Table::new(
        format!("Count only, one queue, {bytes}-byte frames, 4,096 flows"),
        &[
            "receiver",
            "received Mpps",
            "loss %",
            "CPU ns/packet",
            "highest lossless Mpps",
            "of libpcap 64 MiB",
        ],
    );
    for (competitor, rounds) in measured(competitors, &results) {
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
         determine the rate. CPU time is the receiver's own; packing, stamping and XDP_DROP's program run on the sender's \
         core. libpcap and TPACKET_V3 run without an XDP program, with GRO on, which is their best case: the host's stack \
         sees the packets, too.",
    );
    context.record.table(&table)?;
    targets(context, competitors, &results, frame_len)
}

fn measure(
    context: &mut Context,
    who: &Competitor,
    frame_len: usize,
    (name, round): (&str, usize),
) -> Result<Round> {
    let amount = Amount::For(context.run_time());
    let traffic = |rate_pps| Traffic { frame_len, rate_pps, amount };
    let full_speed = who.measure(&context.bed, traffic(None))?;
    context.keep(Scenario::Count, name, round, &full_speed.json("full speed", None))?;

    let offered = full_speed.sent.frames_per_second();
    let mut lossless_pps = 0.0;
    if full_speed.lost() == 0 {
        lossless_pps = offered;
    } else {
        let bounds = Bounds { low: 0.0, high: offered, precision: context.precision() };
        search::largest(bounds, |rate| {
            let run = who.measure(&context.bed, traffic(Some(rate)))?;
            context.keep(Scenario::Count, name, round, &run.json("search", Some(rate)))?;
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

fn targets(
    context: &mut Context,
    competitors: &[Competitor],
    results: &[Vec<Option<Round>>],
    frame_len: usize,
) -> Result<()> {
    let mut table = Table::new(
        format!(
            "Count only, {}-byte frames: received, as ratios within each round, and the targets",
            frame_len + FCS_BYTES
        ),
        &[
            "wirecap",
            "of the bare loop (≥ 0.95)",
            "of libpcap 64 MiB (≥ 2.5)",
            "of TPACKET_V3 64 MiB",
            "of XDP_DROP",
            "no loss",
            "reached",
        ],
    );
    for (who, bare) in PAIRS.into_iter().filter(|&(who, _)| !results[who].is_empty()) {
        let ratio = |other: usize| {
            Summary::of(ratios(&results[who], &results[other], |round| round.full_speed.received_pps()))
        };
        let (of_bare, of_libpcap) = (ratio(bare), ratio(LIBPCAP_64));
        let rounds = &results[who];
        let lossless = rounds.iter().all(|round| round.as_ref().is_some_and(|r| r.full_speed.lost() == 0));
        let at_least =
            |summary: Option<Summary>, target| summary.is_some_and(|summary| summary.median >= target);
        let has_targets =
            frame_len == SHORT_FRAME && ![PACKED, PACKED_STAMPED, TAPPED, TAPPED_BY_XDP].contains(&who);
        let reached = lossless && at_least(of_bare, 0.95) && at_least(of_libpcap, 2.5);
        table.row([
            format!("{} / {}", competitors[who].name, competitors[bare].name),
            show(of_bare, 3),
            show(of_libpcap, 2),
            show(ratio(TPACKET), 2),
            show(ratio(XDP_DROP), 3),
            verdict(lossless),
            if has_targets { verdict(reached) } else { "–".into() },
        ]);
    }
    context.record.table(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_competitors_are_right() {
        let competitors = competitors(&Peers::default()).unwrap();
        let name = |at: usize| competitors[at].name.as_str();
        assert_eq!(
            [PACKED, PACKED_STAMPED, TAPPED, TAPPED_BY_XDP, LIBPCAP_64, TPACKET, XDP_DROP].map(name),
            [
                "wirecap, packed",
                "wirecap, packed, stamped",
                "wirecap, tapped",
                "wirecap, tapped by XDP",
                "libpcap 64 MiB",
                "TPACKET_V3 64 MiB",
                "XDP_DROP"
            ]
        );
        for (who, bare) in PAIRS {
            let waits = if name(who).contains("busy") { "busy" } else { "sleep" };
            assert!(name(who).starts_with("wirecap") && name(bare).starts_with("bare AF_XDP"));
            assert!(name(bare).contains(waits), "{} waits otherwise than {}", name(bare), name(who));
        }
    }
}
