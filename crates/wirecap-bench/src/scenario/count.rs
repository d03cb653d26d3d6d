//! Count only, one queue, frames of three sizes: at the generator's full speed, and at the highest lossless
//! rate.
//!
//! | wirecap | of the bare AF_XDP loop that waits in the same way | of libpcap with 64 MiB, 64 bytes | CPU, of the bare loop's |
//! |---|---|---|---|
//! | packets in cells, 64 bytes | 0.95 | 2.5 | |
//! | packed, with times of batches | 1.25 | 3.5 | 0.6 |
//! | packed, each packet stamped | 1.1 | | 0.6 |
//!
//! And no loss.

use anyhow::Result;
use wirecap_lab::table::{Table, verdict};

use super::{Context, FCS_BYTES, SHORT_FRAME, one_queue};
use crate::arguments::Scenario;
use crate::competitor::{Competitor, Peers};
use crate::stats::show;

const PACKED: usize = 3;
const PACKED_STAMPED: usize = 4;
const BARE_SLEEP: usize = 5;
const BARE_BUSY: usize = 6;
const LIBPCAP_64: usize = 8;
const TPACKET: usize = 9;
const XDP_DROP: usize = 10;

/// A wirecap competitor, its bare loop, and what it has to reach: with frames of all sizes, or only with
/// short ones.
struct Goal {
    who: usize,
    bare: usize,
    all_sizes: bool,
    /// At least this part of the bare loop's rate.
    of_bare: f64,
    /// At least this part of libpcap's rate, with short frames.
    of_libpcap: Option<f64>,
    /// At most this part of the bare loop's CPU time.
    of_cpu: Option<f64>,
}

const GOALS: [Goal; 5] = [
    Goal::in_cells(0, BARE_SLEEP),
    Goal::in_cells(1, BARE_BUSY),
    Goal::in_cells(2, BARE_SLEEP),
    Goal::packed(PACKED, 1.25, Some(3.5)),
    Goal::packed(PACKED_STAMPED, 1.1, None),
];

impl Goal {
    const fn in_cells(who: usize, bare: usize) -> Self {
        Self { who, bare, all_sizes: false, of_bare: 0.95, of_libpcap: Some(2.5), of_cpu: None }
    }

    const fn packed(who: usize, of_bare: f64, of_libpcap: Option<f64>) -> Self {
        Self { who, bare: BARE_SLEEP, all_sizes: true, of_bare, of_libpcap, of_cpu: Some(0.6) }
    }

    /// Whether it is one with frames of this length.
    fn applies(&self, frame_len: usize) -> bool {
        self.all_sizes || frame_len == SHORT_FRAME
    }
}

/// A figure with its target, if there is one.
fn with_target(figure: String, target: Option<f64>) -> String {
    target.map_or(figure.clone(), |target| format!("{figure} [{target}]"))
}

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
    for frame_len in one_queue::FRAMES {
        let results = one_queue::all(context, Scenario::Count, &competitors, frame_len)?;
        let title = format!("Count only, one queue, {}-byte frames, 4,096 flows", frame_len + FCS_BYTES);
        let mut table = one_queue::table(title, &competitors, &results, LIBPCAP_64);
        table.note(
            "veth does the receive work on the sender's core, so a slow receiver slows the generator down: both sides together \
             determine the rate. CPU time is the receiver's own; packing, stamping and XDP_DROP's program run on the sender's \
             core. libpcap and TPACKET_V3 run without an XDP program, with GRO on, which is their best case: the host's stack \
             sees the packets, too.",
        );
        context.record.table(&table)?;
        targets(context, &competitors, &results, frame_len)?;
    }
    Ok(())
}

fn targets(
    context: &mut Context,
    competitors: &[Competitor],
    results: &[Vec<Option<one_queue::Round>>],
    frame_len: usize,
) -> Result<()> {
    let mut table = Table::new(
        format!(
            "Count only, {}-byte frames: ratios within each round, with the targets in brackets",
            frame_len + FCS_BYTES
        ),
        &[
            "wirecap",
            "rate, of the bare loop",
            "of libpcap 64 MiB",
            "of TPACKET_V3 64 MiB",
            "of XDP_DROP",
            "CPU, of the bare loop",
            "no loss",
            "reached",
        ],
    );
    for goal in GOALS.iter().filter(|goal| !results[goal.who].is_empty()) {
        let ours = &results[goal.who];
        let rate = |other: usize| one_queue::rate_ratio(ours, &results[other]);
        let (of_bare, of_libpcap) = (rate(goal.bare), rate(LIBPCAP_64));
        let of_cpu = one_queue::cpu_ratio(ours, &results[goal.bare]);
        let lossless = one_queue::is_lossless(ours);
        let applies = goal.applies(frame_len);
        let of_libpcap_target = goal.of_libpcap.filter(|_| frame_len == SHORT_FRAME);
        let reached = lossless
            && one_queue::is_at_least(of_bare, goal.of_bare)
            && of_libpcap_target.is_none_or(|target| one_queue::is_at_least(of_libpcap, target))
            && goal.of_cpu.is_none_or(|target| one_queue::is_at_most(of_cpu, target));
        table.row([
            format!("{} / {}", competitors[goal.who].name, competitors[goal.bare].name),
            with_target(show(of_bare, 3), applies.then_some(goal.of_bare)),
            with_target(show(of_libpcap, 2), of_libpcap_target),
            show(rate(TPACKET), 2),
            show(rate(XDP_DROP), 3),
            with_target(show(of_cpu, 2), goal.of_cpu),
            verdict(lossless),
            if applies { verdict(reached) } else { "–".into() },
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
            [PACKED, PACKED_STAMPED, LIBPCAP_64, TPACKET, XDP_DROP].map(name),
            [
                "wirecap, packed",
                "wirecap, packed, stamped",
                "libpcap 64 MiB",
                "TPACKET_V3 64 MiB",
                "XDP_DROP"
            ]
        );
        for Goal { who, bare, .. } in GOALS {
            let waits = if name(who).contains("busy") { "busy" } else { "sleep" };
            assert!(name(who).starts_with("wirecap") && name(bare).starts_with("bare AF_XDP"));
            assert!(name(bare).contains(waits), "{} waits otherwise than {}", name(bare), name(who));
        }
    }
}
