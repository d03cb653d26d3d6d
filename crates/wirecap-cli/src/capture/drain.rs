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
/// The time between two lines.
const PERIOD: Duration = Duration::from_secs(10);

/// What captured packets wait for at the end.
pub(super) struct Unfinished {
    /// Packets for which it is over.
    done: PacketCounter,
    /// How many it will be over for, at most.
    limit: u64,
    what: Work,
    outputs: Option<Outputs>,
}

/// The outputs, which accept bytes between two packets.
struct Outputs {
    progress: FilesProgress,
    /// What a reader of their copy does.
    copying: Work,
}

/// What is still to be done with packets.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Work {
    /// Writing to this output.
    Write(String),
    /// Reading what is copied to this pipe.
    Copy(String),
    /// Printing, by tcpdump.
    Print,
    /// Handling by the workers.
    Handle,
}

impl Unfinished {
    /// Packets wait to be written.
    pub(super) fn writing(plan: &Plan, progress: FilesProgress) -> Option<Self> {
        let (limit, what) =
            (plan.output.count.unwrap_or(u64::MAX), Work::Write(plan.describe_destination()?));
        let pipe = plan.output.copy_pipe();
        let copying = pipe.map_or(Work::Print, |pipe| Work::Copy(pipe.display().to_string()));
        let outputs = Some(Outputs { progress: progress.clone(), copying });
        Some(Self { done: Box::new(move || progress.total().packets), limit, what, outputs })
    }

    /// Packets wait for slow workers.
    pub(super) fn handling(done: PacketCounter) -> Self {
        Self { done, limit: u64::MAX, what: Work::Handle, outputs: None }
    }

    /// A number that changes while the work goes on.
    fn progress(&self) -> u64 {
        let Some(Outputs { progress, .. }) = &self.outputs else { return (self.done)() };
        progress.output_bytes().wrapping_sub(progress.uncopied().map_or(0, |uncopied| uncopied.bytes))
    }

