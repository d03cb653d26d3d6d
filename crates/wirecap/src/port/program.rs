//! The XDP program of a port, put together at run time.
//!
//! ```text
//!   packet ──► counters[rx_queue].seen += 1        all queues from `queues` on share the last counters
//!              captured queue, longer than a cell holds, and not split? ──► too_long += 1, drop
//!              captured queue, and times of single packets are asked for? ──► a stamp in front of the packet
//!              redirect to sockets[rx_queue] ── no socket there ──► passed += 1, to the host's stack
//! ```
//!
//! Rule: every packet that enters leaves through exactly one counted exit, the redirect being
//! counted by what the socket reports.

use std::os::fd::BorrowedFd;

use wirecap_sys::bpf::{
    Alu, Assembler, Cond, Error, Helper, Insn, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec, Reg,
    Size, XDP_DROP, XDP_PASS, XDP_REDIRECT,
};

use super::stamp::Stamping;

// Offsets in `struct xdp_md` of <linux/bpf.h>.
const MD_DATA: i16 = 0;
const MD_DATA_END: i16 = 4;
const MD_RX_QUEUE_INDEX: i16 = 16;

// Offsets in a value of the counters map.
const SEEN: i16 = 0;
const FILTERED: i16 = 8;
const PASSED: i16 = 16;
const TOO_LONG: i16 = 24;
const UNSTAMPED: i16 = 32;
const COUNTERS_BYTES: u32 = 40;

/// Counters of one queue, summed over the CPUs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProgramCounts {
    pub(crate) seen: u64,
    pub(crate) filtered: u64,
    pub(crate) passed: u64,
    pub(crate) too_long: u64,
    pub(crate) unstamped: u64,
}

/// The program of a port with its maps.
#[derive(Debug)]
pub(crate) struct CaptureProgram {
    pub(crate) program: Program,
    /// One entry for each queue the NIC can have, and one for all others.
    counters: Map,
    sockets: Map,
    /// Queues 0 to `captured` - 1 have sockets.
    captured: u32,
    queues: u32,
}

impl CaptureProgram {
    /// Loads the program for a port that can have `queues` receive queues, of which the first `captured` get
    /// sockets. With `longest_frame` in bytes, longer frames are counted and dropped; without, frames may come
    /// in several buffers. With `stamping`, packets of the captured queues are stamped.
    pub(crate) fn load(
        queues: u32,
        captured: u32,
        longest_frame: Option<u32>,
        stamping: Option<&Stamping>,
    ) -> Result<Self, Error> {
        let counters = Map::create(&MapSpec {
            kind: MapKind::PerCpuArray,
            key_size: 4,
            value_size: COUNTERS_BYTES,
            max_entries: queues + 1,
            name: "wirecap_counts",
        })?;
        let sockets = Map::create(&MapSpec {
            kind: MapKind::XskMap,
            key_size: 4,
            value_size: 4,
            max_entries: queues,
            name: "wirecap_socks",
        })?;
        let insns = assemble(&counters, &sockets, Limits { queues, captured, longest_frame }, stamping)?;
        let spec = ProgramSpec {
            frags: longest_frame.is_none(),
            bound_to: stamping.and_then(Stamping::bound_to),
            ..ProgramSpec::new(ProgramKind::Xdp, "wirecap", &insns)
        };
        Ok(Self { program: Program::load(&spec)?, counters, sockets, captured, queues })
    }

    /// From now on packets of the queue go to this socket.
    pub(crate) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.sockets.set_socket(queue, socket)
    }

    /// The numbers of the queues without a socket. The last stands for all from there on: what no driver should
    /// report, and is counted all the same.
    pub(crate) fn uncaptured(&self) -> std::ops::RangeInclusive<u32> {
        self.captured..=self.queues
    }

    /// The counters of a queue.
    pub(crate) fn counts(&self, queue: u32) -> Result<ProgramCounts, Error> {
        let values = self.counters.lookup_per_cpu(&queue.to_ne_bytes())?;
        let sum = |offset: i16| values.sum_u64(offset as usize);
        Ok(ProgramCounts {
            seen: sum(SEEN),
            filtered: sum(FILTERED),
            passed: sum(PASSED),
            too_long: sum(TOO_LONG),
            unstamped: sum(UNSTAMPED),
        })
    }
}

/// What decides about a packet.
struct Limits {
    queues: u32,
    captured: u32,
    longest_frame: Option<u32>,
}

fn assemble(
    counters: &Map,
    sockets: &Map,
    limits: Limits,
    stamping: Option<&Stamping>,
) -> Result<Vec<Insn>, Error> {
    use Reg::{R0, R1, R2, R3, R6, R7, R8, R10};
    let mut asm = Assembler::new();
    let (pass, known, fits) = (asm.label(), asm.label(), asm.label());

    asm.mov(R6, R1);
    asm.load(Size::Word, R7, R6, MD_RX_QUEUE_INDEX);
    asm.mov(R1, R7);
    asm.jump_if(Cond::Lt, R7, limits.queues as i32, known);
    asm.mov_imm(R1, limits.queues as i32);
    asm.bind(known);
    asm.store(Size::Word, R10, -4, R1);
    asm.load_map_fd(R1, counters).mov(R2, R10).alu64(Alu::Add, R2, -4);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(Cond::Eq, R0, 0, pass);
    asm.mov(R8, R0);
    count(&mut asm, R8, SEEN);

    if let Some(longest) = limits.longest_frame {
        // What is not captured need not fit.
        asm.jump_if(Cond::Ge, R7, limits.captured as i32, fits);
        // Not the length, as data_end - data: the verifier allows a difference of pointers with CAP_PERFMON only.
        asm.load(Size::Word, R1, R6, MD_DATA).load(Size::Word, R2, R6, MD_DATA_END);
        asm.alu64(Alu::Add, R1, longest as i32);
        asm.jump_if(Cond::Le, R2, R1, fits);
        count(&mut asm, R8, TOO_LONG);
        asm.mov_imm(R0, XDP_DROP).exit();
    }

    asm.bind(fits);
    if let Some(stamping) = stamping {
        stamp(&mut asm, limits.captured, stamping);
    }
    asm.load_map_fd(R1, sockets).mov(R2, R7).mov_imm(R3, XDP_PASS);
    asm.call(Helper::RedirectMap);
    let done = asm.label();
    asm.jump_if(Cond::Eq, R0, XDP_REDIRECT, done);
    count(&mut asm, R8, PASSED);
    asm.bind(done);
    asm.exit();

    // Not possible: the key is below the size of the map. The verifier wants to see it.
    asm.bind(pass);
    asm.mov_imm(R0, XDP_PASS).exit();
    asm.finish()
}

/// Stamps packets of captured queues, and counts those that cannot be stamped. The others are the host's, and leave as they
/// came.
fn stamp(asm: &mut Assembler, captured: u32, stamping: &Stamping) {
    let (unstamped, done) = (asm.label(), asm.label());
    asm.jump_if(Cond::Ge, Reg::R7, captured as i32, done);
    stamping.emit(asm, unstamped);
    asm.jump(done);
    asm.bind(unstamped);
    count(asm, Reg::R8, UNSTAMPED);
    asm.bind(done);
}

/// Adds one to a counter. The value is this CPU's own, so no atomic is needed.
fn count(asm: &mut Assembler, counters: Reg, offset: i16) {
    asm.load(Size::Double, Reg::R1, counters, offset);
    asm.alu64(Alu::Add, Reg::R1, 1);
    asm.store(Size::Double, counters, offset, Reg::R1);
}
