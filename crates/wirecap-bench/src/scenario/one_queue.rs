//! One receiver of one queue: at the generator's full speed, and at its highest lossless rate, with frames of
//! three sizes.

use anyhow::Result;
use wirecap_lab::table::{Table, millions};

use super::{Context, FCS_BYTES, Results, SHORT_FRAME, figures, measured, ratios};
use crate::arguments::Scenario;
use crate::bed::{Amount, Traffic};
use crate::competitor::{Competitor, Measurement};
use crate::search::{self, Rated, Rates};
use crate::stats::{Summary, show};

/// Frame lengths without FCS.
pub(super) const FRAMES: [usize; 3] = [SHORT_FRAME, 512 - FCS_BYTES, 1500 - FCS_BYTES];

/// One round of one competitor.
pub(super) type Round = Rates<Measurement>;

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
    search::rates(context.precision(), |rate_pps| {
        let run = who.measure(&context.bed, Traffic { frame_len, rate_pps, amount })?;
        let kind = if rate_pps.is_some() { "search" } else { "full speed" };
        context.keep(scenario, name, round, &run.json(kind, rate_pps))?;
        Ok(run)
    })
}

impl Rated for Measurement {
    fn sent_pps(&self) -> f64 {
        self.sent.frames_per_second()
    }

    fn lost(&self) -> u64 {
        self.lost()
    }
}

/// The table of what was received, with the ratio of lossless rates to `peer`.
pub(super) fn table(
    title: String,
    competitors: &[Competitor],
    results: &[Vec<Option<Round>>],
    peer: usize,
) -> Table {
    let of_peer = format!("of {}", competitors[peer].name);
    let columns = [
        "receiver",
        "received Mpps",
        "loss %",
        "CPU ns/packet",
        "highest lossless Mpps",
        of_peer.as_str(),
        "cores apart, ns",
    ];
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
            show(summary(|round| round.full_speed.most_apart_ns()), 0),
        ]);
    }
    table.note(
        "Cores apart: how long a cache line takes from the sender's core to the receiver's, the longer of two measurements, before and \
         after the run. A hypervisor may move either core, which changes the receiver's speed.",
    );
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
