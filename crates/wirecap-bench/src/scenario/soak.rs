//! Skewed traffic for long, to workers that keep up only together: pull for one half of the time, push for
//! the other. And forwarding, for half of the time.
//!
//! Targets: no loss, nothing unexplained, no growth of memory during the capture.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wirecap_lab::table::{Table, grouped, mib, verdict};
use wirecap_traffic::FrameSpec;

use super::{Context, forward, skew};
use crate::arguments::Scenario;
use crate::bed::FLOWS;
use crate::competitor::Outcome;
use crate::machine::{ResidentMemory, StolenTime};
use crate::run::Process;
use crate::sender::PacedSender;

const REPORT_EVERY: Duration = Duration::from_secs(10);
/// R: over T = 60, the pool has room for a quarter of a second of the hot queue's traffic, so that short
/// disturbances of the machine lose nothing.
const CHUNKS: u64 = 200;
/// Memory may grow by this much after the first report: some pages are touched late.
const GROWTH_LIMIT_BYTES: u64 = 1 << 20;

/// The result of one half of the soak.
struct Half {
    sent: u64,
    longest_pause: Duration,
    outcome: Outcome,
    /// Resident memory at each report, in bytes.
    memory: Vec<u64>,
}

impl Half {
    fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.outcome.packets)
    }

    fn growth(&self) -> u64 {
        let largest = self.memory.iter().max().copied().unwrap_or(0);
        largest.saturating_sub(self.memory.first().copied().unwrap_or(0))
    }

    fn is_good(&self) -> bool {
        self.lost() == 0 && self.outcome.unexplained() == 0 && self.growth() <= GROWTH_LIMIT_BYTES
    }
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let half = half(context);
    let mut table = Table::new(
        format!("Soak: skewed traffic, {:.0} s each", half.as_secs_f64()),
        &[
            "engine",
            "sent",
            "delivered",
            "lost",
            "unexplained",
            "offloaded",
            "RSS growth KiB",
            "sender's longest pause ms",
            "worker's latest wake-up ms",
            "good",
        ],
    );
    let mut good = true;
    for dispatch in ["pull", "push"] {
        let result = soak(context, dispatch, half)?;
        let workers = result.outcome.all["report"]["workers"].as_array();
        let offloaded =
            workers.into_iter().flatten().filter_map(|worker| worker["offloaded_in"].as_u64()).sum();
        table.row([
            format!("advanced, T = 60, {dispatch}"),
            grouped(result.sent),
            grouped(result.outcome.packets),
            grouped(result.lost()),
            result.outcome.unexplained().to_string(),
            grouped(offloaded),
            grouped(result.growth() / 1024),
            format!("{:.0}", result.longest_pause.as_secs_f64() * 1e3),
            format!("{:.0}", result.outcome.latest_wake_ms()),
            verdict(result.is_good()),
        ]);
        good &= result.is_good();
    }
    context.record.table(&table)?;
    ensure!(good, "the soak found a fault, see the table");
    Ok(())
}

/// Half of the requested time.
fn half(context: &Context) -> Duration {
    Duration::from_secs_f64((context.arguments.minutes * 30.0).max(1.0))
}

/// Forwards for half of the time. No packet may be lost, by the counters of the far end and by wirecap's own
/// account. The bare loop shows what the machine can do.
pub(super) fn forwards(context: &mut Context) -> Result<()> {
    let duration = half(context);
    let (rate_pps, held) = forward::soak(context, duration)?;
    let mut table = Table::new(
        format!(
            "Soak: forwarding at {:.3} Mpps, 0.9 of the top rate of wirecap, {:.0} s",
            rate_pps / 1e6,
            duration.as_secs_f64()
        ),
        &[
            "forwarder",
            "sent",
            "arrived",
            "lost",
            "lost, by the account",
            "stolen",
            "stolen, worst second",
            "good",
        ],
    );
    let [wirecap, bare] = held.each_ref().map(|held| held.passed.lost() == 0 && held.passed.sent.frames > 0);
    let not_forwarded = not_forwarded(&held[0].account);
    let good = wirecap && not_forwarded == Some(0);
    for (held, account, good) in [
        (&held[0], not_forwarded.map_or_else(|| "unknown".into(), grouped), good),
        (&held[1], String::new(), bare),
    ] {
        let StolenTime { share, worst_second } = held.stolen;
        table.row([
            held.name.into(),
            grouped(held.passed.sent.frames),
            grouped(held.passed.arrived),
            grouped(held.passed.lost()),
            account,
            format!("{:.2} %", share * 100.0),
            format!("{:.0} %", worst_second * 100.0),
            verdict(good),
        ]);
    }
    table.note(
        "Stolen is the share of CPU time that the hypervisor gave to others: of all cores in total, and of one core in its worst second.",
    );
    context.record.table(&table)?;
    ensure!(good, "packets were lost, see the table");
    Ok(())
}

