//! The rows of `--csv`.
//!
//! ```text
//!   time,seconds,gini,queue 0,queue 1
//!   1764136980.450000000,0,0.3421,312,56        since 1970; since the first bin, without jumps of the time
//!   ,,,0,2                                       packets in no bin, if any: the last row
//! ```
//!
//! Rule: bins without packets have no row. The sums of the columns are the packets of the queues. `seconds`
//! never goes back, `time` does where the times of packets do.

use std::io::Write;

use wirecap_profile::{Row, Summary, imbalance::gini};

/// The head of the table.
pub(super) fn head(labels: &[String]) -> Vec<u8> {
    let mut head = b"time,seconds,gini".to_vec();
    for label in labels {
        let needs_quotes = label.contains([',', '"', '\n']);
        let quoted = || format!("\"{}\"", label.replace('"', "\"\""));
        write(&mut head, &format!(",{}", if needs_quotes { quoted() } else { label.clone() }));
    }
    head.push(b'\n');
    head
}

/// Appends the row of a bin.
pub(super) fn row(row: &Row, bin_ns: u64, out: &mut Vec<u8>) {
    let (time, since) = (row.bin * bin_ns, row.position * bin_ns);
    let (seconds, ns) = (time / SECOND_NS, time % SECOND_NS);
    let since = decimal(since);
    write(out, &format!("{seconds}.{ns:09},{since},{:.4}", gini(&row.packets)));
    figures(row.packets.iter().copied(), out);
}

/// Appends the row of packets that are in no bin, if there are any.
pub(super) fn outliers(summary: &Summary, out: &mut Vec<u8>) {
    let of_queues = || summary.queues.iter().map(|queue| queue.late + queue.ahead);
    if of_queues().any(|packets| packets > 0) {
        write(out, ",,");
        figures(of_queues(), out);
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// Seconds, without trailing zeros.
fn decimal(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / SECOND_NS, ns % SECOND_NS);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn figures(figures: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    figures.for_each(|figure| write(out, &format!(",{figure}")));
    out.push(b'\n');
}

fn write(out: &mut Vec<u8>, text: &str) {
    out.write_all(text.as_bytes()).expect("memory takes everything");
}

#[cfg(test)]
mod tests {
    use wirecap_profile::{BinSettings, Profiler, Tally};

    use super::*;

    #[test]
    fn rows_have_their_times_and_packets_in_no_bin_are_the_last() {
        let bin_ns = 10_000_000;
        let mut profiler = Profiler::new(2, BinSettings::new(bin_ns, bin_ns));
        let mut tally = Tally::new(bin_ns);
        for (ms, queue) in [(100_450, 0), (100_459, 1), (100_450, 0), (500_000, 1), (0, 1), (500_000, 1)] {
            tally.count(ms * 1_000_000, queue);
        }
        let mut out = head(&["queue 0".into(), "a,\"b\" queue 1".into()]);
        let mut each = |one: &Row| row(one, bin_ns, &mut out);
        profiler.add(&tally, &mut each);
        profiler.close(&mut each);
        outliers(&profiler.summary(), &mut out);
        let expected = "\
time,seconds,gini,queue 0,\"a,\"\"b\"\" queue 1\"
100.450000000,0,0.1667,2,1
500.000000000,399.55,0.5000,0,1
,,,0,2
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
