//! Perverse operations and hints: the code never reads anything but the packet.

use super::Op::{
    Copy, Jump, JumpIf, LoadAbsolute, LoadConstant, LoadHeaderLength, LoadIndirect, LoadLength, LoadMemory,
    LoadOrigin, Return, ReturnA, Store,
};
use super::*;
use proptest::prelude::*;

const PACKET: usize = 20;

/// What a filter returns for a packet of 20 zeros, between other bytes that it must not see.
fn run(ops: &[Op], guards: &[Guard]) -> u32 {
    let code = MachineCode::new(ops, guards).unwrap();
    let surrounded = |byte: u8| {
        let mut memory = [byte; 3 * PACKET];
        memory[PACKET..2 * PACKET].fill(0);
        code.run(&memory[PACKET..2 * PACKET], 60)
    };
    assert_eq!(surrounded(0x11), surrounded(0xee), "{ops:?} {guards:?}");
    surrounded(0x11)
}

fn load(offset: u32) -> Op {
    LoadAbsolute { size: Size::Word, offset }
}

fn load_from_x(offset: u32) -> Op {
    LoadIndirect { size: Size::Byte, offset }
}

#[test]
fn without_hints_each_load_checks_its_own_end() {
    assert_eq!(run(&[load(16), Return(7)], &[]), 7);
    assert_eq!(run(&[load(17), Return(7)], &[]), 0);
    for (x, offset, expected) in [(19, 0, 7), (20, 0, 0), (10, 9, 7), (10, 10, 0), (u32::MAX, 1, 0)] {
        let ops = [LoadConstant(Register::X, x), load_from_x(offset), Return(7)];
        assert_eq!(run(&ops, &[]), expected, "{ops:?}");
    }
    assert_eq!(run(&[LoadHeaderLength { offset: 20 }, Return(7)], &[]), 0);
}

#[test]
fn no_hint_takes_a_check_away() {
    for guard in [Guard::Unreachable, Guard::Free, Guard::Length(1), Guard::LengthFromX(0)] {
        assert_eq!(run(&[load(17), Return(7)], &[guard; 2]), 0, "{guard:?}");
        assert_eq!(run(&[load(u32::MAX), Return(7)], &[guard; 2]), 0, "{guard:?}");
    }
    // X + 4 GiB does not come round to the start of the packet.
    let far = [LoadConstant(Register::X, u32::MAX), load_from_x(u32::MAX), Return(7)];
    assert_eq!(run(&far, &[Guard::Free, Guard::LengthFromX(u32::MAX), Guard::Free]), 0);
    assert_eq!(run(&[load(0), Return(7)], &[Guard::Reject]), 0);
    assert_eq!(run(&[Return(7)], &[Guard::Length(21)]), 0, "a hint is a check, too");
}

#[test]
fn checks_are_forgotten_when_x_changes_and_where_paths_join() {
    let x = |value| LoadConstant(Register::X, value);
    let checked = [x(0), load_from_x(19), x(1), load_from_x(19), Return(7)];
    assert_eq!(run(&checked, &[]), 0, "X has changed");
    for back in [Copy { from: Register::A }, LoadLength(Register::X), LoadMemory(Register::X, 3)] {
        let checked = [LoadConstant(Register::A, 1), Store(Register::A, 3), load_from_x(19), back];
        let filter = [&checked[..], &[load_from_x(20), Return(7)]].concat();
        assert_eq!(run(&filter, &[]), 0, "{back:?}");
    }
    // One path has checked 20 bytes from X = 0, the other has checked none from X = 1.
    let is_zero = JumpIf { cond: Cond::Eq, operand: Operand::K(0), then: 2, otherwise: 4 };
    for (a, expected) in [(0, 7), (1, 0)] {
        let ops = [
            LoadConstant(Register::A, a),
            is_zero,
            load_from_x(19),
            Jump(5),
            x(1),
            load_from_x(19),
            Return(7),
        ];
        assert_eq!(run(&ops, &[]), expected, "{a}");
    }
}

#[test]
fn a_backward_jump_forgets_checks_and_the_run_ends() {
    // Each round increments X, and the load behind it moves on.
    let next = [Copy { from: Register::X }, Op::Alu(Alu::Add, Operand::K(1)), Copy { from: Register::A }];
    let ops = [&[load_from_x(0)], &next[..], &[Jump(0), Return(7)]].concat();
    assert_eq!(run(&ops, &[]), 0);
    assert_eq!(run(&[Jump(0)], &[]), 0, "the run ends");
    assert_eq!(run(&[Jump(2), Return(7), Jump(1)], &[]), 7, "only a jump backward leads to the end");
}

