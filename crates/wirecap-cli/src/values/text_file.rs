//! Text files that flags name.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    path::Path,
};

use crate::exit::Usage;

/// The longest text of a file that people write, in MiB. A device or a pipe may have no end.
pub(crate) const SHORT_MIB: u64 = 1;
/// The longest table of routes: all routes of the internet take some 50 MiB.
pub(crate) const ROUTES_MIB: u64 = 512;

/// Reads `what` from a file of at most `max_mib` MiB; `format` says in which form it is written.
///
/// # Errors
/// Why the file cannot be read, or that it is not a text file, with the remedy.
pub(crate) fn text_file(path: &Path, what: &str, format: &str, max_mib: u64) -> Result<String, Usage> {
    let max_bytes = max_mib << 20;
    let name = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(max_bytes + 1).read_to_string(&mut text));
    if text.len() as u64 > max_bytes {
        return Err(usage!("{name} is too long for {what}: {format}, in at most {max_mib} MiB"));
    }
    read.map(|_| text).map_err(|cause| match cause.kind() {
        ErrorKind::InvalidData => usage!("{name} is not a text file; {format}"),
        ErrorKind::IsADirectory => {
            usage!("cannot read {what} in {name}: it is a directory; name a file in it")
        }
        _ => usage!("cannot read {what} in {name}: {cause}; check the name, and that you may read the file"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_not_text_is_refused_with_a_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join("rnd.pcap");
        fs::write(&binary, b"\xd4\xc3\xb2\xa1").unwrap();
        let missing = directory.path().join("missing");
        for (path, words) in [
            (binary.as_path(), "rnd.pcap is not a text file; settings are TOML"),
            (directory.path(), ": it is a directory; name a file in it"),
            (&missing, "missing: No such file or directory (os error 2); check the name, and that you may"),
        ] {
            let refused = text_file(path, "the settings", "settings are TOML", 1).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
        assert_eq!(text_file("/dev/null".as_ref(), "", "", 1).unwrap(), "");
        let endless = text_file("/dev/zero".as_ref(), "the settings", "settings are TOML", 1).unwrap_err();
        assert_eq!(
            endless.to_string(),
            "/dev/zero is too long for the settings: settings are TOML, in at most 1 MiB"
        );
    }
}
