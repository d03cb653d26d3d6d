//! Which packets a program gets, and how much of each: its filter, direction, protocol and snapshot length.
//!
//! ```text
//!   a packet ── direction, protocol ── filter ── if older than the filter: also the filters before it ──► bytes
//! ```
//!
//! A filter sees packets as in libpcap: without the outermost VLAN tag, which it asks for separately
//! (`vlan`). The tag is in the packet here, so packets that have one get a program of their own, whose loads
//! pass over the tag. Loads of which only the packet tells whether they have to (`ether[len - 1]`) see a copy
//! without it.
//!
//! The filter runs here, in user space, on every packet that is delivered. So it holds from the moment that
//! `pcap_setfilter` returns: no packet that only a filter before it wanted is delivered, and none that it
//! wants is lost. And setting it takes no privilege, which programs give up first (tcpdump).

use std::{
    ffi::c_int,
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

use wirecap::{Direction, Packet};
use wirecap_filter::{Error, Insn, NativeFilter, Program};

use crate::abi::{DIRECTION_IN, DIRECTION_INOUT, DIRECTION_OUT};

/// Types of packets that filters ask for (`PACKET_HOST`, `PACKET_OUTGOING` of <linux/if_packet.h>), by which
/// they know directions.
const PACKET_HOST: u32 = 0;
const PACKET_OUTGOING: u32 = 4;

const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];
const VLAN_TAG_BYTES: u32 = 4;
/// Where a tag begins, in bytes from the beginning of a frame; the kernel's loads of what it has taken off
/// (`SKF_AD_VLAN_TAG`, `SKF_AD_VLAN_TAG_PRESENT` and `SKF_AD_VLAN_TPID` of <linux/filter.h>).
const TAG_AT: u32 = 12;
const VLAN_TAG: u32 = 0xffff_f02c;
const VLAN_TAG_PRESENT: u32 = 0xffff_f030;
const VLAN_TPID: u32 = 0xffff_f03c;

/// What decides on packets.
#[derive(Debug)]
pub(crate) struct Sieve {
    /// `None`: all packets.
    filter: Option<FilterSet>,
    /// Filters that were replaced, each with the time of that: packets that came before have to match it,
    /// too.
    replaced: Vec<Replaced>,
    selection: Selection,
    snaplen: u32,
}

/// Which packets are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Selection {
    /// Identifies the filter; 0 without one.
    pub(super) filter: u64,
    pub(super) direction: c_int,
    /// The only Ethernet type that is wanted, of packets that come in; 0: all.
    protocol: u16,
}

impl Selection {
    /// Identifies it, for handles of the same interface; 0: all packets are wanted.
    pub(super) fn mark(&self) -> u64 {
        match self {
            Self { filter: 0, direction: DIRECTION_INOUT, protocol: 0 } => 0,
            selection => hash_of(selection),
        }
    }
}

/// A filter that is to replace the one in force.
#[derive(Debug)]
pub(super) struct NewFilter {
    set: FilterSet,
    mark: u64,
    /// When it was set, as packets have it.
    from_ns: u64,
    at: Instant,
}

impl NewFilter {
    /// From `now_ns` on these instructions decide; `ifindex` is the interface that packets come from.
    ///
    /// # Errors
    /// They are not a valid program.
    pub(super) fn new(insns: &[Insn], ifindex: u32, now_ns: u64) -> Result<Self, Error> {
        let set = FilterSet::new(insns, ifindex)?;
        Ok(Self { set, mark: hash_of(insns), from_ns: now_ns, at: Instant::now() })
    }

    /// Identifies its instructions.
    pub(super) fn mark(&self) -> u64 {
        self.mark
    }
}

/// The most replaced filters that are kept; the oldest goes first.
pub(super) const MAX_REPLACED: usize = 64;

/// How long a filter that was replaced decides on packets whose times lie before its end, at most: the clock
/// of an adapter may lie behind ours for ever.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// A filter that was replaced.
#[derive(Debug)]
struct Replaced {
    /// When, as packets have it.
    until_ns: u64,
    at: Instant,
    filter: FilterSet,
}

/// A filter for each kind of packet.
#[derive(Debug)]
struct FilterSet {
    untagged: Directions,
    tagged: OfTagged,
}

/// The filter of packets with a tag.
#[derive(Debug)]
enum OfTagged {
    /// Looks at them as they are.
    InPlace(Directions),
    /// Looks at copies without the tag.
    Copies(Directions),
    /// The same, and at the tag, so that each has a program of its own: instructions for a live handle, and
    /// the interface that packets come from.
    CopiesWithTag(Box<[Insn]>, u32),
}

