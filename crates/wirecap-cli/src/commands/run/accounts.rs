//! The accounts that the library in the program has written.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufRead},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::print::{stdio::print_stderr, table::Table};

/// Columns that every account has, then those that are printed if one of them is not 0.
const ALWAYS: [&str; 4] = ["seen", "delivered", "refused", "lost"];
const SOMETIMES: [&str; 10] = [
    "unread",
    "filtered",
    "passed",
    "no_free_cell",
    "no_free_block",
    "rx_ring_full",
    "too_long",
    "left_at_stop",
    "dropped_before_xdp",
    "unexplained",
];

/// The file that the library writes to. It is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct AccountFile(PathBuf);

impl AccountFile {
    /// An empty file that other users can neither read nor replace. The library opens it before the program
    /// gives up privileges.
    pub(super) fn create() -> Result<Self> {
        let directory = std::env::temp_dir();
        for attempt in 0.. {
            let path = directory.join(format!("wirecap-account-{}-{attempt}", process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(_) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let name = path.display().to_string();
                    return Err(error).with_context(|| format!("cannot create {name} for the account"));
                }
            }
        }
        unreachable!("a name was free")
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What the library has written.
    pub(super) fn read(&self) -> Result<Accounts> {
        let text = fs::read(&self.0).with_context(|| format!("cannot read {}", self.0.display()))?;
        let records = text.lines().map_while(Result::ok);
        Ok(Accounts(records.filter_map(|line| serde_json::from_str(&line).ok()).collect()))
    }
}

impl Drop for AccountFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Records of the library: that a process has called libpcap, and the account of each device.
#[derive(Debug)]
pub(super) struct Accounts(Vec<Value>);

impl Accounts {
    fn of_devices(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(|record| record.get("report").is_some())
    }

    /// Prints them on standard error.
    pub(super) fn print(&self, as_json: bool) -> Result<()> {
        if as_json {
            for record in self.of_devices() {
                print_stderr(format_args!("{record}"));
            }
        } else if self.of_devices().next().is_some() {
            self.table().to_string().lines().for_each(|line| print_stderr(format_args!("{line}")));
        }
        Ok(())
    }

    /// Says why there is no account.
    pub(super) fn explain_absence(&self, program: &str) {
        if self.of_devices().next().is_some() {
            return;
        }
        if self.0.is_empty() {
            warn!(
                "{program} did not use libpcap, so wirecap did nothing: perhaps libpcap is a part of it, or it was killed \
                 before it opened a device"
            );
        } else {
            warn!(
                "{program} captured nothing on wirecap: it failed, was killed, or opened what libpcap serves (files, any, lo)"
            );
        }
    }

    fn table(&self) -> Table {
        let records: Vec<_> = self.of_devices().map(figures).collect();
        let is_kept = |column: &&&str| records.iter().any(|figures| figures(column) != 0);
        let columns: Vec<_> = ALWAYS.iter().chain(SOMETIMES.iter().filter(is_kept)).copied().collect();
        let heads = ["device", "pid"];
        let heads: Vec<_> = heads.into_iter().chain(columns.iter().copied()).collect();
        let mut table = Table::new(&heads).with_keys(2);
        for (record, figures) in self.of_devices().zip(&records) {
            let names = [text(&record["device"]), text(&record["pid"])];
            table.row(
                names.into_iter().chain(columns.iter().map(|column| figures(column).to_string())).collect(),
            );
        }
        table
    }
}

/// The figures of a record, by the names of columns.
fn figures(record: &Value) -> impl Fn(&str) -> i64 + '_ {
    move |column| {
        let ports = record["report"]["ports"].as_array().into_iter().flatten();
        let queues = ports.clone().flat_map(|port| port["queues"].as_array().into_iter().flatten());
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        match column {
            "refused" | "unread" => number(&record[column]),
            "dropped_before_xdp" => ports.map(|port| number(&port[column])).sum(),
            "lost" => queues
                .flat_map(|queue| queue["lost"].as_object().into_iter().flatten())
                .map(|(_, lost)| number(lost))
                .sum(),
            "seen" | "delivered" | "filtered" | "passed" | "unexplained" => {
                queues.map(|queue| number(&queue[column])).sum()
            }
            cause => queues.map(|queue| number(&queue["lost"][cause])).sum(),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_device_has_a_row() {
        let queue = |seen: u64, lost: u64| {
            json!({ "seen": seen, "filtered": 0, "passed": 0, "delivered": seen - lost,
                    "lost": { "no_free_block": lost }, "unexplained": 0 })
        };
        let record = json!({ "pid": 7, "device": "eth1", "refused": 3, "closed": true,
            "report": { "ports": [{ "queues": [queue(100, 0), queue(50, 20)], "dropped_before_xdp": 0 }] } });
        let accounts = Accounts(vec![json!({ "pid": 7 }), record]);
        let table = accounts.table().to_string();
        let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(
            lines.next().unwrap(),
            ["device", "pid", "seen", "delivered", "refused", "lost", "no_free_block"]
        );
        assert_eq!(lines.next().unwrap(), ["eth1", "7", "150", "130", "3", "20", "20"]);
    }
}
