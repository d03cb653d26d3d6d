//! The account as JSON: the library's report, with the words of each diagnostic beside its code and its data.

use serde::Serialize;
use serde_json::{Map, Value};
use wirecap::{
    Diagnostic, Report,
    report::{MemoryReport, PortReport, WorkerReport},
};
use wirecap_record::Written;

use super::end::End;
use crate::{
    print::head::Head,
    text::{Worded, diagnostic::describe, report::clock},
};

/// An account as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Record<'a> {
    #[serde(flatten)]
    pub(super) head: &'a Head,
    /// Why it ended; null while it runs.
    #[cfg_attr(test, schemars(schema_with = "crate::tests::reference::json::ends"))]
    pub(super) end: Option<End>,
    /// What was not as asked for, in words; null if the exit code is 0.
    pub(super) error: Option<&'a str>,
    #[serde(flatten)]
    pub(super) report: WordedReport,
    /// What was written; null without `-w`.
    pub(super) written: Option<WrittenFile<'a>>,
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
    #[serde(flatten)]
    pub(super) written: &'a Written,
}

/// A report whose diagnostics have words.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WordedReport {
    /// Seconds since the capture was opened.
    seconds: f64,
    /// The ports: interfaces and trace files.
    ports: Vec<WordedPort>,
    /// The workers.
    workers: Vec<WorkerReport>,
    /// The memory of the capture.
    memory: WordedMemory,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WordedPort {
    /// Its own lists are empty, and so not serialised. Its clock has words.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "PortReport"))]
    port: Value,
    /// What is not as asked for, or not as good as it could be.
    fallbacks: Vec<Worded<Diagnostic>>,
    /// What happened while it ran that the user should know.
    warnings: Vec<Worded<Diagnostic>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WordedMemory {
    /// As that of a port.
    #[serde(flatten)]
    memory: MemoryReport,
    /// What was asked of the memory and is not so.
    fallbacks: Vec<Worded<Diagnostic>>,
}

impl From<Report> for WordedReport {
    fn from(report: Report) -> Self {
        let Report { seconds, ports, workers, mut memory, .. } = report;
        let fallbacks = worded(&mut memory.fallbacks);
        let memory = WordedMemory { memory, fallbacks };
        let ports = ports.into_iter().map(WordedPort::from).collect();
        Self { seconds, ports, workers, memory }
    }
}

impl From<PortReport> for WordedPort {
    fn from(mut port: PortReport) -> Self {
        let (fallbacks, warnings) = (worded(&mut port.fallbacks), worded(&mut port.warnings));
        let clock = clock(&port.timestamp.clock);
        let mut port = serde_json::to_value(port).expect("figures, names and texts");
        port["timestamp"]["clock"]["text"] = clock.into();
        Self { port, fallbacks, warnings }
    }
}

fn worded(diagnostics: &mut Vec<Diagnostic>) -> Vec<Worded<Diagnostic>> {
    std::mem::take(diagnostics).into_iter().map(|diagnostic| Worded::new(diagnostic, describe)).collect()
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
        let record = serde_json::to_value(WordedReport::from(report)).unwrap();
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
