//! One receiver of one queue: at the generator's full speed, and at its highest lossless rate, with frames of
//! three sizes.

use anyhow::Result;

use super::{Context, FCS_BYTES, Results, SHORT_FRAME, figures, measured, ratios};
use crate::arguments::Scenario;
use crate::bed::{Amount, Traffic};
use crate::competitor::{Competitor, Measurement};
use crate::search::{self, Bounds};
use crate::stats::{Summary, show};
use crate::table::{Table, millions};

/// Frame lengths without FCS.
pub(super) const FRAMES: [usize; 3] = [SHORT_FRAME, 512 - FCS_BYTES, 1500 - FCS_BYTES];

/// One round of one competitor.
pub(super) struct Round {
    pub(super) full_speed: Measurement,
    /// Highest rate at which nothing was lost, in packets per second.
    lossless_pps: f64,
}

/// The rounds of one competitor; none if it was left out.
pub(super) type Rounds = [Option<Round>];

/// Measures all of them in turns, with frames of this length.
pub(super) fn all(
    context: &mut Context,
    scenario: Scenario,
    competitors: &[Competitor],
    frame_len: usize,
) -> Result<Results<Round>> {
    let bytes = frame_len + FCS_BYTES;
    let name = |who: &Competitor| format!("{}, {bytes} bytes", who.name);
    context.rounds(scenario, competitors, name, |context, who, round| {
        measure(context, scenario, who, frame_len, (&name(who), round))
    })
}

fn measure(
    context: &mut Context,
    scenario: Scenario,
    who: &Competitor,
    frame_len: usize,
    (name, round): (&str, usize),
) -> Result<Round> {
    let amount = Amount::For(context.run_time());
    let traffic = |rate_pps| Traffic { frame_len, rate_pps, amount };
    let full_speed = who.measure(&context.bed, traffic(None))?;
    context.keep(scenario, name, round, &full_speed.json("full speed", None))?;

    let offered = full_speed.sent.frames_per_second();
    let lossless_pps = if full_speed.lost() == 0 {
        offered
    } else {
        let bounds = Bounds { low: 0.0, high: offered, precision: context.precision() };
        search::highest_lossless(bounds, |rate| {
            let run = who.measure(&context.bed, traffic(Some(rate)))?;
            context.keep(scenario, name, round, &run.json("search", Some(rate)))?;
            anyhow::Ok((run.lost() == 0).then(|| run.sent.frames_per_second()))
        })?
    };
    Ok(Round { full_speed, lossless_pps })
}

/// The table of what was received, with the ratio of lossless rates to `peer`.
pub(super) fn table(
    title: String,
    competitors: &[Competitor],
    results: &[Vec<Option<Round>>],
    peer: usize,
) -> Table {
    let of_peer = format!("of {}", competitors[peer].name);
    let columns =
        ["receiver", "received Mpps", "loss %", "CPU ns/packet", "highest lossless Mpps", of_peer.as_str()];
    let mut table = Table::new(title, &columns);
    for (competitor, rounds) in measured(competitors, results) {
        let summary = |figure: fn(&Round) -> f64| Summary::of(figures(rounds, figure));
        table.row([
            competitor.name.clone(),
            show(summary(|round| millions(round.full_speed.received_pps())), 2),
            show(summary(|round| round.full_speed.loss_percent()), 2),
            show(summary(|round| round.full_speed.outcome.cpu_ns_per_packet()), 0),
            show(summary(|round| millions(round.lossless_pps)), 2),
            show(Summary::of(ratios(rounds, &results[peer], |round| round.lossless_pps)), 2),
        ]);
    }
    table
}

/// Ratios of what was received, within each round.
pub(super) fn rate_ratio(ours: &Rounds, theirs: &Rounds) -> Option<Summary> {
    Summary::of(ratios(ours, theirs, |round| round.full_speed.received_pps()))
}

/// Ratios of the receivers' CPU time for each packet, within each round.
pub(super) fn cpu_ratio(ours: &Rounds, theirs: &Rounds) -> Option<Summary> {
    Summary::of(ratios(ours, theirs, |round| round.full_speed.outcome.cpu_ns_per_packet()))
}

/// Whether the median reaches `target`; not if nothing was measured.
pub(super) fn is_at_least(ratio: Option<Summary>, target: f64) -> bool {
    ratio.is_some_and(|ratio| ratio.median >= target)
}

/// Whether the median is at most `target`; not if nothing was measured.
pub(super) fn is_at_most(ratio: Option<Summary>, target: f64) -> bool {
    ratio.is_some_and(|ratio| ratio.median <= target)
}

/// Whether no round lost anything.
pub(super) fn is_lossless(rounds: &Rounds) -> bool {
    rounds.iter().all(|round| round.as_ref().is_some_and(|round| round.full_speed.lost() == 0))
}
