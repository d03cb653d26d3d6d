//! The bar that shows how far a replay is, and how long it will take.

use wirecap_replay::Progress;

use crate::{
    print::status_line::{Rates, Snapshot},
    text::units::{length, rate},
};

/// Characters of the bar.
const WIDTH: usize = 20;

pub(super) fn snapshot(progress: &Progress) -> Snapshot {
    let Progress { elapsed, packets, bytes, .. } = *progress;
    Snapshot { seconds: elapsed.as_secs_f64(), packets, bits: 8 * bytes }
}

/// The bar and the figures beside it, with rates since another snapshot.
pub(super) fn line(progress: &Progress, rates: Rates) -> String {
    let mut line = String::new();
    if let Some(share) = progress.share {
        let full = (share * WIDTH as f64) as usize;
        line += &format!("[{}{}] {:.0} %  ", "=".repeat(full), " ".repeat(WIDTH - full), share * 100.0);
    }
    let seconds = progress.elapsed.as_secs_f64();
    line += &format!("{seconds:.1} s  {} packets  {}", progress.packets, rate(rates.pps));
    match progress.left {
        Some(left) => line + &format!("  {} left", length(left)),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_bar_has_the_share_and_the_time_that_is_left() {
        let progress = Progress {
            elapsed: Duration::from_secs(10),
            packets: 30_000,
            bytes: 0,
            share: Some(0.25),
            left: Some(Duration::from_secs(90)),
        };
        let expected = "[=====               ] 25 %  10.0 s  30000 packets  20.00 kpps  1 min 30 s left";
        let rates = Rates { pps: 20_000.0, mbps: 0.0 };
        assert_eq!(line(&progress, rates), expected);
        let endless = Progress { share: None, left: None, ..progress };
        assert_eq!(line(&endless, rates), "10.0 s  30000 packets  20.00 kpps");
        let whole = line(&Progress { share: Some(1.0), ..progress }, rates);
        assert!(whole.starts_with("[====================] 100 %"), "{whole}");
    }
}
