//! The filter of a passive port's socket, which counts what it has seen.
//!
//! ```text
//!   packet ── sent by the host, and only incoming ones are wanted? ──► no
//!          ── seen += 1 ── VLAN tag taken out of it? ──► yes: user space decides, which has the tag back in the packet
//!                      └── the filter ──► matched += 1, yes ──► no
//! ```
//!
//! What it has refused is the difference: a filter that looks beyond the end of a packet ends the program at
//! once.

use wirecap_core::Direction;
use wirecap_filter::{
    Filter,
    ebpf::{SocketSplice, translate_for_socket},
};
use wirecap_sys::bpf::{
    self, Alu, Assembler, Bytecode, Cond, Helper, Map, MapKind, Program, ProgramKind, ProgramSpec, Reg, Size,
};

use super::{
    array::array,
    counters::{NAME, ValuesRoom},
};
use crate::filter::packet_type;

// Offsets in `struct __sk_buff` of <linux/bpf.h>.
const SKB_KIND: i16 = 4;
const SKB_VLAN_PRESENT: i16 = 20;

// Offsets in the value of the counters map.
const SEEN: i16 = 0;
const MATCHED: i16 = 8;
const COUNTERS_BYTES: u32 = 16;

/// The program of one socket.
#[derive(Debug)]
pub(crate) struct SocketFilter {
    pub(crate) program: Program,
    counters: Map,
    room: ValuesRoom,
}

impl SocketFilter {
    /// Loads it. Without `outgoing`, packets that the host sends are not even counted.
    pub(crate) fn load(filter: &Filter, outgoing: bool) -> Result<Self, wirecap_filter::Error> {
        let counters = array(MapKind::PerCpuArray, COUNTERS_BYTES, 1, NAME)?;
        let insns = assemble(&counters, filter, outgoing)?;
        let program = Program::load(&ProgramSpec::new(ProgramKind::SocketFilter, "wirecap", &insns))?;
        Ok(Self { program, counters, room: ValuesRoom::default() })
    }

    /// Packets that were refused so far, on all cores.
    pub(crate) fn refused(&self) -> Result<u64, bpf::Error> {
        self.room.read(&self.counters, 0, |values| {
            // A packet that is in the program right now may be in the one counter only.
            values.sum_u64(SEEN as usize).saturating_sub(values.sum_u64(MATCHED as usize))
        })
    }
}

fn assemble(counters: &Map, filter: &Filter, outgoing: bool) -> Result<Bytecode, wirecap_filter::Error> {
    use Reg::{R0, R1, R2, R6, R9, R10};
    let mut asm = Assembler::new();
    let (matches, rejects) = (asm.label(), asm.label());
    asm.mov(R6, R1);
    if !outgoing {
        asm.load(Size::Word, R1, R6, SKB_KIND);
        asm.jump_if(Cond::Eq, R1, i32::from(packet_type(Direction::Out)), rejects);
    }
    asm.store_imm(Size::Word, R10, -4, 0);
    asm.load_map_fd(R1, counters).mov(R2, R10).alu64(Alu::Add, R2, -4);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(Cond::Eq, R0, 0, rejects);
    asm.mov(R9, R0);
    count(&mut asm, SEEN);
    asm.load(Size::Word, R1, R6, SKB_VLAN_PRESENT);
    asm.jump_if(Cond::Ne, R1, 0, matches);
    // The filter's slots are where the key was.
    translate_for_socket(&mut asm, filter.program(), &SocketSplice { matches, rejects, stack_end: 0 })?;
    asm.bind(matches);
    count(&mut asm, MATCHED);
    // As many bytes as there are.
    asm.mov_imm(R0, -1).exit();
    asm.bind(rejects).mov_imm(R0, 0).exit();
    Ok(asm.finish()?)
}

/// Adds one to a counter of this CPU, behind R9. With an atomic operation, since the program may be
/// interrupted by itself: packets are sent and received on the same CPU.
fn count(asm: &mut Assembler, offset: i16) {
    asm.mov_imm(Reg::R1, 1).atomic_add(Size::Double, Reg::R9, offset, Reg::R1);
}
