//! One C program, a counting loop over `pcap_dispatch`, on the system's libpcap and on wirecap; one queue,
//! frames of three sizes.
//!
//! | of libpcap's rate at 64 bytes | at 512 and 1,500 bytes | of the Rust library's, stamped |
//! |---|---|---|
//! | 2 | 1 | 0.9 |
//!
//! And no loss. libpcap has a buffer of 64 MiB; the pools have 64 MiB of blocks.

use anyhow::{Context as _, Result};
use wirecap_lab::table::{Table, verdict};

use super::{
    super::{Context, FCS_BYTES, one_queue},
    library_path, target,
};
use crate::arguments::Scenario;
use crate::competitor::{Competitor, Peers};
use crate::stats::show;

const RUST: usize = 0;
const ON_WIRECAP: usize = 1;
const ON_LIBPCAP: usize = 2;

fn competitors(peers: &Peers) -> Result<Vec<Competitor>> {
    let library = library_path()?;
    let library = library.to_str().context("the path of the library")?;
    let counting = |name| peers.competitor(name, "pcap_count", "--buffer-mib 64");
    Ok(vec![
        Competitor::packed("the Rust library", "")?,
        counting("pcap_dispatch on wirecap").with_environment("LD_PRELOAD", library),
        counting("pcap_dispatch on libpcap"),
    ])
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let competitors = competitors(&context.peers)?;
    for frame_len in one_queue::FRAMES {
        let results = one_queue::all(context, Scenario::Libpcap, &competitors, frame_len)?;
        let bytes = frame_len + FCS_BYTES;
        let title = format!("libpcap's functions, one queue, {bytes}-byte frames, 4,096 flows");
        let table = one_queue::table(title, &competitors, &results, ON_LIBPCAP);
        context.record.table(&table)?;
        if results[ON_WIRECAP].is_empty() {
            continue;
        }
        let ours = &results[ON_WIRECAP];
        let of_libpcap = one_queue::rate_ratio(ours, &results[ON_LIBPCAP]);
        let of_rust = one_queue::rate_ratio(ours, &results[RUST]);
        let lossless = one_queue::is_lossless(ours);
        let least = target(frame_len);
        let reached =
            lossless && one_queue::is_at_least(of_libpcap, least) && one_queue::is_at_least(of_rust, 0.9);
        let mut table = Table::new(
            format!(
                "libpcap's functions, {bytes}-byte frames: ratios within each round, with the targets in brackets"
            ),
            &[
                "on wirecap",
                "rate, of libpcap's",
                "rate, of the Rust library's",
                "CPU, of libpcap's",
                "no loss",
                "reached",
            ],
        );
        table.row([
            "pcap_dispatch".into(),
            format!("{} [{least}]", show(of_libpcap, 2)),
            format!("{} [0.9]", show(of_rust, 2)),
            show(one_queue::cpu_ratio(ours, &results[ON_LIBPCAP]), 2),
            verdict(lossless),
            verdict(reached),
        ]);
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
        assert_eq!(competitors[ON_WIRECAP].name, "pcap_dispatch on wirecap");
        assert_eq!(competitors[ON_LIBPCAP].name, "pcap_dispatch on libpcap");
        assert_eq!(competitors[RUST].name, "the Rust library");
    }
}
