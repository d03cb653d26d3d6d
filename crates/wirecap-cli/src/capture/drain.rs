//! The end of writing, or of handling: packets are still on the way to a slow output or a slow handler.
//!
//! ```text
//!   pools ─► workers ─► channel ─► writer ─► output        ended: no more packets arrive
//!   └──────────── still to be written ─────┘
//!   └─ to be ─┘
//!      handled
//! ```
//!
//! When all is written, a reader of the copy (`--copy-to PIPE`, `--print`) may still have to take some of it.
//!
//! Rule: if the end takes long, a line says how much is left, the rate, and how to give up; SIGUSR1, and a
//! second signal too soon after the first, print the same at any time.

use std::{
    thread,
    time::{Duration, Instant},
};

use wirecap::Report;

use super::{job::PacketCounter, plan::Plan, stall::Awaited, written_files::FilesProgress};
use crate::{
    message::{Message, Topic},
    print::{status_line::StatusLine, stdio::print_message},
    process::{
        service_manager::{EXTENSION, ServiceManager},
        signals::Signals,
    },
    text::{
        plural::{counted, is},
        units::rate,
    },
};

/// How often to check whether everything is written.
const TICK: Duration = Duration::from_millis(10);
/// When to print the first line, without a status line.
const FIRST_LINE: Duration = Duration::from_secs(2);
/// How long nothing has to be done before that is said.
const OBSERVED: Duration = Duration::from_secs(1);
/// The time between two lines.
const PERIOD: Duration = Duration::from_secs(10);

/// What captured packets wait for at the end.
pub(super) struct Unfinished {
    /// Packets for which it is over.
    done: PacketCounter,
    /// How many it will be over for, at most.
    limit: u64,
    what: Awaiting,
}

enum Awaiting {
    /// The outputs, which accept bytes between two packets, and then the reader of their copy, if there is
    /// one.
    Outputs { name: String, progress: FilesProgress, target: CopyTarget },
    /// Slow workers.
    Workers,
}

/// Where the copy goes, and what a signal that gives it up gives up, too.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CopyTarget {
    /// The pipe; `None` for the tcpdump that prints.
    pipe: Option<String>,
    /// Whether a command runs with each file.
    has_command: bool,
}

/// What is still to be done with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work<'a> {
    /// Writing to this output.
    Write(&'a str),
    /// Reading the copy.
    Copy(&'a CopyTarget),
    /// Handling by the workers.
    Handle,
}

impl Unfinished {
    /// Packets wait to be written.
    pub(super) fn writing(plan: &Plan, progress: FilesProgress) -> Option<Self> {
        let (limit, name) = (plan.output.count.unwrap_or(u64::MAX), plan.describe_destination()?);
        let pipe = plan.output.copy_pipe().map(|pipe| pipe.display().to_string());
        let target = CopyTarget { pipe, has_command: plan.output.rotate_command.is_some() };
        let counted = progress.clone();
        let done = Box::new(move || counted.total().packets);
        Some(Self { done, limit, what: Awaiting::Outputs { name, progress, target } })
    }

    /// Packets wait for slow workers.
    pub(super) fn handling(done: PacketCounter) -> Self {
        Self { done, limit: u64::MAX, what: Awaiting::Workers }
    }

    /// A number that changes while the work goes on.
    fn progress(&self) -> u64 {
        match &self.what {
            Awaiting::Outputs { progress, .. } => {
                let uncopied_bytes = progress.uncopied().map_or(0, |uncopied| uncopied.bytes);
                progress.output_bytes().wrapping_sub(uncopied_bytes)
            }
            Awaiting::Workers => (self.done)(),
        }
    }

    /// What it waits for, if nothing is done.
    fn awaited(&self, report: impl Fn() -> Report) -> Awaited<'_> {
        match &self.what {
            Awaiting::Outputs { name, .. } if self.is_finished(&report()) => Awaited::Close(name),
            Awaiting::Outputs { name, .. } => Awaited::Output(name),
            Awaiting::Workers => Awaited::Handling,
        }
    }

    /// What is done now.
    fn work(&self) -> Work<'_> {
        match &self.what {
            Awaiting::Outputs { target, .. } if self.uncopied().is_some() => Work::Copy(target),
            Awaiting::Outputs { name, .. } => Work::Write(name),
            Awaiting::Workers => Work::Handle,
        }
    }

    /// Packets that the reader of the copy has still to take, if all else is over.
    fn uncopied(&self) -> Option<u64> {
        match &self.what {
            Awaiting::Outputs { progress, .. } => Some(progress.uncopied()?.packets),
            Awaiting::Workers => None,
        }
    }

    fn is_finished(&self, report: &Report) -> bool {
        (self.done)() >= self.limit.min(captured(report))
    }
}

