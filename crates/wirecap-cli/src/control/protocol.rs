//! What is said on the control socket: one JSON object per line, in both directions.
//!
//! ```text
//!   {"protocol":1,"request":"status"}               ─►
//!                                                   ◄─   {"protocol":1,"reply":"status","pid":4711,…}
//!   {"protocol":1,"request":"set","settings":{…}}   ─►
//!                                                   ◄─   {"protocol":1,"reply":"error","code":"not_permitted",…}
//! ```
//!
//! Rule: adding a request or a field does not change `protocol`; removing one, or changing its meaning, does.
//! Clients decide by codes, never by texts. The book documents the protocol for third-party clients.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wirecap::report::Offload;
use wirecap_core::choices;

use super::{
    refusal::{Refusal, RefusalRecord},
    sample::Sample,
    version::{PROTOCOL, REQUESTS},
};
use crate::text::plural::counted;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// The state in a few figures.
    Status,
    /// The account so far.
    Account,
    /// Accounts at an interval, until the client disconnects or the capture ends.
    Watch {
        /// The interval.
        #[serde(default)]
        interval_ms: Option<u64>,
        /// With a sample of the packets.
        #[serde(default)]
        sample: bool,
    },
    /// The end, as by SIGINT.
    Stop,
    /// The next file of a series.
    Rotate,
    /// Other settings.
    Set {
        /// By the names of a file of settings.
        settings: Map<String, Value>,
    },
}

impl Request {
    /// Whether it changes the capture.
    pub(super) fn changes(&self) -> bool {
        matches!(self, Request::Stop | Request::Rotate | Request::Set { .. })
    }

    /// Parses a line.
    ///
    /// # Errors
    /// Why it is no request of this protocol.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let malformed = |error: serde_json::Error| Refusal::Malformed(error.to_string());
        let Value::Object(mut object) = serde_json::from_slice(line).map_err(malformed)? else {
            return Err(Refusal::Malformed("it is no JSON object".into()));
        };
        if object.remove("protocol").as_ref().and_then(Value::as_u64) != Some(PROTOCOL) {
            return Err(Refusal::WrongProtocol);
        }
        let name = object.get("request").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !REQUESTS.contains(&name.as_str()) {
            return Err(Refusal::UnknownRequest { name });
        }
        serde_json::from_value(Value::Object(object)).map_err(malformed)
    }

    /// The line that asks for it.
    pub(crate) fn line(&self) -> String {
        line(self)
    }
}

choices! {
    /// How far a capture is.
    pub(crate) enum Phase {
        /// It is being opened: nothing is captured yet.
        Starting = "starting",
        /// It captures.
        Running = "running",
        /// It captures no more; what it has is being written.
        Ending = "ending",
    }
}

/// The state of a capture in a few figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Status {
    /// Its process id.
    pub(crate) pid: u32,
    /// Its name (`--name`); null without one.
    pub(crate) name: Option<String>,
    /// Its command: capture, forward or extcap.
    pub(crate) command: String,
    /// Its interfaces and trace files.
    pub(crate) ports: Vec<String>,
    /// The network namespace of the interfaces: the inode of `/proc/PID/ns/net`; null if that cannot be read.
    #[serde(default)]
    pub(crate) network_namespace: Option<u64>,
    /// When the capture began; before that, when it was started: UTC, in the format of RFC 3339.
    pub(crate) started: String,
    /// How far it is.
    pub(crate) state: Phase,
    /// For how long it has captured.
    pub(crate) seconds: f64,
    /// Packets that reached it.
    pub(crate) seen: u64,
    /// Packets given to workers.
    pub(crate) delivered: u64,
    /// Packets lost, including those that the NIC dropped and those lost in forwarding.
    pub(crate) lost: u64,
    /// T in percent; null in basic mode.
    pub(crate) threshold_percent: Option<u8>,
    /// What is written to; null if packets are only counted.
    pub(crate) output: Option<String>,
}

/// A file that is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompleteFileRecord {
    /// Its name.
    pub(crate) file: String,
    /// Packets in it.
    pub(crate) packets: u64,
    /// The file that is written now; null if it was the last.
    pub(crate) next: Option<String>,
}

/// A setting that was changed while the capture ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Change {
    /// When: seconds since the capture was opened.
    pub(crate) seconds: f64,
    /// The setting.
    pub(crate) setting: String,
    /// Its value before; null if it had none.
    pub(crate) before: Option<u64>,
    /// Its value from then on.
    pub(crate) after: u64,
    /// The user who changed it.
    pub(crate) uid: u32,
    /// The process by which the user did; 0 if it is in another PID namespace.
    pub(crate) pid: u32,
}