    /// What it waits for, if nothing is done.
    fn awaited(&self, report: impl Fn() -> Report) -> Awaited<'_> {
        match &self.what {
            Work::Write(output) if self.is_finished(&report()) => Awaited::Close(output),
            Work::Write(output) => Awaited::Output(output),
            _ => Awaited::Handling,
        }
    }

    /// Packets that the reader of the copy has still to take, if all else is over, and what it does.
    fn uncopied(&self) -> Option<(u64, &Work)> {
        let Outputs { progress, copying } = self.outputs.as_ref()?;
        Some((progress.uncopied()?.packets, copying))
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
    pps: f64,
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
        if let (Some((packets, _)), None) = (uncopied, self.copying_begun) {
            self.copying_begun = Some((packets, now));
        }
        let is_repeated = self.signals.take_repeated() && !self.quiet;
        let line_is_due = self.signals.take_report_request()
            || is_repeated
            || (now >= self.next_line && !self.quiet && !self.line.is_enabled());
        if !line_is_due && !self.line.is_due() {
            return;
        }
        let (rest, what) = match (uncopied, self.copying_begun) {
            (Some((packets, what)), Some((first, since))) => {
                (Rest::new(packets, first.saturating_sub(packets), now - since), what)
            }
            _ => {
                let done = (unfinished.done)();
                let packets = captured(&report()).min(unfinished.limit).saturating_sub(done);
                let (first, since) = self.begun;
                (Rest::new(packets, done.saturating_sub(first), now - since), &unfinished.what)
            }
        };
        if line_is_due {
            self.next_line = now + PERIOD;
            self.line.clear();
            print_message(&rest.message(what));
        } else {
            self.line.show(&rest.status(what));
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
        Self { packets, pps: done as f64 / time.as_secs_f64().max(1e-3) }
    }

    /// Seconds until everything is done, at the present rate.
    fn seconds(&self) -> Option<u64> {
        let seconds = self.packets as f64 / self.pps;
        (self.pps > 0.0 && seconds < 1e9).then(|| seconds.ceil() as u64)
    }

    fn message(&self, what: &Work) -> Message {
        let left = match (self.seconds(), what) {
            (Some(seconds), _) => format!(" at {}, about {seconds} s", rate(self.pps)),
            (None, Work::Write(_)) => ", which accepts none".into(),
            (None, Work::Copy(_)) => ", whose reader takes none".into(),
            (None, Work::Print) => ", which takes none".into(),
            (None, Work::Handle) => String::new(),
        };
        let gives_up = match what {
            Work::Copy(_) => "up only the copy",
            Work::Print => "up only the printing",
            _ => "them up",
        };
        let what = match what {
            Work::Write(output) => format!("written to {output}"),
            Work::Copy(pipe) => format!("copied to {pipe}"),
            Work::Print => "printed by tcpdump".into(),
            Work::Handle => "handled".into(),
        };
        let packets = counted(self.packets, "packet");
        let text = format!(
            "the capture has ended; {packets} {} still to be {what}{left}; Ctrl-C (SIGINT, SIGTERM) gives \
             {gives_up}",
            is(self.packets)
        );
        Message::note(text).about(Topic::Progress)
    }

    /// The fields of the status line.
    fn status(&self, what: &Work) -> Vec<String> {
        let verb = match what {
            Work::Write(_) => "write",
            Work::Copy(_) => "copy",
            Work::Print => "print",
            Work::Handle => "handle",
        };
        let left = format!("ended; {} to {verb}", counted(self.packets, "packet"));
        let mut fields = vec![left, "Ctrl-C gives up".into()];
        fields.extend(self.seconds().map(|seconds| format!("about {seconds} s")));
        fields.push(rate(self.pps));
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::layout::fitted;

    #[test]
    fn the_rest_is_reported_with_the_time_it_takes() {
        let slow = Rest { packets: 31_768, pps: 2_000.0 };
        let to = |output: &str| Work::Write(output.into());
        assert_eq!(
            slow.message(&to("standard output")).to_string(),
            "wirecap: the capture has ended; 31768 packets are still to be written to standard output at 2.00 kpps, \
             about 16 s; Ctrl-C (SIGINT, SIGTERM) gives them up"
        );
        assert_eq!(
            slow.status(&to("-")),
            ["ended; 31768 packets to write", "Ctrl-C gives up", "about 16 s", "2.00 kpps"]
        );
        let long = Rest { packets: 1_234_567_890_123, pps: 2_000.0 }.status(&to("-"));
        assert_eq!(fitted(&long, 39), "ended; 1234567890123 packets to write");
        assert_eq!(
            fitted(&long, 79),
            "ended; 1234567890123 packets to write  Ctrl-C gives up  about 617283946 s"
        );
        let stuck = Rest { packets: 1, pps: 0.0 };
        assert!(
            stuck
                .message(&to("a.pcapng"))
                .to_string()
                .contains("1 packet is still to be written to a.pcapng, which accepts none")
        );
        assert_eq!(stuck.status(&to("-")), ["ended; 1 packet to write", "Ctrl-C gives up", "0 packets/s"]);
    }

    #[test]
    fn a_reader_of_the_copy_does_not_keep_the_output_waiting() {
        let text = |pps, what: &Work| Rest { packets: 300, pps }.message(what).to_string();
        assert_eq!(
            text(0.0, &Work::Copy("./p".into())),
            "wirecap: the capture has ended; 300 packets are still to be copied to ./p, whose reader takes none; \
             Ctrl-C (SIGINT, SIGTERM) gives up only the copy"
        );
        assert_eq!(
            text(100.0, &Work::Print),
            "wirecap: the capture has ended; 300 packets are still to be printed by tcpdump at 100 packets/s, about \
             3 s; Ctrl-C (SIGINT, SIGTERM) gives up only the printing"
        );
        assert_eq!(Rest { packets: 300, pps: 0.0 }.status(&Work::Print)[0], "ended; 300 packets to print");
    }

    #[test]
    fn slow_workers_are_no_output() {
        let slow = Rest { packets: 900, pps: 100.0 };
        assert_eq!(
            slow.message(&Work::Handle).to_string(),
            "wirecap: the capture has ended; 900 packets are still to be handled at 100 packets/s, about 9 s; Ctrl-C \
             (SIGINT, SIGTERM) gives them up"
        );
        assert_eq!(slow.status(&Work::Handle)[0], "ended; 900 packets to handle");
        // A worker finishes a batch at a time.
        let text = Rest { packets: 900, pps: 0.0 }.message(&Work::Handle).to_string();
        assert!(text.contains("900 packets are still to be handled; Ctrl-C"), "{text}");
    }
}