/// Shows the progress of what is left to do.
pub(super) struct Drain<'a> {
    signals: &'a Signals,
    unfinished: Option<Unfinished>,
    quiet: bool,
    line: StatusLine,
    next_line: Instant,
    /// The packets that were done when the capture ended, and that time.
    begun: (u64, Instant),
    /// The packets that were not copied when that was all that was left, and that time.
    copying_begun: Option<(u64, Instant)>,
    manager: ServiceManager,
}

/// What is left to do.
#[derive(Debug, Clone, Copy)]
struct Rest {
    packets: u64,
    /// How many are done per second; `None` as long as that cannot be said.
    pps: Option<f64>,
}

impl<'a> Drain<'a> {
    pub(super) fn new(
        plan: &Plan,
        signals: &'a Signals,
        unfinished: Option<Unfinished>,
        manager: ServiceManager,
    ) -> Self {
        let now = Instant::now();
        let done = unfinished.as_ref().map_or(0, |unfinished| (unfinished.done)());
        Self {
            signals,
            unfinished,
            quiet: plan.output.quiet,
            line: StatusLine::new(plan.output.quiet, plan.output.json),
            next_line: now + FIRST_LINE,
            begun: (done, now),
            copying_begun: None,
            manager,
        }
    }

    /// Waits until `is_over`, and shows the progress.
    pub(super) fn wait(&mut self, mut is_over: impl FnMut() -> bool, report: impl Fn() -> Report) {
        while !is_over() {
            thread::sleep(TICK);
            self.show(&report);
        }
        self.clear();
    }

    /// Keeps the service manager waiting while the end waits for a program beside the capture; `done` counts
    /// what these programs have done. Call it many times a second.
    pub(super) fn extend_for_helper(&mut self, helper: Awaited, done: u64) {
        let now = Instant::now();
        let is_stalled = self.manager.stalled(now, done) > helper.timeout();
        self.extend_unless(is_stalled, now, helper);
    }

    fn extend(&mut self, report: impl Fn() -> Report) {
        let now = Instant::now();
        let unfinished = self.unfinished.take();
        let stalled = self.manager.stalled(now, unfinished.as_ref().map_or(0, Unfinished::progress));
        // The report is asked for only once it may matter.
        let awaited = unfinished
            .as_ref()
            .filter(|_| stalled > Awaited::Handling.timeout())
            .map_or(Awaited::Workers, |unfinished| unfinished.awaited(report));
        self.extend_unless(stalled > awaited.timeout(), now, awaited);
        self.unfinished = unfinished;
    }

    fn extend_unless(&mut self, is_stalled: bool, now: Instant, awaited: Awaited) {
        if self.manager.extend(now, !is_stalled) {
            self.line.clear();
            print_message(&awaited.warning(EXTENSION));
        }
    }

    /// Removes the status line.
    pub(super) fn clear(&mut self) {
        self.line.clear();
    }

