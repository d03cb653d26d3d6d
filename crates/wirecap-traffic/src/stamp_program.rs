//! The XDP program that stamps live frames: [`Template::stamp`](crate::Template::stamp) as eBPF.

use wirecap_sys::bpf::{Alu, Assembler, Bytecode, Cond, Error, Helper, Map, Reg, Size, XDP_ABORTED};

use crate::{
    frame::Template,
    layout::{HOST_BITS, IpVersion, PORT_FIRST},
    marks::{MARKS_LEN, Marks},
};

/// Offset in the state map's only value of the next sequence number (u64, written by the program).
const STATE_SEQUENCE: i16 = 0;
/// Offset of the next flow number (u64, written by the program).
const STATE_FLOW: i16 = 8;
/// Offset of the time of the frames, by the system clock (u64 nanoseconds, written by the program). Before
/// each call it is set to 0: the caller may have to wait for a core between reading a clock and the call.
const STATE_TIME: i16 = 16;
/// Offset of how far the system clock is ahead of the monotonic one (u64 nanoseconds, written before each
/// call).
const STATE_AHEAD: i16 = 24;
/// Length of the state in bytes.
pub(crate) const STATE_LEN: u32 = 32;

/// Frames between two readings of the clock: a batch of the kernel, which leaves together.
const FRAMES_PER_LOOK: i32 = 64;

