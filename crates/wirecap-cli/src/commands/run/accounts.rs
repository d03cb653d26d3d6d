//! The accounts that the library in the program has written.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, BufRead, Read},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
};

use anyhow::{Result, anyhow, bail};
use nix::fcntl::OFlag;
use serde_json::Value;

use crate::print::{stdio::print_line, table::Table};

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

/// The file that the library writes to, in directories of its own. All are removed when this value is
/// dropped.
///
/// ```text
///   /tmp/wirecap-account-PID-0/    others may pass through it
///     SECRET/                      others may put files into it, and cannot list it
///       account                    others may write to it
///       account.PID.NUMBER         the library's, of the user that the program has then
/// ```
///
/// The program may have given up its privileges before it captures, so any user can write. Only the program
/// and those it has started know where: the secret is a number of 128 bits in their environment.
#[derive(Debug)]
pub(super) struct AccountFile {
    /// The outer directory.
    directory: PathBuf,
    file: PathBuf,
}

impl AccountFile {
    /// An empty file.
    pub(super) fn create() -> Result<Self> {
        let parent = std::env::temp_dir();
        for attempt in 0.. {
            let directory = parent.join(format!("wirecap-account-{}-{attempt}", process::id()));
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => {
                    let name = directory.display().to_string();
                    return Self::create_in(directory)
                        .map_err(|cause| anyhow!("cannot create the account in {name}: {cause}"));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => bail!("cannot create {} for the account: {cause}", directory.display()),
            }
        }
        unreachable!("a name was free")
    }

    fn create_in(directory: PathBuf) -> io::Result<Self> {
        let mut secret = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let inner = directory.join(format!("{:032x}", u128::from_ne_bytes(secret)));
        let own = Self { file: inner.join("account"), directory };
        DirBuilder::new().mode(0o700).create(&inner)?;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&own.file)?;
        // Set apart from the creation, which the umask restricts.
        for (path, mode) in [(&own.file, 0o622), (&inner, 0o1733), (&own.directory, 0o711)] {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        Ok(own)
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// What the library has written.
    pub(super) fn read(&self) -> Result<Accounts> {
        let text =
            fs::read(&self.file).map_err(|cause| anyhow!("cannot read {}: {cause}", self.file.display()))?;
        let records = text.lines().map_while(Result::ok);
        let records = records.filter_map(|line| serde_json::from_str(&line).ok()).collect();
        let latest = self.latest().into_iter().filter_map(|path| first_record(&read_plain(&path)?));
        Ok(Accounts::new(records, latest))
    }

    /// The files of captures that had not ended, or whose program could not remove them.
    fn latest(&self) -> Vec<PathBuf> {
        let inner = self.file.parent().expect("the file is in a directory");
        let files = fs::read_dir(inner).into_iter().flatten().flatten();
        files.map(|file| file.path()).filter(|path| *path != self.file).collect()
    }
}

impl Drop for AccountFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What is in a file of another user: in a file, not behind a link or in a pipe.
fn read_plain(path: &Path) -> Option<Vec<u8>> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = Vec::new();
    file.metadata().ok()?.is_file().then(|| file.read_to_end(&mut text))?.ok()?;
    Some(text)
}

/// The record at the beginning of a file, behind which the end of an older one may be left.
fn first_record(text: &[u8]) -> Option<Value> {
    serde_json::Deserializer::from_slice(text).into_iter().next()?.ok()
}

/// Records of the library: that a process has called libpcap, that libpcap captures from a device, and the
/// account of each device.
#[derive(Debug)]
pub(super) struct Accounts {
    records: Vec<Value>,
    /// The last of the records are of captures that had not ended.
    unended: usize,
}

impl Accounts {
    /// Of `latest`, those of captures that have ended are left out.
    fn new(mut records: Vec<Value>, latest: impl Iterator<Item = Value>) -> Self {
        let ended: Vec<_> = records.iter().map(|record| record["capture"].clone()).collect();
        let before = records.len();
        records.extend(latest.filter(|record| !ended.contains(&record["capture"])));
        Self { unended: records.len() - before, records }
    }

    fn of_devices(&self) -> impl Iterator<Item = &Value> {
        self.records.iter().filter(|record| record.get("report").is_some())
    }

    /// Whether the program captured from no device.
    pub(super) fn are_without_device(&self) -> bool {
        self.of_devices().next().is_none()
    }

