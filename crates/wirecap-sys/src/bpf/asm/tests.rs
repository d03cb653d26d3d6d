//! Encodings against the opcodes of instruction-set.rst, and the labels.

use super::*;
use Reg::{R0, R1, R2, R3, R6, R10};

/// The bytes of the single instruction that `write` appends, as on a little-endian machine.
fn bytes(write: impl FnOnce(&mut Assembler)) -> [u8; 8] {
    let mut asm = Assembler::new();
    write(&mut asm);
    let insns = asm.finish().unwrap().insns;
    assert_eq!(insns.len(), 1);
    raw(insns[0])
}

fn raw(insn: Insn) -> [u8; 8] {
    let (off, imm) = (insn.off.to_le_bytes(), insn.imm.to_le_bytes());
    [insn.code, insn.regs, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
}

#[test]
#[cfg(target_endian = "little")]
fn encodings() {
    assert_eq!(bytes(|a| _ = a.mov(R6, R1)), [0xbf, 0x16, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.mov_imm(R0, 2)), [0xb7, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.load(Size::Word, R2, R1, 4)), [0x61, 0x12, 4, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.load(Size::Byte, R2, R1, -1)), [0x71, 0x12, 0xff, 0xff, 0, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.load(Size::Half, R2, R1, 12)), [0x69, 0x12, 12, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.load(Size::Double, R2, R1, 0)), [0x79, 0x12, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.store(Size::Word, R10, -4, R1)), [0x63, 0x1a, 0xfc, 0xff, 0, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.store_imm(Size::Word, R10, -4, 7)), [0x62, 0x0a, 0xfc, 0xff, 7, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.atomic_add(Size::Double, R0, 8, R1)), [0xdb, 0x10, 8, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.call(Helper::MapLookupElem)), [0x85, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.call(Helper::RedirectMap)), [0x85, 0, 0, 0, 51, 0, 0, 0]);
    let function = KernelFunction { id: 0x0201 };
    assert_eq!(bytes(|a| _ = a.call_kernel(function)), [0x85, 0x20, 0, 0, 1, 2, 0, 0]);
    assert_eq!(bytes(|a| _ = a.exit()), [0x95, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn arithmetic_opcodes() {
    let code = |write: &dyn Fn(&mut Assembler)| bytes(|a| write(a))[0];
    for (op, imm64, reg64, imm32, reg32) in [
        (Alu::Add, 0x07, 0x0f, 0x04, 0x0c),
        (Alu::Sub, 0x17, 0x1f, 0x14, 0x1c),
        (Alu::Mul, 0x27, 0x2f, 0x24, 0x2c),
        (Alu::Div, 0x37, 0x3f, 0x34, 0x3c),
        (Alu::Or, 0x47, 0x4f, 0x44, 0x4c),
        (Alu::And, 0x57, 0x5f, 0x54, 0x5c),
        (Alu::Lsh, 0x67, 0x6f, 0x64, 0x6c),
        (Alu::Rsh, 0x77, 0x7f, 0x74, 0x7c),
        (Alu::Mod, 0x97, 0x9f, 0x94, 0x9c),
        (Alu::Xor, 0xa7, 0xaf, 0xa4, 0xac),
        (Alu::Mov, 0xb7, 0xbf, 0xb4, 0xbc),
        (Alu::Arsh, 0xc7, 0xcf, 0xc4, 0xcc),
    ] {
        assert_eq!(code(&|a| _ = a.alu64(op, R1, 1)), imm64, "{op:?}");
        assert_eq!(code(&|a| _ = a.alu64(op, R1, R2)), reg64, "{op:?}");
        assert_eq!(code(&|a| _ = a.alu32(op, R1, 1)), imm32, "{op:?}");
        assert_eq!(code(&|a| _ = a.alu32(op, R1, R2)), reg32, "{op:?}");
    }
    assert_eq!(code(&|a| _ = a.neg32(R1)), 0x84);
}

#[test]
#[cfg(target_endian = "little")]
fn byte_swaps() {
    assert_eq!(bytes(|a| _ = a.be16(R3)), [0xdc, 3, 0, 0, 16, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.be32(R3)), [0xdc, 3, 0, 0, 32, 0, 0, 0]);
    assert_eq!(bytes(|a| _ = a.be64(R3)), [0xdc, 3, 0, 0, 64, 0, 0, 0]);
}

#[test]
#[cfg(target_endian = "little")]
fn a_wide_constant_takes_two_instructions() {
    let mut asm = Assembler::new();
    asm.load_imm64(R2, 0x1122_3344_8566_7788);
    let insns = asm.finish().unwrap().insns;
    assert_eq!(raw(insns[0]), [0x18, 2, 0, 0, 0x88, 0x77, 0x66, 0x85]);
    assert_eq!(raw(insns[1]), [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11]);
}

#[test]
fn jump_opcodes() {
    for (cond, imm, reg) in [
        (Cond::Eq, 0x15, 0x1d),
        (Cond::Gt, 0x25, 0x2d),
        (Cond::Ge, 0x35, 0x3d),
        (Cond::Set, 0x45, 0x4d),
        (Cond::Ne, 0x55, 0x5d),
        (Cond::Sgt, 0x65, 0x6d),
        (Cond::Sge, 0x75, 0x7d),
        (Cond::Lt, 0xa5, 0xad),
        (Cond::Le, 0xb5, 0xbd),
        (Cond::Slt, 0xc5, 0xcd),
        (Cond::Sle, 0xd5, 0xdd),
    ] {
        let mut asm = Assembler::new();
        let here = asm.label();
        asm.bind(here).jump_if(cond, R1, 5, here).jump_if(cond, R1, R2, here).jump_if32(cond, R1, 5, here);
        let insns = asm.finish().unwrap().insns;
        assert_eq!((insns[0].code, insns[0].imm), (imm, 5), "{cond:?}");
        assert_eq!((insns[1].code, insns[1].imm), (reg, 0), "{cond:?}");
        assert_eq!(insns[2].code, imm + 1, "{cond:?}: the 32-bit class is one higher");
    }
}

#[test]
fn labels_count_from_the_next_instruction() {
    let mut asm = Assembler::new();
    let (start, end) = (asm.label(), asm.label());
    asm.bind(start);
    asm.jump_if(Cond::Eq, R1, 0, end); // 0 -> 4
    asm.load_imm64(R2, 1); // 1, 2
    asm.jump(start); // 3 -> 0
    asm.bind(end).exit(); // 4
    let insns = asm.finish().unwrap().insns;
    assert_eq!(insns[0].off, 3);
    assert_eq!((insns[3].code, insns[3].off), (0x05, -4));
}

#[test]
fn label_mistakes_are_reported() {
    let mut asm = Assembler::new();
    let lost = asm.label();
    asm.exit().jump(lost);
    assert!(matches!(asm.finish(), Err(Error::UnboundLabel(1))));

    let mut asm = Assembler::new();
    let twice = asm.label();
    asm.bind(twice).exit().bind(twice).exit();
    assert!(matches!(asm.finish(), Err(Error::LabelBoundTwice(1))));
}

/// Otherwise a caller could count the labels that a crate makes, and jump into its code.
#[test]
fn no_jump_leads_to_a_label_of_another_assembler() {
    let (mut ours, mut other) = (Assembler::new(), Assembler::new());
    let (here, foreign) = (ours.label(), other.label());
    ours.bind(here).jump(foreign);
    assert!(matches!(ours.finish(), Err(Error::UnboundLabel(0))));
}

#[test]
#[should_panic = "a label of another assembler"]
fn a_label_of_another_assembler_cannot_be_bound() {
    let (mut ours, mut other) = (Assembler::new(), Assembler::new());
    ours.label();
    ours.bind(other.label());
}

#[test]
fn the_farthest_jump() {
    let program = |gap: usize| {
        let mut asm = Assembler::new();
        let end = asm.label();
        asm.jump(end);
        for _ in 0..gap {
            asm.mov_imm(R0, 0);
        }
        asm.bind(end).exit();
        asm.finish()
    };
    assert_eq!(program(32_767).unwrap().insns[0].off, 32_767);
    assert!(matches!(program(32_768), Err(Error::JumpTooFar { from: 0, to: 32_769 })));
}
