//! Forwarding 64-byte frames from one veth pair to another, on one core: at full speed, and at the highest
//! lossless rate.
//!
//! Target: at least 0.95 of a bare AF_XDP loop that waits in the same way, gives the kernel as many frames
//! and has rings of the same length. The kernel's forwarders, and DPDK's testpmd, run in the same rounds.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use wirecap_lab::table::{Table, millions, verdict};

use super::{Context, SHORT_FRAME, figures, measured, ratios, wirecap_path};
use crate::arguments::Scenario;
use crate::bed::{Amount, Traffic, sent_json};
use crate::forwarder::Forwarder;
use crate::machine::{StealWatch, StolenTime};
use crate::search::{self, Rated, Rates};
use crate::stats::{Summary, show};
use crate::wire::{Wire, WireCounts};

/// One round of one competitor.
type Round = Rates<WireCounts>;

const BARE_POLL: usize = 3;
const BARE_BUSY: usize = 4;
/// The pairs of a wirecap competitor and its bare loop.
const TARGETS: [(usize, usize); 3] = [(0, BARE_POLL), (1, BARE_BUSY), (2, BARE_BUSY)];
const RATIO: f64 = 0.95;
/// The share of the top rate that must be lossless for long.
const SOAK_SHARE: f64 = 0.9;
/// The top rate must be lossless for this time.
const SUSTAINED: Duration = Duration::from_secs(30);
/// The factor to the next rate to try after a loss.
const SLOWER: f64 = 0.95;

/// The competitors, and the skipped ones with their reasons.
fn competitors(context: &mut Context) -> Result<(Vec<Forwarder>, Vec<String>)> {
    let (wirecap, bare) = (wirecap_path(context)?, context.peers.path("xsk_forward"));
    let mut competitors = vec![
        Forwarder::wirecap("wirecap forward", wirecap.clone(), ""),
        Forwarder::wirecap("wirecap forward, busy", wirecap.clone(), "--wait busy"),
        Forwarder::wirecap("wirecap forward, busy, checksums kept", wirecap, "--wait busy --checksums keep"),
        Forwarder::bare("bare AF_XDP, poll", bare.clone(), "--wait poll"),
        Forwarder::bare("bare AF_XDP, busy", bare, "--wait busy"),
    ];
    competitors.extend(Forwarder::of_kernel());
    let mut skipped = Vec::new();
    let name = "DPDK testpmd io, net_af_xdp";
    match Forwarder::testpmd(name) {
        Ok(testpmd) => competitors.push(testpmd),
        Err(reason) => {
            eprintln!("forward: SKIPPED: {name}: {reason:#}");
            context.keep(Scenario::Forward, name, 0, &json!({ "skipped": format!("{reason:#}") }))?;
            skipped.push(format!("{name}: {reason:#}"));
        }
    }
    Ok((competitors, skipped))
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let (competitors, skipped) = competitors(context)?;
    let results = context.rounds(Scenario::Forward, &competitors, |who| who.name.into(), measure)?;

    let mut table = Table::new(
        "Forwarding on one core, 64-byte frames, 4,096 flows",
        &[
            "forwarder",
            "forwarded Mpps",
            "ns/packet",
            "offered Mpps",
            "highest lossless Mpps",
            "of bare AF_XDP, busy",
        ],
    );
    for (competitor, rounds) in measured(&competitors, &results) {
        let summary = |figure: fn(&Round) -> f64| Summary::of(figures(rounds, figure));
        table.row([
            competitor.name.into(),
            show(summary(|round| millions(round.full_speed.pps())), 3),
            show(summary(|round| 1e9 / round.full_speed.pps()), 0),
            show(summary(|round| millions(round.full_speed.sent.frames_per_second())), 2),
            show(summary(|round| millions(round.lossless_pps)), 3),
            show(Summary::of(ratios(rounds, &results[BARE_BUSY], |round| round.full_speed.pps())), 3),
        ]);
    }
    table.note(
        "Counted at the far end of the second pair. veth does the receive work of that end on the sending core, so every \
         forwarder's time includes it. Bridge and mirred run on the forwarder's core by receive packet steering, XDP \
         redirect by threaded NAPI; the others are programs pinned to it.",
    );
    table.note(format!("Skipped: {}.", skipped.len()));
    skipped.into_iter().for_each(|reason| table.note(format!("SKIPPED: {reason}")));
    context.record.table(&table)?;
    targets(context, &competitors, &results)
}

