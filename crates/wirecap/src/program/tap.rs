//! The two programs of a tap, which pack a copy of each packet, and leave the packet to the host. Both are
//! classifiers, unless packets that come in are to be copied by XDP.
//!
//! ```text
//!   packet ──► not every program is attached yet? ──► left out
//!              it leaves, and the program that captures has sent it? ──► left out
//!              seen += 1, in the CPU's stream; for a CPU that was added later, in counters[CPU]
//!              XDP, and the NIC has taken its VLAN tag off? ──► put back; taken off again at the end
//!              the filter does not want it? ──► filtered += 1
//!              pack it into the blocks of the CPU ── no block has room ──► no_block += 1
//!                                                 └── cannot be packed ──► `unexplained`: only `seen` has it
//!              in any case: on to the next program, and to the host
//! ```
//!
//! Rule: both directions begin at once, so that a file does not have a request whose answer left before the
//! other program was attached. The packet leaves as it came. One program runs on packets that come in, the
//! other one on those that leave; both pack into the same streams, one for each CPU, on which neither
//! interrupts the other.

use wirecap_core::Direction;
use wirecap_filter::ebpf::{self, Length, Splice};
use wirecap_sys::{
    bpf::{
        self, Alu, Assembler, Cond, FrameLength, Helper, Label, Map, MapKind, Program, ProgramKind,
        ProgramSpec, Reg, Size, TCX_NEXT, XDP_PASS, bpf_sock, sk_buff, xdp_md,
    },
    packed::{PackOption, PackSpec, PacketForm},
};

use super::{
    Counters, Packing,
    array::array,
    counters::{FILTERED, NO_BLOCK, SEEN, UNTAGGED, count},
    stamp::StampSource,
    tags::{self, Tags},
};
use crate::{TapHook, filter::PortFilter};

/// Name of both programs in the kernel.
pub(crate) const NAME: &str = "wirecap_tap";
/// Name of the map whose only value says whether they have begun.
const BEGUN: &str = "wirecap_begun";

// On the stack. What [`Tags`] put there lies in the place of the tag.
const KEY: i16 = -4;
const TAG: i16 = -16;
const STAMP: i16 = -24;
const STACK_END: i16 = -24;
const _: () = assert!(tags::STACK_END == TAG && tags::STACK_START == KEY);

/// The programs of a tap, by direction.
#[derive(Debug)]
pub(crate) struct TapPrograms {
    /// Where the program for packets that come in belongs.
    pub(crate) hook: TapHook,
    inbound: Program,
    /// `None` where packets that leave also come in: on the loopback interface.
    outbound: Option<Program>,
    /// Its only value is 0 until both have begun.
    begun: Map,
}

/// What the programs of a tap have to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TapPlan<'a> {
    pub(crate) ifindex: u32,
    /// Number of streams, each with its counters.
    pub(crate) streams: u32,
    pub(crate) outgoing: bool,
    /// Where packets that come in are copied.
    pub(crate) hook: TapHook,
    /// How XDP finds the length of a packet.
    pub(crate) length: FrameLength,
    /// How VLAN tags are put back into packets that XDP copies, if they are.
    pub(crate) tags: Option<Tags>,
    /// How packets are stamped, if they are.
    pub(crate) stamping: Option<StampSource>,
    /// The cookie of a packet socket whose packets are left out.
    pub(crate) own_sender: Option<u64>,
    pub(crate) filter: Option<&'a PortFilter>,
}

impl TapPrograms {
    /// Loads both programs, which pack as `packing` says, and count by these counters.
    pub(crate) fn load(
        packing: &Packing,
        counters: &Counters,
        plan: &TapPlan<'_>,
    ) -> Result<Self, wirecap_filter::Error> {
        let begun = array(MapKind::Array, 4, 1, BEGUN)?;
        let load = |direction, hook| -> Result<_, wirecap_filter::Error> {
            let insns = assemble(packing, (counters, &begun), plan, direction, hook)?;
            let spec = match hook {
                TapHook::Tcx => ProgramSpec::new(ProgramKind::Classifier, NAME, &insns),
                TapHook::Xdp => ProgramSpec {
                    frags: true,
                    bound_to: plan.tags.and_then(Tags::bound_to),
                    ..ProgramSpec::new(ProgramKind::Xdp, NAME, &insns)
                },
            };
            Ok(Program::load(&spec)?)
        };
        let outbound = plan.outgoing.then(|| load(Direction::Out, TapHook::Tcx)).transpose()?;
        Ok(Self { hook: plan.hook, inbound: load(Direction::In, plan.hook)?, outbound, begun })
    }

