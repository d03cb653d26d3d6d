//! Which of the two file formats.

use std::fmt;
use std::path::Path;

use crate::Error;

/// A capture file format.
///
/// # Example
///
/// ```
/// use wirecap_file::Format;
///
/// assert_eq!(Format::from_path("trace.pcapng")?, Format::Pcapng);
/// assert_eq!(Format::from_path("/var/log/trace.PCAP")?, Format::Pcap);
/// assert!(Format::from_path("trace.txt").is_err());
/// # Ok::<(), wirecap_file::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Classic libpcap: one link type per file, no interface names, no statistics.
    Pcap,
    /// pcapng: several interfaces, queue numbers, statistics, comments.
    Pcapng,
}

impl Format {
    /// The format that the extension of a file's name stands for, in upper or lower case.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownExtension`] unless the extension is `pcap` or `pcapng`. A file that is *read* needs no
    /// extension: [`Reader`](crate::Reader) goes by its first bytes.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("pcap") => Ok(Self::Pcap),
            Some(extension) if extension.eq_ignore_ascii_case("pcapng") => Ok(Self::Pcapng),
            _ => Err(Error::UnknownExtension(path.to_path_buf())),
        }
    }

    /// The extension a file of this format carries, without the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_recognised_by_its_extension() {
        for format in [Format::Pcap, Format::Pcapng] {
            let name = format!("trace.{}", format.extension());
            assert_eq!(Format::from_path(&name).unwrap(), format);
            assert_eq!(format.to_string(), format.extension());
        }
    }

    #[test]
    fn a_name_without_a_known_extension_is_refused_with_a_hint() {
        for name in ["trace", "trace.cap", "trace.pcap.gz", ".pcapng", "pcap", ""] {
            let message = Format::from_path(name).expect_err(name).to_string();
            assert!(message.contains(".pcapng") && message.contains(name), "{message}");
        }
    }
}
