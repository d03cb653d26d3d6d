//! `protochain`, which libpcap compiles to a loop over the headers of a packet: the results are those of
//! `bpf_filter` where it ends, and runs end where it never would.

use std::collections::HashSet;

use wirecap_filter::{Alu, Cond, DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET, NativeFilter};
use wirecap_filter::{Op, Operand, Program, Register, Size};
use wirecap_sys::pcap;

use crate::packets::Draw;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ESP: u8 = 50;
const AUTHENTICATION: u8 = 51;
const NONE: u8 = 59;
const DESTINATION: u8 = 60;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_HEADER_BYTES: u8 = 40;
const DLT_RAW: u16 = 12;

/// An IPv6 packet of these headers, each with its length byte, followed by the protocol `last`.
fn chain(headers: &[(u8, u8)], last: u8) -> Vec<u8> {
    let kinds = headers.iter().map(|header| header.0).chain([last]);
    let mut packet = vec![0x60, 0, 0, 0, 1, 0, kinds.clone().next().unwrap(), 64];
    packet.extend([0xfd; 32]);
    for (&(kind, len), next) in headers.iter().zip(kinds.skip(1)) {
        let bytes =
            if kind == AUTHENTICATION { (usize::from(len) + 2) * 4 } else { (usize::from(len) + 1) * 8 };
        packet.extend([next, len]);
        packet.resize(packet.len() + bytes - 2, 0xaa);
    }
    packet.extend([0; 20]);
    packet
}

/// An IPv4 packet of `words` times 4 bytes of header, `protocol` and a payload.
fn ipv4(words: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x40 | words, 0, 0, 100, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.resize(usize::from(words) * 4, 1);
    [&packet, payload].concat()
}

fn raw(expression: &str) -> Filter {
    Filter::compile(expression, DLT_RAW, DEFAULT_SNAPLEN).unwrap()
}

/// The verdict of all back ends; `None` if the run was cut off, which is right only for an endless loop.
fn agreed(filter: &Filter, packet: &[u8]) -> Option<bool> {
    let (program, len) = (filter.program(), packet.len() as u32);
    let native = NativeFilter::new(program).unwrap().matches(packet, len);
    assert_eq!(native, program.run(packet, len), "{}: {packet:02x?}", filter.expression());
    let Some(decided) = program.decide(packet, len) else {
        assert!(never_ends(program, packet), "{}: {packet:02x?}", filter.expression());
        assert_eq!(native, 0);
        return None;
    };
    let expected = pcap::library().unwrap().filter(&program.insns().unwrap()).unwrap().run(packet, len);
    assert_eq!(decided, expected, "{}: {packet:02x?}", filter.expression());
    Some(decided != 0)
}

/// Whether a run returns to an earlier place with the same registers and slots. Knows only the operations of
/// `protochain`.
fn never_ends(program: &Program, packet: &[u8]) -> bool {
    let (mut at, mut a, mut x, mut slots) = (0, 0_u32, 0_u32, [0; 16]);
    let mut been = HashSet::new();
    while been.insert((at, a, x, slots)) {
        let byte = |offset: u64| packet.get(offset as usize).copied().map(u32::from);
        let mut next = at + 1;
        match program.ops()[at] {
            Op::LoadAbsolute { size: Size::Byte, offset } => {
                let Some(loaded) = byte(offset.into()) else { return false };
                a = loaded;
            }
            Op::LoadIndirect { size: Size::Byte, offset } => {
                let Some(loaded) = byte(u64::from(x) + u64::from(offset)) else { return false };
                a = loaded;
            }
            Op::LoadHeaderLength { offset } => x = byte(offset.into()).unwrap() % 16 * 4,
            Op::LoadConstant(Register::X, k) => x = k,
            Op::LoadMemory(Register::A, slot) => a = slots[slot],
            Op::Store(Register::A, slot) => slots[slot] = a,
            Op::Alu(Alu::Add, Operand::K(k)) => a = a.wrapping_add(k),
            Op::Alu(Alu::Add, Operand::X) => a = a.wrapping_add(x),
            Op::Alu(Alu::Mul, Operand::K(k)) => a = a.wrapping_mul(k),
            Op::Alu(Alu::And, Operand::K(k)) => a &= k,
            Op::Copy { from: Register::A } => x = a,
            Op::Copy { from: Register::X } => a = x,
            Op::Jump(target) => next = target,
            Op::JumpIf { cond: Cond::Eq, operand: Operand::K(k), then, otherwise } => {
                next = if a == k { then } else { otherwise };
            }
            Op::Return(_) => return false,
            other => panic!("{other:?} in a protochain"),
        }
        at = next;
    }
    true
}

