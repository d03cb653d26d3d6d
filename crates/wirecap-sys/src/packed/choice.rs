//! Where the program puts a packet: behind the last one, or into the next free block.

use super::{
    PackedMemory,
    limits::{ROOMS, data_bytes},
    memory::{
        BYTES_AT, END_BYTES, GIVEN_AT, Layout, ORDER_AT, ORDER_BYTES, PACKETS_AT, POSITION_AT, RETIRE_AT,
        WARM_IN_END, WRITER_AT,
    },
    record::ALIGNMENT,
};
use crate::bpf::{Alu, Assembler, Cond, Label, Reg, Size};

impl PackedMemory {
    /// Where the packet of R7 bytes goes: the number of the block in R2, the offset there in R3, and both as
    /// a position on the stack; or jumps to `full`. The stream's entry is in R9.
    pub(super) fn emit_choice(&self, asm: &mut Assembler, position: i16, full: Label) {
        use Reg::{R0, R1, R2, R3, R4, R5, R7, R9, R10};
        let (next, chosen) = (asm.label(), asm.label());
        let layout = &self.layout;
        asm.load(Size::Double, R2, R9, POSITION_AT).store(Size::Double, R10, position, R2);
        emit_offset(asm, R3, R2);
        asm.alu64(Alu::Rsh, R2, 32);
        // The last offset at which a packet of this size begins.
        let known = asm.label();
        for room in ROOMS {
            let last = (layout.geometry.chunk_bytes() - room) as i32;
            asm.mov_imm(R4, last).jump_if(Cond::Le, R7, data_bytes(room), known);
        }
        asm.bind(known);
        asm.load(Size::Double, R5, R9, GIVEN_AT).jump_if32(Cond::Eq, R5, R2, full);
        asm.alu32(Alu::Mov, R1, R2).alu32(Alu::Add, R1, 1);
        asm.jump_if(Cond::Gt, R3, R4, next);
        asm.load(Size::Word, R0, R9, RETIRE_AT).jump_if(Cond::Ne, R0, R1, chosen);
        asm.bind(next).jump_if32(Cond::Eq, R5, R1, full);
        asm.mov(R4, R2);
        emit_entry(asm, layout, R4, (layout.ends_at(), END_BYTES));
        asm.store(Size::Word, R4, 0, R3);
        asm.load(Size::Double, R0, R9, PACKETS_AT).store(Size::Word, R4, 4, R0);
        asm.load(Size::Double, R0, R9, BYTES_AT).store(Size::Word, R4, 8, R0);
        self.emit_next(asm);
        asm.mov(R2, R1).mov_imm(R3, 0).alu64(Alu::Lsh, R1, 32).store(Size::Double, R10, position, R1);
        asm.bind(chosen);
    }

    /// Stores in `order` which block gets the number in R1: the next warm block, else the next cold one. R2
    /// holds the previous number, R4 that number's entry of `ends`, R5 `given`; R0 and R3 to R5 are lost. If
    /// no packet is published afterwards, the next packet chooses again and overwrites this.
    fn emit_next(&self, asm: &mut Assembler) {
        use Reg::{R0, R1, R2, R3, R4, R5};
        let layout = &self.layout;
        let (cold, found) = (asm.label(), asm.label());
        if !self.is_ordered {
            emit_barrier(asm, R0);
        }
        asm.load(Size::Word, R3, R4, WARM_IN_END as i16);
        asm.alu64(Alu::Rsh, R5, 32).jump_if(Cond::Eq, R5, R3, cold);
        asm.mov(R0, R3).alu32(Alu::Add, R3, 1);
        emit_entry(asm, layout, R0, (layout.warm_at(), ORDER_BYTES));
        asm.load(Size::Word, R5, R0, 0).jump(found);
        // The first block is neither warm nor cold. Of those after it, all that were not warm were cold.
        asm.bind(cold).mov(R0, R2).alu32(Alu::Sub, R0, R3);
        emit_entry(asm, layout, R0, (layout.cold_at(), ORDER_BYTES));
        asm.load(Size::Word, R5, R0, 0);
        asm.bind(found).mov(R4, R1);
        emit_entry(asm, layout, R4, (layout.ends_at(), END_BYTES));
        asm.store(Size::Word, R4, WARM_IN_END as i16, R3).mov(R4, R1);
        emit_entry(asm, layout, R4, (ORDER_AT, ORDER_BYTES));
        asm.store(Size::Word, R4, 0, R5);
    }
}

/// The offset in its block of a position.
pub(super) fn emit_offset(asm: &mut Assembler, offset: Reg, position: Reg) {
    asm.alu32(Alu::Mov, offset, position).alu32(Alu::And, offset, -(ALIGNMENT as i32));
}

/// Makes the number of a block in `register` the address of its entry in a table of the stream, which begins
/// at a place of the stream's entry and has entries of a size.
pub(super) fn emit_entry(asm: &mut Assembler, layout: &Layout, register: Reg, (table_at, size): (u32, u32)) {
    asm.alu64(Alu::And, register, (layout.numbers - 1) as i32);
    asm.alu64(Alu::Lsh, register, size.ilog2() as i32);
    asm.alu64(Alu::Add, register, Reg::R9).alu64(Alu::Add, register, table_at as i32);
}

/// A full barrier. Keeps the lock, and loses the register.
fn emit_barrier(asm: &mut Assembler, register: Reg) {
    asm.mov_imm(register, 1).atomic_exchange(Size::Word, Reg::R9, WRITER_AT, register);
}

/// A barrier before the first packet of a block: reads of what was given stay behind the read of `given`. For
/// the first block, which user space chose, this is the only one.
pub(super) fn emit_barrier_at_start(asm: &mut Assembler) {
    use Reg::{R1, R3};
    let behind = asm.label();
    asm.jump_if(Cond::Ne, R3, 0, behind);
    emit_barrier(asm, R1);
    asm.bind(behind);
}
