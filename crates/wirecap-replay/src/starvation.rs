//! How often reading fell behind.
//!
//! ```text
//!   last frame sent ── nothing is read ── nothing is read ── the next one is read ── it is due     in time
//!   last frame sent ── nothing is read ── it is due ── nothing is read ── the next one is read     behind, once
//! ```
//!
//! Rule: reading is behind when a frame is due and not read, not when nothing is left to be sent: the writer
//! of a pipe may take its time until then.

/// Counts how often reading fell behind.
#[derive(Debug, Default)]
pub(crate) struct Starvation {
    is_waiting: bool,
    pub(crate) times: u64,
}

impl Starvation {
    /// Everything that was read is sent.
    pub(crate) fn waits(&mut self) {
        self.is_waiting = true;
    }

    /// The next frame was read; `was_due` says whether it was due before.
    #[inline]
    pub(crate) fn came(&mut self, was_due: bool) {
        if self.is_waiting {
            self.is_waiting = false;
            self.times += u64::from(was_due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_late_frame_counts_once() {
        let mut starvation = Starvation::default();
        starvation.came(true);
        assert_eq!(starvation.times, 0, "nothing waited for the frame");
        for times in 1..3 {
            starvation.waits();
            starvation.waits();
            starvation.came(true);
            starvation.came(true);
            assert_eq!(starvation.times, times);
        }
        starvation.waits();
        starvation.came(false);
        starvation.came(true);
        assert_eq!(starvation.times, 2, "the frame came in time");
    }
}