    /// Shows the progress if it is due. Call it many times a second.
    pub(super) fn show(&mut self, report: impl Fn() -> Report) {
        self.extend(&report);
        let Some(unfinished) = &self.unfinished else { return };
        let now = Instant::now();
        let uncopied = unfinished.uncopied();
        if let (Some(packets), None) = (uncopied, self.copying_begun) {
            self.copying_begun = Some((packets, now));
            self.next_line = now + FIRST_LINE;
        }
        let is_repeated = self.signals.take_repeated() && !self.quiet;
        let line_is_due = self.signals.take_report_request()
            || is_repeated
            || (now >= self.next_line && !self.quiet && !self.line.is_enabled());
        if !line_is_due && !self.line.is_due() {
            return;
        }
        let rest = match (uncopied, self.copying_begun) {
            (Some(packets), Some((first, since))) => {
                Rest::new(packets, first.saturating_sub(packets), now - since)
            }
            _ => {
                let done = (unfinished.done)();
                let packets = captured(&report()).min(unfinished.limit).saturating_sub(done);
                let (first, since) = self.begun;
                Rest::new(packets, done.saturating_sub(first), now - since)
            }
        };
        let work = unfinished.work();
        if line_is_due {
            self.next_line = now + PERIOD;
            self.line.clear();
            print_message(&rest.message(work, is_repeated));
        } else {
            self.line.show(&rest.status(work));
        }
    }
}

/// Packets that were or will be delivered.
fn captured(report: &Report) -> u64 {
    let total = report.total();
    total.seen.saturating_sub(total.filtered + total.passed + total.lost.total())
}

impl Rest {
    /// What is left when this many packets were done in this time.
    fn new(packets: u64, done: u64, time: Duration) -> Self {
        let is_known = done > 0 || time >= OBSERVED;
        Self { packets, pps: is_known.then(|| done as f64 / time.as_secs_f64().max(1e-3)) }
    }

    /// Seconds until everything is done, at the present rate.
    fn seconds(&self) -> Option<u64> {
        let pps = self.pps.filter(|pps| *pps > 0.0)?;
        let seconds = self.packets as f64 / pps;
        (seconds < 1e9).then(|| seconds.ceil() as u64)
    }

    /// `is_repeated`: it answers a signal that came too soon after the first.
    fn message(&self, work: Work, is_repeated: bool) -> Message {
        let left = match (self.pps, self.seconds(), work) {
            (Some(pps), Some(seconds), _) => format!(" at {}, about {seconds} s", rate(pps)),
            (Some(_), None, Work::Write(_)) => ", which accepts none".into(),
            (Some(_), None, Work::Copy(CopyTarget { pipe: Some(_), .. })) => {
                ", whose reader takes none".into()
            }
            (Some(_), None, Work::Copy(CopyTarget { pipe: None, .. })) => ", which takes none".into(),
            (Some(_), None, Work::Handle) | (None, ..) => String::new(),
        };
        let (what, gives_up) = match work {
            Work::Write(output) => (format!("written to {output}"), "them up".into()),
            Work::Copy(target) => (target.describe(), target.given_up()),
            Work::Handle => ("handled".into(), "them up".into()),
        };
        let packets = counted(self.packets, "packet");
        let signal = match is_repeated {
            true => "another Ctrl-C (SIGINT, SIGTERM) in a second",
            false => "Ctrl-C (SIGINT, SIGTERM)",
        };
        let text = format!(
            "the capture has ended; {packets} {} still to be {what}{left}; {signal} gives {gives_up}",
            is(self.packets)
        );
        Message::note(text).about(Topic::Progress)
    }

    /// The fields of the status line.
    fn status(&self, work: Work) -> Vec<String> {
        let verb = match work {
            Work::Write(_) => "write",
            Work::Copy(CopyTarget { pipe: Some(_), .. }) => "copy",
            Work::Copy(CopyTarget { pipe: None, .. }) => "print",
            Work::Handle => "handle",
        };
        let left = format!("ended; {} to {verb}", counted(self.packets, "packet"));
        let mut fields = vec![left, "Ctrl-C gives up".into()];
        fields.extend(self.seconds().map(|seconds| format!("about {seconds} s")));
        fields.extend(self.pps.map(rate));
        fields
    }
}

impl CopyTarget {
    /// What is still to be done with packets.
    fn describe(&self) -> String {
        match &self.pipe {
            Some(pipe) => format!("copied to {pipe}"),
            None => "printed by tcpdump".into(),
        }
    }

