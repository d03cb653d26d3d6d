//! The account of an earlier capture: a file with what `wirecap capture --json` printed.

use std::{fs, path::Path};

use serde::Deserialize;

use super::Error;
use crate::snapshot::PortAccount;

/// The part of the record that is read.
#[derive(Deserialize)]
struct Record {
    ports: Vec<PortAccount>,
}

/// Reads the last account in a file.
///
/// # Errors
/// [`Error::File`]; [`Error::Content`] if its last line is no account.
pub fn read_account(path: &Path) -> Result<Vec<PortAccount>, Error> {
    let text = fs::read_to_string(path).map_err(|cause| Error::file(path, cause))?;
    let last = text.trim_end().lines().last().unwrap_or_default();
    let record: Result<Record, _> = serde_json::from_str(last);
    record.map(|record| record.ports).map_err(|cause| Error::Content {
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
        let record = format!(r#"{{"ports":[{{"name":"eth1","dropped_before_xdp":2,"queues":[{queue}]}}]}}"#);
        fs::write(&path, format!("{{\"ports\":[]}}\n{record}\n")).unwrap();
        let ports = read_account(&path).unwrap();
        assert_eq!((ports[0].name.as_str(), ports[0].dropped_before_xdp), ("eth1", 2));
        assert_eq!((ports[0].lost().no_free_block, ports[0].seen()), (4, 9));
        fs::write(&path, "packets\n").unwrap();
        let error = read_account(&path).unwrap_err();
        assert!(error.to_string().contains("is not what wirecap capture --json prints"), "{error}");
        assert!(matches!(read_account(&directory.path().join("none")), Err(Error::File { .. })));
    }
}