    /// Both begin to pack, at once. Until then they leave packets out, uncounted.
    pub(crate) fn begin(&self) -> Result<(), bpf::Error> {
        self.begun.update(&0_u32.to_ne_bytes(), &1_u32.to_ne_bytes())
    }

    /// Each program, with the direction in which its packets go.
    pub(crate) fn by_direction(&self) -> impl Iterator<Item = (Direction, &Program)> {
        let outbound = self.outbound.as_ref().map(|program| (Direction::Out, program));
        [(Direction::In, &self.inbound)].into_iter().chain(outbound)
    }
}

fn assemble(
    packing: &Packing,
    (counters, begun): (&Counters, &Map),
    plan: &TapPlan<'_>,
    direction: Direction,
    hook: TapHook,
) -> Result<bpf::Bytecode, wirecap_filter::Error> {
    use Reg::{R0, R1, R6, R7, R10};
    let mut asm = Assembler::new();
    let (next, no_block, left_out) = (asm.label(), asm.label(), asm.label());
    let tags = plan.tags.filter(|_| hook == TapHook::Xdp);
    asm.mov(R6, R1);
    asm.load_map_value(R1, begun, 0).load(Size::Word, R1, R1, 0).jump_if(Cond::Eq, R1, 0, left_out);
    if let Some(tags) = tags {
        tags.emit_begin(&mut asm);
    }
    if let Some(cookie) = plan.own_sender.filter(|_| direction == Direction::Out) {
        emit_leave_out(&mut asm, cookie, next);
    }
    let (added, known) = (asm.label(), asm.label());
    asm.call(Helper::GetSmpProcessorId).mov(R7, R0);
    packing.memory.emit_seen(&mut asm, R7, added);
    asm.jump(known);
    // A CPU that was added later shares a stream, so it counts in the map instead.
    asm.bind(added).alu64(Alu::Mod, R7, plan.streams as i32);
    asm.jump_if(Cond::Ge, R7, plan.streams as i32, next);
    counters.emit_look_up(&mut asm, R7, KEY, next);
    count(&mut asm, R0, SEEN);
    asm.bind(known).store(Size::Word, R10, KEY, R7);
    if hook == TapHook::Tcx {
        emit_tag(&mut asm);
    }
    if let Some(tags) = tags {
        let (failed, done) = (asm.label(), asm.label());
        tags.emit_put_back(&mut asm, failed, done);
        asm.bind(failed);
        counters.emit_count(&mut asm, KEY, UNTAGGED);
        asm.bind(done);
    }
    if let Some(filter) = plan.filter {
        let filter = filter.of_direction(direction, plan.ifindex);
        emit_filter(&mut asm, &filter, counters, plan.length, hook, next)?;
    }
    if let Some(stamping) = plan.stamping {
        stamping.emit_answer(&mut asm, STAMP);
    }
    let (form, verdict) = match hook {
        TapHook::Tcx => (PacketForm::SocketBuffer { tag: TAG }, TCX_NEXT),
        TapHook::Xdp => (PacketForm::Frame(plan.length), XDP_PASS),
    };
    let pack = PackSpec {
        stream: R7,
        interface: packing.interface,
        stamp: plan.stamping.map(|_| STAMP),
        to_utc: packing.to_utc,
        form,
        option: Some(PackOption::Direction(direction)),
        stack_end: STACK_END,
        no_block,
        // With the CPU's stream taken, there is no room for the packet.
        busy: no_block,
        // Only `seen` has counted it, so it is `unexplained`.
        impossible: next,
    };
    packing.memory.emit_pack(&mut asm, &pack);
    asm.jump(next).bind(no_block);
    counters.emit_count(&mut asm, KEY, NO_BLOCK);
    asm.bind(next);
    if let Some(tags) = tags {
        tags.emit_take_off(&mut asm);
    }
    asm.bind(left_out).mov_imm(R0, verdict).exit();
    Ok(asm.finish()?)
}

/// Goes on to `next` with packets of the packet socket with this cookie.
fn emit_leave_out(asm: &mut Assembler, cookie: u64, next: Label) {
    use Reg::{R0, R1, R2, R6};
    let others = asm.label();
    // The call is for the few packets of packet sockets alone.
    asm.load(Size::Double, R1, R6, sk_buff::SK).jump_if(Cond::Eq, R1, 0, others);
    asm.load(Size::Word, R1, R1, bpf_sock::FAMILY).jump_if(Cond::Ne, R1, bpf_sock::AF_PACKET, others);
    asm.mov(R1, R6).call(Helper::GetSocketCookie);
    asm.load_imm64(R2, cookie).jump_if(Cond::Eq, R0, R2, next);
    asm.bind(others);
}

