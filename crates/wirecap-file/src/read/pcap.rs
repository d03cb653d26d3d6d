//! Classic pcap, decoded: both byte orders, micro- and nanoseconds, and Kuznetzov's longer record headers.

use std::io::Read;

use super::MAX_BLOCK_LEN;
use super::blocks::packet;
use super::byte_order::ByteOrder;
use super::known::KnownInterface;
use super::record::{Interface, Record};
use super::source::Source;
use super::time::Resolution;
use crate::pcap::{
    FILE_HEADER_LEN, MAGIC_MICROSECONDS, MAGIC_MODIFIED, MAGIC_NANOSECONDS, MODIFIED_RECORD_HEADER_LEN,
    RECORD_HEADER_LEN,
};
use crate::{Damage, Error, Format, MAX_CAPTURED_LEN};

#[derive(Debug)]
pub(super) struct Decoder {
    layout: FileLayout,
    minor: u16,
    major: u16,
    /// No record has more bytes than this.
    max_captured: u32,
    /// The one interface of the file; an array, so that it can be lent like pcapng's.
    interfaces: [KnownInterface; 1],
    interface_given: bool,
}

/// What a file's first bytes, its magic number, say of all that follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileLayout {
    order: ByteOrder,
    /// Nanoseconds in a unit of the record's second field.
    unit_ns: u64,
    record_header_len: usize,
}

impl FileLayout {
    /// `None` for another magic number.
    pub(super) fn of(start: [u8; 4]) -> Option<Self> {
        let with = |order, magic| {
            let (unit_ns, record_header_len) = match magic {
                MAGIC_MICROSECONDS => (1_000, RECORD_HEADER_LEN),
                MAGIC_NANOSECONDS => (1, RECORD_HEADER_LEN),
                MAGIC_MODIFIED => (1_000, MODIFIED_RECORD_HEADER_LEN),
                _ => return None,
            };
            Some(Self { order, unit_ns, record_header_len })
        };
        let little = with(ByteOrder::Little, u32::from_le_bytes(start));
        little.or_else(|| with(ByteOrder::Big, u32::from_be_bytes(start)))
    }

    /// Whether a magic number begins with these bytes.
    pub(super) fn may_follow(start: &[u8]) -> bool {
        let begins =
            |magic: u32| magic.to_le_bytes().starts_with(start) || magic.to_be_bytes().starts_with(start);
        [MAGIC_MICROSECONDS, MAGIC_NANOSECONDS, MAGIC_MODIFIED].into_iter().any(begins)
    }
}

impl Decoder {
    /// Decodes the file header, of which the magic number has been recognised as `layout`.
    pub(super) fn new<R: Read>(source: &mut Source<R>, layout: FileLayout) -> Result<Self, Error> {
        let order = layout.order;
        source.require_whole("file header", FILE_HEADER_LEN)?;
        let header = source.take(FILE_HEADER_LEN);
        let (major, minor) = (order.u16_at(header, 4), order.u16_at(header, 6));
        // 543.0 is what DG/UX tcpdump wrote for 2.3.
        if !matches!((major, minor), (2, 0..=4) | (543, 0)) {
            return Err(Error::UnsupportedVersion { offset: 0, format: Format::Pcap, major, minor });
        }
        let snaplen = order.u32_at(header, 16);
        let resolution = Resolution::PowerOfTen(if layout.unit_ns == 1 { 9 } else { 6 });
        // The upper half of the word is the length of the frame check sequence.
        let link_type = order.u32_at(header, 20) as u16;
        let interface = Interface { link_type, snaplen, resolution, ..Interface::default() };
        Ok(Self {
            layout,
            major,
            minor,
            max_captured: snaplen.clamp(MAX_CAPTURED_LEN, MAX_BLOCK_LEN),
            interfaces: [KnownInterface::from(&interface)],
            interface_given: false,
        })
    }

    pub(super) fn interfaces(&self) -> &[KnownInterface] {
        &self.interfaces
    }

    pub(super) fn next<'a, R: Read>(
        &'a mut self,
        source: &'a mut Source<R>,
    ) -> Result<Option<Record<'a>>, Error> {
        if !self.interface_given {
            self.interface_given = true;
            let KnownInterface { link_type, snaplen, resolution, .. } = self.interfaces[0];
            let interface = Interface { link_type, snaplen, resolution, ..Interface::default() };
            return Ok(Some(Record::Interface(interface)));
        }
        let offset = source.offset();
        let header_len = self.layout.record_header_len;
        if !source.require_whole("record header", header_len)? {
            return Ok(None);
        }
        let (captured, original_len) = self.lengths(source.window());
        if captured > self.max_captured {
            let damage = Damage::CapturedLength { captured, max: self.max_captured };
            return Err(Error::Damaged { offset, damage });
        }
        let record_len = header_len + captured as usize;
        source.require_whole("record", record_len)?;
        let (header, data) = source.take(record_len).split_at(header_len);
        let seconds = u64::from(self.layout.order.u32_at(header, 0));
        let fraction = u64::from(self.layout.order.u32_at(header, 4));
        // No overflow: 2^32 seconds are 2^62 nanoseconds.
        let timestamp_ns = Some(seconds * 1_000_000_000 + fraction * self.layout.unit_ns);
        Ok(Some(Record::Packet(packet(&self.interfaces[0], timestamp_ns, original_len, data))))
    }

    /// The captured and the original length of a record. They changed places in version 2.3, and some writers
    /// of 2.3 had not heard; the captured one is never the longer.
    fn lengths(&self, header: &[u8]) -> (u32, u32) {
        let (first, second) = (self.layout.order.u32_at(header, 8), self.layout.order.u32_at(header, 12));
        let swapped = match (self.major, self.minor) {
            (2, 0..=2) | (543, _) => true,
            (2, 3) => first > second,
            _ => false,
        };
        if swapped { (second, first) } else { (first, second) }
    }
}
