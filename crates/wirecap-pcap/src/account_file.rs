//! Files for accounts. WIRECAP_ACCOUNT names one, to which each record is appended as a line of JSON. Beside
//! it, each capture has a file with its latest account, for programs that a signal ends.
//!
//! ```text
//!   WIRECAP_ACCOUNT              accounts of captures that have ended
//!   WIRECAP_ACCOUNT.PID.NUMBER   the latest account of one; removed at its end
//! ```
//!
//! They stay open, since programs give up privileges or change their root directory, and close on exec.

use std::{
    fmt::Display,
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::PathBuf,
    process,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use serde::Serialize;
use serde_json::json;

use crate::environment;

/// An open file with its identity: programs close descriptors they do not know, and then open other files
/// under the same numbers.
#[derive(Debug)]
struct OwnFile {
    file: File,
    device: u64,
    inode: u64,
}

impl OwnFile {
    fn new(file: File) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        Some(Self { device: metadata.dev(), inode: metadata.ino(), file })
    }

    /// The file, unless the program has closed it.
    fn get(&self) -> Option<&File> {
        let metadata = self.file.metadata().ok()?;
        ((metadata.dev(), metadata.ino()) == (self.device, self.inode)).then_some(&self.file)
    }
}

/// Whether WIRECAP_ACCOUNT names a file.
pub(crate) fn is_wanted() -> bool {
    file().is_some()
}

/// Records that this process uses libpcap.
pub(crate) fn note_use() {
    write(&json!({ "pid": process::id() }));
}

/// Records that libpcap captures from this device.
pub(crate) fn note_passed_on(device: &str) {
    if environment::is_off() {
        return;
    }
    write(&json!({ "pid": process::id(), "passed_on": device }));
}

/// Records that packets of this device come by a packet socket, and why.
pub(crate) fn note_packet_socket(device: &str, why: &str) {
    write(&json!({ "pid": process::id(), "by_packet_socket": device, "why": why }));
}

/// Records that this device could not be looked up, so that libpcap serves it.
pub(crate) fn note_unknown(device: &str, error: &impl Display) {
    write(&json!({ "pid": process::id(), "unknown": device, "error": error.to_string() }));
}

/// Writes a record if WIRECAP_ACCOUNT names a file; returns whether it is there. A failure cannot be reported
/// here; `wirecap run` reports a missing account.
pub(crate) fn write(record: &impl Serialize) -> bool {
    match (file(), line(record)) {
        (Some(mut file), Some(line)) => file.write_all(&line).is_ok(),
        _ => false,
    }
}

fn line(record: &impl Serialize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(record).ok()?;
    line.push(b'\n');
    Some(line)
}

fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<OwnFile>> = OnceLock::new();
    let open = || {
        OwnFile::new(OpenOptions::new().append(true).open(environment::variable("WIRECAP_ACCOUNT")?).ok()?)
    };
    FILE.get_or_init(open).as_ref()?.get()
}

/// The file with the latest account of a capture.
#[derive(Debug)]
pub(crate) struct LatestAccount {
    file: OwnFile,
    path: PathBuf,
    /// Names the capture in this process, also in other records.
    id: String,
    pid: u32,
}

impl LatestAccount {
    /// `None` if WIRECAP_ACCOUNT names no file, or no file can be made beside it.
    pub(crate) fn create() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // `wirecap run` has removed it at its end.
        file()?.metadata().ok().filter(|metadata| metadata.nlink() > 0)?;
        let pid = process::id();
        let id = format!("{pid}.{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut path = environment::variable("WIRECAP_ACCOUNT")?;
        path.push(".");
        path.push(&id);
        let path = PathBuf::from(path);
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        Some(Self { file: OwnFile::new(created)?, path, id, pid })
    }

    /// Whether it is of this process, and not of the one that has forked it.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == process::id()
    }

    /// Names the capture.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Replaces what is in it. Behind the line, the end of a longer one may be left.
    pub(crate) fn write(&self, record: &impl Serialize) {
        if let (Some(file), Some(line)) = (self.file.get(), line(record)) {
            let _ = file.write_all_at(&line, 0);
        }
    }

    /// The capture has ended, and its account is in the other file. A program without its privileges cannot
    /// remove this one, which `wirecap run` ignores then: the other file names the capture.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