/// Puts the packet's VLAN tag on the stack, as [`PacketForm::SocketBuffer`] wants it.
fn emit_tag(asm: &mut Assembler) {
    use Reg::{R1, R6, R10};
    let untagged = asm.label();
    asm.store_imm(Size::Double, R10, TAG, 0);
    asm.load(Size::Word, R1, R6, sk_buff::VLAN_PRESENT).jump_if(Cond::Eq, R1, 0, untagged);
    asm.load(Size::Word, R1, R6, sk_buff::LEN).jump_if(Cond::Lt, R1, MIN_ETHERNET_BYTES, untagged);
    asm.load(Size::Word, R1, R6, sk_buff::VLAN_PROTO).store(Size::Half, R10, TAG, R1);
    asm.load(Size::Word, R1, R6, sk_buff::VLAN_TCI).store(Size::Word, R10, TAG + 4, R1);
    asm.bind(untagged);
}

/// An Ethernet header.
const MIN_ETHERNET_BYTES: i32 = 14;

/// Counts packets that the filter does not want, and goes on to `next` with them. What it cannot decide is
/// left to user space: packets with a tag beside them, of which the filter would see only the rest, and what
/// lies beyond the first buffer.
fn emit_filter(
    asm: &mut Assembler,
    filter: &wirecap_filter::Filter,
    counters: &Counters,
    length: FrameLength,
    hook: TapHook,
    next: Label,
) -> Result<(), wirecap_filter::Error> {
    use Reg::{R0, R1, R2, R3, R6, R9, R10};
    let (wanted, unwanted) = (asm.label(), asm.label());
    match hook {
        TapHook::Tcx => {
            asm.load(Size::Half, R1, R10, TAG).jump_if(Cond::Ne, R1, 0, wanted);
            asm.load(Size::Word, R9, R6, sk_buff::LEN);
            asm.load(Size::Word, R2, R6, sk_buff::DATA).load(Size::Word, R3, R6, sk_buff::DATA_END);
        }
        TapHook::Xdp => {
            length.emit(asm);
            asm.mov(R9, R0);
            asm.load(Size::Word, R2, R6, xdp_md::DATA).load(Size::Word, R3, R6, xdp_md::DATA_END);
        }
    }
    let splice = Splice {
        matches: wanted,
        rejects: unwanted,
        beyond: wanted,
        length: Length::Register(R9),
        stack_end: STACK_END,
    };
    ebpf::translate(asm, filter.program(), &splice)?;
    asm.bind(unwanted);
    counters.emit_count(asm, KEY, FILTERED);
    asm.jump(next).bind(wanted);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use wirecap_core::{Geometry, PoolId};
    use wirecap_lab::require_root;
    use wirecap_sys::{cpu, packed::PackedMemory};

    use super::*;

    /// A CPU that was added after the start packs into the stream of another one, and counts elsewhere: two
    /// CPUs would overwrite each other's count.
    #[test]
    fn a_cpu_that_was_added_later_counts_in_the_map() {
        if !require_root("program::tap::a_cpu_that_was_added_later_counts_in_the_map") {
            return;
        }
        let geometry = Geometry::new(64, 2, 2048).unwrap();
        let memory = Arc::new(PackedMemory::create([0], geometry).unwrap());
        let packing = Packing {
            memory: Arc::clone(&memory),
            interface: 0,
            names_queue: false,
            has_hashes: false,
            to_utc: true,
        };
        let counters = Counters::new(1).unwrap();
        let plan = TapPlan {
            ifindex: 1,
            streams: 1,
            outgoing: false,
            hook: TapHook::Xdp,
            length: FrameLength::of_kernel(),
            tags: None,
            stamping: Some(StampSource::Clock(Helper::KtimeGetNs)),
            own_sender: None,
            filter: None,
        };
        let programs = TapPrograms::load(&packing, &counters, &plan).unwrap();
        let (mut stream, mut pool, _reader) =
            memory.open_stream(0, PoolId { nic_id: 0, ring_id: 0 }).unwrap().unwrap();
        stream.attach(Some(&mut pool));
        programs.begin().unwrap();
        // The thread ends with the binding.
        let run_on = |core| {
            thread::scope(|scope| {
                let run = || {
                    cpu::pin_to_core(core).unwrap();
                    assert_eq!(programs.inbound.test_run(&[0; 60], 10).unwrap().action as i32, XDP_PASS);
                };
                scope.spawn(run).join().unwrap();
            });
        };
        let seen = || (stream.seen(), counters.of(0).unwrap().seen);
        run_on(0);
        assert_eq!(seen(), (10, 0));
        run_on(1);
        assert_eq!(seen(), (10, 10));
        // All are packed: header, data, direction and trailer.
        assert_eq!(stream.waiting(), 0..20 * (28 + 60 + 12 + 4));
    }
}
