//! The account of an earlier capture: a file with what `wirecap capture --json` printed.

use std::{fs, path::Path};

use serde::{Deserialize, Deserializer};

use super::Error;
use crate::snapshot::{AccountSettings, CaptureMode, PortAccount, QueueAccount};

/// What an account says of a capture.
#[derive(Debug)]
pub struct Account {
    /// How it was set up.
    pub settings: AccountSettings,
    /// Its ports.
    pub ports: Vec<PortAccount>,
    /// How long its process hardly ran, in seconds.
    pub stood_seconds: f64,
}

/// The part of the record that is read.
#[derive(Deserialize)]
struct Record {
    /// Null in basic mode; `None` if the record does not have it.
    #[serde(default, deserialize_with = "present")]
    threshold_percent: Option<Option<u8>>,
    #[serde(default)]
    memory: Memory,
    #[serde(default)]
    workers: Vec<serde::de::IgnoredAny>,
    ports: Vec<PortRecord>,
    #[serde(default)]
    stood_seconds: f64,
}

#[derive(Deserialize)]
struct PortRecord {
    name: String,
    #[serde(default)]
    dropped_before_xdp: u64,
    #[serde(default)]
    queues: Vec<QueueRecord>,
}

#[derive(Deserialize)]
struct QueueRecord {
    #[serde(default)]
    mode: QueueMode,
    #[serde(flatten)]
    account: QueueAccount,
}

/// How the packets of a queue were got, as far as it matters here.
#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum QueueMode {
    /// They were left to the host: the queue was added after the start.
    Host,
    /// By a tap, beside the host.
    Tap,
    /// By AF_PACKET, beside the host.
    Packet,
    #[default]
    #[serde(other)]
    Other,
}

impl From<PortRecord> for PortAccount {
    fn from(PortRecord { name, dropped_before_xdp, queues }: PortRecord) -> Self {
        let is_passive = queues.iter().any(|queue| matches!(queue.mode, QueueMode::Tap | QueueMode::Packet));
        let captured = queues.into_iter().filter(|queue| queue.mode != QueueMode::Host);
        Self { name, dropped_before_xdp, is_passive, queues: captured.map(|queue| queue.account).collect() }
    }
}

/// The memory of the capture.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Memory {
    chunks_per_pool: Option<u32>,
}

/// A value that may be null, but is there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u8>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl Record {
    fn settings(&self) -> AccountSettings {
        AccountSettings {
            mode: self.threshold_percent.map(CaptureMode::with_threshold),
            threshold_percent: self.threshold_percent.flatten(),
            chunks_per_pool: self.memory.chunks_per_pool,
            workers: u32::try_from(self.workers.len()).ok().filter(|workers| *workers > 0),
        }
    }
}

/// Reads the last account in a file.
///
/// # Errors
/// [`Error::File`]; [`Error::Content`] if its last line is no account.
pub fn read_account(path: &Path) -> Result<Account, Error> {
    let text = fs::read_to_string(path).map_err(|cause| Error::file(path, cause))?;
    let last = text.trim_end().lines().last().unwrap_or_default();
    let record: Result<Record, _> = serde_json::from_str(last);
    let account = |record: Record| Account {
        settings: record.settings(),
        ports: record.ports.into_iter().map(PortAccount::from).collect(),
        stood_seconds: record.stood_seconds,
    };
    record.map(account).map_err(|cause| Error::Content {
        path: path.into(),
        expected: "what wirecap capture --json prints",
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_account_of_a_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("account.json");
        let queue = r#"{"queue":1,"mode":"tap","seen":9,"lost":{"no_free_block":4,"left_at_stop":1}}"#;
        let added = r#"{"queue":2,"mode":"host","seen":0,"lost":{}}"#;
        let record = format!(
            r#"{{"ports":[{{"name":"eth1","dropped_before_xdp":2,"queues":[{queue},{added}]}}],"stood_seconds":1.5}}"#
        );
        fs::write(&path, format!("{{\"ports\":[]}}\n{record}\n")).unwrap();
        let Account { settings, ports, stood_seconds } = read_account(&path).unwrap();
        assert_eq!(settings, AccountSettings::default(), "it says nothing of them");
        assert_eq!(stood_seconds, 1.5);
        assert_eq!((ports[0].name.as_str(), ports[0].dropped_before_xdp), ("eth1", 2));
        assert_eq!((ports[0].lost().no_free_block, ports[0].seen()), (4, 9));
        assert!(ports[0].is_passive, "it is a tap");
        assert_eq!(ports[0].queues.len(), 1, "not the one that was added after the start");
        fs::write(&path, "packets\n").unwrap();
        let error = read_account(&path).unwrap_err();
        assert!(error.to_string().contains("is not what wirecap capture --json prints"), "{error}");
        assert!(matches!(read_account(&directory.path().join("none")), Err(Error::File { .. })));
    }

    #[test]
    fn an_account_without_a_threshold_is_of_basic_mode_only_if_it_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("account.json");
        let with = |text: &str| {
            fs::write(&path, format!("{{{text}\"ports\":[]}}")).unwrap();
            read_account(&path).unwrap().settings
        };
        let memory = r#""memory":{"cells_per_chunk":64,"chunks_per_pool":4,"cell_bytes":2048},"#;
        assert_eq!(
            with(&format!(r#""threshold_percent":60,{memory}"workers":[{{}},{{}}],"#)),
            AccountSettings {
                mode: Some(CaptureMode::Advanced),
                threshold_percent: Some(60),
                chunks_per_pool: Some(4),
                workers: Some(2),
            }
        );
        let basic = with(r#""threshold_percent":null,"#);
        assert_eq!((basic.mode, basic.threshold_percent), (Some(CaptureMode::Basic), None));
        assert_eq!(with("").mode, None);
    }
}
