//! Watches a running capture until something ends it.

use std::{
    collections::HashSet,
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use wirecap::{Capture, Diagnostic, PortEvent};
use wirecap_sys::peer::Peer;

use super::{
    alarm::{Alarm, LossTimes},
    end::{End, Notice},
    job::Job,
    plan::Plan,
    progress::{Progress, line_since},
    pulse::{self, Pulse},
    service::describe_change,
    statistics::Statistics,
    times::Times,
};
use crate::{
    control::desk::{Desk, DeskEvent},
    message::{Message, Topic},
    print::status_line::Snapshot,
    process::{sandbox::RefusedParts, service_manager::ServiceManager, signals::Signals},
    text::{
        control::stopped,
        event::{Consequences, describe},
        loss::Output,
    },
};

/// How often signals and ports are checked.
const TICK: Duration = Duration::from_millis(50);
/// How often losses and times are checked, which reads the counters of all queues.
const PERIOD: Duration = Duration::from_secs(1);

/// Why a capture has ended by itself, if it has. Asks about workers first: they end when everything is read,
/// so one that ended before `is_at_end` was asked may have ended for that reason.
fn end_by_itself(
    worker_ended: impl FnOnce() -> bool,
    is_at_end: impl FnOnce() -> bool,
    all_ports_gone: impl FnOnce() -> bool,
) -> Option<End> {
    let worker_ended = worker_ended();
    if is_at_end() {
        Some(End::Read)
    } else if all_ports_gone() {
        Some(End::PortsGone)
    } else {
        worker_ended.then_some(End::WorkerGone)
    }
}

/// What helps to explain losses.
#[derive(Debug)]
pub(crate) struct LossCircumstances {
    /// When they were noticed.
    times: Option<LossTimes>,
    /// How long the process hardly ran, in total.
    stood: Duration,
}

impl LossCircumstances {
    /// A line for each.
    pub(super) fn lines(&self) -> Vec<String> {
        let times = self.times.map(|times| times.to_string());
        times.into_iter().chain(pulse::describe(self.stood)).collect()
    }
}

/// What is known about a capture that has ended.
pub(crate) struct Watched {
    pub(crate) end: End,
    pub(crate) manager: ServiceManager,
    /// What helps to explain losses.
    pub(crate) on_losses: LossCircumstances,
}

/// Watches a capture.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    signals: &'a Signals,
    notices: Receiver<Notice>,
    started: Instant,
    /// The limit on the time since then.
    duration: Option<Duration>,
    progress: Progress,
    statistics: Statistics<'a>,
    desk: Desk,
    manager: ServiceManager,
    /// The rates of the last status for the service manager.
    manager_snapshot: Snapshot,
    /// When losses and times are checked again.
    next_report: Instant,
    alarm: Alarm,
    pulse: Pulse,
    times: Times,
    refused_parts: RefusedParts,
    /// Ports that are down, or without a carrier, now.
    down: HashSet<String>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        plan: &Plan,
        signals: &'a Signals,
        notices: Receiver<Notice>,
        statistics: Statistics<'a>,
        (desk, manager): (Desk, ServiceManager),
        output: Output,
    ) -> Self {
        let (started, duration) = (Instant::now(), plan.output.duration);
        let next_report = started;
        let (progress, alarm, times) = (Progress::new(plan), Alarm::new(output), Times::new(plan));
        Self {
            signals,
            notices,
            started,
            duration,
            progress,
            statistics,
            desk,
            manager,
            manager_snapshot: Snapshot::default(),
            next_report,
            alarm,
            pulse: Pulse::new(),
            times,
            refused_parts: RefusedParts::new(&plan.sandbox),
            down: HashSet::new(),
        }
    }

    /// Waits for the end of the capture, and shows the progress.
    pub(crate) fn until_end(
        mut self,
        capture: &mut Capture,
        workers: &[JoinHandle<()>],
        job: &mut impl Job,
    ) -> Watched {
        self.manager.ready();
        let end = loop {
            if let Some(end) = self.wait_for_notice(job).or_else(|| self.look(capture, workers, job)) {
                break end;
            }
            let (messages, end) = job.look(capture);
            messages.iter().for_each(|message| self.progress.note(message));
            if let Some(end) = end {
                break end;
            }
            self.statistics.look(self.signals, capture, job, &mut self.progress);
            if let Some(end) = self.serve(capture, job) {
                break end;
            }
            self.progress.show(capture, job);
            let snapshot = &mut self.manager_snapshot;
            self.manager.tick(Instant::now(), || line_since(snapshot, capture, job));
        };
        self.manager.stopping();
        self.progress.clear();
        self.warn_of_refused_parts();
        // The capture may have ended with the first look after a pause.
        self.look_at_pulse();
        // Clients that ask from now on get this one.
        self.desk.publish(self.statistics.snapshot(capture, job));
        // What was lost since the last look, too.
        self.alarm.note_time(&job.judged(capture.report()), Timestamp::now());
        let on_losses = LossCircumstances { times: self.alarm.times(), stood: self.pulse.stood() };
        Watched { end, manager: self.manager, on_losses }
    }

    /// Executes the requests of clients.
    fn serve(&mut self, capture: &Capture, job: &impl Job) -> Option<End> {
        let mut end = None;
        for event in self.desk.take(capture, self.duration) {
            match event {
                DeskEvent::Stop(Peer { uid, pid, .. }) => {
                    self.progress.print(&Message::note(stopped(uid, pid)).about(Topic::Stopped));
                    end = Some(End::Stopped);
                }
                DeskEvent::Changed(change) => {
                    self.progress.print(&Message::note(describe_change(&change)).about(Topic::Changed));
                }
                DeskEvent::EndsAfter(duration) => self.duration = Some(duration),
            }
        }
        if self.desk.wants_snapshot(Instant::now()) {
            self.desk.publish(self.statistics.snapshot(capture, job));
        }
        end
    }

    fn look_at_pulse(&mut self) {
        self.pulse.look();
        self.statistics.note_stood(self.pulse.stood());
    }

    fn warn_of_refused_parts(&mut self) {
        self.refused_parts.warning().iter().for_each(|warning| self.progress.print(warning));
    }

    /// When the requested time is over.
    fn deadline(&self) -> Option<Instant> {
        self.duration.and_then(|duration| self.started.checked_add(duration))
    }

    /// Nothing more is written: the end, unless the job goes on.
    fn without_output(&mut self, job: &impl Job, end: End, why: &str) -> Option<End> {
        let what = job.without_output();
        what.iter().for_each(|what| self.progress.print(&Message::warning(format!("{why}; {what}"))));
        what.is_none().then_some(end)
    }

    fn wait_for_notice(&mut self, job: &impl Job) -> Option<End> {
        let left = self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let tick = left.map_or(TICK, |left| left.min(TICK));
        match self.notices.recv_timeout(tick) {
            Ok(Notice::CountReached) => Some(End::Count),
            Ok(Notice::FilesComplete) => {
                self.without_output(job, End::Files, "the files have the requested number or size")
            }
            Ok(Notice::WriteFailed(why)) => self.without_output(job, End::WriteFailed, &why),
            Err(RecvTimeoutError::Timeout) => None,
            // All senders are gone, and so are the workers: `look` reports that.
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(tick);
                None
            }
        }
    }

    fn look(&mut self, capture: &mut Capture, workers: &[JoinHandle<()>], job: &impl Job) -> Option<End> {
        if self.signals.end() {
            return Some(End::Signal);
        }
        if self.deadline().is_some_and(|deadline| Instant::now() >= deadline) {
            return Some(End::Duration);
        }
        for event in capture.events() {
            self.report(&event, capture, job);
        }
        self.look_at_pulse();
        let now = Instant::now();
        if now >= self.next_report {
            self.next_report = now + PERIOD;
            self.warn_of_refused_parts();
            let report = job.judged(capture.report());
            self.alarm
                .messages(&report, now, self.pulse.just_stood(now))
                .iter()
                .for_each(|loss| self.progress.print(loss));
            self.statistics.deleted().iter().for_each(|warning| self.progress.print(warning));
            self.statistics.closed_copy().iter().for_each(|warning| self.progress.print(warning));
            self.times.warnings(&report).iter().for_each(|warning| self.progress.note(warning));
        }
        end_by_itself(
            || workers.iter().any(JoinHandle::is_finished),
            || capture.is_at_end(),
            || capture.all_ports_gone(),
        )
    }

    /// Reports what happened to a port, if it is news: the kernel also reports "up" when another program
    /// changes an interface that was up all along. Events that cost packets are printed with `-q`, too.
    fn report<J: Job>(&mut self, event: &PortEvent, capture: &Capture, job: &J) {
        let is_news = match event {
            PortEvent::Down(port) | PortEvent::NoCarrier(port) => self.down.insert(port.clone()),
            PortEvent::Up(port) => self.down.remove(port),
            PortEvent::Read(_) => !capture.is_at_end(),
            _ => true,
        };
        let consequences = Consequences { without_link: J::ACTIVITY, of_removal: job.after_removal(capture) };
        let message = describe(event, consequences, |host_use| job.deprives(host_use));
        let Some(message) = message.filter(|_| is_news) else { return };
        match event {
            PortEvent::Down(_)
            | PortEvent::NoCarrier(_)
            | PortEvent::Up(_)
            | PortEvent::Read(_)
            | PortEvent::Warning { warning: Diagnostic::RssChanged { .. }, .. } => {
                self.progress.note(&message);
            }
            _ => self.progress.print(&message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_trace_that_ends_during_the_check_is_read_and_no_worker_is_missing() {
        // The trace and its workers end before one of the three questions, or after them.
        for ends_before in 0..4 {
            let asked = Cell::new(0);
            let ask = || asked.replace(asked.get() + 1) >= ends_before;
            let end = end_by_itself(ask, ask, || {
                ask();
                false
            });
            assert!(end.is_none_or(|end| end == End::Read), "{ends_before}: {end:?}");
            assert_eq!(end.is_some(), ends_before < 2, "{ends_before}");
        }
    }

    #[test]
    fn a_worker_that_is_gone_while_packets_may_come_is_reported() {
        assert_eq!(end_by_itself(|| true, || false, || false), Some(End::WorkerGone));
        assert_eq!(end_by_itself(|| true, || false, || true), Some(End::PortsGone));
        assert_eq!(end_by_itself(|| false, || false, || false), None);
    }
}
