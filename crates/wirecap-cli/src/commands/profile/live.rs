//! What is shown while a profile grows: a table on a terminal, a line elsewhere.

use wirecap_profile::imbalance::factor;

use crate::text::{plural::counted, units::rate};

/// The most queues in a table: more do not fit a terminal of 24 rows.
const MAX_QUEUES: usize = 16;
/// Rows of a table without its queues, if it has not got all of them.
const OTHER_ROWS: usize = 3;
/// Columns of a bar for a share of 100 percent.
const BAR: usize = 30;
/// Queues that a line names.
const MAX_NAMED: usize = 4;

/// What came between two looks.
#[derive(Debug)]
pub(super) struct Interval {
    /// In seconds; more than 0.
    pub(super) seconds: f64,
    /// Packets of each queue.
    pub(super) packets: Vec<u64>,
}

impl Interval {
    /// A table of at most `rows` rows, if there is room for any queues: rate and share of each queue in the
    /// interval, share of all packets so far.
    pub(super) fn table(&self, labels: &[String], so_far: &[u64], rows: usize) -> Vec<String> {
        let queues = busiest_first(so_far, &self.packets);
        let are_all = queues.len() <= MAX_QUEUES && queues.len() + OTHER_ROWS <= rows + 1;
        let len = if are_all { queues.len() } else { MAX_QUEUES.min(rows.saturating_sub(OTHER_ROWS)) };
        let mut shown: Vec<_> = queues.iter().copied().take(len).collect();
        shown.sort_unstable();
        let width = shown.iter().map(|&queue| labels[queue].chars().count()).max().unwrap_or(0).max(5);
        let mut rows = vec![format!("{:<width$}  packets/s  share  {:<BAR$}  in all", "queue", "")];
        for queue in shown {
            let (now, all) = (share(queue, &self.packets), share(queue, so_far));
            let pps = (self.packets[queue] as f64 / self.seconds).round();
            let bar = "#".repeat((now * BAR as f64).round() as usize);
            let row = format!("{:<width$}  {pps:>9}  {:>3.0} %  {bar:<BAR$}", labels[queue], now * 100.0);
            rows.push(format!("{row}  {:>4.0} %", all * 100.0));
        }
        if !are_all {
            rows.push(format!("and {} with fewer packets", counted(queues.len() - len, "queue")));
        }
        rows.push(format!(
            "busiest queue, times an even share: {:.1} now, {:.1} in all",
            factor(&self.packets),
            factor(so_far)
        ));
        rows
    }

    /// The same in a line.
    pub(super) fn line(&self, labels: &[String], so_far: &[u64]) -> String {
        let total: u64 = self.packets.iter().sum();
        let pps = rate(total as f64 / self.seconds);
        if total == 0 {
            return format!("profile: {pps}");
        }
        let queues = busiest_first(&self.packets, so_far);
        let named = queues.iter().take(MAX_NAMED).filter(|&&queue| self.packets[queue] > 0);
        let named: Vec<_> = named
            .map(|&queue| format!("{} {:.0} %", labels[queue], share(queue, &self.packets) * 100.0))
            .collect();
        format!(
            "profile: {pps}: {}; the busiest has {:.1} times an even share, {:.1} in all",
            named.join(", "),
            factor(&self.packets),
            factor(so_far)
        )
    }
}

fn share(queue: usize, packets: &[u64]) -> f64 {
    packets[queue] as f64 / packets.iter().sum::<u64>().max(1) as f64
}

/// Positions of queues, the most packets first; `tie` decides between equals.
fn busiest_first(packets: &[u64], tie: &[u64]) -> Vec<usize> {
    let mut queues: Vec<_> = (0..packets.len()).collect();
    queues.sort_by_key(|&queue| std::cmp::Reverse((packets[queue], tie[queue])));
    queues
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_shares_now_and_in_all() {
        let labels = ["queue 0".to_owned(), "queue 1".to_owned()];
        let interval = Interval { seconds: 0.5, packets: vec![300, 100] };
        let expected = [
            "queue    packets/s  share                                  in all",
            "queue 0        600   75 %  #######################           20 %",
            "queue 1        200   25 %  ########                          80 %",
            "busiest queue, times an even share: 1.5 now, 1.6 in all",
        ];
        assert_eq!(interval.table(&labels, &[200, 800], 4), expected);
        assert_eq!(
            interval.line(&labels, &[200, 800]),
            "profile: 800 packets/s: queue 0 75 %, queue 1 25 %; the busiest has 1.5 times an even share, 1.6 in all"
        );
        let silence = Interval { seconds: 0.5, packets: vec![0, 0] };
        assert_eq!(silence.line(&labels, &[200, 800]), "profile: 0 packets/s");
    }

    #[test]
    fn many_queues_are_cut_to_the_busiest() {
        let labels: Vec<_> = (0..40).map(|queue| format!("queue {queue}")).collect();
        let packets: Vec<u64> = (0..40).collect();
        let interval = Interval { seconds: 1.0, packets: packets.clone() };
        let table = interval.table(&labels, &packets, 23);
        assert_eq!(table.len(), 1 + MAX_QUEUES + 2);
        assert!(table[1].starts_with("queue 24") && table[17].starts_with("and 24 queues with fewer"));
        assert!(table.iter().all(|row| row.chars().count() < 80));
        for rows in 4..40 {
            let table = interval.table(&labels, &packets, rows);
            let queues =
                table.iter().filter(|row| row.starts_with("queue ") && !row.contains("share")).count();
            assert_eq!(
                (table.len(), queues),
                (queues + OTHER_ROWS, MAX_QUEUES.min(rows - OTHER_ROWS)),
                "{table:?}"
            );
            assert!(table.contains(&format!("and {} queues with fewer packets", 40 - queues)), "{table:?}");
        }
    }
}
