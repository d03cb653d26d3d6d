//! What one filter matches and another does not.

use wirecap_filter::{DEFAULT_SNAPLEN, Error, Filter, Insn, LINK_TYPE_ETHERNET, NativeFilter, Program};
use wirecap_lab::require_root;

use crate::corpus;
use crate::kernel::{SAMPLE, verdict};
use crate::packets::{Draw, Packet, generated};
use crate::trial::{Verdict, trial};

fn except(wanted: Option<&str>, excluded: &str) -> Filter {
    Filter::compile_except(wanted, excluded, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN)
        .unwrap_or_else(|error| panic!("{wanted:?} except {excluded}: {error}"))
}

fn compile(expression: &str) -> Filter {
    Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap()
}

/// Pairs of the corpus, each filter at least once on both sides.
fn pairs(draw: &mut Draw) -> Vec<(Filter, Filter)> {
    let filters: Vec<_> = corpus::filters().collect();
    let of_corpus = filters.iter().map(|filter| (filter.clone(), filters[draw.below(filters.len())].clone()));
    let mut pairs: Vec<_> = of_corpus.collect();
    let turned: Vec<_> = pairs.iter().map(|(wanted, excluded)| (excluded.clone(), wanted.clone())).collect();
    pairs.extend(turned);
    let by_hand = [
        ("", "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420"),
        ("ip or (vlan and ip)", "udp port 53"),
        ("", "ether[ether[0]] = 7"),
        ("", "ip[0] / ip[8] = 1"),
        ("", "ether[4294967295] = 1"),
        ("", "ether[ether[0] + 4294967290] = 1"),
        ("vlan 7", "vlan 7 and ip"),
    ];
    pairs.extend(by_hand.map(|(wanted, excluded)| (compile(wanted), compile(excluded))));
    pairs
}

#[test]
fn each_of_two_filters_decides_by_itself() {
    let (mut draw, packets) = (Draw(11), generated(4_000));
    let (mut kept, mut dropped) = (0, 0);
    for (wanted, excluded) in pairs(&mut draw) {
        let both = except(Some(wanted.expression()), excluded.expression());
        let native = NativeFilter::new(both.program()).unwrap();
        for _ in 0..SAMPLE {
            let Packet { bytes, .. } = &packets[draw.below(packets.len())];
            let len = bytes.len() as u32;
            // A filter that loops without an end rejects by itself, and here the whole.
            let expected = excluded.program().decide(bytes, len).is_some_and(|value| value == 0)
                && wanted.matches(bytes, len);
            let found = (both.matches(bytes, len), native.matches(bytes, len) != 0);
            assert_eq!(found, (expected, expected), "{}: {bytes:02x?}", both.expression());
            *if expected { &mut kept } else { &mut dropped } += 1;
        }
    }
    assert!(kept > 1_000 && dropped > 1_000, "{kept} kept, {dropped} dropped");
}

#[test]
fn the_kernel_keeps_two_filters_apart_as_well() {
    if !require_root("the_kernel_keeps_two_filters_apart_as_well") {
        return;
    }
    let (mut draw, mut packets) = (Draw(12), generated(4_000));
    packets.retain(|packet| (14..=3_400).contains(&packet.bytes.len()));
    for (wanted, excluded) in pairs(&mut draw) {
        let both = except(Some(wanted.expression()), excluded.expression());
        for frags in [false, true] {
            let program = match trial(both.program(), frags) {
                Ok(program) => program,
                Err(error) => {
                    assert!(
                        both.program().loops() && matches!(error, Error::Loops),
                        "{}: {error}",
                        both.expression()
                    );
                    continue;
                }
            };
            for _ in 0..SAMPLE / 4 {
                let Packet { bytes, .. } = &packets[draw.below(packets.len())];
                let expected = match both.matches(bytes, bytes.len() as u32) {
                    true => Verdict::Matches,
                    false => Verdict::Rejects,
                };
                assert_eq!(verdict(&program, bytes), expected, "{}: {bytes:02x?}", both.expression());
            }
        }
    }
}

#[test]
fn an_excluded_program_finds_its_registers_empty() {
    let ret = |value| Insn::new(0x06, 0, 0, value);
    // Leaves its marks in A, X and slot 3, and matches.
    let marks = [
        Insn::new(0x00, 0, 0, 9),
        Insn::new(0x07, 0, 0, 0),
        Insn::new(0x02, 0, 0, 3),
        Insn::new(0x16, 0, 0, 0),
    ];
    // ret a, x or slot 3: whether any of them is left.
    for read in [vec![], vec![Insn::new(0x87, 0, 0, 0)], vec![Insn::new(0x60, 0, 0, 3)]] {
        let returns_it = [read, vec![Insn::new(0x16, 0, 0, 0)]].concat();
        let both =
            Program::new(marks.to_vec()).unwrap().except(&Program::new(returns_it).unwrap(), 5).unwrap();
        assert_eq!(both.run(&[], 0), 5);
    }
    let both = Program::new(vec![ret(1)]).unwrap().except(&Program::new(vec![ret(1)]).unwrap(), 5).unwrap();
    assert_eq!(both.run(&[], 0), 0);
}
