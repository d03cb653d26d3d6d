//! Names of files, made from the one that the user gives.
//!
//! ```text
//!   x.pcapng.zst ─┬─ labelled by queue   x.0.pcapng.zst
//!                 └─ numbered            x_00001.pcapng.zst
//! ```

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use wirecap_file::{Error, Format};
use wirecap_record::Compression;

/// The format that a name stands for, compressed or not.
///
/// # Errors
/// [`Error::UnknownExtension`].
pub(super) fn format(path: &Path) -> Result<Format, Error> {
    match Compression::from_path(path) {
        Some(_) => Format::from_path(path.with_extension("")),
        None => Format::from_path(path),
    }
}

/// A path with a label in front of its extensions.
pub(super) fn labelled(path: &Path, label: &str) -> PathBuf {
    with_addition(path, &format!(".{label}"))
}

/// A path with a number in front of its extensions.
pub(super) fn numbered(path: &Path, number: &str) -> PathBuf {
    with_addition(path, &format!("_{number}"))
}

fn with_addition(path: &Path, addition: &str) -> PathBuf {
    let text = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let inner = match Compression::from_path(path) {
        Some(_) => path.with_extension(""),
        None => path.to_owned(),
    };
    let (stem, whole) = (text(inner.file_stem()), text(path.file_name()));
    let extensions = whole.strip_prefix(&stem).unwrap_or_default();
    path.with_file_name(format!("{stem}{addition}{extensions}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_are_in_front_of_the_extensions() {
        for (name, by_queue, by_number) in [
            ("d/x.pcapng", "d/x.0.pcapng", "d/x_7.pcapng"),
            ("x.y.pcap", "x.y.0.pcap", "x.y_7.pcap"),
            ("d.zst/x.pcapng.zst", "d.zst/x.0.pcapng.zst", "d.zst/x_7.pcapng.zst"),
            ("x.PCAP.LZ4", "x.0.PCAP.LZ4", "x_7.PCAP.LZ4"),
        ] {
            assert_eq!(labelled(Path::new(name), "0"), Path::new(by_queue));
            assert_eq!(numbered(Path::new(name), "7"), Path::new(by_number));
        }
    }

    #[test]
    fn the_format_is_that_in_front_of_the_compression() {
        let format = |name: &str| format(Path::new(name)).ok();
        assert_eq!(format("x.pcapng.zst"), Some(Format::Pcapng));
        assert_eq!(format("x.PCAP.lz4"), Some(Format::Pcap));
        assert_eq!(format("x.pcap"), Some(Format::Pcap));
        assert_eq!((format("x.zst"), format("x.pcap.gz")), (None, None));
    }
}
