//! The account as JSON: the library's report, with a text beside the code and the data of each diagnostic.

use serde::Serialize;
use serde_json::{Map, Value};
use wirecap::{Diagnostic, Report};
use wirecap_record::WrittenCounts;
use wirecap_sandbox::SandboxReport;

use super::{
    end::End,
    written_files::{OutputFile, QueueId, WrittenFiles},
};
use crate::{
    control::protocol::Change,
    print::head::Head,
    text::{DiagnosticWithText, diagnostic::describe, report::clock, rss},
};

/// An account as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Record<'a> {
    #[serde(flatten)]
    pub(super) head: &'a Head,
    /// The name of the capture (`--name`); null without one.
    pub(super) name: Option<&'a str>,
    /// Why the capture ended; null while it runs.
    #[cfg_attr(test, schemars(schema_with = "crate::tests::reference::json::ends"))]
    pub(super) end: Option<End>,
    /// What went wrong, as text; null if the exit code is 0.
    pub(super) error: Option<&'a str>,
    /// Settings that were changed while it ran (`wirecap set`), the last hundred.
    pub(super) changes: &'a [Change],
    /// How long the process hardly ran, in seconds, in pauses of a second or more: it was stopped, the
    /// machine was busy, or nothing read its messages.
    pub(super) stood_seconds: f64,
    /// The report with the texts that [`with_texts`] adds.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "Report"))]
    pub(super) report: Value,
    /// What was written; null without `-w`, and if there was no room for a file at the start.
    pub(super) written: Option<WrittenFile<'a>>,
    /// What the threads have given up.
    pub(super) sandbox: SandboxReport,
    #[serde(flatten)]
    #[cfg_attr(test, schemars(skip))]
    pub(super) job: Map<String, Value>,
}

/// What is in the output.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WrittenFile<'a> {
    /// Name of the output, as the user gave it.
    pub(super) file: String,
    /// In all files together, if there is one for each queue.
    #[serde(flatten)]
    pub(super) written: &'a WrittenCounts,
    /// Where the packets are instead, if writing failed before the file got its name: `NAME.partial`. Of a
    /// series, those of the last file.
    pub(super) partial: Option<String>,
    /// The file of each receive queue; empty without `--file-per-queue`.
    pub(super) files: Vec<QueueFileRecord<'a>>,
}

/// What is in the file of a receive queue.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct QueueFileRecord<'a> {
    /// Name of the file.
    pub(super) file: &'a str,
    /// Name of the port.
    pub(super) port: &'a str,
    /// Number of the receive queue; on a passive port, of the core or socket.
    pub(super) queue: u16,
    #[serde(flatten)]
    pub(super) written: &'a WrittenCounts,
    /// Where its packets are instead, if writing failed before it got its name: `NAME.partial`.
    pub(super) partial: Option<String>,
}

impl<'a> QueueFileRecord<'a> {
    /// Of each file that has the packets of one queue.
    pub(super) fn of(written: &'a WrittenFiles, report: &'a Report) -> Vec<Self> {
        let of_queue = |(file, written): &'a (OutputFile, WrittenCounts)| {
            let QueueId { port, number } = file.queue?;
            let (name, partial) = (&file.name, file.partial.as_ref().map(|path| path.display().to_string()));
            Some(Self { file: name, port: &report.ports[port].name, queue: number, written, partial })
        };
        written.files.iter().filter_map(of_queue).collect()
    }
}

/// A report in which each diagnostic and each clock has a `text` beside its code and its data, and what
/// became of RSS is text.
pub(super) fn with_texts(report: &Report) -> Value {
    let mut record = serde_json::to_value(report).expect("figures, names and texts");
    for (number, port) in report.ports.iter().enumerate() {
        let record = &mut record["ports"][number];
        record["fallbacks"] = texts(&port.fallbacks);
        record["warnings"] = texts(&port.warnings);
        if let Some(rss) = &port.rss {
            rss::report_in_json(rss, &mut record["rss"]);
        }
        record["timestamp"]["clock"]["text"] = clock(&port.timestamp.clock).into();
    }
    record["memory"]["fallbacks"] = texts(&report.memory.fallbacks);
    record
}

fn texts(diagnostics: &[Diagnostic]) -> Value {
    let text = |diagnostic: &Diagnostic| {
        let mut record = serde_json::json!(DiagnosticWithText::new(diagnostic, |d| describe(d)));
        if let Diagnostic::RssChanged { recovery } = diagnostic {
            rss::recovery_in_json(recovery, &mut record);
        }
        record
    };
    diagnostics.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use wirecap::{Capture, port::null::NullPort};

    use super::*;

    #[test]
    fn each_diagnostic_has_a_code_its_data_and_a_text() {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
        let mut report = Capture::builder().port(port).chunks_per_pool(4).open().unwrap().report();
        report.ports[0].fallbacks.push(Diagnostic::EndNotAwaited);
        report.ports[0].warnings.push(Diagnostic::QueuesGone { queues: 3 });
        report.memory.fallbacks = vec![Diagnostic::HugePagesShort { needed: 4, reserved: 2, free: 1 }];
        let record = with_texts(&report);
        let port = &record["ports"][0];
        assert_eq!(port["fallbacks"].as_array().unwrap().len(), 1, "{port:#}");
        assert_eq!(port["fallbacks"][0]["code"], "end_not_awaited");
        assert_eq!(
            (&port["warnings"][0]["code"], &port["warnings"][0]["queues"]),
            (&"queues_gone".into(), &3.into())
        );
        let text = port["warnings"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("the interface has 3 receive queues now"), "{text}");
        assert_eq!(record["memory"]["fallbacks"][0]["code"], "huge_pages_short");
        assert_eq!((&port["name"], &record["memory"]["cell_bytes"]), (&"null".into(), &2048.into()));
    }
}
