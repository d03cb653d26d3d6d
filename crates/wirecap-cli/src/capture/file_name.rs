//! Names of files, made from the one that the user gives.
//!
//! ```text
//!   x.pcapng.zst ─┬─ labelled by queue   x.0.pcapng.zst
//!                 └─ numbered            x_00001.pcapng.zst
//! ```

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use wirecap_file::{Error, Format};
use wirecap_record::Compression;

/// The fewest digits of a number in a name.
const DIGITS: usize = 5;
/// The largest number that has as few digits as it needs.
const MAX_SHORT: u64 = 9_999_999;
/// The digits of larger numbers: no date or time of day has as many.
const LONG_DIGITS: usize = 11;

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
pub(super) fn numbered(path: &Path, number: u64) -> PathBuf {
    with_addition(path, &format!("_{}", digits(number)))
}

/// A pattern for all names that [`numbered`] makes from a path, for messages.
pub(super) fn any_number(path: &Path) -> PathBuf {
    with_addition(path, "_*")
}

fn digits(number: u64) -> String {
    if number <= MAX_SHORT { format!("{number:0DIGITS$}") } else { format!("{number:0LONG_DIGITS$}") }
}

/// The number that [`numbered`] put into a name, and the name without it.
pub(super) fn without_number(path: &Path) -> Option<(PathBuf, u64)> {
    let (stem, extensions) = stem_and_extensions(path);
    let at = stem.as_bytes().iter().rposition(|byte| *byte == b'_')?;
    let digits = OsStr::from_bytes(&stem.as_bytes()[at + 1..]).to_str()?;
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    let mut name = OsStr::from_bytes(&stem.as_bytes()[..at]).to_owned();
    name.push(extensions);
    // With more zeros, the same number is in another name.
    (self::digits(number) == digits).then(|| (path.with_file_name(name), number))
}

fn with_addition(path: &Path, addition: &str) -> PathBuf {
    let (stem, extensions) = stem_and_extensions(path);
    let mut name = stem.to_owned();
    name.push(addition);
    name.push(extensions);
    path.with_file_name(name)
}

/// The parts of a file's name, the second with its dots: `x` and `.pcapng.zst`.
fn stem_and_extensions(path: &Path) -> (&OsStr, &OsStr) {
    let whole = path.file_name().unwrap_or_default();
    let inner = match Compression::from_path(path) {
        Some(_) => Path::new(whole).file_stem().unwrap_or_default(),
        None => whole,
    };
    let stem = Path::new(inner).file_stem().unwrap_or_default();
    let (stem, extensions) = whole.as_bytes().split_at(stem.len());
    (OsStr::from_bytes(stem), OsStr::from_bytes(extensions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_are_in_front_of_the_extensions() {
        for (name, by_queue, by_number) in [
            ("d/x.pcapng", "d/x.0.pcapng", "d/x_00007.pcapng"),
            ("x.y.pcap", "x.y.0.pcap", "x.y_00007.pcap"),
            ("d.zst/x.pcapng.zst", "d.zst/x.0.pcapng.zst", "d.zst/x_00007.pcapng.zst"),
            ("x.PCAP.LZ4", "x.0.PCAP.LZ4", "x_00007.PCAP.LZ4"),
        ] {
            assert_eq!(labelled(Path::new(name), "0"), Path::new(by_queue));
            assert_eq!(numbered(Path::new(name), 7), Path::new(by_number));
            assert_eq!(without_number(Path::new(by_number)), Some((name.into(), 7)));
        }
        let no_text = Path::new(OsStr::from_bytes(b"\xff.pcapng"));
        assert_eq!(numbered(no_text, 123_456).as_os_str().as_bytes(), b"\xff_123456.pcapng");
        assert_eq!(without_number(&numbered(no_text, 123_456)), Some((no_text.into(), 123_456)));
    }

    #[test]
    fn only_a_number_as_it_is_written_is_one() {
        for name in
            ["x.pcapng", "x_7.pcapng", "x_000007.pcapng", "x_.pcapng", "x_+0007.pcapng", "x_0000a.pcapng"]
        {
            assert_eq!(without_number(Path::new(name)), None, "{name}");
        }
        let too_large = format!("x_{}0.pcapng", u64::MAX);
        assert_eq!(without_number(Path::new(&too_large)), None);
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
