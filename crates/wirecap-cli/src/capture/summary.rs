//! The account, as tables or as a JSON record: at the end, and on request before.

use std::{io, path::Path, time::Duration};

use serde_json::Value;
use wirecap::Report;
use wirecap_record::WrittenCounts;

use super::{
    accounts::{self, Stage},
    disorder::Disorder,
    end::End,
    job::Job,
    plan::Plan,
    record::{QueueFileRecord, Record, WrittenFile, with_texts},
    times,
    written_files::WrittenFiles,
};
use crate::{
    control::protocol::Change,
    print::{
        head::Head,
        layout::paragraph,
        printable::json,
        report::ReportFormat,
        stdio::{self, Stream},
        table::Table,
    },
    settings::CaptureName,
    text::{
        self,
        diagnostic::describe,
        plural::{counted, is, was},
        units::rate,
    },
};

/// What is known about a capture at some time.
pub(super) struct Account<'a> {
    pub(super) head: &'a Head,
    /// `None` while it runs.
    pub(super) end: Option<CaptureEnd>,
    pub(super) report: &'a Report,
    pub(super) written: Option<WrittenFiles>,
    pub(super) changes: &'a [Change],
    /// How long the process hardly ran, in total.
    pub(super) stood: Duration,
}

/// How a capture ended.
pub(super) struct CaptureEnd {
    pub(super) end: End,
    /// What went wrong, as text.
    pub(super) error: Option<String>,
}

/// Where accounts are printed: standard error if packets go to standard output.
pub(super) fn stream(plan: &Plan) -> Stream {
    if plan.stdout_is_taken() { Stream::Stderr } else { Stream::Stdout }
}

impl Account<'_> {
    /// Prints the final account; with `--quiet` only as a record. Returns whether that succeeded.
    pub(super) fn print(&self, plan: &Plan, job: &impl Job) -> bool {
        let format = ReportFormat { stream: stream(plan), json: plan.output.json, quiet: plan.output.quiet };
        format.print("the account", || self.json(plan, job), || self.describe(plan, job))
    }

    /// Prints the account while the capture runs, if the stream has room.
    ///
    /// # Errors
    /// See [`stdio::offer`].
    pub(super) fn offer(&self, plan: &Plan, job: &impl Job) -> io::Result<()> {
        let text = if plan.output.json { self.json(plan, job) } else { self.describe(plan, job) + "\n" };
        stdio::offer(stream(plan), &text)
    }

    fn json(&self, plan: &Plan, job: &impl Job) -> String {
        self.with_record(plan, job, |record| json(record))
    }

    /// The account as JSON, for clients.
    pub(super) fn record(&self, plan: &Plan, job: &impl Job) -> Value {
        self.with_record(plan, job, |record| serde_json::to_value(record).expect("figures, names and texts"))
    }

    fn with_record<T>(&self, plan: &Plan, job: &impl Job, work: impl FnOnce(&Record<'_>) -> T) -> T {
        let written = plan.destination.as_ref().zip(self.written.as_ref());
        let written = written.map(|(output, written)| WrittenFile {
            file: output.name(),
            written: &written.total,
            partial: written.partial().map(|path| path.display().to_string()),
            files: QueueFileRecord::of(written, self.report),
        });
        work(&Record {
            head: self.head,
            name: plan.service.name.as_ref().map(CaptureName::as_str),
            changes: self.changes,
            stood_seconds: self.stood.as_secs_f64(),
            end: self.end.as_ref().map(|ending| ending.end),
            error: self.end.as_ref().and_then(|ending| ending.error.as_deref()),
            report: with_texts(self.report),
            written,
            sandbox: plan.sandbox.report(),
            job: job.json(self.report),
        })
    }

    /// The account as text.
    pub(super) fn describe(&self, plan: &Plan, job: &impl Job) -> String {
        let stage = if self.end.is_some() { Stage::Over } else { Stage::Running };
        let (queues, workers) = (accounts::queues(self.report, stage), accounts::workers(self.report));
        let mut text = format!("{queues}\n{workers}");
        text += &notes(self.report);
        text += &volume(self.report, plan.output.keeps_times());
        if let Some((output, written)) = plan.describe_destination().zip(self.written.as_ref()) {
            text += &in_output(self.report, &output, written, plan.output.kept_files(), stage);
            let pipe = plan.output.copy_pipe().filter(|_| stage == Stage::Over);
            text += &pipe.map(|pipe| in_copy(pipe, &written.total)).unwrap_or_default();
        }
        text + &job.describe(self.report)
    }
}

