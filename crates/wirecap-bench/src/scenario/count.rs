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

use super::{Context, FCS_BYTES, SHORT_FRAME, one_queue};
use crate::arguments::Scenario;
use crate::competitor::{Competitor, Peers};
use crate::stats::{Summary, show};
use crate::table::{Table, verdict};

const PACKED: usize = 3;
const PACKED_STAMPED: usize = 4;
const BARE_SLEEP: usize = 5;
const BARE_BUSY: usize = 6;
const LIBPCAP_64: usize = 8;
const TPACKET: usize = 9;
const XDP_DROP: usize = 10;

/// A wirecap competitor, its bare loop, and what it has to reach.
struct Goal {
    who: usize,
    bare: usize,
    /// At least this part of the bare loop's rate; in cells only with short frames.
    of_bare: f64,
    /// At least this part of libpcap's rate, with short frames.
    of_libpcap: f64,
    /// At most this part of the bare loop's CPU time.
    of_cpu: f64,
}

const fn in_cells(who: usize, bare: usize) -> Goal {
    Goal { who, bare, of_bare: 0.95, of_libpcap: 2.5, of_cpu: f64::INFINITY }
}

const GOALS: [Goal; 5] = [
    in_cells(0, BARE_SLEEP),
    in_cells(1, BARE_BUSY),
    in_cells(2, BARE_SLEEP),
    Goal { who: PACKED, bare: BARE_SLEEP, of_bare: 1.25, of_libpcap: 3.5, of_cpu: 0.6 },
    Goal { who: PACKED_STAMPED, bare: BARE_SLEEP, of_bare: 1.1, of_libpcap: 0.0, of_cpu: 0.6 },
];

impl Goal {
    /// Whether it is one with frames of this length.
    fn applies(&self, frame_len: usize) -> bool {
        frame_len == SHORT_FRAME || [PACKED, PACKED_STAMPED].contains(&self.who)
    }

    /// `0.95`, or `–` if there is none.
    fn shown(goal: f64) -> String {
        if goal > 0.0 && goal.is_finite() { goal.to_string() } else { "–".into() }
    }
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
        let median = |summary: Option<Summary>| summary.map(|summary| summary.median);
        let is_short = frame_len == SHORT_FRAME;
        let reached = lossless
            && median(of_bare).is_some_and(|median| median >= goal.of_bare)
            && (!is_short || median(of_libpcap).is_some_and(|median| median >= goal.of_libpcap))
            && median(of_cpu).is_some_and(|median| median <= goal.of_cpu);
        let applies = goal.applies(frame_len);
        let with = |shown: String, target: f64| {
            if applies { format!("{shown} [{}]", Goal::shown(target)) } else { shown }
        };
        table.row([
            format!("{} / {}", competitors[goal.who].name, competitors[goal.bare].name),
            with(show(of_bare, 3), goal.of_bare),
            with(show(of_libpcap, 2), if is_short { goal.of_libpcap } else { 0.0 }),
            show(rate(TPACKET), 2),
            show(rate(XDP_DROP), 3),
            with(show(of_cpu, 2), goal.of_cpu),
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
