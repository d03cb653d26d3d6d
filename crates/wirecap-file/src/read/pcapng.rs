//! pcapng, decoded: block by block.
//!
//! ```text
//!   next_block: frame checked ──► decode: body to Record
//!        │                              │
//!        └ a section header             └ an interface is remembered for its packets
//!          sets the byte order
//! ```

use std::io::Read;

use super::blocks;
use super::byte_order::ByteOrder;
use super::known::KnownInterface;
use super::record::Record;
use super::source::Source;
use crate::limits::{MAX_BLOCK_LEN, MAX_INTERFACES};
use crate::pcapng::{BLOCK_FRAME_LEN, BYTE_ORDER_MAGIC, block};
use crate::{Damage, Error, Format};

#[derive(Debug)]
pub(super) struct Decoder {
    /// Of the section being read.
    order: ByteOrder,
    /// Of the whole file.
    interfaces: Vec<KnownInterface>,
    /// Where in `interfaces` those of the section being read start.
    section_start: usize,
}

/// A block that is whole in the source's window.
struct Block {
    offset: u64,
    block_type: u32,
    len: usize,
}

impl Decoder {
    pub(super) fn new() -> Self {
        // The byte order is set by the section header every file starts with.
        Self { order: ByteOrder::Little, interfaces: Vec::new(), section_start: 0 }
    }

    pub(super) fn interfaces(&self) -> &[KnownInterface] {
        &self.interfaces
    }

    pub(super) fn next<'a, R: Read>(
        &'a mut self,
        source: &'a mut Source<R>,
    ) -> Result<Option<Record<'a>>, Error> {
        let Some(Block { offset, block_type, len }) = self.next_block(source)? else { return Ok(None) };
        let body = &source.take(len)[8..len - 4];
        if block_type == block::SECTION_HEADER {
            let (major, minor) = (self.order.u16_at(body, 4), self.order.u16_at(body, 6));
            // 1.2 was written by some and is no different from 1.0.
            if !matches!((major, minor), (1, 0 | 2)) {
                return Err(Error::UnsupportedVersion { offset, format: Format::Pcapng, major, minor });
            }
        }
        self.decode(block_type, body).map(Some).map_err(|damage| Error::Damaged { offset, damage })
    }

    fn decode<'a>(&'a mut self, block_type: u32, body: &'a [u8]) -> Result<Record<'a>, Damage> {
        let order = self.order;
        match block_type {
            block::SECTION_HEADER => {
                self.section_start = self.interfaces.len();
                blocks::section(body, order).map(Record::Section)
            }
            block::INTERFACE => {
                let id = self.interfaces.len() as u32;
                if id >= MAX_INTERFACES {
                    return Err(Damage::TooManyInterfaces);
                }
                let interface = blocks::interface(body, order, id)?;
                self.interfaces.push(KnownInterface::from(&interface));
                Ok(Record::Interface(interface))
            }
            block::SIMPLE_PACKET => {
                blocks::simple_packet(body, order, self.interface(0)?).map(Record::Packet)
            }
            block::PACKET => {
                let interface = self.interface(u32::from(order.u16_at(body, 0)))?;
                blocks::obsolete_packet(body, order, interface).map(Record::Packet)
            }
            block::ENHANCED_PACKET => {
                let interface = self.interface(order.u32_at(body, 0))?;
                blocks::enhanced_packet(body, order, interface).map(Record::Packet)
            }
            block::INTERFACE_STATISTICS => {
                let interface = self.interface(order.u32_at(body, 0))?;
                blocks::statistics(body, order, interface).map(Record::Statistics)
            }
            other => Ok(Record::Other(other)),
        }
    }

    /// The interface with the number `interface` in the section being read.
    fn interface(&self, interface: u32) -> Result<&KnownInterface, Damage> {
        let known = &self.interfaces[self.section_start..];
        known.get(interface as usize).ok_or(Damage::UnknownInterface { interface, known: known.len() as u32 })
    }

    /// Reads the next block into the window, whole. `None`: a clean end.
    fn next_block<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Block>, Error> {
        let offset = source.offset();
        if !source.require_whole("block header", BLOCK_FRAME_LEN)? {
            return Ok(None);
        }
        let damaged = |damage| Error::Damaged { offset, damage };
        let window = source.window();
        let block_type = self.order.u32_at(window, 0);
        if block_type == block::SECTION_HEADER {
            self.order = byte_order(window).map_err(damaged)?;
        }
        let length = self.order.u32_at(window, 4);
        let min = min_len(block_type);
        if length % 4 != 0 || length < min || length > MAX_BLOCK_LEN {
            return Err(damaged(Damage::BlockLength { length, min, max: MAX_BLOCK_LEN }));
        }
        let len = length as usize;
        source.require_whole("block", len)?;
        let trailing = self.order.u32_at(source.window(), len - 4);
        if trailing != length {
            return Err(damaged(Damage::TrailingLength { leading: length, trailing }));
        }
        Ok(Some(Block { offset, block_type, len }))
    }
}

/// The byte order of a section.
fn byte_order(header: &[u8]) -> Result<ByteOrder, Damage> {
    let found = ByteOrder::Little.u32_at(header, 8);
    if found == BYTE_ORDER_MAGIC {
        Ok(ByteOrder::Little)
    } else if found.swap_bytes() == BYTE_ORDER_MAGIC {
        Ok(ByteOrder::Big)
    } else {
        Err(Damage::ByteOrderMagic(found))
    }
}

/// The least total length of a block: its frame and, for the types that are decoded, the fixed part of its
/// body.
fn min_len(block_type: u32) -> u32 {
    let body_len = match block_type {
        block::SECTION_HEADER => 16,
        block::INTERFACE => 8,
        block::PACKET | block::ENHANCED_PACKET => 20,
        block::SIMPLE_PACKET => 4,
        block::INTERFACE_STATISTICS => 12,
        _ => 0,
    };
    BLOCK_FRAME_LEN as u32 + body_len
}
