//! The tables of the account: a row for each queue and each worker that had packets, one for all others.
//!
//! Rule: a column is printed if every account has it, or if it is not 0 in some row. So nothing is hidden,
//! and the table stays narrow.

use wirecap::{
    QueueAccount, Report,
    report::{PortReport, QueueReport, WorkerReport},
};

use crate::{
    print::table::{Table, grouped},
    text::report::RowKind,
};

/// Columns that every account has.
const ALWAYS: [&str; 3] = ["seen", "delivered", "lost"];

/// Whether the account is closed, or packets are still on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    Over,
}

/// The row of a queue, of several idle ones, or of the sum.
struct Row {
    name: [String; 3],
    account: QueueAccount,
}

/// The account of the queues.
pub(super) fn queues(report: &Report, stage: Stage) -> Table {
    let mut rows: Vec<_> = report.ports.iter().flat_map(rows_of).collect();
    rows.push(Row { name: ["total".into(), String::new(), String::new()], account: report.total() });
    let figures: Vec<_> = rows.iter().map(|row| figures(&row.account, stage)).collect();
    let is_kept = |column: usize| {
        ALWAYS.contains(&figures[0][column].0) || figures.iter().any(|figures| figures[column].1 != 0)
    };
    let kept: Vec<_> = (0..figures[0].len()).filter(|&column| is_kept(column)).collect();
    // If all rows are sockets, or cores, the column is called that.
    let mut kinds = report.ports.iter().map(RowKind::of);
    let kind = kinds.next().filter(|&first| kinds.all(|kind| kind == first)).unwrap_or(RowKind::Queue);
    let names = ["port", kind.as_str(), "mode"];
    let heads: Vec<_> = names.into_iter().chain(kept.iter().map(|&column| figures[0][column].0)).collect();
    let mut table = Table::new(&heads).with_keys(2);
    for (row, figures) in rows.into_iter().zip(&figures) {
        let figures = kept.iter().map(|&column| figures[column].1.to_string());
        table.row(row.name.into_iter().chain(figures).collect());
    }
    table
}

/// All figures of an account, with the heads of their columns.
fn figures(account: &QueueAccount, stage: Stage) -> Vec<(&'static str, i64)> {
    let QueueAccount { seen, filtered, passed, delivered, lost } = *account;
    let left_over = match stage {
        Stage::Running => "on_the_way",
        Stage::Over => "unexplained",
    };
    let sums = [("seen", seen), ("filtered", filtered), ("passed", passed), ("delivered", delivered)];
    let packets = sums.into_iter().chain([("lost", lost.total())]).chain(lost.causes());
    let figures = packets.map(|(head, packets)| (head, packets as i64));
    figures.chain([(left_over, account.unexplained())]).collect()
}

fn rows_of(port: &PortReport) -> Vec<Row> {
    let row = |(label, queues): (String, Vec<&QueueReport>)| Row {
        name: [port.name.clone(), label, queues[0].mode.as_str().into()],
        account: queues[0].account,
    };
    let queues = port.queues.iter().map(|queue| (queue.queue.into(), queue));
    grouped(queues, |queue| queue.account == QueueAccount::default()).into_iter().map(row).collect()
}

/// The packets of the workers.
pub(super) fn workers(report: &Report) -> Table {
    let mut table = Table::new(&["worker", "core", "packets", "bytes", "offloaded_in", "offloaded_out"]);
    let is_idle =
        |worker: &&WorkerReport| **worker == WorkerReport { core: worker.core, ..WorkerReport::default() };
    for (label, alike) in grouped((0..).zip(&report.workers), is_idle) {
        let WorkerReport { packets, bytes, offloaded_in, offloaded_out, core } = *alike[0];
        let core = match core {
            core if alike.iter().any(|worker| worker.core != core) => "-".into(),
            Some(core) => core.to_string(),
            None => "any".into(),
        };
        let figures = [packets, bytes, offloaded_in, offloaded_out].map(|figure| figure.to_string());
        table.row([label, core].into_iter().chain(figures).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use wirecap::{Capture, port::null::NullPort};

    use super::*;

    fn report(queues: u16) -> Report {
        let port = NullPort { queues, packet_bytes: 60, packets_per_queue: 0 };
        Capture::builder().port(port).chunks_per_pool(4).workers(4).open().unwrap().report()
    }

    #[test]
    fn queues_without_packets_are_one_row() {
        let mut report = report(8);
        report.ports[0].queues[2].account = QueueAccount { seen: 7, delivered: 7, ..QueueAccount::default() };
        let table = queues(&report, Stage::Over).to_string();
        let expected = "\
port     queue  mode    seen  delivered  lost
null         2  memory     7          7     0
null   0-1,3-7  memory     0          0     0
total                      7          7     0
";
        assert_eq!(table, expected);
    }

    #[test]
    fn a_single_queue_without_packets_keeps_its_place() {
        let mut report = report(3);
        for queue in [0, 2] {
            report.ports[0].queues[queue].account =
                QueueAccount { seen: 7, delivered: 7, ..QueueAccount::default() };
        }
        let table = queues(&report, Stage::Over).to_string();
        let numbers: Vec<_> = table.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(numbers, ["queue", "0", "1", "2", "14"]);
    }

    #[test]
    fn many_separate_queues_without_packets_are_counted() {
        let mut report = report(32);
        for queue in report.ports[0].queues.iter_mut().step_by(2) {
            (queue.account.seen, queue.account.filtered) = (1, 1);
        }
        let table = queues(&report, Stage::Over).to_string();
        assert!(table.contains("null   16 idle  memory"), "{table}");
        assert!(table.starts_with("port     queue  mode    seen  filtered  delivered  lost\n"), "{table}");
    }

    #[test]
    fn each_cause_in_the_account_has_its_column_and_nothing_is_hidden() {
        let mut report = report(1);
        let account = &mut report.ports[0].queues[0].account;
        (account.seen, account.passed, account.delivered) = (10, 1, 2);
        (account.lost.no_free_cell, account.lost.too_long) = (3, 2);
        // One table would be too wide: the headings of both.
        for (stage, left_over) in [(Stage::Over, "unexplained"), (Stage::Running, "on_the_way")] {
            let table = queues(&report, stage).to_string();
            let heads = table.lines().filter(|line| line.starts_with("port"));
            let heads: Vec<_> = heads.flat_map(|line| line.split_whitespace().skip(2)).collect();
            let expected =
                ["mode", "seen", "passed", "delivered", "lost", "no_free_cell", "too_long", left_over];
            assert_eq!(heads, expected, "{table}");
        }
    }

    #[test]
    fn the_manual_has_every_column() {
        let manual = include_str!("../../../../docs/book/account.md");
        for stage in [Stage::Running, Stage::Over] {
            for (head, _) in figures(&QueueAccount::default(), stage) {
                assert!(manual.contains(&format!("| `{head}` |")), "{head}");
            }
        }
    }

    #[test]
    fn workers_without_packets_are_one_row() {
        let mut report = report(4);
        (report.workers[1].packets, report.workers[1].bytes) = (5, 300);
        let table = workers(&report).to_string();
        let expected = "\
worker  core  packets  bytes  offloaded_in  offloaded_out
     1  any         5    300             0              0
 0,2-3  any         0      0             0              0
";
        assert_eq!(table, expected);
    }
}