/// The state for another call.
pub(crate) fn without_time(mut state: Vec<u8>, ahead_ns: u64) -> Vec<u8> {
    for (at, value) in [(STATE_TIME, 0), (STATE_AHEAD, ahead_ns)] {
        let at = at as usize;
        state[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    state
}

// Registers with fixed contents.
const DATA: Reg = Reg::R6;
const FLOW: Reg = Reg::R7;
const SEQUENCE: Reg = Reg::R8;
const STATE: Reg = Reg::R9;
const HOST: Reg = Reg::R3;
const PORT: Reg = Reg::R4;
const SCRATCH: Reg = Reg::R5;
const SUM: Reg = Reg::R2;
const NUMBERS: Reg = Reg::R1;
const TIME: Reg = Reg::R0;

/// Assembles the program for frames like `template`'s: stamp with the next sequence number and the next of
/// `flows` flows, then redirect to entry 0 of `devices`.
///
/// The counters are not atomic: [`LiveGenerator`](crate::LiveGenerator) ensures that runs do not overlap.
pub(crate) fn assemble(
    template: &Template,
    flows: u32,
    state: &Map,
    devices: &Map,
) -> Result<Bytecode, Error> {
    let mut asm = Assembler::new();
    let short = asm.label();
    let marks_end = (template.layout.payload + MARKS_LEN) as i32;
    asm.load(Size::Word, DATA, Reg::R1, 0).load(Size::Word, Reg::R2, Reg::R1, 4);
    asm.mov(Reg::R3, DATA).alu64(Alu::Add, Reg::R3, marks_end).jump_if(Cond::Gt, Reg::R3, Reg::R2, short);
    asm.load_map_value(STATE, state, 0);

    take_numbers(&mut asm, flows);
    take_time(&mut asm);
    write_marks(&mut asm, template);
    write_source(&mut asm, template);
    if template.spec().ip == IpVersion::V6 {
        write_udp_checksum(&mut asm, template);
    }
    asm.load_map_fd(Reg::R1, devices)
        .mov_imm(Reg::R2, 0)
        .mov_imm(Reg::R3, XDP_ABORTED)
        .call(Helper::RedirectMap)
        .exit();
    asm.bind(short).mov_imm(Reg::R0, XDP_ABORTED).exit();
    asm.finish()
}

/// Loads FLOW and SEQUENCE from the state, and advances it. Comparing is cheaper than a remainder.
fn take_numbers(asm: &mut Assembler, flows: u32) {
    let same_round = asm.label();
    asm.load(Size::Double, SEQUENCE, STATE, STATE_SEQUENCE);
    asm.mov(SCRATCH, SEQUENCE).alu64(Alu::Add, SCRATCH, 1).store(
        Size::Double,
        STATE,
        STATE_SEQUENCE,
        SCRATCH,
    );
    asm.load(Size::Double, FLOW, STATE, STATE_FLOW).mov(SCRATCH, FLOW).alu64(Alu::Add, SCRATCH, 1);
    asm.jump_if(Cond::Lt, SCRATCH, flows as i32, same_round).mov_imm(SCRATCH, 0);
    asm.bind(same_round).store(Size::Double, STATE, STATE_FLOW, SCRATCH);
}

/// Loads TIME, which one reading of the clock gives for the rest of a batch.
fn take_time(asm: &mut Assembler) {
    let (look, known) = (asm.label(), asm.label());
    asm.mov(SCRATCH, SEQUENCE).alu64(Alu::And, SCRATCH, FRAMES_PER_LOOK - 1);
    asm.jump_if(Cond::Eq, SCRATCH, 0, look);
    asm.load(Size::Double, TIME, STATE, STATE_TIME).jump_if(Cond::Ne, TIME, 0, known);
    asm.bind(look).call(Helper::KtimeGetNs).load(Size::Double, SCRATCH, STATE, STATE_AHEAD);
    asm.alu64(Alu::Add, TIME, SCRATCH).store(Size::Double, STATE, STATE_TIME, TIME);
    asm.bind(known);
}

/// Writes the marks; the magic is already in the frame.
fn write_marks(asm: &mut Assembler, template: &Template) {
    let payload = template.layout.payload as i16;
    asm.load_imm64(NUMBERS, Marks::numbers(template.spec().run, 0)).alu64(Alu::Or, NUMBERS, SEQUENCE);
    asm.mov(SCRATCH, NUMBERS).be64(SCRATCH).store(Size::Double, DATA, payload + 2, SCRATCH);
    asm.mov(SCRATCH, TIME).be64(SCRATCH).store(Size::Double, DATA, payload + 10, SCRATCH);
}

/// Writes source address and port of the flow, and sets HOST and PORT (host byte order).
fn write_source(asm: &mut Assembler, template: &Template) {
    let (ip, udp) = (template.layout.ip as i16, template.layout.transport as i16);
    asm.mov(HOST, FLOW).alu64(Alu::And, HOST, (1 << HOST_BITS) - 1);
    match template.spec().ip {
        IpVersion::V4 => {
            // Identification and address add up to a constant, so the header checksum is constant.
            asm.store(Size::Byte, DATA, ip + 15, HOST);
            asm.mov(SCRATCH, HOST).alu64(Alu::Xor, SCRATCH, 255).store(Size::Byte, DATA, ip + 5, SCRATCH);
        }
        IpVersion::V6 => _ = asm.store(Size::Byte, DATA, ip + 23, HOST),
    }
    asm.mov(PORT, FLOW).alu64(Alu::Rsh, PORT, HOST_BITS as i32).alu64(Alu::Add, PORT, i32::from(PORT_FIRST));
    asm.mov(SCRATCH, PORT).be16(SCRATCH).store(Size::Half, DATA, udp, SCRATCH);
}

/// Computes the checksum from its constant part and the varying fields. Adding 32-bit halves is equivalent to
/// adding 16-bit words, since 2^16 is 1 modulo 0xffff.
fn write_udp_checksum(asm: &mut Assembler, template: &Template) {
    asm.mov_imm(SUM, i32::from(template.constant_sum));
    asm.alu64(Alu::Add, SUM, HOST).alu64(Alu::Add, SUM, PORT);
    for number in [NUMBERS, TIME] {
        asm.alu32(Alu::Mov, SCRATCH, number).alu64(Alu::Add, SUM, SCRATCH);
        asm.mov(SCRATCH, number).alu64(Alu::Rsh, SCRATCH, 32).alu64(Alu::Add, SUM, SCRATCH);
    }
    // Below 2^35 before the first fold, below 2^20 after it, below 2^16 + 16 after the second.
    for _ in 0..3 {
        asm.mov(SCRATCH, SUM).alu64(Alu::Rsh, SCRATCH, 16).alu64(Alu::And, SUM, 0xffff).alu64(
            Alu::Add,
            SUM,
            SCRATCH,
        );
    }
    let not_zero = asm.label();
    asm.alu64(Alu::Xor, SUM, 0xffff).jump_if(Cond::Ne, SUM, 0, not_zero).mov_imm(SUM, 0xffff);
    asm.bind(not_zero).be16(SUM).store(Size::Half, DATA, template.layout.transport as i16 + 6, SUM);
}
