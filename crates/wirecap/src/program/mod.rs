//! The XDP program of a port, put together at run time.
//!
//! ```text
//!   packet ──► counters[rx_queue].seen += 1        all queues from `queues` on share the last counters
//!              captured queue, and the NIC has taken its VLAN tag off? ──► put back; taken off again on the way to the host
//!              captured queue, and the filter does not want it? ──► filtered += 1, to the host's stack or drop
//!              captured queue, longer than a cell holds, and not split? ──► too_long += 1, drop
//!              captured queue, and times of single packets are asked for? ──► a stamp in front of the packet
//!              captured queue, and the NIC's hash is asked for? ──► in front of that
//!              redirect to sockets[rx_queue] ── no socket there ──► passed += 1, to the host's stack
//!          or  pack it into the blocks of the queue ── no block has room ──► no_block += 1, drop
//! ```
//!
//! Rule: every packet that enters leaves through exactly one counted exit, the redirect being
//! counted by what the socket reports.

mod array;
mod counters;
mod gate;
mod metadata;
mod packing;
pub(crate) mod rx_hash;
pub(crate) mod socket_filter;
pub(crate) mod stamp;
pub(crate) mod tags;
pub(crate) mod tap;

use std::sync::Arc;

use wirecap_filter::ebpf::{self, Length, Splice};
use wirecap_sys::{
    bpf::{
        self, Alu, Assembler, Bytecode, Cond, FrameLength, Helper, Label, Map, MapKind, Program, ProgramKind,
        ProgramSpec, Reg, Size, XDP_DROP, XDP_PASS, XDP_REDIRECT, xdp_md,
    },
    packed::{PackOption, PackSpec, PacketForm},
    xsk::Socket,
};

pub(crate) use self::{array::array, counters::Counters, packing::Packing};
use self::{
    counters::{FILTERED, NO_BLOCK, PASSED, SEEN, TOO_LONG, UNHASHED, UNSTAMPED, UNTAGGED, count},
    gate::Gate,
    rx_hash::RxHashing,
    stamp::{STAMP_BYTES, StampSource},
    tags::Tags,
};
use crate::{UnmatchedPolicy, filter::PortFilter, packet::rx_hash::HASH_BYTES, report::QueueCounts};

/// On the stack: the driver's time of a packet that was asked for before the packet is changed.
const ASKED_TIME: i16 = tags::STACK_END - 8;
const _: () = assert!(rx_hash::STACK_END == ASKED_TIME - 8, "no answer lies over another one");

/// Name of the program in the kernel.
pub(crate) const NAME: &str = "wirecap";

/// The program of a port with its maps.
#[derive(Debug)]
pub(crate) struct CaptureProgram {
    pub(crate) program: Program,
    /// Stands for it in the table of a dispatcher, if it packs packets.
    gate: Option<Gate>,
    /// Takes its place at the end: it leaves all packets to the host. The interface may require the same of
    /// both, so it takes packets of several buffers if the other does.
    pub(crate) leave_all: Program,
    /// One entry for each queue the NIC can have, and one for all others.
    pub(crate) counters: Arc<Counters>,
    outlet: Outlet,
    /// Queues 0 to `captured` - 1 have sockets.
    captured: u32,
    queues: u32,
}

/// Where packets of captured queues go.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// To the socket of their queue, in this map.
    Sockets(Map),
    /// Into the blocks of their queue.
    Blocks(Packing),
}

impl Outlet {
    /// For sockets of queues below this number.
    pub(crate) fn sockets(queues: u32) -> Result<Self, bpf::Error> {
        array(MapKind::XskMap, 4, queues, "wirecap_socks").map(Outlet::Sockets)
    }

    /// The map of sockets, if there is one.
    fn map(&self) -> Option<&Map> {
        match self {
            Outlet::Sockets(map) => Some(map),
            Outlet::Blocks(_) => None,
        }
    }
}

