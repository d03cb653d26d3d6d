//! The end of a capture: all is written, the account is closed, and what went wrong is said.

use std::{
    io::{self, ErrorKind},
    time::SystemTime,
};

use wirecap::{Capture, Report};
use wirecap_core::words::{counted, is, was};

use super::{Threads, describe, job::Job, open, output::Whereabouts, summary, watch::End, writer::Written};
use crate::{
    exit::{Exit, tell},
    plan::Plan,
};

/// Ends the capture, writes all there is, closes the account, and tells.
pub(super) fn close(
    plan: &Plan,
    mut capture: Capture,
    threads: Threads,
    end: End,
    started: SystemTime,
    job: &impl Job,
) -> Exit {
    // An interface may have gone since events were last looked at; the report knows it then.
    drop(capture.events());
    capture.stopper().stop();
    let Threads { workers, writer } = threads;
    // All are joined, whatever became of the first.
    let panicked = workers.into_iter().filter_map(|worker| worker.join().err()).count() > 0;
    let report = capture.finish();
    let written = writer.map(|writer| {
        let writer = match job.backlog().zip(plan.destination.as_ref()) {
            Some((backlog, destination)) => match backlog.wait_for_end(|| writer.try_recv().ok()) {
                Some(writer) => writer,
                None => return Written::of_stalled(destination, backlog),
            },
            None => writer.recv().expect("the writer does not panic"),
        };
        let unwritten = report.total().delivered.saturating_sub(writer.packets());
        let trailer = describe::trailer(&report, writer.format(), started, unwritten);
        writer.close(&trailer)
    });
    if panicked {
        tell("wirecap: a worker thread panicked, please report this; what the others captured is kept");
    }
    let all_stayed = tell_lost_interfaces(end, &report);
    let all_is_read = tell_unread(&report);
    let all_is_there = written.as_ref().is_none_or(|written| tell_file(written, &report));
    let printed = summary::print(plan, &report, written.as_ref(), job);
    let failed = job.has_failed()
        || panicked
        || !printed
        || matches!(end, End::Deserted | End::WorkerGone | End::WriteFailed | End::Cut);
    if failed || !all_stayed || !all_is_read || !all_is_there { Exit::Failed } else { Exit::Fine }
}

/// Says which interfaces are gone, and whether none is.
fn tell_lost_interfaces(end: End, report: &Report) -> bool {
    if end == End::Deserted {
        tell("wirecap: every interface is gone, so the capture has ended; what was captured is kept");
        return false;
    }
    let gone = report.ports.iter().filter(|port| port.removed).map(|port| port.name.as_str());
    let gone = gone.collect::<Vec<_>>().join(", ");
    if !gone.is_empty() {
        tell(format_args!(
            "wirecap: the capture is not complete: {gone} was removed while it ran; all else is kept"
        ));
    }
    gone.is_empty()
}

/// Says which trace files could not be read to their end, and whether none is among them.
fn tell_unread(report: &Report) -> bool {
    let errors = report.ports.iter().filter_map(|port| port.error.as_ref());
    errors.inspect(|error| tell(format_args!("wirecap: {error}"))).count() == 0
}

/// Says what happened to the file, and whether everything is in it and can be found.
fn tell_file(written: &Written, report: &Report) -> bool {
    if let Some(failure) = &written.failure {
        tell_failure(written, failure, report.total().delivered.saturating_sub(written.packets));
    }
    if written.not_taken > 0 {
        tell(format_args!(
            "wirecap: {} {} sent on and not written, since {} did not take them in time",
            counted(written.not_taken, "packet"),
            was(written.not_taken),
            written.in_words,
        ));
    }
    match &written.whereabouts {
        Whereabouts::InPlace => {}
        Whereabouts::Moved(path) => tell(format_args!(
            "wirecap: {} was moved while it was written; the packets are in {}",
            written.in_words,
            path.display()
        )),
        Whereabouts::Deleted => tell(format_args!(
            "wirecap: {} was deleted while it was written; its {} {} lost",
            written.in_words,
            counted(written.packets, "packet"),
            is(written.packets)
        )),
        Whereabouts::Cut => tell(format_args!(
            "wirecap: somebody else has cut {} while it was written; packets are missing in it, and it is damaged",
            written.in_words
        )),
    }
    let found = !matches!(written.whereabouts, Whereabouts::Deleted | Whereabouts::Cut);
    written.failure.is_none() && written.not_taken == 0 && found
}

/// Says why not everything was written, and what was.
fn tell_failure(written: &Written, failure: &io::Error, unwritten: u64) {
    let (packets, bytes) = (counted(written.packets, "packet"), counted(written.bytes, "byte"));
    let kept = if failure.kind() == ErrorKind::TimedOut {
        format!("at least {packets} ({bytes}) are in it, and it may end within one")
    } else {
        format!("kept {packets} ({bytes}, whole to the last of them)")
    };
    tell(format_args!(
        "wirecap: cannot write {}: {}\nwirecap: {kept}; {} {} captured but not written",
        written.in_words,
        open::in_words(failure),
        counted(unwritten, "packet"),
        was(unwritten),
    ));
}
