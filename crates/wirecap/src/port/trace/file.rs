//! Opens a trace, and finds what is wrong with it before its first packet.

use std::path::Path;

use wirecap_file::{LINK_TYPE_ETHERNET, Reader, Record, Resolution};
use wirecap_sys::input::Input;

use crate::{Error, PortSpec};

/// A trace of which everything before the first packet is read.
#[derive(Debug)]
pub(super) struct Trace {
    /// Name of the port.
    pub(super) name: String,
    pub(super) reader: Reader<Input>,
    /// Length of the file, in bytes; `None` for a pipe.
    pub(super) len: Option<u64>,
    /// Link type of the first interface.
    pub(super) link_type: u16,
    /// The unit of the times of the first interface, in nanoseconds; at least 1.
    pub(super) resolution_ns: u64,
    /// Whether nothing is left to read; at first, whether the file has no interface, and so no packet.
    pub(super) is_read: bool,
}

impl Trace {
    /// Opens a trace. Waits until the writer of a pipe has written what comes before the packets.
    pub(super) fn open(name: String, path: &Path) -> Result<Self, Error> {
        let input = if path == Path::new("-") { Input::stdin() } else { Input::open(path) };
        let opened = input.map_err(|source| wirecap_file::Error::Open { path: path.into(), source });
        let opened = opened.and_then(|input| {
            let len = input.len();
            // A pipe may have nothing at the moment.
            let mut reader = match len {
                Some(_) => Reader::new(input)?,
                None => Reader::without_decompression(input)?,
            };
            let first = first_interface(&mut reader)?;
            reader.get_mut().set_patient(false);
            Ok((reader, len, first))
        });
        let (reader, len, first) = opened.map_err(|source| Error::Trace { name: name.clone(), source })?;
        let is_read = first.is_none();
        let (link_type, resolution) = first.unwrap_or((LINK_TYPE_ETHERNET, Resolution::default()));
        Ok(Self { name, reader, len, link_type, resolution_ns: in_ns(resolution), is_read })
    }
}

/// Link type and unit of time of the first interface; `None` if the file ends before one is described.
fn first_interface(reader: &mut Reader<Input>) -> Result<Option<(u16, Resolution)>, wirecap_file::Error> {
    while let Some(record) = reader.next()? {
        if let Record::Interface(interface) = record {
            return Ok(Some((interface.link_type, interface.resolution)));
        }
    }
    Ok(None)
}

/// A unit of time in nanoseconds; at least 1, to which finer times are truncated.
fn in_ns(resolution: Resolution) -> u64 {
    let second = 1_000_000_000_u64;
    let unit = match resolution {
        Resolution::PowerOfTen(exponent) => {
            10_u64.checked_pow(exponent.into()).map_or(0, |units| second / units)
        }
        Resolution::PowerOfTwo(exponent) => second.checked_shr(exponent.into()).unwrap_or(0),
    };
    unit.max(1)
}

/// Whether a trace can be read, as far as that can be known without taking anything out of a pipe: for
/// finding out early.
///
/// ```
/// let error = wirecap::port::trace::check("/no/such.pcapng".as_ref()).unwrap_err();
/// assert!(error.to_string().contains("trace:/no/such.pcapng"));
/// ```
///
/// # Errors
/// [`Error::Trace`]: it cannot be read, or it is no trace.
pub fn check(path: &Path) -> Result<(), Error> {
    // What is in a pipe shows only once its writer has opened it.
    let waits = path == Path::new("-")
        || path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    if waits { Ok(()) } else { Trace::open(PortSpec::Trace { path: path.into() }.name(), path).map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_time_in_nanoseconds() {
        for (tsresol, ns) in
            [(0, 1_000_000_000), (6, 1_000), (9, 1), (12, 1), (127, 1), (0x80 | 20, 953), (0xff, 1)]
        {
            assert_eq!(in_ns(Resolution::from_tsresol(tsresol)), ns, "{tsresol:#x}");
        }
    }
}