/// Warns about an account that does not balance.
pub(super) fn warn_of_unexplained(report: &Report) {
    let unexplained = report.total().unexplained();
    let mut queues = report.ports.iter().flat_map(|port| &port.queues);
    if queues.any(|queue| queue.unexplained != 0) {
        warn!(
            "the account does not balance: {} {} unexplained. This is a defect of wirecap; please report it \
             with the account, the kernel version and the driver",
            counted(unexplained, "packet"),
            is(unexplained)
        );
    }
}

/// Notes on the ports.
fn notes(report: &Report) -> String {
    let mut lines = Vec::new();
    for port in report.ports.iter().filter(|port| port.dropped_before_xdp > 0) {
        let whole = if port.name.contains('@') { ", on all queues of its interface" } else { "" };
        lines.push(format!(
            "{}: {} {} dropped by the NIC or its driver before the XDP program{whole}",
            port.name,
            counted(port.dropped_before_xdp, "packet"),
            was(port.dropped_before_xdp)
        ));
    }
    for (port, rss) in report.ports.iter().filter_map(|port| Some((&port.name, port.rss.as_ref()?))) {
        lines.push(format!("{port}: RSS was {}", text::rss::report(rss)));
    }
    for port in &report.ports {
        let warning = |warning| format!("WARNING: {}: {}", port.name, describe(warning));
        lines.extend(port.warnings.iter().map(warning));
    }
    lines.iter().map(|line| format!("\n{}", paragraph(line))).collect()
}

/// The number of packets, the duration and the rate.
fn volume(report: &Report, keeps_times: bool) -> String {
    let delivered = report.total().delivered;
    let pps = delivered as f64 / report.seconds.max(1e-9);
    let packets = counted(delivered, "packet");
    let mut text = format!("\n{packets} in {:.3} s, {} on average\n", report.seconds, rate(pps));
    for port in report.ports.iter().filter(|_| keeps_times) {
        for remark in times::remarks(&port.timestamp) {
            text += &paragraph(&format!("{}, times: {remark}", port.name));
        }
    }
    text
}

/// What was written. `most` is the number of files that each series keeps.
fn in_output(
    report: &Report,
    output: &str,
    written: &WrittenFiles,
    most: Option<u64>,
    stage: Stage,
) -> String {
    let WrittenFiles { total, files } = written;
    let (packets, bytes) = (counted(total.packets, "packet"), counted(total.bytes, "byte"));
    let series = match total.output_files {
        count if count as usize > files.len() => format!("{count} files named "),
        _ => String::new(),
    };
    let mut line = format!("{packets} written to {series}{output}, {bytes}");
    if total.deleted > 0 {
        let are = is(total.deleted);
        line += &format!("; {} of them {are} lost, deleted by another program", total.deleted);
    }
    let missing = report.total().delivered.saturating_sub(total.packets);
    let is_writing = stage == Stage::Running && total.ended_outputs == 0;
    // Packets that the output did not accept in time will not be in it.
    let coming = if is_writing { missing.saturating_sub(total.not_taken) } else { 0 };
    let unwritten = missing - coming;
    if unwritten > 0 {
        let (were, are) = (was(unwritten), is(unwritten));
        let them = if total.output_files <= 1 && files.len() == 1 { "it" } else { "them" };
        line += &format!("; {unwritten} more {were} captured and {are} not in {them}");
    }
    if coming > 0 {
        line += &format!("; {coming} more are on the way");
    }
    if let Some(most) = most.filter(|most| files.iter().any(|(_, counts)| counts.output_files > *most)) {
        let of_each = if files.len() > 1 { " of each queue" } else { "" };
        line += &format!("; the last {most}{of_each} are kept");
    }
    let mut text = paragraph(&line);
    if total.out_of_order > 0 {
        let reasons: Vec<_> = Disorder::of(report, total).map(|reason| reason.to_string()).collect();
        text += &paragraph(&format!(
            "{} of them {} after a later one: {}",
            total.out_of_order,
            is(total.out_of_order),
            reasons.join(", and ")
        ));
    }
    if files.iter().any(|(file, _)| file.queue.is_some()) {
        text += &format!("\n{}", file_table(report, written));
    }
    text
}

/// What the program at the other end of the pipe has read in the end, or can still read.
fn in_copy(pipe: &Path, written: &WrittenCounts) -> String {
    let copied = counted(written.packets.saturating_sub(written.not_copied), "packet");
    paragraph(&format!("{copied} copied to {}", pipe.display()))
}

