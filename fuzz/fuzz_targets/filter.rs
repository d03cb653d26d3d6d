//! Any classic BPF program over any packet: libpcap's `bpf_filter`, the interpreter and native code
//! return the same value, and the program's eBPF assembles.
//!
//! ```text
//!   input: number of instructions, instructions of 8 bytes each, packet
//! ```
//!
//! Codes and jump targets are folded onto existing ones, so that most inputs are valid programs. Jumps may go
//! backward. Since `bpf_filter` may then loop forever, it runs only if the interpreter ends.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/wirecap-filter/tests/differential/trial.rs"]
mod trial;

use libfuzzer_sys::fuzz_target;
use wirecap_filter::{Error, Insn, NativeFilter, Program};
use wirecap_sys::pcap;

use trial::{socket_program, xdp_program};

/// Memory slots in use. Each program writes all of them first, because libpcap before 1.11 does not clear
/// them.
const SLOTS: u32 = 4;

#[rustfmt::skip]
const CODES: [u16; 49] = [
    0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x80, 0x00, 0x60, 0x81, 0xb1, 0x01, 0x61, 0x02, 0x03, 0x04, 0x14, 0x24, 0x34,
    0x44, 0x54, 0x64, 0x74, 0x94, 0xa4, 0x84, 0x0c, 0x1c, 0x2c, 0x3c, 0x4c, 0x5c, 0x6c, 0x7c, 0x9c, 0xac, 0x05, 0x15,
    0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d, 0x06, 0x16, 0x07, 0x87,
];

fuzz_target!(|input: &[u8]| {
    let Some((&count, rest)) = input.split_first() else { return };
    let (code, packet) = rest.split_at(rest.len().min(usize::from(count % 64) * 8));
    let program = Program::new(insns(code)).expect("valid by construction");
    let given = program.insns().expect("no jump is too far for classic BPF");
    let libpcap =
        pcap::library().expect("libpcap is installed").filter(&given).expect("libpcap accepts it, too");
    let native = NativeFilter::new(&program).expect("native code");
    for wirelen in [packet.len() as u32, 1_500, u32::MAX] {
        let decided = program.decide(packet, wirelen);
        let expected = decided.map_or(0, |_| libpcap.run(packet, wirelen));
        assert_eq!(decided.unwrap_or(0), expected, "interpreter: {:?}", program.ops());
        assert_eq!(native.matches(packet, wirelen), expected, "native: {:?}", program.ops());
    }
    for frags in [false, true] {
        let ebpf = xdp_program(&program, frags);
        assert!(matches!(ebpf, Ok(_) | Err(Error::OffsetTooFar { .. } | Error::Loops)), "{ebpf:?}");
        assert_eq!(matches!(ebpf, Err(Error::Loops)), program.loops());
    }
    assert_eq!(socket_program(&program).is_err(), program.loops());
    two_programs_as_one(code, packet);
});

/// What the first half matches and the second one does not.
fn two_programs_as_one(code: &[u8], packet: &[u8]) {
    let halves = code.split_at(code.len() / 2);
    let [wanted, excluded] =
        [halves.0, halves.1].map(|half| Program::new(insns(half)).expect("valid by construction"));
    let Ok(both) = wanted.except(&excluded, 1) else { return };
    // Together, loops have more rounds.
    if !both.loops() {
        let len = packet.len() as u32;
        let expected = wanted.run(packet, len) != 0 && excluded.run(packet, len) == 0;
        assert_eq!(
            both.run(packet, len),
            u32::from(expected),
            "{:?} except {:?}",
            wanted.ops(),
            excluded.ops()
        );
    }
}

fn insns(code: &[u8]) -> Vec<Insn> {
    let mut insns: Vec<_> = (0..SLOTS).map(|slot| Insn::new(0x02, 0, 0, slot)).collect();
    let raw = code.chunks_exact(8);
    let len = insns.len() + raw.len() + 1;
    for bytes in raw {
        let (before, after) = (insns.len() as u32, (len - insns.len() - 2) as u32);
        insns.push(folded(bytes, before, after));
    }
    insns.push(Insn::new(0x16, 0, 0, 0));
    insns
}

/// The instruction in 8 bytes, with `before` instructions before it and `after` after the next one.
fn folded(bytes: &[u8], before: u32, after: u32) -> Insn {
    let code = CODES[usize::from(bytes[0]) % CODES.len()];
    let skip = |byte: u8| (u32::from(byte) % (after + 1)).min(255) as u8;
    let k = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    // One byte chooses whether the constant is small, as in most filters.
    let k = if bytes[1] & 1 == 0 { k % 128 } else { k };
    let k = match code {
        0x02 | 0x03 | 0x60 | 0x61 => k % SLOTS,
        0x34 | 0x94 => k.max(1),
        0x64 | 0x74 => k % 32,
        0x05 if bytes[2] % 4 == 0 => (k % (before + 1)).wrapping_neg().wrapping_sub(1),
        0x05 => k % (after + 1),
        _ => k,
    };
    Insn::new(code, skip(bytes[2]), skip(bytes[3]), k)
}
