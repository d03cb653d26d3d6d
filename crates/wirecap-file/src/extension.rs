//! The format that the name of a file stands for.

use std::path::Path;

use crate::{Error, Format};

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
