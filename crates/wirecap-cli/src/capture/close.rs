//! The end of a capture: everything is written, the account is closed, and failures are reported.

use std::{fmt::Display, io::ErrorKind, path::Path, thread::JoinHandle};

use wirecap::{Capture, Report};
use wirecap_record::{CopyReader, Outcome, RecordError, Recorder, Trailer, Whereabouts, WrittenCounts};

use super::{
    describe,
    drain::{Drain, Unfinished},
    end::End,
    explain,
    failure::{self, Failure, PartialOutput},
    helpers::Helpers,
    job::Job,
    output::NoRoom,
    plan::Plan,
    service::{self, LastSnapshots, Snapshots},
    summary::{self, Account, CaptureEnd},
    threads::Threads,
    watch::LossCircumstances,
    written_files::{FilesProgress, OutputFile, WrittenFiles},
};
use crate::{
    control::running::Control,
    exit::Exit,
    message::{Message, Topic},
    print::{head::Head, stdio::print_message},
    process::{service_manager::ServiceManager, signals::Signals},
    text::{
        loss,
        plural::{counted, was},
    },
};

/// A capture that gets no more packets.
pub(super) struct EndedCapture<'a> {
    pub(super) plan: &'a Plan,
    pub(super) head: &'a Head,
    pub(super) signals: &'a Signals,
    pub(super) control: &'a Control,
    pub(super) end: End,
    pub(super) on_losses: LossCircumstances,
    /// Why it had no output, if it was to have one.
    pub(super) no_room: Option<NoRoom>,
}

