//! Programs that no compiler writes, over packets that no host sends.

use proptest::collection::vec;
use proptest::prelude::*;
use wirecap_filter::{Error, Insn, NativeFilter, Program};
use wirecap_sys::pcap;

use crate::sockets;
use crate::trial::{Verdict, trial, trial_for_socket};

/// The number of slots used. Programs write them first: before libpcap 1.11 an unwritten slot holds anything.
const SLOTS: u32 = 3;

#[rustfmt::skip]
const CODES: [u16; 47] = [
    0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x80, 0x00, 0x60, 0x81, 0xb1, 0x01, 0x61, 0x02, 0x03, 0x04, 0x14, 0x24, 0x34,
    0x44, 0x54, 0x64, 0x74, 0x94, 0xa4, 0x84, 0x0c, 0x1c, 0x2c, 0x3c, 0x4c, 0x5c, 0x6c, 0x7c, 0x9c, 0xac, 0x05, 0x15,
    0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d, 0x07, 0x87,
];

/// Mostly small numbers, as in filters; now and then the limits of 16 and 32 bits.
fn constant() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0..80_u32,
        2 => 0..2_000_u32,
        1 => prop::sample::select(vec![0x7ffe, 0x7fff, 0x8000, 0xffff, 0x1_0000, 0xffff_f000, u32::MAX - 1, u32::MAX]),
        1 => any::<u32>(),
    ]
}

fn insns() -> impl Strategy<Value = Vec<Insn>> {
    let returns = prop_oneof![Just(0x06_u16), Just(0x16)];
    let body = prop_oneof![12 => prop::sample::select(CODES.to_vec()), 1 => returns.clone()];
    let body = vec((body, any::<u8>(), any::<u8>(), constant()), 0..40);
    (body, returns, constant()).prop_map(|(body, end, k)| {
        let mut insns: Vec<_> = (0..SLOTS).map(|slot| Insn::new(0x02, 0, 0, slot)).collect();
        let len = insns.len() + body.len() + 1;
        for (code, jt, jf, k) in body {
            let behind = (len - insns.len() - 2) as u32;
            insns.push(valid(code, jt, jf, k, (insns.len() as u32, behind)));
        }
        insns.push(Insn::new(end, 0, 0, k));
        insns
    })
}

/// The nearest valid instruction, with `before` instructions before it and `behind` after the next one.
fn valid(code: u16, jt: u8, jf: u8, k: u32, (before, behind): (u32, u32)) -> Insn {
    let near = |skip: u8| (u32::from(skip % 8)).min(behind) as u8;
    let k = match code {
        0x02 | 0x03 | 0x60 | 0x61 => k % SLOTS,
        0x34 | 0x94 => k.max(1),
        0x64 | 0x74 => k % 32,
        // Back to an earlier instruction, or to this one.
        0x05 if jf % 4 == 0 => (-1 - i64::from(k % (before + 1))) as u32,
        0x05 => (k % 8).min(behind),
        _ => k,
    };
    Insn::new(code, near(jt), near(jf), k)
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![2 => 0..20_u8, 1 => any::<u8>()];
    prop_oneof![4 => vec(byte.clone(), 0..90), 1 => vec(byte, 0..2_100)]
}

fn same_everywhere(insns: Vec<Insn>, packets: &[(Vec<u8>, u32)]) {
    let program = Program::new(insns).unwrap();
    let insns = program.insns().unwrap();
    let libpcap = pcap::library().unwrap().filter(&insns).unwrap();
    let native = NativeFilter::new(&program).unwrap();
    for (packet, wirelen) in packets {
        // `bpf_filter` may loop forever where our run is cut off.
        let expected = program.decide(packet, *wirelen).map_or(0, |_| libpcap.run(packet, *wirelen));
        assert_eq!(program.run(packet, *wirelen), expected, "interpreter");
        assert_eq!(native.matches(packet, *wirelen), expected, "native code");
    }
}

fn same_in_the_kernel(insns: Vec<Insn>, packets: &[Vec<u8>]) {
    let program = Program::new(insns).unwrap();
    let socket = match trial_for_socket(&program) {
        Ok(socket) => socket,
        Err(Error::Loops) if program.loops() => {
            return assert!(matches!(trial(&program, true), Err(Error::Loops)));
        }
        Err(error) => panic!("{error}"),
    };
    for packet in packets.iter().filter(|packet| !packet.is_empty()) {
        let expected = program.run(packet, packet.len() as u32) != 0;
        assert_eq!(sockets::verdict(&socket, packet), expected, "socket filter, {packet:02x?}");
    }
    let kernel = match trial(&program, false) {
        Ok(kernel) => kernel,
        Err(Error::OffsetTooFar { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    for packet in packets.iter().filter(|packet| packet.len() >= 14) {
        let expected = program.run(packet, packet.len() as u32) != 0;
        let action = kernel.test_run(packet, 1).unwrap().action;
        assert_eq!(action == Verdict::Matches as u32, expected, "{packet:02x?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 4_000 }))]

    #[test]
    fn programs_mean_the_same_everywhere(
        insns in insns(),
        packets in vec((packet(), 0..3_000_u32), 1..12),
    ) {
        same_everywhere(insns, &packets);
    }
}

#[test]
fn programs_mean_the_same_in_the_kernel() {
    if !wirecap_lab::require_root("programs_mean_the_same_in_the_kernel") {
        return;
    }
    let cases = if cfg!(debug_assertions) { 150 } else { 1_000 };
    proptest!(ProptestConfig::with_cases(cases), |(insns in insns(), packets in vec(packet(), 1..6))| {
        same_in_the_kernel(insns, &packets);
    });
}
