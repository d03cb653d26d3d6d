//! Which packets a program gets, and how much of each: its filter, direction, protocol and snapshot length.
//!
//! The filter runs here, in user space, on every packet that is delivered. So it holds for each packet from
//! the moment that `pcap_setfilter` returns, whenever the packet came; none that the new filter wants is
//! lost, and setting it takes no privilege, which programs give up first (tcpdump).

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
    /// For packets that come in, and for those that go out. `None`: all.
    filters: Option<[Filter; 2]>,
    direction: c_int,
    /// The only Ethernet type that is wanted, of packets that come in; 0: all.
    protocol: u16,
    snaplen: u32,
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
        Self { filters: None, direction: DIRECTION_INOUT, protocol, snaplen }
    }

    /// From now on these instructions decide; `ifindex` is the interface that packets come from.
    ///
    /// # Errors
    /// They are no valid program.
    pub(crate) fn set_filter(&mut self, insns: Vec<Insn>, ifindex: u32) -> Result<(), Error> {
        let program = Program::new(insns)?;
        let bound = |packet_type| Filter::new(program.bound_to(packet_type, ifindex));
        self.filters = Some([PACKET_HOST, PACKET_OUTGOING].map(bound));
        Ok(())
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
        match &self.filters {
            None => self.snaplen,
            Some([incoming, outgoing]) => {
                let filter = if direction == Direction::In { incoming } else { outgoing };
                filter.bytes(data, packet.original_len() as u32).min(self.snaplen)
            }
        }
    }

    fn has_protocol(&self, data: &[u8]) -> bool {
        let type_at = |at: usize| data.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let outer = type_at(12);
        let inner = if outer.is_some_and(|outer| VLAN_TYPES.contains(&outer)) { type_at(16) } else { outer };
        self.protocol == 0 || inner == Some(self.protocol)
    }
}