impl EndedCapture<'_> {
    /// Writes all packets, closes the account, and prints it.
    pub(super) fn close<J: Job>(
        mut self,
        mut capture: Capture,
        threads: Threads,
        helpers: Helpers,
        manager: ServiceManager,
        job: &mut J,
    ) -> Exit {
        self.signals.escalation.begin_ending();
        self.control.board.begin_ending();
        // An interface may have gone since the last events; then the report says so.
        drop(capture.events());
        capture.stopper().stop();
        let no_room = self.no_room.take();
        let Threads { workers, recorders } = threads;
        let output = FilesProgress::of(&recorders);
        let snapshots =
            Snapshots { plan: self.plan, head: self.head, control: self.control, output: output.clone() };
        let mut snapshots = LastSnapshots::new(snapshots);
        let unfinished = match output {
            Some(progress) => Unfinished::writing(self.plan, progress),
            None => job.handled().map(Unfinished::handling),
        };
        let mut drain = Drain::new(self.plan, self.signals, unfinished, manager);
        let is_over = || {
            snapshots.publish(job, || capture.report(), || capture.offloads());
            workers.iter().all(JoinHandle::is_finished)
        };
        drain.wait(is_over, || capture.report());
        // Joins all of them, even if the first panicked.
        let panicked = workers.into_iter().filter_map(|worker| worker.join().err()).count() > 0;
        let offloads = capture.offloads();
        let report = capture.finish();
        let mut publish = |job: &J| snapshots.publish(job, || report.clone(), || offloads.clone());
        let mut outputs = finish(recorders, &report, &mut drain, || publish(job));
        job.end();
        let helpers = helpers.end(self.plan, self.signals, |awaited, done| {
            publish(job);
            drain.extend_for_helper(awaited, done);
        });
        let mut failures = Vec::from_iter(panicked.then_some(Failure::WorkerPanicked));
        failures.extend(self.failures::<J>(&report, panicked));
        if J::READER_ENDS_IT {
            outputs
                .iter_mut()
                .for_each(|(_, outcome)| _ = outcome.failure.take_if(|cause| is_gone_reader(cause)));
        }
        outputs.iter_mut().for_each(|(file, outcome)| file.partial.clone_from(&outcome.partial));
        failures.extend(outputs.iter_mut().flat_map(|(file, outcome)| of_output(file, outcome, &report)));
        failures.extend(no_room.map(Failure::NoRoom));
        failures.extend(helpers);
        failures.extend(job.failure().map(Failure::Job));
        self.print(&report, outputs, &failures, job)
    }

    /// Failures of the ports and the workers.
    fn failures<J: Job>(&self, report: &Report, panicked: bool) -> Vec<Failure> {
        let gone = report.ports.iter().filter(|port| port.removed).map(|port| port.name.clone());
        let gone: Vec<_> = gone.collect();
        let lost = match self.end {
            _ if !gone.is_empty() && J::FORWARDS => Some(Failure::ForwardingCut(gone)),
            End::PortsGone => Some(Failure::InterfacesGone),
            End::WorkerGone if !panicked => Some(Failure::WorkerEnded),
            _ if !gone.is_empty() => Some(Failure::Removed(gone)),
            _ => None,
        };
        let traces = report.ports.iter().filter_map(|port| Some(port.error.as_ref()?.to_string()));
        lost.into_iter().chain(traces.map(Failure::Trace)).collect()
    }

    /// Prints the account and the failures. A JSON record is the last line of its stream; after tables, the
    /// failures follow, where users see them.
    fn print<J: Job>(
        &self,
        report: &Report,
        outputs: Vec<(OutputFile, Outcome)>,
        failures: &[Failure],
        job: &J,
    ) -> Exit {
        let stood = self.control.board.stood();
        let judged = &job.judged(report.clone());
        let loss = loss::verdict(judged, self.plan.delays(job), stood, job.lost(report));
        let is_failure = self.plan.output.fail_on_loss && loss.is_some();
        let error = failure::in_one_line(failures).or_else(|| loss.clone().filter(|_| is_failure));
        let pipe = self.plan.output.copy_pipe();
        let messages = outputs
            .iter()
            .flat_map(|(file, outcome)| moved(file, outcome).into_iter().chain(not_copied(outcome, pipe)));
        let messages: Vec<_> = messages.collect();
        let written = outputs.into_iter().map(|(file, outcome)| (file, outcome.written));
        let written: Option<WrittenFiles> = self.plan.destination.is_some().then(|| written.collect());
        let ending = Some(CaptureEnd { end: self.end, error: error.clone() });
        let changes = &service::changes(self.control);
        let for_clients = written.clone();
        let account = Account { head: self.head, end: ending, report, written, changes, stood };
        let print_all = || {
            messages.iter().for_each(print_message);
            failures.iter().for_each(|failure| fail!("{failure}"));
            let level = if is_failure { Message::error } else { Message::warning };
            loss.iter().for_each(|loss| print_message(&level(loss.clone()).about(Topic::Lost)));
            if loss.is_some() {
                self.on_losses.lines().iter().for_each(|line| note!("{line}"));
            }
            explain::pointers(judged).iter().for_each(|line| note!("{line}"));
            if J::HAS_ENGINE_FLAGS && stood.is_zero() {
                explain::skews(judged).iter().for_each(|line| note!("{line}"));
            }
            summary::warn_of_unexplained(report);
        };
        let printed = if self.plan.output.json {
            print_all();
            account.print(self.plan, job)
        } else {
            let printed = account.print(self.plan, job);
            print_all();
            printed
        };
        let exit = match (failures, printed) {
            ([], true) if is_failure => Exit::Lost,
            ([], true) => Exit::Fine,
            _ => Exit::Failed,
        };
        let written = for_clients.as_ref();
        self.control.end(service::end_record(self.plan, exit, self.end, error.as_deref(), written));
        exit
    }
}

/// Whether writing failed because the program that read it has ended.
fn is_gone_reader(cause: &RecordError) -> bool {
    matches!(cause, RecordError::Io(cause) if cause.kind() == ErrorKind::BrokenPipe)
}

