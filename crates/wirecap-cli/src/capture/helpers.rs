//! Programs that run beside a capture: the command for each file of a series, and the tcpdump that prints.
//!
//! Rule: they get everything, and the capture ends after them, unless a signal gives them up.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use wirecap_record::{Output, OutputCopy};

use super::{
    failure::Failure,
    files::OpenOutput,
    plan::{Destination, Plan},
    printing::Printer,
    series::Commands,
    stall::Awaited,
    written_files::OutputFile,
};
use crate::process::signals::Signals;

/// How often to check whether they have ended.
const TICK: Duration = Duration::from_millis(10);
/// When to say what is waited for.
const LONG: Duration = Duration::from_secs(2);

/// The programs of a capture.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    pub(super) commands: Option<Commands>,
    pub(super) printer: Option<Printer>,
}

impl Helpers {
    /// Starts the tcpdump that prints, whose standard input becomes an output, or the copy of the one there
    /// is.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn print(&mut self, plan: &Plan, outputs: &mut Vec<OpenOutput>) -> Result<Option<OutputCopy>> {
        let (printer, input) = Printer::start(&plan.sandbox)?;
        self.printer = Some(printer);
        if plan.destination != Some(Destination::Printer) {
            return Ok(Some(OutputCopy::to_pipe(input)?));
        }
        let file = OutputFile::of_all(Destination::Printer.name());
        let output = Output::stream(input.into(), Destination::Printer.format());
        outputs.push(OpenOutput::stream(file, output));
        Ok(None)
    }

    /// Waits for them, now that all outputs are closed. Returns what failed.
    /// `goes_on` is called many times a second with the one that is awaited, and a number that grows whenever
    /// one ends, or the command begins with another file.
    pub(super) fn end(
        self,
        plan: &Plan,
        signals: &Signals,
        mut goes_on: impl FnMut(Awaited, u64),
    ) -> Vec<Failure> {
        let quiet = plan.output.quiet;
        let Self { commands, printer } = self;
        let begun = || commands.as_ref().map_or(0, Commands::begun);
        let (mut failures, mut has_run) = (Vec::new(), false);
        let mut ended = 0;
        if let Some(mut printer) = printer {
            let is_over = || {
                goes_on(Awaited::Printer, begun());
                printer.has_ended()
            };
            match wait(signals, "tcpdump prints the last packets", quiet, is_over) {
                true => failures.extend(printer.failure().map(Failure::Printer)),
                false => failures.push(Failure::PrintingGivenUp),
            }
            ended += 1;
        }
        if let Some(commands) = &commands {
            commands.end_series();
            let is_over = || {
                goes_on(Awaited::Command, begun() + ended);
                commands.is_finished()
            };
            match wait(signals, "the command of -z runs with the last files", quiet, is_over) {
                true => has_run = true,
                false => failures.push(Failure::CommandsGivenUp(commands.give_up())),
            }
        }
        failures.extend(commands.filter(|_| has_run).and_then(Commands::end).map(Failure::Command));
        failures
    }
}

/// Waits until `is_over`, or until a signal gives up. Returns whether it is over.
fn wait(signals: &Signals, what: &str, quiet: bool, mut is_over: impl FnMut() -> bool) -> bool {
    let (begun, mut is_noted) = (Instant::now(), false);
    while !is_over() {
        if signals.escalation.give_up_flag().load(Ordering::Relaxed) {
            return false;
        }
        if !quiet && (signals.take_repeated() || (!is_noted && begun.elapsed() >= LONG)) {
            note!("{what}; Ctrl-C (SIGINT, SIGTERM) does not wait for that");
            is_noted = true;
        }
        thread::sleep(TICK);
    }
    true
}
