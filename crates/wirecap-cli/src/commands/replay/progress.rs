//! The bar that shows how far a replay is, and how long it will take.

use wirecap_replay::Progress;

use crate::{
    print::status_line::{Rates, Snapshot},
    text::{
        plural::counted,
        units::{length, rate},
    },
};

/// Characters of the bar.
const WIDTH: usize = 20;

pub(super) fn snapshot(progress: &Progress) -> Snapshot {
    let Progress { elapsed, packets, bytes, .. } = *progress;
    Snapshot { seconds: elapsed.as_secs_f64(), packets, bits: 8 * bytes }
}

/// The bar and the figures beside it, with rates since another snapshot.
pub(super) fn fields(progress: &Progress, rates: Rates) -> Vec<String> {
    let bar = progress.share.map(|share| {
        let full = (share * WIDTH as f64) as usize;
        format!("[{}{}] {:.0} %", "=".repeat(full), " ".repeat(WIDTH - full), share * 100.0)
    });
    let left = progress.left.map(|left| format!("{} left", length(left)));
    let seconds = format!("{:.1} s", progress.elapsed.as_secs_f64());
    let figures = [seconds, counted(progress.packets, "packet"), rate(rates.pps)];
    bar.into_iter().chain(left).chain(figures).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::print::layout::fitted;

    #[test]
    fn the_bar_has_the_share_and_the_time_left() {
        let progress = Progress {
            elapsed: Duration::from_secs(10),
            packets: 30_000,
            bytes: 0,
            share: Some(0.25),
            left: Some(Duration::from_secs(90)),
        };
        let rates = Rates { pps: 20_000.0, mbps: 0.0 };
        let line = |progress: &Progress, columns| fitted(&fields(progress, rates), columns);
        let expected = "[=====               ] 25 %  1 min 30 s left  10.0 s  30000 packets  20.00 kpps";
        assert_eq!(line(&progress, 79), expected);
        assert_eq!(line(&progress, 39), "[=====               ] 25 %");
        let endless = Progress { share: None, left: None, ..progress };
        assert_eq!(line(&endless, 79), "10.0 s  30000 packets  20.00 kpps");
        let whole = line(&Progress { share: Some(1.0), ..progress }, 79);
        assert!(whole.starts_with("[====================] 100 %"), "{whole}");
        let long = Progress { packets: 123_456_789_012_345, ..progress };
        let expected = "[=====               ] 25 %  1 min 30 s left  10.0 s  123456789012345 packets";
        assert_eq!(line(&long, 79), expected);
    }
}
