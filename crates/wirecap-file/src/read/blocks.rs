//! The bodies of pcapng blocks, decoded. The frame and the length of the fixed part have been checked.
//!
//! An option of a length it cannot have (a speed of 3 bytes) is passed over; one that runs out of its block
//! is damage, since then it is not known what the rest of the block is.

use super::byte_order::ByteOrder;
use super::known::KnownInterface;
use super::options::{Options, text};
use super::record::{Interface, Packet, Section, Statistics};
use super::time::Resolution;
use crate::Damage;
use crate::limits::MAX_COMMENTS;
use crate::pcapng::code;

/// Where the bytes of a packet start in the body of an enhanced or obsolete packet block.
const PACKET_HEAD_LEN: usize = 20;

/// Adds a comment to those of its block.
fn keep<T>(comments: &mut Vec<T>, comment: T) -> Result<(), Damage> {
    if comments.len() >= MAX_COMMENTS as usize {
        return Err(Damage::TooManyComments);
    }
    comments.push(comment);
    Ok(())
}

pub(super) fn section(body: &[u8], order: ByteOrder) -> Result<Section, Damage> {
    let mut section = Section::default();
    for option in Options::new(&body[16..], order) {
        let (code, value) = option?;
        match code {
            code::SHB_HARDWARE => section.hardware = Some(text(value).into_owned()),
            code::SHB_OS => section.os = Some(text(value).into_owned()),
            code::SHB_APPLICATION => section.application = Some(text(value).into_owned()),
            code::COMMENT => keep(&mut section.comments, text(value).into_owned())?,
            _ => {}
        }
    }
    Ok(section)
}

pub(super) fn interface(body: &[u8], order: ByteOrder, id: u32) -> Result<Interface, Damage> {
    let mut interface = Interface {
        id,
        link_type: order.u16_at(body, 0),
        snaplen: order.u32_at(body, 4),
        ..Interface::default()
    };
    for option in Options::new(&body[8..], order) {
        let (code, value) = option?;
        match code {
            code::IF_NAME => interface.name = Some(text(value).into_owned()),
            code::IF_DESCRIPTION => interface.description = Some(text(value).into_owned()),
            code::IF_MAC => interface.mac = value.try_into().ok().or(interface.mac),
            code::IF_SPEED => interface.speed_bps = order.u64(value).or(interface.speed_bps),
            code::IF_TSRESOL => {
                if let [value] = value {
                    interface.resolution = Resolution::from_tsresol(*value);
                }
            }
            // The first byte is 0 for text, 1 for bytecode.
            code::IF_FILTER => {
                if let [0, filter @ ..] = value {
                    interface.filter = Some(text(filter).into_owned());
                }
            }
            code::IF_OS => interface.os = Some(text(value).into_owned()),
            code::IF_TSOFFSET => {
                if let Some(offset_s) = order.u64(value) {
                    interface.offset_s = offset_s as i64;
                }
            }
            code::IF_HARDWARE => interface.hardware = Some(text(value).into_owned()),
            code::COMMENT => keep(&mut interface.comments, text(value).into_owned())?,
            _ => {}
        }
    }
    Ok(interface)
}

/// The direction in the flags of a packet; 0 is "not known".
fn outbound(flags: u32) -> Option<bool> {
    match flags & 3 {
        1 => Some(false),
        2 => Some(true),
        _ => None,
    }
}

pub(super) fn enhanced_packet<'a>(
    body: &'a [u8],
    order: ByteOrder,
    interface: &KnownInterface,
) -> Result<Packet<'a>, Damage> {
    let (mut packet, options) = packet_with_time(body, order, interface)?;
    for option in Options::new(options, order) {
        let (code, value) = option?;
        match code {
            code::EPB_FLAGS if value.len() == 4 => packet.outbound = outbound(order.u32_at(value, 0)),
            code::EPB_QUEUE if value.len() == 4 => packet.queue = Some(order.u32_at(value, 0)),
            code::EPB_PACKET_ID => packet.packet_id = order.u64(value).or(packet.packet_id),
            code::COMMENT => keep(&mut packet.comments, text(value))?,
            _ => {}
        }
    }
    Ok(packet)
}