    /// What a signal gives up.
    fn given_up(&self) -> String {
        let copy = if self.pipe.is_some() { "the copy" } else { "the printing" };
        match self.has_command {
            true => format!("up {copy}, and the wait for the command of -z"),
            false => format!("up only {copy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::layout::fitted;

    #[test]
    fn the_rest_is_reported_with_the_time_it_takes() {
        let slow = Rest { packets: 31_768, pps: Some(2_000.0) };
        let to = Work::Write;
        assert_eq!(
            slow.message(to("standard output"), false).to_string(),
            "wirecap: the capture has ended; 31768 packets are still to be written to standard output at 2.00 kpps, \
             about 16 s; Ctrl-C (SIGINT, SIGTERM) gives them up"
        );
        assert_eq!(
            slow.status(to("-")),
            ["ended; 31768 packets to write", "Ctrl-C gives up", "about 16 s", "2.00 kpps"]
        );
        let long = Rest { packets: 1_234_567_890_123, pps: Some(2_000.0) }.status(to("-"));
        assert_eq!(fitted(&long, 39), "ended; 1234567890123 packets to write");
        assert_eq!(
            fitted(&long, 79),
            "ended; 1234567890123 packets to write  Ctrl-C gives up  about 617283946 s"
        );
        let stuck = Rest::new(1, 0, OBSERVED);
        assert!(
            stuck
                .message(to("a.pcapng"), false)
                .to_string()
                .contains("1 packet is still to be written to a.pcapng, which accepts none")
        );
        assert_eq!(stuck.status(to("-")), ["ended; 1 packet to write", "Ctrl-C gives up", "0 packets/s"]);
    }

    #[test]
    fn a_signal_that_came_too_soon_is_answered_with_what_is_known_by_then() {
        let text = Rest::new(300, 0, OBSERVED / 2).message(Work::Write("x.pcapng"), true).to_string();
        let words = "300 packets are still to be written to x.pcapng; another Ctrl-C (SIGINT, SIGTERM) in a second gives them up";
        assert!(text.ends_with(words), "{text}");
    }

    #[test]
    fn a_reader_of_the_copy_does_not_keep_the_output_waiting() {
        let text = |rest: Rest, pipe: Option<&str>, has_command| {
            let target = CopyTarget { pipe: pipe.map(Into::into), has_command };
            rest.message(Work::Copy(&target), false).to_string()
        };
        let (stuck, slow) = (Rest::new(300, 0, OBSERVED), Rest::new(300, 200, 2 * OBSERVED));
        assert_eq!(
            text(stuck, Some("./p"), false),
            "wirecap: the capture has ended; 300 packets are still to be copied to ./p, whose reader takes none; \
             Ctrl-C (SIGINT, SIGTERM) gives up only the copy"
        );
        assert_eq!(
            text(slow, None, true),
            "wirecap: the capture has ended; 300 packets are still to be printed by tcpdump at 100 packets/s, about \
             3 s; Ctrl-C (SIGINT, SIGTERM) gives up the printing, and the wait for the command of -z"
        );
        let tcpdump = CopyTarget { pipe: None, has_command: false };
        assert_eq!(stuck.status(Work::Copy(&tcpdump))[0], "ended; 300 packets to print");
    }

    #[test]
    fn slow_workers_are_no_output() {
        let slow = Rest { packets: 900, pps: Some(100.0) };
        assert_eq!(
            slow.message(Work::Handle, false).to_string(),
            "wirecap: the capture has ended; 900 packets are still to be handled at 100 packets/s, about 9 s; Ctrl-C \
             (SIGINT, SIGTERM) gives them up"
        );
        assert_eq!(slow.status(Work::Handle)[0], "ended; 900 packets to handle");
        // A worker finishes a batch at a time.
        let text = Rest { packets: 900, pps: Some(0.0) }.message(Work::Handle, false).to_string();
        assert!(text.contains("900 packets are still to be handled; Ctrl-C"), "{text}");
    }
}