#[test]
fn meaningless_operations_are_refused() {
    let backward = |then, otherwise| JumpIf { cond: Cond::Gt, operand: Operand::X, then, otherwise };
    for op in [
        LoadMemory(Register::A, MEMORY_SLOTS),
        Store(Register::X, usize::MAX),
        Op::Alu(Alu::Div, Operand::K(0)),
        Op::Alu(Alu::Mod, Operand::K(0)),
        Op::Alu(Alu::Lsh, Operand::K(32)),
        Op::Alu(Alu::Rsh, Operand::K(u32::MAX)),
        Jump(3),
        Jump(usize::MAX),
        backward(1, 2),
        backward(2, 0),
        backward(2, 3),
        backward(3, 2),
    ] {
        let refused = MachineCode::new(&[ReturnA, op, ReturnA], &[]).unwrap_err();
        assert!(matches!(refused, Error::Operation(1)), "{op:?}: {refused}");
    }
    assert!(matches!(MachineCode::new(&[ReturnA, load(0)], &[]), Err(Error::Operation(1))));
    assert!(matches!(MachineCode::new(&[], &[]), Err(Error::Operation(0))));
    assert_eq!(
        run(&[LoadOrigin(Origin::Interface), Return(7)], &[]),
        0,
        "user space does not know the interface"
    );
}

/// Numbers near the end of the packet and near the largest number.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..2 * PACKET as u32, u32::MAX - 40..=u32::MAX, any::<u32>()]
}

fn op() -> impl Strategy<Value = Op> {
    let size = || prop_oneof![Just(Size::Byte), Just(Size::Half), Just(Size::Word)];
    let register = || prop_oneof![Just(Register::A), Just(Register::X)];
    let operand = || prop_oneof![number().prop_map(Operand::K), Just(Operand::X)];
    let alu =
        [Alu::Add, Alu::Sub, Alu::Mul, Alu::Div, Alu::Mod, Alu::Or, Alu::And, Alu::Xor, Alu::Lsh, Alu::Rsh];
    let cond = prop_oneof![Just(Cond::Eq), Just(Cond::Gt), Just(Cond::Ge), Just(Cond::Set)];
    prop_oneof![
        (size(), number()).prop_map(|(size, offset)| LoadAbsolute { size, offset }),
        (size(), number()).prop_map(|(size, offset)| LoadIndirect { size, offset }),
        number().prop_map(|offset| LoadHeaderLength { offset }),
        register().prop_map(LoadLength),
        (register(), number()).prop_map(|(register, k)| LoadConstant(register, k)),
        (register(), 0..18_usize).prop_map(|(register, slot)| LoadMemory(register, slot)),
        (register(), 0..18_usize).prop_map(|(register, slot)| Store(register, slot)),
        (prop::sample::select(alu.to_vec()), operand()).prop_map(|(alu, operand)| Op::Alu(alu, operand)),
        Just(Op::Negate),
        register().prop_map(|from| Copy { from }),
        (0..14_usize).prop_map(Jump),
        (cond, operand(), 0..14_usize, 0..14_usize).prop_map(|(cond, operand, then, otherwise)| JumpIf {
            cond,
            operand,
            then,
            otherwise
        }),
        Just(LoadOrigin(Origin::PacketType)),
        number().prop_map(Return),
        Just(ReturnA),
    ]
}

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![
        1 => Just(Guard::Unreachable),
        1 => Just(Guard::Reject),
        4 => Just(Guard::Free),
        1 => number().prop_map(Guard::Length),
        1 => number().prop_map(Guard::LengthFromX),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Invalid operations are left out, which moves the rest.
    #[test]
    fn no_operations_and_no_hints_read_beyond_the_packet(
        mut ops in prop::collection::vec(op(), 1..12),
        guards in prop::collection::vec(guard(), 0..14),
    ) {
        ops.push(ReturnA);
        while let Some(index) = (0..ops.len()).find(|&index| !ops[index].is_valid(index, ops.len())) {
            ops.remove(index);
        }
        run(&ops, &guards);
    }
}