    /// Prints them on standard error.
    pub(super) fn print(&self, as_json: bool) -> Result<()> {
        if as_json {
            for record in self.of_devices() {
                print_line(&record.to_string());
            }
        } else if !self.are_without_device() {
            self.table().to_string().lines().for_each(print_line);
        }
        Ok(())
    }

    /// Warns of what is missing in the account, and of what libpcap captured itself. `wanted`: also warns if
    /// the program captured from no device.
    pub(super) fn explain(&self, program: &str, wanted: bool) {
        let unended = &self.records[self.records.len() - self.unended..];
        for record in unended {
            let (pid, device) = (text(&record["pid"]), text(&record["device"]));
            warn!(
                "process {pid} did not close {device}: it was killed, or still runs; its account may lack the last 0.25 s, \
                 or what came since it last asked for packets"
            );
        }
        if self.records.is_empty() {
            warn!(
                "{program} left no account: it did not use libpcap (perhaps libpcap is a part of it, or AppArmor keeps the \
                 library from it), was in another root directory before it used it, or was killed before"
            );
        }
        let unknown = self.records.iter().find(|record| record["unknown"].is_string());
        if let Some(record) = unknown {
            let (device, error) = (text(&record["unknown"]), text(&record["error"]));
            warn!(
                "wirecap cannot look up {device}, so libpcap served it: {error}; AppArmor may be the reason"
            );
        }
        let by_socket = |record: &&Value| record["by_packet_socket"].is_string();
        if let Some(record) = self.records.iter().find(by_socket) {
            warn!("{} was {}", text(&record["by_packet_socket"]), text(&record["why"]));
        }
        let passed_on = self.records.iter().filter_map(|record| record["passed_on"].as_str());
        let passed_on: BTreeSet<_> = passed_on.collect();
        if !passed_on.is_empty() {
            let devices: Vec<_> = passed_on.into_iter().collect();
            warn!("{program} captured {} by libpcap itself: wirecap does not serve that", devices.join(", "));
        } else if wanted && !self.records.is_empty() && self.are_without_device() {
            warn!("{program} captured from no device, so there is no account");
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
    fn the_latest_account_counts_if_there_is_no_last_one() {
        let record = |capture: &str, closed| json!({ "capture": capture, "closed": closed, "report": {} });
        let latest = [record("7.0", false), record("7.1", false)];
        let accounts = Accounts::new(vec![json!({ "pid": 7 }), record("7.0", true)], latest.into_iter());
        assert_eq!(accounts.records[1..], [record("7.0", true), record("7.1", false)]);
        assert_eq!(accounts.unended, 1);
        assert_eq!(first_record(b"{\"pid\":1}\nremains}\n"), Some(json!({ "pid": 1 })));
        assert_eq!(first_record(b""), None);
    }

    #[test]
    fn other_users_can_add_files_that_are_not_read_unless_they_are_plain() {
        let own = AccountFile::create().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let inner = own.path().parent().unwrap();
        assert_eq!([own.path(), inner, &own.directory].map(mode), [0o622, 0o1733, 0o711]);
        fs::write(inner.join("account.7.0"), "{\"capture\":\"7.0\",\"report\":{}}\n").unwrap();
        std::os::unix::fs::symlink(inner.join("account.7.0"), inner.join("account.7.1")).unwrap();
        nix::unistd::mkfifo(&inner.join("account.7.2"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(own.read().unwrap().unended, 1);
        let directory = own.directory.clone();
        drop(own);
        assert!(!directory.exists());
    }

    #[test]
    fn each_device_has_a_row() {
        let queue = |seen: u64, lost: u64| {
            json!({ "seen": seen, "filtered": 0, "passed": 0, "delivered": seen - lost,
                    "lost": { "no_free_block": lost }, "unexplained": 0 })
        };
        let record = json!({ "pid": 7, "device": "eth1", "refused": 3, "closed": true,
            "report": { "ports": [{ "queues": [queue(100, 0), queue(50, 20)], "dropped_before_xdp": 0 }] } });
        let accounts = Accounts::new(vec![json!({ "pid": 7 }), record], std::iter::empty());
        let table = accounts.table().to_string();
        let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(
            lines.next().unwrap(),
            ["device", "pid", "seen", "delivered", "refused", "lost", "no_free_block"]
        );
        assert_eq!(lines.next().unwrap(), ["eth1", "7", "150", "130", "3", "20", "20"]);
    }
}