/// Packets that the account of `wirecap forward` has as lost, dropped, unsent or unexplained. `None` if the
/// account lacks one of these figures.
fn not_forwarded(account: &Value) -> Option<u64> {
    let mut sum = 0;
    for port in account["ports"].as_array()? {
        sum += port["unsent"].as_u64()? + port["dropped_before_xdp"].as_u64()?;
        for queue in port["queues"].as_array()? {
            sum += queue["unexplained"].as_i64()?.unsigned_abs();
            sum += queue["lost"].as_object()?.values().filter_map(Value::as_u64).sum::<u64>();
        }
    }
    for way in account["forwarded"].as_array()? {
        sum += way["dropped"].as_object()?.values().filter_map(Value::as_u64).sum::<u64>();
    }
    Some(sum)
}

fn soak(context: &mut Context, dispatch: &str, duration: Duration) -> Result<Half> {
    let link = context.bed.link(skew::RATES_PPS.len() as u32)?;
    let every_ms = REPORT_EVERY.as_millis().to_string();
    let mut process = skew::advanced(dispatch, CHUNKS)?.start(&link, &["--report-ms".into(), every_ms])?;
    let mut memory = Vec::new();
    let watched = &mut process;
    let paced = link.with_sender(|ifindex| {
        let mut sender = PacedSender::open(ifindex, &skew::RATES_PPS, FrameSpec::default(), FLOWS)?;
        let mut next = REPORT_EVERY;
        sender.run(duration, |elapsed, sent| {
            if elapsed >= next {
                next += REPORT_EVERY;
                memory.push(sample(watched, dispatch, elapsed, sent));
            }
        })
    })?;
    let outcome = process.wait(Duration::from_secs(60))?;
    let outcome = Outcome::read(outcome.json().context("the engine ended before the traffic did")?)?;
    let sent = paced.sent.iter().sum();
    let half = Half { sent, longest_pause: paced.longest_pause, outcome, memory };
    let kept = json!({
        "sent": sent, "longest_pause_ms": half.longest_pause.as_secs_f64() * 1e3, "memory": half.memory, "received": half.outcome.all,
    });
    context.keep(Scenario::Soak, dispatch, 1, &kept)?;
    Ok(half)
}

/// Prints the state and returns the resident memory, in bytes.
fn sample(process: &mut Process, dispatch: &str, elapsed: Duration, sent: u64) -> u64 {
    let rss = ResidentMemory::of(process.pid()).map_or(0, |resident| resident.rss);
    // The newest report so far; the first may not have arrived yet.
    let lines = std::iter::from_fn(|| process.next_line(Duration::ZERO));
    let report = lines.last().and_then(|line| serde_json::from_str::<Value>(&line).ok());
    let (delivered, lost) = report.map_or((0, 0), |line| totals(&line["report"]));
    println!(
        "{:>5.0} s  {dispatch}: sent {}, delivered {} at the last report, lost {}, RSS {} MiB",
        elapsed.as_secs_f64(),
        grouped(sent),
        grouped(delivered),
        grouped(lost),
        mib(rss as f64)
    );
    rss
}

/// Packets delivered and lost, of all queues.
fn totals(report: &Value) -> (u64, u64) {
    let queues = report["ports"][0]["queues"].as_array().into_iter().flatten();
    queues.fold((0, 0), |(delivered, lost), queue| {
        let causes = queue["lost"].as_object().into_iter().flatten();
        let lost_here: u64 = causes.filter_map(|(_, packets)| packets.as_u64()).sum();
        (delivered + queue["delivered"].as_u64().unwrap_or(0), lost + lost_here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_sum_all_queues() {
        let queue = json!({ "delivered": 5, "lost": { "no_free_cell": 1, "rx_ring_full": 2 } });
        assert_eq!(totals(&json!({ "ports": [{ "queues": [queue, queue] }] })), (10, 6));
        assert_eq!(totals(&Value::Null), (0, 0));
    }

    #[test]
    fn every_packet_not_forwarded_counts() {
        let queue = json!({ "unexplained": -1, "lost": { "no_free_cell": 2 } });
        let port = json!({ "unsent": 4, "dropped_before_xdp": 8, "queues": [queue] });
        let account = json!({ "ports": [port], "forwarded": [{ "dropped": { "ring_full": 16 } }] });
        assert_eq!(not_forwarded(&account), Some(31));
        assert_eq!(not_forwarded(&json!({ "ports": [] })), None);
    }

    #[test]
    fn growth_or_loss_is_not_good() {
        let all = json!({ "packets": 10, "seconds": 1.0, "cpu_seconds": 1.0, "unexplained": 0 });
        let outcome = || Outcome::read(all.clone()).unwrap();
        let half = |sent, memory| Half { sent, longest_pause: Duration::ZERO, outcome: outcome(), memory };
        assert!(half(10, vec![1 << 30, (1 << 30) + 4096]).is_good());
        assert!(!half(10, vec![1 << 30, 2 << 30]).is_good());
        assert!(!half(11, vec![1 << 30]).is_good());
    }
}