/// What the program of a port has to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramPlan {
    /// Receive queues the port can have.
    pub(crate) queues: u32,
    /// This number of them, from the first one on, get sockets.
    pub(crate) captured: u32,
    /// Longer frames, in bytes, are counted and dropped; without it, frames may come in several buffers.
    pub(crate) longest_frame: Option<u32>,
    /// Whether the dispatcher that runs the program, for captured queues only, takes packets of several
    /// buffers: see `shared/`. `None` without a dispatcher.
    pub(crate) share: Option<bool>,
    /// How the program finds the length of a packet that may lie in several buffers.
    pub(crate) length: FrameLength,
    /// How packets of the captured queues are stamped, if they are.
    pub(crate) stamping: Option<StampSource>,
    /// How VLAN tags are put back into packets of the captured queues, if they are.
    pub(crate) tags: Option<Tags>,
    /// How packets of the captured queues get the NIC's hash, if they do.
    pub(crate) hashing: Option<RxHashing>,
}

impl ProgramPlan {
    /// Whether the program gets packets of several buffers.
    pub(crate) fn frags(&self) -> bool {
        self.share.unwrap_or(self.longest_frame.is_none())
    }

    /// Whether tags are put back, or hashes asked for, before the filter sees the packet.
    fn asks_first(&self) -> bool {
        self.tags.is_some() || self.hashing.is_some()
    }

    /// Bytes of the stamp in front of a packet.
    fn stamp_bytes(&self) -> i32 {
        if self.stamping.is_some() { STAMP_BYTES } else { 0 }
    }

    /// How far in front of a packet its hash begins, in bytes, if it has one.
    pub(crate) fn hash_at(&self) -> Option<u32> {
        self.hashing.map(|_| (self.stamp_bytes() + HASH_BYTES) as u32)
    }

    /// The interface that the program must be bound to, if it asks the driver.
    fn bound_to(&self) -> Option<u32> {
        self.stamping
            .and_then(StampSource::bound_to)
            .or(self.tags.and_then(Tags::bound_to))
            .or(self.hashing.map(|hashing| hashing.ifindex))
    }
}

impl CaptureProgram {
    /// Loads the program, with a filter in it if there is one.
    pub(crate) fn load(
        plan: ProgramPlan,
        outlet: Outlet,
        filter: Option<&PortFilter>,
    ) -> Result<Self, wirecap_filter::Error> {
        let ProgramPlan { queues, captured, .. } = plan;
        let counters = Arc::new(Counters::new(queues + 1)?);
        let insns = assemble(&counters, &outlet, plan, filter)?;
        let spec = ProgramSpec {
            frags: plan.frags(),
            bound_to: plan.bound_to(),
            ..ProgramSpec::new(ProgramKind::Xdp, NAME, &insns)
        };
        let mut pass = Assembler::new();
        pass.mov_imm(Reg::R0, XDP_PASS).exit();
        let pass = pass.finish()?;
        let pass = ProgramSpec { frags: plan.frags(), ..ProgramSpec::new(ProgramKind::Xdp, NAME, &pass) };
        let (program, leave_all) = (Program::load(&spec)?, Program::load(&pass)?);
        let gate = match (&outlet, plan.share) {
            (Outlet::Blocks(_), Some(frags)) => Some(Gate::to(&program, frags)?),
            _ => None,
        };
        Ok(Self { program, gate, leave_all, counters, outlet, captured, queues })
    }

    /// What stands in the table of a dispatcher.
    pub(crate) fn entrance(&self) -> &Program {
        self.gate.as_ref().map_or(&self.program, |gate| &gate.program)
    }

    /// From now on packets of the queue go to this socket.
    pub(crate) fn set_socket(&self, queue: u32, socket: &Socket) -> Result<(), bpf::Error> {
        self.outlet.map().map_or(Ok(()), |sockets| socket.put_into(sockets, queue))
    }

    /// The numbers of the queues without a socket. The last stands for all higher numbers, which no driver
    /// should report, and is counted nevertheless.
    pub(crate) fn uncaptured(&self) -> std::ops::RangeInclusive<u32> {
        self.captured..=self.queues
    }

    /// The counters of a queue, summed over the CPUs; those of its socket are 0.
    pub(crate) fn counts(&self, queue: u32) -> Result<QueueCounts, bpf::Error> {
        self.counters.of(queue)
    }
}

