//! The bar on the terminal that says how far it is, and when it will be over.

use wirecap_replay::{Control, Progress};

use super::flags::ReplayFlags;
use crate::{
    print::status_line::StatusLine,
    text::units::{length, rate},
};

/// Characters of the bar.
const WIDTH: usize = 20;

/// The progress bar.
#[derive(Debug)]
pub(super) struct Bar {
    line: StatusLine,
    /// Seconds and packets when it was written last.
    before: (f64, u64),
}

impl Bar {
    pub(super) fn new(flags: &ReplayFlags) -> Self {
        Self { line: StatusLine::new(flags.send.quiet, flags.send.json), before: (0.0, 0) }
    }

    /// Writes it, if it is time.
    pub(super) fn show(&mut self, control: &Control) {
        if !self.line.is_due() {
            return;
        }
        let Some(progress) = control.progress() else { return };
        self.line.show(&line(&progress, self.before));
        self.before = (progress.elapsed.as_secs_f64(), progress.packets);
    }

    /// Says how far it is, with the rate since the start.
    pub(super) fn print(&mut self, control: &Control) {
        self.clear();
        match control.progress() {
            Some(progress) => note!("{}", line(&progress, (0.0, 0))),
            None => note!("nothing is sent yet"),
        }
    }

    /// Takes it away.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }
}

fn line(progress: &Progress, before: (f64, u64)) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    let pps = progress.packets.saturating_sub(before.1) as f64 / (seconds - before.0).max(1e-3);
    let mut line = String::new();
    if let Some(share) = progress.share {
        let full = (share * WIDTH as f64) as usize;
        line += &format!("[{}{}] {:.0} %  ", "=".repeat(full), " ".repeat(WIDTH - full), share * 100.0);
    }
    line += &format!("{seconds:.1} s  {} packets  {}", progress.packets, rate(pps));
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
        assert_eq!(line(&progress, (9.0, 10_000)), expected);
        let endless = Progress { share: None, left: None, ..progress };
        assert_eq!(line(&endless, (9.0, 10_000)), "10.0 s  30000 packets  20.00 kpps");
        assert!(
            line(&Progress { share: Some(1.0), ..progress }, (0.0, 0))
                .starts_with("[====================] 100 %")
        );
    }
}
