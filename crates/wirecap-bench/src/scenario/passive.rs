//! Beside the host, whose stack drops the packets: one queue, count only, frames of three sizes.
//!
//! | wirecap | of TPACKET_V3's rate | CPU, of TPACKET_V3's |
//! |---|---|---|
//! | tapped (TCX) | 1.0 | 1.0 |
//! | tapped by XDP | 1.3 | 1.0 |
//!
//! And no loss. All of them stamp each packet, but `XDP_PASS`, the ceiling of a tap by XDP: a program that
//! counts packets, copies none, and leaves them to the host.

use anyhow::Result;
use wirecap_lab::table::{Table, verdict};

use super::{Context, FCS_BYTES, one_queue};
use crate::arguments::Scenario;
use crate::competitor::{Competitor, Peers};
use crate::stats::show;

const TPACKET: usize = 3;
const XDP_PASS: usize = 4;
/// Competitors of wirecap, and what part of TPACKET_V3's rate each has to reach.
const GOALS: [(usize, f64); 2] = [(0, 1.0), (1, 1.3)];

fn competitors(peers: &Peers) -> Result<Vec<Competitor>> {
    Ok(vec![
        Competitor::tapped("wirecap, tapped", "")?,
        Competitor::tapped("wirecap, tapped by XDP", "--tap-hook xdp")?,
        peers.competitor("libpcap 64 MiB", "pcap_count", "--buffer-mib 64"),
        peers.competitor("TPACKET_V3 64 MiB", "tpacket_count", "--block-kib 1024 --blocks 64"),
        Competitor::xdp_pass()?,
    ])
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let competitors = competitors(&context.peers)?;
    for frame_len in one_queue::FRAMES {
        let results = one_queue::all(context, Scenario::Passive, &competitors, frame_len)?;
        let bytes = frame_len + FCS_BYTES;
        let title = format!("Beside the host, one queue, {bytes}-byte frames, 4,096 flows");
        let mut table = one_queue::table(title, &competitors, &results, TPACKET);
        table.note(
            "veth does the receive work on the sender's core, and so the host's: its stack drops each packet there. CPU time is \
             the receiver's own.",
        );
        context.record.table(&table)?;
        let mut table = Table::new(
            format!(
                "Beside the host, {bytes}-byte frames: ratios within each round, with the targets in brackets"
            ),
            &[
                "wirecap",
                "rate, of TPACKET_V3 64 MiB",
                "of XDP_PASS",
                "CPU, of TPACKET_V3 64 MiB",
                "no loss",
                "reached",
            ],
        );
        for (who, target) in GOALS.into_iter().filter(|&(who, _)| !results[who].is_empty()) {
            let (ours, theirs) = (&results[who], &results[TPACKET]);
            let (rate, cpu) = (one_queue::rate_ratio(ours, theirs), one_queue::cpu_ratio(ours, theirs));
            let lossless = one_queue::is_lossless(ours);
            let reached = lossless && one_queue::is_at_least(rate, target) && one_queue::is_at_most(cpu, 1.0);
            table.row([
                competitors[who].name.clone(),
                format!("{} [{target}]", show(rate, 2)),
                show(one_queue::rate_ratio(ours, &results[XDP_PASS]), 2),
                format!("{} [1]", show(cpu, 2)),
                verdict(lossless),
                verdict(reached),
            ]);
        }
        context.record.table(&table)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_competitors_are_right() {
        let competitors = competitors(&Peers::default()).unwrap();
        assert_eq!(competitors[TPACKET].name, "TPACKET_V3 64 MiB");
        assert_eq!(competitors[XDP_PASS].name, "XDP_PASS");
        assert!(GOALS.iter().all(|&(who, _)| competitors[who].name.starts_with("wirecap, tapped")));
    }
}