fn assemble(
    counters: &Counters,
    outlet: &Outlet,
    plan: ProgramPlan,
    filter: Option<&PortFilter>,
) -> Result<Bytecode, wirecap_filter::Error> {
    use Reg::{R0, R1, R2, R6, R7, R8, R10};
    let mut asm = Assembler::new();
    let (pass, known, keep, to_host) = (asm.label(), asm.label(), asm.label(), asm.label());

    asm.mov(R6, R1);
    asm.load(Size::Word, R7, R6, xdp_md::RX_QUEUE_INDEX);
    asm.mov(R1, R7);
    asm.jump_if(Cond::Lt, R7, plan.queues as i32, known);
    asm.mov_imm(R1, plan.queues as i32);
    asm.bind(known);
    counters.emit_look_up(&mut asm, R1, -4, pass);
    asm.mov(R8, R0);
    count(&mut asm, R8, SEEN);

    // Before any way to the host: what leaves for it is looked at for a tag that was put back.
    if let Some(tags) = plan.tags {
        tags.emit_begin(&mut asm);
    }
    if let (Some(_), Some(sockets)) = (plan.share, outlet.map()) {
        // The program stays in the dispatcher's table when its process is killed: the host gets all packets
        // then.
        asm.store(Size::Word, R10, -4, R7);
        asm.load_map_fd(R1, sockets).mov(R2, R10).alu64(Alu::Add, R2, -4);
        asm.call(Helper::MapLookupElem);
        asm.jump_if(Cond::Eq, R0, 0, to_host);
    }
    if filter.is_some() || plan.longest_frame.is_some() || plan.asks_first() {
        // What is not captured need not be wanted, nor fit.
        asm.jump_if(Cond::Ge, R7, plan.captured as i32, keep);
    }
    // Drivers may have what they know in front of the packet: they are asked before anything is written
    // there.
    if let Some(hashing) = plan.hashing {
        hashing.emit_ask(&mut asm);
    }
    if let Some(tags) = plan.tags {
        if let Some(stamping) = plan.stamping {
            stamping.emit_ask(&mut asm, ASKED_TIME);
        }
        let (failed, done) = (asm.label(), asm.label());
        tags.emit_put_back(&mut asm, failed, done);
        asm.bind(failed);
        count(&mut asm, R8, UNTAGGED);
        asm.bind(done);
    }
    if let Some(filter) = filter {
        sift(&mut asm, filter, plan)?;
    }
    if let Some(longest) = plan.longest_frame {
        if plan.frags() {
            // Others may want packets of several buffers, and the bounds in the context are those of the
            // first.
            plan.length.emit(&mut asm);
            asm.jump_if(Cond::Le, R0, longest as i32, keep);
        } else {
            // Not the length, as data_end - data: the verifier allows a difference of pointers with
            // CAP_PERFMON only.
            asm.load(Size::Word, R1, R6, xdp_md::DATA).load(Size::Word, R2, R6, xdp_md::DATA_END);
            asm.alu64(Alu::Add, R1, longest as i32);
            asm.jump_if(Cond::Le, R2, R1, keep);
        }
        count(&mut asm, R8, TOO_LONG);
        asm.mov_imm(R0, XDP_DROP).exit();
    }

    asm.bind(keep);
    let done = asm.label();
    match outlet {
        Outlet::Sockets(sockets) => {
            redirect(&mut asm, sockets, plan);
            asm.jump_if(Cond::Eq, R0, XDP_REDIRECT, done);
        }
        Outlet::Blocks(packing) => {
            asm.jump_if(Cond::Ge, R7, plan.captured as i32, to_host);
            pack(&mut asm, packing, plan);
        }
    }
    asm.bind(to_host);
    if let Some(tags) = plan.tags {
        tags.emit_take_off(&mut asm);
    }
    count(&mut asm, R8, PASSED);
    asm.mov_imm(R0, XDP_PASS);
    asm.bind(done);
    asm.exit();

    // Not possible: the key is below the size of the map. The verifier wants to see it.
    asm.bind(pass);
    asm.mov_imm(R0, XDP_PASS).exit();
    Ok(asm.finish()?)
}

/// Marks the packet and sends it to the socket of its queue. Without one, R0 is [`XDP_PASS`].
fn redirect(asm: &mut Assembler, sockets: &Map, plan: ProgramPlan) {
    use Reg::{R1, R2, R3, R7};
    if let Some(stamping) = plan.stamping {
        let asked = plan.tags.map(|_| ASKED_TIME);
        mark(asm, plan.captured, UNSTAMPED, |asm, failed| stamping.emit(asm, failed, asked));
    }
    if let Some(hashing) = plan.hashing {
        let behind = plan.stamp_bytes();
        mark(asm, plan.captured, UNHASHED, |asm, failed| hashing.emit_write(asm, behind, failed));
    }
    asm.load_map_fd(R1, sockets).mov(R2, R7).mov_imm(R3, XDP_PASS);
    asm.call(Helper::RedirectMap);
}

