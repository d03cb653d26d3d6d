//! The file for accounts that WIRECAP_ACCOUNT names: each record is a line of JSON.
//!
//! It is opened with the first call of libpcap, before programs give up privileges, and closed in programs
//! that are executed.

use std::{
    env,
    fs::{File, OpenOptions},
    io::Write,
    process,
    sync::OnceLock,
};

use serde::Serialize;
use serde_json::json;

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
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let open = || OpenOptions::new().append(true).open(env::var_os("WIRECAP_ACCOUNT")?).ok();
    FILE.get_or_init(open).as_ref()
}
