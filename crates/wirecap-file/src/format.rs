//! Which of the two file formats.

use std::fmt;

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