#[test]
fn a_protocol_is_found_behind_any_chain_of_headers() {
    let all = [(HOP_BY_HOP, 0), (DESTINATION, 1), (ROUTING, 2), (FRAGMENT, 0), (DESTINATION, 3)];
    for count in 0..=all.len() {
        let packet = chain(&all[..count], TCP);
        assert_eq!(agreed(&raw("ip6 protochain 6"), &packet), Some(true), "{count}");
        assert_eq!(agreed(&raw("protochain 6"), &packet), Some(true), "{count}");
        assert_eq!(agreed(&raw("not ip6 protochain 6"), &packet), Some(false), "{count}");
        assert_eq!(agreed(&raw("ip6 protochain 17"), &packet), Some(false), "{count}");
        assert_eq!(agreed(&raw("ip6 protochain 44"), &packet), Some(count > 3), "{count}");
        assert_eq!(agreed(&raw("ip protochain 6"), &packet), Some(false), "{count}");
    }
    assert_eq!(agreed(&raw("ip6 protochain 6"), &chain(&[(HOP_BY_HOP, 0)], NONE)), Some(false));
    assert_eq!(agreed(&raw("ip6 protochain 59"), &chain(&[(HOP_BY_HOP, 0)], NONE)), Some(true));
    assert_eq!(agreed(&raw("ip6 protochain 50"), &chain(&[(DESTINATION, 5)], ESP)), Some(true));
}

/// libpcap sets X to the length of an authentication header instead of adding it: the result is right only
/// where both are the same.
#[test]
fn authentication_headers_are_followed_as_libpcap_does() {
    // This length leads 8 bytes past the beginning of the payload: (n + 2) × 4.
    let behind_ipv4 = [vec![UDP, 5], vec![0; 26]].concat();
    assert_eq!(agreed(&raw("ip protochain 51"), &ipv4(5, AUTHENTICATION, &behind_ipv4)), Some(true));
    assert_eq!(agreed(&raw("ip protochain 17"), &ipv4(5, AUTHENTICATION, &behind_ipv4)), Some(true));
    assert_eq!(agreed(&raw("ip protochain 6"), &ipv4(7, AUTHENTICATION, &behind_ipv4)), Some(false));
    let two = [vec![AUTHENTICATION, 5], vec![0; 6], vec![TCP, 9], vec![0; 30]].concat();
    assert_eq!(agreed(&raw("ip protochain 6"), &ipv4(5, AUTHENTICATION, &two)), Some(true));
    let packet = chain(&[(DESTINATION, 0), (AUTHENTICATION, 4)], TCP);
    assert_eq!(agreed(&raw("ip6 protochain 51"), &packet), Some(true));
    assert_eq!(agreed(&raw("ip6 protochain 6"), &packet), Some(true));
}

#[test]
fn headers_cut_short_or_outside_the_packet_are_not_found() {
    let whole = chain(&[(HOP_BY_HOP, 0), (ROUTING, 1), (FRAGMENT, 0)], TCP);
    for len in 0..whole.len() {
        let found = agreed(&raw("ip6 protochain 6"), &whole[..len]);
        // The last header has to be there, with its length byte; it begins at byte 64.
        assert_eq!(found, Some(len >= 66), "{len}");
    }
    let mut far = whole;
    far[41] = 255;
    assert_eq!(agreed(&raw("ip6 protochain 6"), &far), Some(false), "the header is beyond the end");
    let zeros = [vec![0x60, 0, 0, 0, 0, 0, HOP_BY_HOP], vec![0; 5_000]].concat();
    assert_eq!(agreed(&raw("ip6 protochain 6"), &zeros), Some(false), "600 headers of 8 bytes");
}