/// The Packet Block of before 2009: an enhanced one with 16 bits of interface, 16 bits of drop count, other
/// options.
pub(super) fn obsolete_packet<'a>(
    body: &'a [u8],
    order: ByteOrder,
    interface: &KnownInterface,
) -> Result<Packet<'a>, Damage> {
    let (mut packet, options) = packet_with_time(body, order, interface)?;
    for option in Options::new(options, order) {
        let (code, value) = option?;
        if code == code::COMMENT {
            keep(&mut packet.comments, text(value))?;
        }
    }
    Ok(packet)
}

/// A packet without a time and an interface: it is of the section's first, and was cut at its snapshot
/// length.
pub(super) fn simple_packet<'a>(
    body: &'a [u8],
    order: ByteOrder,
    interface: &KnownInterface,
) -> Result<Packet<'a>, Damage> {
    let original_len = order.u32_at(body, 0);
    let captured = if interface.snaplen == 0 { original_len } else { original_len.min(interface.snaplen) };
    let data = captured_bytes(&body[4..], captured)?;
    Ok(packet(interface, None, original_len, data))
}

pub(super) fn statistics(
    body: &[u8],
    order: ByteOrder,
    interface: &KnownInterface,
) -> Result<Statistics, Damage> {
    let to_ns = |ticks| interface.resolution.to_ns(ticks, interface.offset_s);
    let mut statistics = Statistics {
        interface: interface.id,
        timestamp_ns: to_ns(order.time_at(body, 4)),
        ..Statistics::default()
    };
    let counters = &mut statistics.counters;
    for option in Options::new(&body[12..], order) {
        let (code, value) = option?;
        match code {
            code::ISB_START_TIME if value.len() == 8 => statistics.start_ns = to_ns(order.time_at(value, 0)),
            code::ISB_END_TIME if value.len() == 8 => statistics.end_ns = to_ns(order.time_at(value, 0)),
            code::ISB_RECEIVED => counters.received = order.u64(value),
            code::ISB_DROPPED_BY_INTERFACE => counters.dropped_by_interface = order.u64(value),
            code::ISB_FILTER_ACCEPTED => counters.filter_accepted = order.u64(value),
            code::ISB_DROPPED_BY_OS => counters.dropped_by_os = order.u64(value),
            code::ISB_DELIVERED_TO_USER => counters.delivered_to_user = order.u64(value),
            code::COMMENT => keep(&mut statistics.comments, text(value).into_owned())?,
            _ => {}
        }
    }
    Ok(statistics)
}

/// The packet of an enhanced or obsolete packet block, and the bytes of its options.
#[inline]
fn packet_with_time<'a>(
    body: &'a [u8],
    order: ByteOrder,
    interface: &KnownInterface,
) -> Result<(Packet<'a>, &'a [u8]), Damage> {
    let timestamp_ns = interface.resolution.to_ns(order.time_at(body, 4), interface.offset_s);
    let (captured, original_len) = (order.u32_at(body, 12), order.u32_at(body, 16));
    let rest = &body[PACKET_HEAD_LEN..];
    let data = captured_bytes(rest, captured)?;
    // The body is whole words, so the padding is there.
    let options = &rest[data.len().next_multiple_of(4)..];
    Ok((packet(interface, timestamp_ns, original_len, data), options))
}

fn captured_bytes(rest: &[u8], captured: u32) -> Result<&[u8], Damage> {
    rest.get(..captured as usize).ok_or(Damage::CapturedLength { captured, max: rest.len() as u32 })
}

pub(super) fn packet<'a>(
    interface: &KnownInterface,
    timestamp_ns: Option<u64>,
    original_len: u32,
    data: &'a [u8],
) -> Packet<'a> {
    Packet {
        interface: interface.id,
        link_type: interface.link_type,
        timestamp_ns,
        original_len,
        data,
        queue: None,
        packet_id: None,
        outbound: None,
        comments: Vec::new(),
    }
}