/// How a capture ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndRecord {
    /// Its exit code.
    pub(crate) exit_code: u8,
    /// Why it ended, as in its account.
    pub(crate) end: String,
    /// What went wrong; null if nothing did.
    pub(crate) error: Option<String>,
    /// Its output; null if packets were only counted.
    pub(crate) output: Option<String>,
    /// Packets in it.
    pub(crate) written: u64,
    /// How many files that is.
    pub(crate) files: u64,
}

impl fmt::Display for EndRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the capture has ended with exit code {}", self.exit_code)?;
        if let Some(error) = &self.error {
            write!(formatter, ": {error}")?;
        }
        let Some(output) = &self.output else { return Ok(()) };
        let files = if self.files > 1 { format!("{} files named ", self.files) } else { String::new() };
        write!(formatter, "; {} in {files}{output}", counted(self.written, "packet"))
    }
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum Reply {
    Status(Status),
    /// The account: the record of `--json`, and what is printed without.
    Account {
        account: Value,
        text: String,
    },
    /// One of several accounts.
    Report {
        sequence: u64,
        status: Status,
        account: Value,
        offloads: Vec<Offload>,
        /// `None` unless it was asked for.
        sample: Option<Sample>,
    },
    /// The end was requested; `Ended` follows.
    Stopping,
    Ended(EndRecord),
    Rotated {
        files: Vec<CompleteFileRecord>,
    },
    Set {
        changes: Vec<Change>,
    },
    Error(RefusalRecord),
}

impl Reply {
    /// The line that says it.
    pub(super) fn line(&self) -> String {
        line(self)
    }
}

fn line(value: &impl Serialize) -> String {
    let mut object = Map::from_iter([("protocol".to_owned(), Value::from(PROTOCOL))]);
    if let Ok(Value::Object(fields)) = serde_json::to_value(value) {
        object.extend(fields);
    }
    Value::Object(object).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::{super::refusal::RefusalCode, *};

    fn code(line: &str) -> RefusalCode {
        Request::parse(line.as_bytes()).unwrap_err().code()
    }

    #[test]
    fn requests_are_read_back_from_their_lines() {
        let settings = Map::from_iter([("threshold_percent".to_owned(), 40.into())]);
        for request in [
            Request::Status,
            Request::Account,
            Request::Watch { interval_ms: Some(500), sample: true },
            Request::Watch { interval_ms: None, sample: false },
            Request::Stop,
            Request::Rotate,
            Request::Set { settings },
        ] {
            let line = request.line();
            assert_eq!(Request::parse(line.as_bytes()), Ok(request), "{line}");
            assert!(
                line.starts_with('{') && line.ends_with("}\n") && line.contains("\"protocol\":1"),
                "{line}"
            );
        }
    }

    #[test]
    fn the_end_is_told_with_code_error_and_files() {
        let fine =
            EndRecord { exit_code: 0, end: "stop".into(), error: None, output: None, written: 0, files: 0 };
        assert_eq!(fine.to_string(), "the capture has ended with exit code 0");
        let series = EndRecord { output: Some("x_*.pcapng".into()), written: 1, files: 3, ..fine.clone() };
        assert_eq!(
            series.to_string(),
            "the capture has ended with exit code 0; 1 packet in 3 files named x_*.pcapng"
        );
        let failed = EndRecord { exit_code: 1, error: Some("eth1 is gone".into()), ..fine };
        assert_eq!(failed.to_string(), "the capture has ended with exit code 1: eth1 is gone");
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_code() {
        for (line, expected) in [
            ("", RefusalCode::Malformed),
            ("status", RefusalCode::Malformed),
            ("[1]", RefusalCode::Malformed),
            ("{\"request\":\"status\"}", RefusalCode::WrongProtocol),
            ("{\"protocol\":2,\"request\":\"status\"}", RefusalCode::WrongProtocol),
            ("{\"protocol\":1,\"request\":\"dance\"}", RefusalCode::UnknownRequest),
            ("{\"protocol\":1}", RefusalCode::UnknownRequest),
            ("{\"protocol\":1,\"request\":\"set\"}", RefusalCode::Malformed),
            ("{\"protocol\":1,\"request\":\"watch\",\"interval_ms\":-1}", RefusalCode::Malformed),
        ] {
            assert_eq!(code(line), expected, "{line}");
        }
        let deep = "[".repeat(4_000);
        assert_eq!(code(&deep), RefusalCode::Malformed);
    }

    #[test]
    fn the_book_has_every_request_and_every_code() {
        use wirecap_core::Choice;
        let book = include_str!("../../../../docs/book/control.md");
        for name in RefusalCode::ALL.iter().map(|code| code.name).chain(REQUESTS) {
            assert!(book.contains(&format!("| `{name}`")), "{name}");
        }
    }
}
