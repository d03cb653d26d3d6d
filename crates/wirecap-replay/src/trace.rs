//! One trace file, read packet by packet.
//!
//! Rule: a packet is passed on as it is in the file. A trace ends with its file, or before the first packet
//! that cannot be read or sent; then [`Trace::failure`] says why.

use std::{io, path::Path};

use wirecap_file::{LINK_TYPE_ETHERNET, Reader, Record};
use wirecap_sys::input::Input;

use crate::{Control, Error, error::known_link_type, timeline::Timeline};

/// The most records without a packet that one call reads.
const RECORDS_AT_ONCE: u32 = 1 << 12;

/// An open trace file, and its next packet.
#[derive(Debug)]
pub(crate) struct Trace {
    name: String,
    reader: Reader<Input>,
    pub(crate) timeline: Timeline,
    /// The next packet; valid only while `has_next`.
    next: Packet,
    has_next: bool,
    /// Why the trace ended before its end.
    pub(crate) failure: Option<Error>,
}

/// The result of reading.
enum ReadOutcome {
    Packet,
    End,
    /// No packet yet: a pipe is silent, or [`RECORDS_AT_ONCE`] records had none.
    Nothing,
}

/// A packet of the file. Its buffer is reused.
#[derive(Debug, Default)]
pub(crate) struct Packet {
    /// Its place in time, see [`Timeline::place`].
    pub(crate) placed_ns: Option<u64>,
    pub(crate) bytes: Vec<u8>,
    /// Length on the wire, at least that of `bytes`.
    pub(crate) original_len: u32,
}

/// Whether a name of a trace means standard input: `-`.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

impl Trace {
    /// Opens a trace and reads its first packet, unless `control` stops it earlier. Waits for the writer of a
    /// pipe.
    ///
    /// # Errors
    /// [`Error::Trace`] if it is not a trace, [`Error::LinkType`] if its packets are not Ethernet frames.
    pub(crate) fn open(path: &Path, control: &Control) -> Result<Self, Error> {
        let name = path.display().to_string();
        let failed = |source| Error::Trace { name: name.clone(), source };
        let input = if is_stdin(path) { Input::stdin() } else { Input::open(path) };
        let input = input.map_err(|source| wirecap_file::Error::Open { path: path.into(), source });
        let reader = input.and_then(|input| match input.len() {
            Some(_) => Reader::new(input),
            // A pipe may have nothing at the moment.
            None => Reader::without_decompression(input),
        });
        let reader = reader.map_err(failed)?;
        let (timeline, next) = (Timeline::default(), Packet::default());
        let mut trace = Self { name, reader, timeline, next, has_next: false, failure: None };
        while !control.is_stopped() && !trace.advance(true) {}
        match trace.failure.take() {
            // A file of another link type is an error before anything is sent.
            Some(Error::OtherLinkType { name, interface, link_type, .. }) => {
                Err(Error::LinkType { name, interface, link_type, known: known_link_type(link_type) })
            }
            failure => Ok(Self { failure, ..trace }),
        }
    }

    /// The next packet; `None` at the end.
    pub(crate) fn peek(&self) -> Option<&Packet> {
        self.has_next.then_some(&self.next)
    }

    /// Advances to the next packet. Returns false if it has to be called again: a pipe is silent and `waits`
    /// is false, or many records had no packet.
    pub(crate) fn advance(&mut self, waits: bool) -> bool {
        self.reader.get_mut().set_patient(waits);
        self.has_next = match self.read() {
            Ok(ReadOutcome::Packet) => true,
            Ok(ReadOutcome::End) => false,
            Ok(ReadOutcome::Nothing) => return false,
            Err(failure) => {
                self.failure = Some(failure);
                false
            }
        };
        true
    }

    fn read(&mut self) -> Result<ReadOutcome, Error> {
        if self.failure.is_some() {
            return Ok(ReadOutcome::End);
        }
        for _ in 0..RECORDS_AT_ONCE {
            let record = match self.reader.next() {
                Err(wirecap_file::Error::Read { source, .. })
                    if source.kind() == io::ErrorKind::WouldBlock =>
                {
                    return Ok(ReadOutcome::Nothing);
                }
                record => record.map_err(|source| Error::Trace { name: self.name.clone(), source })?,
            };
            match record {
                None => return Ok(ReadOutcome::End),
                Some(Record::Packet(packet)) if packet.link_type != LINK_TYPE_ETHERNET => {
                    let (interface, link_type) = (packet.interface, packet.link_type);
                    return Err(self.other_link_type(interface, link_type));
                }
                Some(Record::Packet(packet)) => {
                    self.next.placed_ns = self.timeline.place(packet.timestamp_ns);
                    self.next.bytes.clear();
                    self.next.bytes.extend_from_slice(packet.data);
                    // A damaged file may give a smaller length.
                    self.next.original_len = packet.original_len.max(packet.data.len() as u32);
                    return Ok(ReadOutcome::Packet);
                }
                Some(_) => {}
            }
        }
        Ok(ReadOutcome::Nothing)
    }

    fn other_link_type(&self, interface: u32, link_type: u16) -> Error {
        let described = self.reader.interfaces().get(interface as usize);
        let named = described.and_then(|interface| interface.name());
        let interface = match named {
            Some(name) => format!("interface {interface} ({name})"),
            None => format!("interface {interface}"),
        };
        let offset = self.reader.record_offset();
        Error::OtherLinkType { name: self.name.clone(), interface, link_type, offset }
    }

    /// The offset of reading, and the length of the file, in bytes; `None` for a pipe.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        Some((self.reader.progress(), self.reader.get_ref().len()?))
    }
}

/// Whether a file can be read more than once.
pub(crate) fn is_regular(path: &Path) -> bool {
    !is_stdin(path) && path.metadata().is_ok_and(|metadata| metadata.is_file())
}