#[derive(Debug)]
struct Directions {
    incoming: Filter,
    outgoing: Filter,
}

impl FilterSet {
    fn new(insns: &[Insn], ifindex: u32) -> Result<Self, Error> {
        let directions = |rewrite: fn(&Insn) -> Insn| {
            let program = Program::new(insns.iter().map(rewrite).collect())?;
            let bound = |packet_type| Filter::new(program.bound_to(packet_type, ifindex));
            Ok::<_, Error>(Directions { incoming: bound(PACKET_HOST), outgoing: bound(PACKET_OUTGOING) })
        };
        let tagged = if !insns.iter().any(may_pass_over_tag) {
            OfTagged::InPlace(directions(behind_tag)?)
        } else if insns.iter().any(asks_for_tag) {
            OfTagged::CopiesWithTag(insns.into(), ifindex)
        } else {
            OfTagged::Copies(directions(|insn| of_copy(insn, 0, 0))?)
        };
        Ok(Self { untagged: directions(without_tag)?, tagged })
    }

    /// How many bytes of the packet are wanted; 0 if it is not.
    #[inline]
    fn bytes(&self, direction: Direction, packet: &[u8], wire_len: u32) -> u32 {
        if !has_tag(packet) {
            return self.untagged.of(direction).bytes(packet, wire_len);
        }
        let wire_len = wire_len.saturating_sub(VLAN_TAG_BYTES);
        let bytes = match &self.tagged {
            OfTagged::InPlace(directions) => directions.of(direction).bytes(packet, wire_len),
            OfTagged::Copies(directions) => directions.of(direction).bytes(&without(packet), wire_len),
            OfTagged::CopiesWithTag(insns, ifindex) => {
                bytes_by_tag(insns, *ifindex, direction, packet, wire_len)
            }
        };
        if bytes == 0 { 0 } else { bytes.saturating_add(VLAN_TAG_BYTES) }
    }
}

impl Directions {
    #[inline]
    fn of(&self, direction: Direction) -> &Filter {
        if direction == Direction::In { &self.incoming } else { &self.outgoing }
    }
}

/// A packet without its tag.
fn without(packet: &[u8]) -> Vec<u8> {
    let (front, behind) = packet.split_at(TAG_AT as usize);
    [front, behind.get(VLAN_TAG_BYTES as usize..).unwrap_or_default()].concat()
}

/// How many bytes of a packet with a tag are wanted, as of `wire_len` bytes without it.
#[cold]
fn bytes_by_tag(insns: &[Insn], ifindex: u32, direction: Direction, packet: &[u8], wire_len: u32) -> u32 {
    let [type_id, tag] = [TAG_AT, TAG_AT + 2].map(|at| type_at(packet, at as usize).unwrap_or(0).into());
    let packet_type = if direction == Direction::In { PACKET_HOST } else { PACKET_OUTGOING };
    // The program was valid, and is with other constants.
    Program::new(insns.iter().map(|insn| of_copy(insn, type_id, tag)).collect())
        .map_or(0, |program| program.bound_to(packet_type, ifindex).run(&without(packet), wire_len))
}