fn measure(context: &mut Context, who: &Forwarder, round: usize) -> Result<Round> {
    search::rates(context.precision(), |rate| pass(context, who, round, rate))
}

impl Rated for WireCounts {
    fn sent_pps(&self) -> f64 {
        self.sent.frames_per_second()
    }

    fn lost(&self) -> u64 {
        self.lost()
    }

    fn highest_pps(&self) -> f64 {
        // A competitor may forward more without overload, so try a quarter more.
        1.25 * self.pps()
    }
}

/// The result of a forwarder at a constant rate for long.
pub(super) struct SoakResult {
    pub(super) name: &'static str,
    pub(super) passed: WireCounts,
    /// Its final output.
    pub(super) account: Value,
    pub(super) stolen: StolenTime,
}

/// Forwards for long at [`SOAK_SHARE`] of wirecap's top rate, then has the bare loop, with as many frames, do
/// the same. Returns the rate and both results.
///
/// The top rate is the highest that is lossless for [`SUSTAINED`]: a rate that is lossless for only two
/// seconds may depend on an undisturbed machine.
pub(super) fn soak(context: &mut Context, duration: Duration) -> Result<(f64, [SoakResult; 2])> {
    let wirecap = Forwarder::wirecap("wirecap forward -R 2048", wirecap_path(context)?, "-R 2048");
    let bare = context.peers.path("xsk_forward");
    let bare = Forwarder::bare("bare AF_XDP, poll, 524,288 frames", bare, "--wait poll --frames 524288");
    let mut top_pps = measure(context, &wirecap, 0)?.lossless_pps;
    let sustained = SUSTAINED.min(duration);
    while pass_for(context, &wirecap, 0, (Some(top_pps), sustained))?.0.lost() > 0 {
        ensure!(top_pps > 1.0, "wirecap forward loses at every rate");
        top_pps *= SLOWER;
    }
    let rate_pps = SOAK_SHARE * top_pps;
    let mut hold = |who: &Forwarder| {
        let watch = StealWatch::start();
        let (passed, account) = pass_for(context, who, 1, (Some(rate_pps), duration))?;
        anyhow::Ok(SoakResult { name: who.name, passed, account, stolen: watch.end() })
    };
    Ok((rate_pps, [hold(&wirecap)?, hold(&bare)?]))
}

/// One run on new interfaces.
fn pass(context: &mut Context, who: &Forwarder, round: usize, rate_pps: Option<f64>) -> Result<WireCounts> {
    let duration = context.run_time();
    Ok(pass_for(context, who, round, (rate_pps, duration))?.0)
}

fn pass_for(
    context: &mut Context,
    who: &Forwarder,
    round: usize,
    (rate_pps, duration): (Option<f64>, Duration),
) -> Result<(WireCounts, Value)> {
    let traffic = Traffic { frame_len: SHORT_FRAME, rate_pps, amount: Amount::For(duration) };
    let (passed, said) = {
        let wire = Wire::new(&context.bed, 1)?;
        let running = who.start(&wire)?;
        (wire.pass(traffic)?, running.end()?)
    };
    context.keep(Scenario::Forward, who.name, round, &json_of(&passed, rate_pps, &said))?;
    Ok((passed, said))
}

fn json_of(passed: &WireCounts, asked_pps: Option<f64>, said: &Value) -> Value {
    json!({
        "kind": if asked_pps.is_some() { "search" } else { "full speed" },
        "asked_pps": asked_pps,
        "sent": sent_json(&passed.sent),
        "arrived": { "while sending": passed.while_sending, "in the end": passed.arrived },
        "lost": passed.lost(),
        "said": said,
    })
}

fn targets(context: &mut Context, competitors: &[Forwarder], results: &[Vec<Option<Round>>]) -> Result<()> {
    let mut table = Table::new(
        "Forwarding: ratios within each round, and the target",
        &["wirecap / bare loop", "forwarded (≥ 0.95)", "lossless", "reached"],
    );
    for (who, bare) in TARGETS {
        let ratio = |figure: fn(&Round) -> f64| Summary::of(ratios(&results[who], &results[bare], figure));
        let forwarded = ratio(|round| round.full_speed.pps());
        table.row([
            format!("{} / {}", competitors[who].name, competitors[bare].name),
            show(forwarded, 3),
            show(ratio(|round| round.lossless_pps), 3),
            verdict(forwarded.is_some_and(|summary| summary.median >= RATIO)),
        ]);
    }
    context.record.table(&table)
}
