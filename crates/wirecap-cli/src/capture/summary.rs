//! What is said at the end: the account, as a table or as JSON.

use serde::Serialize;
use serde_json::{Map, Value};
use wirecap::{Lost, QueueAccount, Report, report::PortReport};
use wirecap_core::words::{counted, is, was};

use super::{disorder::Disorder, job::Job, times, writer::Written};
use crate::{
    exit::{self, tell},
    plan::Plan,
    printable::{json, printable},
    table::Table,
    terminal::rate,
};

/// The report with what was written.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    report: &'a Report,
    written: Option<&'a Written>,
    #[serde(flatten)]
    job: Map<String, Value>,
}

/// Prints the account to standard output, or to standard error if the packets went there. Returns whether it could.
pub(crate) fn print(plan: &Plan, report: &Report, written: Option<&Written>, job: &impl Job) -> bool {
    let text = if plan.json {
        json(&Summary { report, written, job: job.json(report) })
    } else {
        in_words(report, written, plan.keeps_times) + &job.in_words(report)
    };
    let printed = if plan.stdout_is_taken() { exit::print_on_stderr(&text) } else { exit::print(&text) };
    if let Err(cause) = &printed {
        tell(format_args!("wirecap: cannot print the account: {cause}"));
    }
    let unexplained = report.total().unexplained();
    let unexplained_queue =
        report.ports.iter().flat_map(|port| &port.queues).any(|queue| queue.unexplained != 0);
    if unexplained_queue {
        tell(format_args!(
            "wirecap: WARNING: the account does not close: {} {} unexplained. This is a defect of wirecap;",
            counted(unexplained, "packet"),
            is(unexplained)
        ));
        tell("wirecap: WARNING: please report it with the account above, the kernel version and the driver");
    }
    printed.is_ok()
}

fn in_words(report: &Report, written: Option<&Written>, keeps_times: bool) -> String {
    let mut text = format!("{}\n{}", accounts(report), workers(report));
    for port in report.ports.iter().filter(|port| port.dropped_before_xdp > 0) {
        let whole = if port.name.contains('@') { ", on all queues of its interface" } else { "" };
        text += &format!(
            "\n{}: {} {} dropped by the NIC or its driver before they could be seen{whole}\n",
            printable(&port.name),
            counted(port.dropped_before_xdp, "packet"),
            was(port.dropped_before_xdp)
        );
    }
    for (port, rss) in report.ports.iter().filter_map(|port| Some((&port.name, port.rss.as_ref()?))) {
        text += &format!("\n{}: RSS was {}\n", printable(port), printable(rss));
    }
    for warning in report.ports.iter().flat_map(|port| &port.warnings) {
        text += &format!("\nWARNING: {}\n", printable(warning));
    }
    let delivered = report.total().delivered;
    let pps = delivered as f64 / report.seconds.max(1e-9);
    let packets = counted(delivered, "packet");
    text += &format!("\n{packets} in {:.3} s, {} on average\n", report.seconds, rate(pps));
    for port in report.ports.iter().filter(|_| keeps_times) {
        for remark in times::remarks(&port.timestamp) {
            text += &format!("{}, times: {remark}\n", port.name);
        }
    }
    if let Some(written) = written {
        let (packets, bytes) = (counted(written.packets, "packet"), counted(written.bytes, "byte"));
        text += &format!("{packets} written to {}, {bytes}", printable(&written.in_words));
        match delivered.saturating_sub(written.packets) {
            0 => text += "\n",
            unwritten => {
                let (were, are) = (was(unwritten), is(unwritten));
                text += &format!("; {unwritten} more {were} captured and {are} not in it\n");
            }
        }
        if written.out_of_order > 0 {
            let stand = if written.out_of_order == 1 { "stands" } else { "stand" };
            let reasons = Disorder::of(report, written).map(|reason| reason.to_string()).collect::<Vec<_>>();
            text += &format!(
                "{} of them {stand} behind a later one: {}\n",
                written.out_of_order,
                reasons.join(", and ")
            );
        }
    }
    text
}

fn accounts(report: &Report) -> Table {
    // Where all rows are sockets, that is what they are called.
    let sockets = report.ports.iter().all(PortReport::is_passive);
    let row_name = if sockets { "socket" } else { "queue" };
    let heads: Vec<_> = ["port", row_name, "mode", "seen", "filtered", "passed", "delivered"]
        .into_iter()
        .chain(Lost::default().causes().map(|(cause, _)| cause))
        .chain(["unexplained"])
        .collect();
    let mut table = Table::new(&heads);
    let mut row = |name: [String; 3], account: QueueAccount| {
        let QueueAccount { seen, filtered, passed, delivered, .. } = account;
        let figures = [seen, filtered, passed, delivered].into_iter();
        let figures = figures.chain(account.lost.causes().map(|(_, packets)| packets));
        let cells = name.into_iter().chain(figures.map(|packets| packets.to_string()));
        table.row(cells.chain([account.unexplained().to_string()]).collect());
    };
    for port in &report.ports {
        for queue in &port.queues {
            let name = [port.name.clone(), queue.queue.to_string(), queue.mode.as_str().into()];
            row(name, queue.account());
        }
    }
    row(["total".into(), String::new(), String::new()], report.total());
    table
}

fn workers(report: &Report) -> Table {
    let mut table = Table::new(&["worker", "core", "packets", "bytes", "offloaded_in", "offloaded_out"]);
    for (index, worker) in report.workers.iter().enumerate() {
        table.row(vec![
            index.to_string(),
            worker.core.map_or_else(|| "any".into(), |core| core.to_string()),
            worker.packets.to_string(),
            worker.bytes.to_string(),
            worker.offloaded_in.to_string(),
            worker.offloaded_out.to_string(),
        ]);
    }
    table
}
