//! The file for accounts that WIRECAP_ACCOUNT names: each record is a line of JSON.
//!
//! It is opened at the first call of libpcap, before programs give up privileges, and closes on exec.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::MetadataExt,
    process,
    sync::OnceLock,
};

use serde::Serialize;
use serde_json::json;

use crate::environment;

/// The open file with its identity: programs close descriptors they do not know, and then open other files
/// under the same numbers.
struct AccountFile {
    file: File,
    device: u64,
    inode: u64,
}

impl AccountFile {
    fn open() -> Option<Self> {
        let file = OpenOptions::new().append(true).open(environment::variable("WIRECAP_ACCOUNT")?).ok()?;
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

/// Writes a record if WIRECAP_ACCOUNT names a file.
pub(crate) fn write(record: &impl Serialize) {
    if let (Some(mut file), Ok(mut line)) = (file(), serde_json::to_vec(record)) {
        line.push(b'\n');
        // A failure cannot be reported here; `wirecap run` reports a missing account.
        let _ = file.write_all(&line);
    }
}

fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<AccountFile>> = OnceLock::new();
    FILE.get_or_init(AccountFile::open).as_ref()?.get()
}
