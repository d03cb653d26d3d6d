//! Accounts while a capture runs: every so often with `--stats`, and whenever SIGUSR1 asks for one.
//!
//! | | words | `--json` |
//! |---|---|---|
//! | `--stats` | a line on standard error | a record, where the account goes |
//! | SIGUSR1 | the account, where it goes at the end | a record, as well |
//!
//! Rule: a capture does not wait for the reader of its accounts. An account that finds no room is left out,
//! with a warning.

use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

use wirecap::Capture;
use wirecap_record::Progress as WriteProgress;

use super::{
    job::Job,
    plan::Plan,
    progress::{Progress, line_since},
    summary::{self, Account},
};
use crate::{
    print::{head::Head, status_line::Snapshot, stdio},
    process::signals::Signals,
};

/// What all accounts of a capture have.
#[derive(Debug)]
pub(super) struct Statistics<'a> {
    plan: &'a Plan,
    head: &'a Head,
    /// What is written; `None` without a file.
    output: Option<WriteProgress>,
    /// When the next line of `--stats` is due, and how long after the last.
    due: Option<(Instant, Duration)>,
    /// As of the last line of `--stats`.
    snapshot: Snapshot,
    /// Whether it was said that there is no room for them.
    is_blocked: bool,
}

impl<'a> Statistics<'a> {
    pub(super) fn new(plan: &'a Plan, head: &'a Head, output: Option<WriteProgress>) -> Self {
        let due = plan.output.stats.and_then(|period| Some((Instant::now().checked_add(period)?, period)));
        Self { plan, head, output, due, snapshot: Snapshot::default(), is_blocked: false }
    }

    /// Prints what is due or asked for.
    pub(super) fn look(
        &mut self,
        signals: &Signals,
        capture: &Capture,
        job: &impl Job,
        progress: &mut Progress,
    ) {
        if signals.take_report_request() {
            progress.clear();
            self.print(capture, job, progress);
        }
        let now = Instant::now();
        let Some((due, period)) = &mut self.due else { return };
        if now < *due {
            return;
        }
        // Those that were missed, while the process was stopped for instance, are not made up for.
        while *due <= now {
            *due += *period;
        }
        if self.plan.output.json {
            self.print(capture, job, progress);
        } else {
            let line = line_since(&mut self.snapshot, &capture.report());
            progress.print(format_args!("wirecap: {line}"));
        }
    }

    /// Prints the account so far.
    fn print(&mut self, capture: &Capture, job: &impl Job, progress: &mut Progress) {
        let (report, written) = (capture.report(), self.output.as_ref().map(WriteProgress::written));
        let account = Account { head: self.head, end: None, report: &report, written };
        let Err(cause) = account.offer(self.plan, job) else {
            self.is_blocked = false;
            return;
        };
        if cause.kind() == ErrorKind::TimedOut {
            // Only a part of it is there: the next one begins on a line of its own.
            let _ = stdio::offer(summary::stream(self.plan), "\n");
        }
        if !std::mem::replace(&mut self.is_blocked, true) {
            let reason = match cause.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => "its reader takes nothing".into(),
                _ => cause.to_string(),
            };
            progress.print(format_args!("wirecap: WARNING: an account could not be printed: {reason}"));
        }
    }
}