/// A row for each file of a queue that had packets, and one for all others.
fn file_table(report: &Report, written: &WrittenFiles) -> Table {
    let mut table = Table::new(&["file", "packets", "bytes", "not_written"]);
    let files = written.files.iter().map(|(file, written)| {
        // The line above the table has the directory.
        let name = Path::new(&file.name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let not_written = file.delivered(report).saturating_sub(written.packets);
        (name, [written.packets, written.bytes, not_written])
    });
    let (busy, idle): (Vec<_>, Vec<_>) = files.partition(|(_, [packets, _, more])| packets + more > 0);
    let idle_bytes = idle.iter().map(|(_, [_, bytes, _])| bytes).sum();
    let idle = (!idle.is_empty()).then(|| (format!("without packets: {}", idle.len()), [0, idle_bytes, 0]));
    for (name, figures) in busy.into_iter().chain(idle) {
        table.row([name].into_iter().chain(figures.map(|figure| figure.to_string())).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use wirecap::{Capture, port::null::NullPort};

    use super::{
        super::written_files::{OutputFile, QueueId},
        *,
    };

    #[test]
    fn a_copy_has_what_was_written_without_what_was_not_copied() {
        let counts = WrittenCounts { packets: 12, not_copied: 11, ..WrittenCounts::default() };
        assert_eq!(in_copy(Path::new("./p"), &counts), "1 packet copied to ./p\n");
    }

    #[test]
    fn files_without_packets_are_one_row() {
        let port = NullPort { queues: 32, packet_bytes: 60, packets_per_queue: 0 };
        let mut report = Capture::builder().port(port).chunks_per_pool(4).open().unwrap().report();
        report.ports[0].queues[3].account.delivered = 12;
        let file = |queue| {
            let packets = if queue == 3 { 10 } else { 0 };
            let name = format!("/a/long/way/to/the/directory/of/the/files/of/this/capture/x.{queue}.pcapng");
            let written = WrittenCounts { packets, bytes: 100 + 60 * packets, ..WrittenCounts::default() };
            (OutputFile::of_queue(name, QueueId { port: 0, number: queue }), written)
        };
        let written: WrittenFiles = (0..32).map(file).collect();
        let text = in_output(&report, "x.*.pcapng", &written, None, Stage::Over);
        let expected = "\
10 packets written to x.*.pcapng, 3800 bytes; 2 more were captured and are not
    in them

file                 packets  bytes  not_written
x.3.pcapng                10    700            2
without packets: 31        0   3100            0
";
        assert_eq!(text, expected);
        // One file for all queues is a line.
        let all = OutputFile::of_all("x.pcapng".into());
        let one = [(all, written.total)].into_iter().collect();
        let text = in_output(&report, "x.pcapng", &one, None, Stage::Running);
        assert_eq!(text, "10 packets written to x.pcapng, 3800 bytes; 2 more are on the way\n");
        // Some that do not come.
        let text = |counts: WrittenCounts| {
            let one = [(OutputFile::of_all("x.pcapng".into()), counts)].into_iter().collect();
            in_output(&report, "x.pcapng", &one, None, Stage::Running).replace("\n    ", " ")
        };
        let counts = WrittenCounts { packets: 9, bytes: 700, ..WrittenCounts::default() };
        assert_eq!(
            text(WrittenCounts { not_taken: 1, ..counts }),
            "9 packets written to x.pcapng, 700 bytes; 1 more was captured and is not in it; 2 more are on the way\n"
        );
        assert_eq!(
            text(WrittenCounts { ended_outputs: 1, ..counts }),
            "9 packets written to x.pcapng, 700 bytes; 3 more were captured and are not in it\n"
        );
        // A ring that has turned.
        let counts = WrittenCounts { output_files: 57, packets: 12, bytes: 900, ..WrittenCounts::default() };
        let ring: WrittenFiles = [(OutputFile::of_all("x_*.pcapng".into()), counts)].into_iter().collect();
        let text = |most| in_output(&report, "x_*.pcapng", &ring, Some(most), Stage::Over);
        assert_eq!(text(57), "12 packets written to 57 files named x_*.pcapng, 900 bytes\n");
        let expected = "12 packets written to 57 files named x_*.pcapng, 900 bytes; the last 20 are kept\n";
        assert_eq!(text(20).replace("\n    ", " "), expected);
    }
}
