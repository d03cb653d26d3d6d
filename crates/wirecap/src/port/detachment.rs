//! Programs of a port that others take off its interface (`bpftool link detach`): when to look for that, and
//! what became of it.
//!
//! ```text
//!   once in a period: on the interface? ── no ─► the port attaches it again ─► noted here ─► reported once, and at the end
//! ```
//!
//! Rule: each detachment is reported. A program that cannot be attached again is missing at each look, and
//! reported once.

use std::{
    mem::replace,
    time::{Duration, Instant},
};

use crate::diagnostic::Recovery;

/// Time between two looks: each takes some system calls.
pub(super) const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The detachments of one port.
#[derive(Debug, Default)]
pub(super) struct Detachment {
    looked: Option<Instant>,
    /// The last one.
    last: Option<Recovery>,
    is_reported: bool,
}

impl Detachment {
    /// Whether it is time to look; the next period begins if so.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_PERIOD);
        if is_due {
            self.looked = Some(Instant::now());
        }
        is_due
    }

    /// Notes that a program was not on the interface.
    pub(super) fn note(&mut self, recovery: Recovery) {
        let is_known = matches!((&self.last, &recovery), (Some(Recovery::Failed(_)), Recovery::Failed(_)));
        self.is_reported &= is_known;
        self.last = Some(recovery);
    }

    /// What became of the last detachment, unless it was reported already.
    pub(super) fn report_once(&mut self) -> Option<Recovery> {
        self.last().filter(|_| !replace(&mut self.is_reported, true))
    }

    /// What became of the last detachment.
    pub(super) fn last(&self) -> Option<Recovery> {
        self.last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Cause;

    #[test]
    fn each_detachment_is_reported_and_a_lasting_one_once() {
        let mut detachment = Detachment::default();
        let busy = |text| Recovery::Failed(Cause::words(text));
        assert_eq!((detachment.report_once(), detachment.last()), (None, None));
        for _ in 0..2 {
            detachment.note(Recovery::Restored);
            assert_eq!(detachment.report_once(), Some(Recovery::Restored));
            assert_eq!(detachment.report_once(), None);
        }
        detachment.note(busy("busy"));
        assert_eq!(detachment.report_once(), Some(busy("busy")));
        detachment.note(busy("still busy"));
        assert_eq!(detachment.report_once(), None);
        assert_eq!(detachment.last(), Some(busy("still busy")));
        detachment.note(Recovery::Restored);
        assert_eq!(detachment.report_once(), Some(Recovery::Restored));
        detachment.note(Recovery::Ended);
        assert_eq!(detachment.last(), Some(Recovery::Ended));
    }

    #[test]
    fn a_look_is_due_at_first_and_once_in_a_period() {
        let mut detachment = Detachment::default();
        assert!(detachment.is_due());
        assert!(!detachment.is_due());
        detachment.looked = Instant::now().checked_sub(LOOK_PERIOD);
        assert!(detachment.is_due());
    }
}