/// An authentication header that points back: `bpf_filter` loops forever.
#[test]
fn an_endless_chain_is_cut_off() {
    // An authentication header at byte 40, of (8 + 2) × 4 bytes.
    let itself = chain(&[(AUTHENTICATION, IPV6_HEADER_BYTES / 4 - 2)], AUTHENTICATION);
    for expression in ["ip6 protochain 6", "protochain 6", "not protochain 6", "protochain 17 or ip6"] {
        assert_eq!(agreed(&raw(expression), &itself), None, "{expression}");
    }
    assert_eq!(agreed(&raw("ip6 protochain 51"), &itself), Some(true));
    assert_eq!(agreed(&raw("ip6 or protochain 6"), &itself), Some(true), "the loop is not reached");
    let mut over_another = chain(&[(HOP_BY_HOP, 0), (AUTHENTICATION, 8)], AUTHENTICATION);
    over_another[48] = HOP_BY_HOP;
    assert_eq!(agreed(&raw("ip6 protochain 6"), &over_another), None);
    let behind_ipv4 = [vec![AUTHENTICATION, 3], vec![0; 30]].concat();
    assert_eq!(agreed(&raw("ip protochain 17"), &ipv4(5, AUTHENTICATION, &behind_ipv4)), None);
}

/// Only headers that lead to others, forward and back: a run that is cut off has no end, and one that ends
/// has the same verdict.
#[test]
fn in_a_maze_of_headers_every_run_that_ends_has_the_same_verdict() {
    let filters =
        ["ip6 protochain 6", "ip protochain 6", "protochain 17", "ip6 protochain 44 or not ip protochain 6"];
    let mut draw = Draw(3);
    let (mut found, mut not_found, mut cut_off) = (0, 0, 0);
    let rounds = if cfg!(debug_assertions) { 600 } else { 4_000 };
    for filter in filters.map(raw) {
        for _ in 0..rounds {
            let len = 60 + draw.below(300);
            let mut packet = vec![if draw.below(2) == 0 { 0x60 } else { 0x45 }; len];
            for pair in packet[1..].chunks_mut(2) {
                let kinds = [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, AUTHENTICATION, DESTINATION];
                let kind = if draw.below(40) == 0 { TCP } else { kinds[draw.below(kinds.len())] };
                let (kind_byte, len_byte) =
                    (kind, draw.below(if kind == AUTHENTICATION { 70 } else { 4 }) as u8);
                pair.copy_from_slice(&[len_byte, kind_byte][..pair.len()]);
            }
            match agreed(&filter, &packet) {
                Some(true) => found += 1,
                Some(false) => not_found += 1,
                None => cut_off += 1,
            }
        }
    }
    let least = rounds / 20;
    assert!(found > least && not_found > least && cut_off > least, "{found}, {not_found}, {cut_off}");
}

/// Programs that libpcap does not generate: each run ends.
#[test]
fn no_program_loops_forever() {
    let to_itself = wirecap_filter::Insn::new(0x05, 0, 0, -1_i32 as u32);
    let program = Program::new(vec![to_itself, wirecap_filter::Insn::new(0x06, 0, 0, 1)]).unwrap();
    assert_eq!(program.decide(&[0; 100], 100), None);
    assert_eq!(program.run(&[0; 100], 100), 0);
    assert_eq!(NativeFilter::new(&program).unwrap().matches(&[0; 100], 100), 0);
    let plain = Filter::compile("ip6 proto 6", LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
    assert!(program.loops() && raw("ip6 protochain 6").program().loops() && !plain.program().loops());
}
