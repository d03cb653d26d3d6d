//! Which packets a program gets, and how much of each: its filter, direction, protocol and snapshot length.
//!
//! ```text
//!   a packet ── direction, protocol ── filter ── came before it was set: the filters before it, too ──► bytes
//! ```
//!
//! The filter runs here, in user space, on every packet that is delivered. So it holds from the moment that
//! `pcap_setfilter` returns: no packet that only a filter before it wanted is delivered, and none that it
//! wants is lost. And setting it takes no privilege, which programs give up first (tcpdump).

use std::ffi::c_int;

use wirecap::{Direction, Packet};
use wirecap_filter::{Error, Insn, NativeFilter, Program};

use crate::abi::{DIRECTION_IN, DIRECTION_INOUT, DIRECTION_OUT};

/// Types of packets that filters ask for (`PACKET_HOST`, `PACKET_OUTGOING` of <linux/if_packet.h>), by which
/// they know directions.
const PACKET_HOST: u32 = 0;
const PACKET_OUTGOING: u32 = 4;

const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];

/// What decides on packets.
#[derive(Debug)]
pub(crate) struct Sieve {
    /// `None`: all packets.
    filter: Option<PairOfFilters>,
    /// Filters that were replaced, each with the time of that: packets that came before have to match it,
    /// too.
    replaced: Vec<(u64, PairOfFilters)>,
    direction: c_int,
    /// The only Ethernet type that is wanted, of packets that come in; 0: all.
    protocol: u16,
    snaplen: u32,
}

/// Replaced filters that are remembered; more are set while packets wait by no program that is known.
const MAX_REPLACED: usize = 64;

/// A filter for packets that come in, and for those that go out.
#[derive(Debug)]
struct PairOfFilters {
    incoming: Filter,
    outgoing: Filter,
}

impl PairOfFilters {
    #[inline]
    fn bytes(&self, direction: Direction, packet: &[u8], wire_len: u32) -> u32 {
        let filter = if direction == Direction::In { &self.incoming } else { &self.outgoing };
        filter.bytes(packet, wire_len)
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
        Self { filter: None, replaced: Vec::new(), direction: DIRECTION_INOUT, protocol, snaplen }
    }

    /// From `now_ns` on these instructions decide; `ifindex` is the interface that packets come from.
    ///
    /// # Errors
    /// They are no valid program.
    pub(crate) fn set_filter(&mut self, insns: Vec<Insn>, ifindex: u32, now_ns: u64) -> Result<(), Error> {
        let program = Program::new(insns)?;
        let bound = |packet_type| Filter::new(program.bound_to(packet_type, ifindex));
        let filter = PairOfFilters { incoming: bound(PACKET_HOST), outgoing: bound(PACKET_OUTGOING) };
        if let Some(before) = self.filter.replace(filter) {
            if self.replaced.len() == MAX_REPLACED {
                self.replaced.remove(0);
            }
            self.replaced.push((now_ns, before));
        }
        Ok(())
    }

    /// No packet waits: those that come now are younger than every filter.
    pub(crate) fn forget_replaced(&mut self) {
        self.replaced.clear();
    }

    pub(crate) fn set_direction(&mut self, direction: c_int) {
        self.direction = direction;
    }

    /// How many bytes of the packet the program gets; 0 if it does not get it. `data` is its beginning, at
    /// least its headers.
    #[inline]
    pub(crate) fn bytes(&self, packet: &Packet<'_>, data: &[u8]) -> u32 {
        let direction = packet.direction();
        if self.direction != DIRECTION_INOUT || self.protocol != 0 {
            let is_wanted = match direction {
                Direction::In => self.direction != DIRECTION_OUT && self.has_protocol(data),
                Direction::Out => self.direction != DIRECTION_IN && self.protocol == 0,
            };
            if !is_wanted {
                return 0;
            }
        }
        let Some(filter) = &self.filter else { return self.snaplen };
        let wire_len = packet.original_len() as u32;
        let bytes = filter.bytes(direction, data, wire_len);
        let passes = |(until_ns, filter): &(u64, PairOfFilters)| {
            packet.timestamp_ns() >= *until_ns || filter.bytes(direction, data, wire_len) != 0
        };
        if bytes == 0 || !self.replaced.iter().all(passes) { 0 } else { bytes.min(self.snaplen) }
    }

    fn has_protocol(&self, data: &[u8]) -> bool {
        let type_at = |at: usize| data.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let outer = type_at(12);
        let inner = if outer.is_some_and(|outer| VLAN_TYPES.contains(&outer)) { type_at(16) } else { outer };
        self.protocol == 0 || inner == Some(self.protocol)
    }
}
