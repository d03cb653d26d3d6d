//! The account of an earlier capture: a file with what `wirecap capture --json` printed.

use std::{fs, path::Path};

use serde::{Deserialize, Deserializer};

use super::Error;
use crate::snapshot::{AccountSettings, CaptureMode, PortAccount};

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
    ports: Vec<PortAccount>,
    #[serde(default)]
    stood_seconds: f64,
}

/// The memory of the capture.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Memory {
    cells_per_chunk: Option<u32>,
    chunks_per_pool: Option<u32>,
    cell_bytes: Option<u32>,
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
            cells_per_chunk: self.memory.cells_per_chunk,
            chunks_per_pool: self.memory.chunks_per_pool,
            cell_bytes: self.memory.cell_bytes,
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
        ports: record.ports,
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
        let queue = r#"{"queue":1,"seen":9,"lost":{"no_free_block":4,"left_at_stop":1}}"#;
        let record = format!(
            r#"{{"ports":[{{"name":"eth1","dropped_before_xdp":2,"queues":[{queue}]}}],"stood_seconds":1.5}}"#
        );
        fs::write(&path, format!("{{\"ports\":[]}}\n{record}\n")).unwrap();
        let Account { settings, ports, stood_seconds } = read_account(&path).unwrap();
        assert_eq!(settings, AccountSettings::default(), "it says nothing of them");
        assert_eq!(stood_seconds, 1.5);
        assert_eq!((ports[0].name.as_str(), ports[0].dropped_before_xdp), ("eth1", 2));
        assert_eq!((ports[0].lost().no_free_block, ports[0].seen()), (4, 9));
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
                cells_per_chunk: Some(64),
                chunks_per_pool: Some(4),
                cell_bytes: Some(2048),
                workers: Some(2),
            }
        );
        let basic = with(r#""threshold_percent":null,"#);
        assert_eq!((basic.mode, basic.threshold_percent), (Some(CaptureMode::Basic), None));
        assert_eq!(with("").mode, None);
    }
}