fn type_at(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Whether it has a VLAN tag.
pub(super) fn has_tag(packet: &[u8]) -> bool {
    type_at(packet, TAG_AT as usize).is_some_and(|outer| VLAN_TYPES.contains(&outer))
}

/// The parts of a load's code: `BPF_CLASS` and `BPF_MODE`.
const CLASS_AND_MODE: u16 = 0xe7;
const LD_ABS: u16 = 0x20;
const LD_IND: u16 = 0x40;
const LDX_MSH: u16 = 0xa1;
const LD_IMM: u16 = 0x00;
const LD_H_ABS: u16 = 0x28;

/// An instruction for packets without a tag.
fn without_tag(insn: &Insn) -> Insn {
    match (insn.code & CLASS_AND_MODE, insn.k) {
        (LD_ABS, VLAN_TAG | VLAN_TAG_PRESENT | VLAN_TPID) => Insn { code: LD_IMM, k: 0, ..*insn },
        _ => *insn,
    }
}

/// Whether a load begins in front of the tag and may end behind it.
fn may_pass_over_tag(insn: &Insn) -> bool {
    const SIZE: u16 = 0x18;
    let bytes = match insn.code & SIZE {
        0x00 => 4,
        0x08 => 2,
        _ => 1,
    };
    match insn.code & CLASS_AND_MODE {
        LD_IND => insn.k < TAG_AT,
        LD_ABS => insn.k < TAG_AT && insn.k + bytes > TAG_AT,
        _ => false,
    }
}

fn asks_for_tag(insn: &Insn) -> bool {
    insn.code & CLASS_AND_MODE == LD_ABS && matches!(insn.k, VLAN_TAG | VLAN_TPID)
}

/// An instruction for copies without their tag, which is this one.
fn of_copy(insn: &Insn, type_id: u32, tag: u32) -> Insn {
    match (insn.code & CLASS_AND_MODE, insn.k) {
        (LD_ABS, VLAN_TAG_PRESENT) => Insn { code: LD_IMM, k: 1, ..*insn },
        (LD_ABS, VLAN_TPID) => Insn { code: LD_IMM, k: type_id, ..*insn },
        (LD_ABS, VLAN_TAG) => Insn { code: LD_IMM, k: tag, ..*insn },
        _ => *insn,
    }
}

/// An instruction for packets that have a tag: it reads it where it is, and everything else behind it.
fn behind_tag(insn: &Insn) -> Insn {
    match (insn.code & CLASS_AND_MODE, insn.k) {
        (LD_ABS, VLAN_TAG_PRESENT) => Insn { code: LD_IMM, k: 1, ..*insn },
        (LD_ABS, VLAN_TPID) => Insn { code: LD_H_ABS, k: TAG_AT, ..*insn },
        (LD_ABS, VLAN_TAG) => Insn { code: LD_H_ABS, k: TAG_AT + 2, ..*insn },
        (LD_ABS | LD_IND | LDX_MSH, k) if (TAG_AT..i32::MAX as u32).contains(&k) => {
            Insn { k: k + VLAN_TAG_BYTES, ..*insn }
        }
        _ => *insn,
    }
}

#[derive(Debug)]
enum Filter {
    Native(NativeFilter),
    Interpreter(Program),
}

impl Filter {
    fn new(program: Program) -> Self {
        NativeFilter::new(&program).map(Filter::Native).unwrap_or(Filter::Interpreter(program))
    }

    /// How many bytes of the packet are wanted; 0 if it is not.
    #[inline]
    fn bytes(&self, packet: &[u8], wire_len: u32) -> u32 {
        match self {
            Filter::Native(native) => native.matches(packet, wire_len),
            Filter::Interpreter(program) => program.run(packet, wire_len),
        }
    }
}

impl Sieve {
    /// Lets `snaplen` bytes of each packet through.
    pub(crate) fn new(snaplen: u32, protocol: u16) -> Self {
        Self {
            filter: None,
            replaced: Vec::new(),
            selection: Selection { filter: 0, direction: DIRECTION_INOUT, protocol },
            snaplen,
        }
    }

    pub(super) fn set_filter(&mut self, new: NewFilter) {
        if let Some(before) = self.filter.replace(new.set) {
            if self.replaced.len() == MAX_REPLACED {
                self.replaced.remove(0);
            }
            self.replaced.push(Replaced { until_ns: new.from_ns, at: new.at, filter: before });
        }
        self.selection.filter = new.mark;
    }

    /// No packet waits: those that come now are younger than every filter.
    pub(crate) fn forget_replaced(&mut self) {
        self.replaced.clear();
    }

    /// No packet is left that came before these filters were replaced, whatever its time says.
    pub(crate) fn forget_replaced_long_ago(&mut self) {
        self.replaced.retain(|replaced| replaced.at.elapsed() < LONGEST_DELAY);
    }

    pub(super) fn selection(&self) -> Selection {
        self.selection
    }

    pub(super) fn set_direction(&mut self, direction: c_int) {
        self.selection.direction = direction;
    }

    /// How many bytes of the packet the program gets; 0 if it does not get it. `data` is its beginning, at
    /// least its headers.
    #[inline]
    pub(crate) fn bytes(&self, packet: &Packet<'_>, data: &[u8]) -> u32 {
        let direction = packet.direction();
        let Selection { direction: wanted, protocol, .. } = self.selection;
        if wanted != DIRECTION_INOUT || protocol != 0 {
            let is_wanted = match direction {
                Direction::In => wanted != DIRECTION_OUT && has_protocol(data, protocol),
                Direction::Out => wanted != DIRECTION_IN && protocol == 0,
            };
            if !is_wanted {
                return 0;
            }
        }
        let Some(filter) = &self.filter else { return self.snaplen };
        let wire_len = packet.original_len() as u32;
        let bytes = filter.bytes(direction, data, wire_len);
        let passes = |replaced: &Replaced| {
            packet.timestamp_ns() >= replaced.until_ns
                || replaced.filter.bytes(direction, data, wire_len) != 0
        };
        if bytes == 0 || !self.replaced.iter().all(passes) { 0 } else { bytes.min(self.snaplen) }
    }
}

/// Whether a packet is of this Ethernet type; 0: of any.
fn has_protocol(data: &[u8], protocol: u16) -> bool {
    let at = if has_tag(data) { TAG_AT + VLAN_TAG_BYTES } else { TAG_AT };
    protocol == 0 || type_at(data, at as usize) == Some(protocol)
}

fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNAPLEN: u32 = 100;

    /// `vlan 7`, and whether the type behind the tag is IPv4, as libpcap compiles them for a live handle.
    fn programs() -> [Vec<Insn>; 2] {
        let insn = |code, jt, jf, k| Insn::new(code, jt, jf, k);
        let vlan_7 = vec![
            insn(0x30, 0, 0, VLAN_TAG_PRESENT),
            insn(0x15, 0, 3, 1),
            insn(0x28, 0, 0, VLAN_TAG),
            insn(0x54, 0, 0, 0xfff),
            insn(0x15, 1, 0, 7),
            insn(0x06, 0, 0, 0),
            insn(0x06, 0, 0, SNAPLEN),
        ];
        let ip = vec![
            insn(0x28, 0, 0, 12),
            insn(0x15, 0, 1, 0x0800),
            insn(0x06, 0, 0, SNAPLEN),
            insn(0x06, 0, 0, 0),
        ];
        [vlan_7, ip]
    }

    fn frame(tag: Option<u16>) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(tag.into_iter().flat_map(|tag| [0x81, 0, (tag >> 8) as u8, tag as u8]));
        frame.extend([8, 0]);
        frame.resize(64, 0);
        frame
    }

    #[test]
    fn filters_see_packets_without_their_tag() {
        let [vlan_7, ip] = programs().map(|insns| FilterSet::new(&insns, 1).unwrap());
        let bytes = |set: &FilterSet, frame: &[u8]| set.bytes(Direction::In, frame, frame.len() as u32);
        for (tag, of_vlan, of_ip) in
            [(None, 0, SNAPLEN), (Some(7), SNAPLEN + 4, SNAPLEN + 4), (Some(0x2008), 0, SNAPLEN + 4)]
        {
            let frame = frame(tag);
            assert_eq!((bytes(&vlan_7, &frame), bytes(&ip, &frame)), (of_vlan, of_ip), "{tag:?}");
        }
        // The four bytes in front of the end (ether[len - 4:4]), and those around the place of the tag.
        let insn = |code, jt, jf, k| Insn::new(code, jt, jf, k);
        let decides = [insn(0x15, 0, 1, 0x0051_0800), insn(0x06, 0, 0, SNAPLEN), insn(0x06, 0, 0, 0)];
        let at_end = [insn(0x80, 0, 0, 0), insn(0x14, 0, 0, 4), insn(0x07, 0, 0, 0), insn(0x40, 0, 0, 0)];
        let across = [insn(0x20, 0, 0, 10)];
        let of_vlan_7 = [insn(0x28, 0, 0, VLAN_TAG), insn(0x15, 0, 3, 7), insn(0x20, 0, 0, 10)];
        for tag in [None, Some(7)] {
            let mut frame = frame(tag);
            frame[11] = 0x51;
            let end = frame.len() - 4;
            frame[end..].copy_from_slice(&[0, 0x51, 8, 0]);
            let wanted = SNAPLEN + if tag.is_some() { 4 } else { 0 };
            for (load, of_untagged) in [(&at_end[..], SNAPLEN), (&across, SNAPLEN), (&of_vlan_7, 0)] {
                let set = FilterSet::new(&[load, &decides].concat(), 1).unwrap();
                let expected = if tag.is_some() { wanted } else { of_untagged };
                assert_eq!(bytes(&set, &frame), expected, "{load:?} {tag:?}");
            }
        }
        let short = [0_u8; 13];
        assert_eq!((bytes(&vlan_7, &short), bytes(&ip, &short)), (0, 0));
    }
}
