//! How a file is compressed: by its name when it is written, by its first bytes when it is read.

use std::{fmt, path::Path};

/// How a file is compressed.
///
/// ```
/// use wirecap_file::Compression;
///
/// assert_eq!(Compression::from_path("trace.pcapng.zst"), Some(Compression::Zstd));
/// assert_eq!(Compression::from_path("trace.pcapng"), None);
/// assert_eq!(Compression::of_start([0x28, 0xb5, 0x2f, 0xfd]), Some(Compression::Zstd));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Zstandard (RFC 8878).
    Zstd,
    /// LZ4 frames: faster, and larger.
    Lz4,
}

impl Compression {
    const ALL: [Self; 2] = [Self::Zstd, Self::Lz4];

    /// The compression that the last extension of a name stands for.
    pub fn from_path(path: impl AsRef<Path>) -> Option<Self> {
        let extension = path.as_ref().extension()?;
        Self::ALL.into_iter().find(|one| extension.eq_ignore_ascii_case(one.extension()))
    }

    /// The compression of a file that starts with these bytes.
    pub fn of_start(start: [u8; 4]) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.start() == start)
    }

    /// Its extension, without the period.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zstd => "zst",
            Self::Lz4 => "lz4",
        }
    }

    /// The first bytes of its frames.
    fn start(self) -> [u8; 4] {
        match self {
            // RFC 8878, section 3.1.1: Magic_Number.
            Self::Zstd => 0xfd2f_b528_u32,
            // Magic Number in the description of the frame format.
            Self::Lz4 => 0x184d_2204,
        }
        .to_le_bytes()
    }
}

impl fmt::Display for Compression {
    /// As in `.zst`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, ".{}", self.extension())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_files_are_compressed() {
        for (name, expected) in [
            ("x.pcapng.zst", Some(Compression::Zstd)),
            ("x.PCAP.LZ4", Some(Compression::Lz4)),
            ("x.pcapng", None),
            ("x.gz", None),
            ("zst", None),
        ] {
            assert_eq!(Compression::from_path(name), expected, "{name}");
        }
    }
}
