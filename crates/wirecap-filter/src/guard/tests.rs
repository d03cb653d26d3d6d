use super::Guard::{Free, Length, LengthFromX, Reject, Unreachable};
use super::*;
use wirecap_sys::pcap::Insn;

const LDH: u16 = 0x28;
const LDB: u16 = 0x30;
const LDH_IND: u16 = 0x48;
const MSH: u16 = 0xb1;
const JEQ: u16 = 0x15;
const JA: u16 = 0x05;
const RET: u16 = 0x06;

fn guards_of(insns: &[(u16, u8, u8, u32)]) -> Vec<Guard> {
    let insns = insns.iter().map(|&(code, jt, jf, k)| Insn::new(code, jt, jf, k)).collect();
    guards(&Program::new(insns).unwrap(), Runner::USER_SPACE)
}

/// `ip proto 6 and port 80`, written by hand: one check in front covers everything up to X, and another one
/// everything after X.
#[test]
fn one_check_covers_all_that_every_accepting_path_reads() {
    let guards = guards_of(&[
        (LDH, 0, 0, 12),
        (JEQ, 0, 8, 0x800),
        (LDB, 0, 0, 23),
        (JEQ, 0, 6, 6),
        (MSH, 0, 0, 14),
        (LDH_IND, 0, 0, 14),
        (JEQ, 2, 0, 80),
        (LDH_IND, 0, 0, 16),
        (JEQ, 0, 1, 80),
        (RET, 0, 0, 1),
        (RET, 0, 0, 0),
    ]);
    assert_eq!(guards[0], Length(24));
    assert_eq!(guards[5], LengthFromX(16), "the second port is not needed when the first one matches");
    assert_eq!(guards[7], LengthFromX(18));
    let guarded = [0, 5, 7];
    assert!(
        (0..guards.len())
            .filter(|index| !guarded.contains(index))
            .all(|index| guards[index] == Free || guards[index] == Reject)
    );
    assert_eq!(guards[10], Reject);
}

#[test]
fn a_path_that_accepts_without_reading_is_not_checked_early() {
    // A packet whose byte 0 is 1 is accepted as it is. In any other, byte 100 has to be 2.
    let guards = guards_of(&[
        (LDB, 0, 0, 0),
        (JEQ, 2, 0, 1),
        (LDB, 0, 0, 100),
        (JEQ, 0, 1, 2),
        (RET, 0, 0, 1),
        (RET, 0, 0, 0),
    ]);
    assert_eq!(guards[..3], [Length(1), Free, Length(101)]);
}

#[test]
fn a_length_known_on_only_one_of_two_paths_is_checked_again() {
    let guards = guards_of(&[
        (LDB, 0, 0, 0),
        (JEQ, 0, 1, 1),
        (LDB, 0, 0, 50),
        (LDB, 0, 0, 50),
        (JEQ, 0, 1, 2),
        (RET, 0, 0, 1),
        (RET, 0, 0, 0),
    ]);
    assert_eq!(guards[0], Length(51), "both paths read byte 50 in the end");
    assert_eq!(guards[2..4], [Free, Free]);

    // Now the path around the first load of byte 50 need not read it.
    let guards = guards_of(&[
        (LDB, 0, 0, 0),
        (JEQ, 0, 1, 1),
        (LDB, 0, 0, 50),
        (JEQ, 1, 0, 2),
        (LDB, 0, 0, 50),
        (RET, 0, 0, 1),
    ]);
    assert_eq!((guards[0], guards[2], guards[4]), (Length(1), Length(51), Length(51)));
}

#[test]
fn a_new_x_forgets_what_was_known_after_the_old_one() {
    let guards = guards_of(&[
        (LDH_IND, 0, 0, 4),
        (MSH, 0, 0, 0),
        (LDH_IND, 0, 0, 40),
        (LDH_IND, 0, 0, 4),
        (0x16, 0, 0, 0),
    ]);
    // The check for the new X does not help the old one, but the packet needs that length in any case.
    assert_eq!(guards, [LengthFromX(6), Length(42), LengthFromX(42), Free, Free]);
}

#[test]
fn dead_ends_are_recognised() {
    let guards = guards_of(&[(JA, 0, 0, 1), (LDB, 0, 0, 0), (LDB, 0, 0, 9), (RET, 0, 0, 0)]);
    assert_eq!(guards, [Reject, Unreachable, Unreachable, Unreachable]);
}

#[test]
fn an_offset_that_no_packet_has_rejects_and_does_not_wrap() {
    for last in [u32::MAX, u32::MAX - 3] {
        assert_eq!(guards_of(&[(0x20, 0, 0, last), (0x16, 0, 0, 0)]), [Reject, Unreachable]);
        assert_eq!(guards_of(&[(0x40, 0, 0, last), (0x16, 0, 0, 0)]), [Reject, Unreachable]);
    }
    assert_eq!(guards_of(&[(0x20, 0, 0, u32::MAX - 4), (0x16, 0, 0, 0)])[0], Length(u32::MAX));
}

/// What is known behind a backward jump is not known in the next round.
#[test]
fn a_loop_has_no_guards() {
    assert_eq!(guards_of(&[(LDB, 0, 0, 0), (JA, 0, 0, -2_i32 as u32), (RET, 0, 0, 1)]), []);
}

#[test]
fn the_kernel_rejects_offsets_beyond_its_largest_buffer() {
    let insns = [(LDB, 0, 0, 1 << 24), (RET, 0, 0, 1)].map(|(code, jt, jf, k)| Insn::new(code, jt, jf, k));
    let program = Program::new(insns.to_vec()).unwrap();
    assert_eq!(guards(&program, Runner::USER_SPACE)[0], Length((1 << 24) + 1));
    assert_eq!(guards(&program, Runner::XDP)[0], Reject);
    assert_eq!(guards(&program, Runner::SOCKET)[0], Reject);
}

/// The field that libpcap reads from a socket is at no offset of the packet.
#[test]
fn only_a_socket_filter_knows_where_a_packet_comes_from() {
    let insns =
        [(LDH, 0, 0, 0xffff_f004), (RET, 0, 0, 1)].map(|(code, jt, jf, k)| Insn::new(code, jt, jf, k));
    let program = Program::new(insns.to_vec()).unwrap();
    assert_eq!(guards(&program, Runner::USER_SPACE)[0], Reject);
    assert_eq!(guards(&program, Runner::XDP)[0], Reject);
    assert_eq!(guards(&program, Runner::SOCKET), [Free, Free]);
}
