//! The file for accounts that WIRECAP_ACCOUNT names: each record is a line of JSON.
//!
//! It is opened with the first call of libpcap, before programs give up privileges, and closed in programs
//! that are executed.

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

/// The open file, and what identifies it: programs close descriptors that they do not know, and open others
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

/// Whether somebody asks for accounts.
pub(crate) fn is_wanted() -> bool {
    file().is_some()
}

/// Writes that this process calls libpcap, if somebody asks for accounts.
pub(crate) fn note_use() {
    write(&json!({ "pid": process::id() }));
}

/// Writes a record, if somebody asks for accounts.
pub(crate) fn write(record: &impl Serialize) {
    if let (Some(mut file), Ok(mut line)) = (file(), serde_json::to_vec(record)) {
        line.push(b'\n');
        // Nobody is left to be told: whoever asked for the account finds that it is missing.
        let _ = file.write_all(&line);
    }
}

fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<AccountFile>> = OnceLock::new();
    FILE.get_or_init(AccountFile::open).as_ref()?.get()
}