/// Failures of an output.
fn of_output(file: &OutputFile, outcome: &mut Outcome, report: &Report) -> Vec<Failure> {
    let (failure, written, output) = (outcome.failure.take(), outcome.written, || file.name.clone());
    let unwritten = file.delivered(report).saturating_sub(written.packets);
    let partial = outcome.partial.take();
    let WrittenCounts { packets, bytes, output_files: files, deleted, .. } = written;
    let kept = PartialOutput {
        packets: packets.saturating_sub(deleted),
        // Those of files that are gone are not known.
        bytes: (deleted == 0).then_some(bytes),
        files,
        unwritten,
        may_end_in_packet: outcome.may_end_in_packet,
        partial: partial.clone(),
    };
    let write = failure.map(|cause| Failure::Write { output: output(), cause, kept });
    let place = match &outcome.whereabouts {
        Whereabouts::InPlace | Whereabouts::Moved(_) => None,
        Whereabouts::Deleted => Some(Failure::Deleted { output: output(), packets: outcome.last_packets }),
        Whereabouts::Cut => {
            Some(Failure::Cut(partial.map_or_else(output, |path| path.display().to_string())))
        }
    };
    let lost = outcome.lost_files.iter().map(|lost| match lost.whereabouts {
        Whereabouts::Cut => Failure::Cut(lost.path.display().to_string()),
        _ => Failure::Deleted { output: lost.path.display().to_string(), packets: lost.packets },
    });
    let lost: Vec<_> = lost.collect();
    let not_taken = Failure::NotTaken { output: output(), packets: written.not_taken };
    let not_taken = (written.not_taken > 0).then_some(not_taken);
    write.into_iter().chain(not_taken).chain(lost).chain(place).collect()
}

/// A line about where each file is that another program moved.
fn moved(file: &OutputFile, outcome: &Outcome) -> Vec<Message> {
    let line = |name: &dyn Display, path: &Path| {
        Message::note(format!("{name} was moved while it was written; the packets are in {}", path.display()))
    };
    let before = outcome.moved_files.iter().map(|moved| line(&moved.path.display(), &moved.moved_to));
    let last = match &outcome.whereabouts {
        Whereabouts::Moved(path) => Some(line(&file.name, path)),
        _ => None,
    };
    before.chain(last).collect()
}

/// A line about packets that were written, and that tcpdump or the reader of the copy did not read.
fn not_copied(outcome: &Outcome, pipe: Option<&Path>) -> Option<Message> {
    let Outcome { written, copy_reader, .. } = outcome;
    let (counted, were) = (counted(written.not_copied, "packet"), was(written.not_copied));
    let (what, reader, closed) = match pipe {
        Some(pipe) => (format!("not copied to {}", pipe.display()), "its reader", "closed it"),
        None => ("not printed".into(), "tcpdump", "ended"),
    };
    let why = match copy_reader {
        CopyReader { was_behind: false, has_closed: true, .. } => format!("had {closed}"),
        CopyReader { was_behind: true, has_closed: true, .. } => {
            format!("did not read some in time, and then {closed}")
        }
        CopyReader { was_behind: false, was_given_up: true, .. } => {
            "had not read them when the wait for it was given up".into()
        }
        CopyReader { was_behind: true, was_given_up: true, .. } => {
            "did not read some in time, and had not read the rest when the wait for it was given up".into()
        }
        _ => "did not read them in time".into(),
    };
    (written.not_copied > 0)
        .then(|| Message::warning(format!("{counted} {were} written but {what}: {reader} {why}")))
}

/// Has the recorders write the remaining packets and the account. Calls `publish` many times a second.
fn finish(
    recorders: Vec<(OutputFile, Recorder)>,
    report: &Report,
    drain: &mut Drain<'_>,
    mut publish: impl FnMut(),
) -> Vec<(OutputFile, Outcome)> {
    let finish = |(file, recorder): (_, Recorder)| {
        let trailer = Trailer { report: report.clone(), comments: describe::comments(report) };
        let tick = || {
            publish();
            drain.show(|| report.clone());
        };
        (file, recorder.finish_with(trailer, tick))
    };
    let outputs = recorders.into_iter().map(finish).collect();
    drain.clear();
    outputs
}