/// Packs the packet into the blocks of its queue, and ends.
fn pack(asm: &mut Assembler, packing: &Packing, plan: ProgramPlan) {
    use Reg::{R0, R7, R8};
    if let Some(stamping) = plan.stamping {
        if plan.tags.is_none() {
            stamping.emit_ask(asm, ASKED_TIME);
        }
        stamping.emit_answer(asm, ASKED_TIME);
        count_if_none(asm, ASKED_TIME, UNSTAMPED);
    }
    if plan.hashing.is_some() {
        count_if_none(asm, rx_hash::ANSWER, UNHASHED);
    }
    let (no_block, impossible) = (asm.label(), asm.label());
    let stamp = plan.stamping.map(|_| ASKED_TIME);
    let option = match plan.hashing {
        Some(_) => Some(PackOption::Hash(rx_hash::ANSWER)),
        None => packing.names_queue.then_some(PackOption::Queue),
    };
    let pack = PackSpec {
        stream: R7,
        interface: packing.interface,
        stamp,
        to_utc: packing.to_utc,
        form: PacketForm::Frame(plan.length),
        option,
        stack_end: rx_hash::STACK_END,
        no_block,
        busy: impossible,
        impossible,
    };
    packing.memory.emit_pack(asm, &pack);
    asm.mov_imm(R0, XDP_DROP).exit();
    asm.bind(no_block);
    count(asm, R8, NO_BLOCK);
    asm.mov_imm(R0, XDP_DROP).exit();
    // Shown by the kernel as a program's defect, and in the account as unexplained.
    asm.bind(impossible).mov_imm(R0, bpf::XDP_ABORTED).exit();
}

/// Counts packets that the filter does not want, and ends. With the others, the program goes on. What the
/// filter cannot decide from the first buffer is left to user space.
fn sift(asm: &mut Assembler, filter: &PortFilter, plan: ProgramPlan) -> Result<(), wirecap_filter::Error> {
    use Reg::{R0, R2, R3, R6, R8, R9};
    let (wanted, unwanted) = (asm.label(), asm.label());
    let (length, beyond) = if plan.frags() {
        plan.length.emit(asm);
        asm.mov(R9, R0);
        (Length::Register(R9), wanted)
    } else {
        (Length::FirstBuffer, unwanted)
    };
    asm.load(Size::Word, R2, R6, xdp_md::DATA).load(Size::Word, R3, R6, xdp_md::DATA_END);
    // The filter's slots are where the key of the counters was.
    let stack_end = if plan.asks_first() { rx_hash::STACK_END } else { 0 };
    let splice = Splice { matches: wanted, rejects: unwanted, beyond, length, stack_end };
    ebpf::translate(asm, filter.filter.program(), &splice)?;
    asm.bind(unwanted);
    count(asm, R8, FILTERED);
    let action = match filter.unmatched {
        UnmatchedPolicy::Pass => XDP_PASS,
        UnmatchedPolicy::Drop => XDP_DROP,
    };
    if let (Some(tags), UnmatchedPolicy::Pass) = (plan.tags, filter.unmatched) {
        tags.emit_take_off(asm);
    }
    asm.mov_imm(R0, action).exit();
    asm.bind(wanted);
    Ok(())
}

/// Emits code for packets of captured queues, which jumps to its label where it fails, and counts that. The
/// others are the host's, and leave as they came.
fn mark(asm: &mut Assembler, captured: u32, failures: i16, emit: impl FnOnce(&mut Assembler, Label)) {
    let (failed, done) = (asm.label(), asm.label());
    asm.jump_if(Cond::Ge, Reg::R7, captured as i32, done);
    emit(asm, failed);
    asm.jump(done);
    asm.bind(failed);
    count(asm, Reg::R8, failures);
    asm.bind(done);
}

/// Counts a packet of which the double word on the stack is 0: no answer.
fn count_if_none(asm: &mut Assembler, answer: i16, counter: i16) {
    let is_there = asm.label();
    asm.load(Size::Double, Reg::R1, Reg::R10, answer).jump_if(Cond::Ne, Reg::R1, 0, is_there);
    count(asm, Reg::R8, counter);
    asm.bind(is_there);
}

#[cfg(test)]
mod linux_5_18_tests;
