//! What the program does with a packet.
//!
//! ```text
//!   lock the stream ─► UTC ─► length ─► does it fit behind `position`? ── no, or the block is retired ──► the next free block (`choice.rs`)
//!        │                            │ yes                                                        └─ none: `no_block`
//!        │                            ▼
//!        └────── unlock ◄── publish `position`, packets and bytes so far ◄── header, data, options, trailer
//! ```
//!
//! Rule: code behind the packing gets no pointer into a block or an entry, wherever it goes on: it may be
//! anybody's.
//!
//! The verifier has to see that no byte lands outside a block. It assumes the longest packet that the
//! code allows, so there is separate code for each of a few sizes: with one for all sizes, the last 64 KiB of
//! each block would stay empty.

use wirecap_core::Direction;

use super::{
    PackedMemory,
    choice::{emit_barrier_at_start, emit_entry, emit_offset},
    limits::{MAX_PACKET_BYTES, ROOMS, data_bytes},
    memory::{
        ADD_AFTER_AT, ADD_AT, ARMED_AT, BYTES_AT, CUT_AT, LAST_NS_AT, LEAP_AT, NOT_BEFORE_AT, NUMBER_AT,
        ORDER_AT, ORDER_BYTES, PACKETS_AT, POSITION_AT, PUBLISHED_AT, RAISED_AT, RAISED_NS_AT, SEEN_AT,
        WRITER_AT,
    },
    record::{
        ALIGNMENT, CAPTURED_AT, FLAGS_OPTION, FLAGS_OPTION_BYTES, FLAGS_OPTION_LEN, HASH_OPTION,
        HASH_OPTION_BYTES, HASH_OPTION_LEN, HEADER_BYTES, INTERFACE_AT, ORIGINAL_AT, PACKET_TYPE,
        QUEUE_OPTION, QUEUE_OPTION_BYTES, QUEUE_OPTION_LEN, TIME_HIGH_AT, TIME_LOW_AT, TOEPLITZ, TOTAL_AT,
        TRAILER_BYTES, TYPE_AT, flags_of,
    },
    socket_buffer, stores,
};
use crate::bpf::{Alu, Assembler, Cond, FrameLength, Helper, Label, RING_FORCE_WAKEUP, Reg, Size, xdp_md};

/// A time that is this much earlier than the one before means that the clock was set back, in nanoseconds.
const SET_BACK_NS: i32 = 10_000_000;

/// What a packet is when the program sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketForm {
    /// A frame of the driver, in an XDP program, which finds its length in this way.
    Frame(FrameLength),
    /// A socket buffer: a classifier of traffic control. The kernel keeps a VLAN tag beside the packet; it
    /// is put back.
    SocketBuffer {
        /// Where on the stack the tag is: the protocol as on the wire in two bytes, two bytes of zero, and
        /// four of the TCI as a number. A protocol of 0 means that the packet has none, or is shorter than
        /// an Ethernet header.
        tag: i16,
    },
}

/// An option of a packet's record.
#[derive(Debug, Clone, Copy)]
pub enum PackOption {
    /// The NIC's hash, which is at this place on the stack: four bytes, and four of its type. A type of 0
    /// means that the packet has no hash.
    Hash(i16),
    /// Which way the packet goes.
    Direction(Direction),
    /// The number of the stream, as that of the receive queue.
    Queue,
}

/// What is packed, and where the program goes on.
#[derive(Debug, Clone, Copy)]
pub struct PackSpec {
    /// Holds the number of the stream, below that of all streams.
    pub stream: Reg,
    /// The number of the interface in the records: its place in the file that they may become part of.
    pub interface: u32,
    /// Where on the stack the time of the packet is, as eight bytes; without it the time is 0.
    pub stamp: Option<i16>,
    /// The stamp, if there is one, is brought to UTC, as
    /// [`PackedStream::set_shift`](super::PackedStream::set_shift) has said, and each time of a stream is
    /// later than the one before, unless the clock was set back by more than 10 ms.
    pub to_utc: bool,
    /// What the packet is when the program sees it.
    pub form: PacketForm,
    /// What stands in the record beside time and lengths.
    pub option: Option<PackOption>,
    /// The stack below is free: a multiple of eight.
    pub stack_end: i16,
    /// Where it goes on when no block has room.
    pub no_block: Label,
    /// Where it goes on when another run of the program packs into the stream at the moment.
    pub busy: Label,
    /// Where it goes on when an invariant of the program is broken.
    pub impossible: Label,
}

impl PackSpec {
    /// On the stack: where the packet goes, as a position.
    fn position(&self) -> i16 {
        self.stack_end - 8
    }

    /// How long the packet is.
    fn original(&self) -> i16 {
        self.stack_end - 16
    }

    /// Where the packet goes in memory.
    fn place(&self) -> i16 {
        self.stack_end - 24
    }

    /// Bytes of the options.
    fn option_bytes(&self) -> i32 {
        match self.option {
            None => 0,
            Some(PackOption::Hash(_)) => HASH_OPTION_BYTES as i32,
            Some(PackOption::Direction(_)) => FLAGS_OPTION_BYTES as i32,
            Some(PackOption::Queue) => QUEUE_OPTION_BYTES as i32,
        }
    }
}

impl PackedMemory {
    /// Emits code that packs the packet into its stream, and goes on behind it. The context is in R6; all
    /// registers but this one, R8 and R10 are lost.
    pub fn emit_pack(&self, asm: &mut Assembler, pack: &PackSpec) {
        use Reg::{R0, R1, R2, R3, R4, R7, R9, R10};
        let (full, broken, packed) = (asm.label(), asm.label(), asm.label());
        let (busy, armed, done) = (asm.label(), asm.label(), asm.label());
        self.emit_stream(asm, R9, pack.stream, pack.impossible);
        asm.mov_imm(R1, 1).atomic_exchange(Size::Word, R9, WRITER_AT, R1);
        asm.jump_if32(Cond::Ne, R1, 0, busy);

        if let Some(stamp) = pack.stamp.filter(|_| pack.to_utc) {
            emit_utc(asm, stamp);
        }
        emit_length(asm, pack, broken);
        self.emit_choice(asm, pack.position(), full);
        if !self.is_ordered {
            emit_barrier_at_start(asm);
        }
        // Its entry of the table is the key.
        emit_entry(asm, &self.layout, R2, (ORDER_AT, ORDER_BYTES));
        asm.load_map_fd(R1, &self.blocks).call(Helper::MapLookupElem).jump_if(Cond::Eq, R0, 0, broken);
        let block_bytes = self.layout.geometry.chunk_bytes();
        for room in ROOMS {
            let longer = asm.label();
            asm.jump_if(Cond::Gt, R7, data_bytes(room), longer);
            asm.load(Size::Double, R3, R10, pack.position());
            emit_offset(asm, R3, R3);
            asm.jump_if(Cond::Gt, R3, (block_bytes - room) as i32, broken);
            asm.alu64(Alu::Add, R0, R3);
            emit_record(asm, pack, room, broken);
            if room == ROOMS[2] {
                emit_count_cut(asm, pack, packed);
            }
            asm.jump(packed).bind(longer);
        }
        asm.jump(broken);

        asm.bind(full);
        emit_release(asm, self.is_ordered);
        emit_exit(asm, pack, pack.no_block);
        asm.bind(busy);
        emit_exit(asm, pack, pack.busy);
        asm.bind(broken);
        emit_release(asm, self.is_ordered);
        emit_exit(asm, pack, pack.impossible);

        asm.bind(packed);
        self.emit_publish(asm, pack);
        asm.load(Size::Word, R1, R9, ARMED_AT).jump_if(Cond::Ne, R1, 0, armed);
        emit_release(asm, self.is_ordered);
        asm.jump(done);

        asm.bind(armed).store_imm(Size::Word, R9, ARMED_AT, 0);
        emit_release(asm, self.is_ordered);
        asm.load_map_fd(R1, &self.all_rings).mov(R2, R9).alu64(Alu::Add, R2, i32::from(NUMBER_AT));
        asm.call(Helper::MapLookupElem).jump_if(Cond::Eq, R0, 0, done);
        asm.mov(R1, R0).mov(R2, R10).alu64(Alu::Add, R2, i32::from(pack.position())).mov_imm(R3, 8);
        asm.mov_imm(R4, RING_FORCE_WAKEUP).call(Helper::RingbufOutput);
        asm.bind(done);
        emit_forget(asm, pack);
    }

    /// Emits code that counts a packet for the stream whose number is in a register, which is kept. R1 and R2
    /// are lost. Jumps to `none` if there is no such stream.
    ///
    /// Only one CPU may run this for a stream, and no run may interrupt another: the addition is not atomic.
    ///
    /// # Panics
    /// If the number is in one of the registers that are lost.
    pub fn emit_seen(&self, asm: &mut Assembler, stream: Reg, none: Label) {
        use Reg::{R1, R2};
        assert!(stream != R1 && stream != R2, "the number of the stream is kept");
        self.emit_stream(asm, R2, stream, none);
        asm.load(Size::Double, R1, R2, SEEN_AT).alu64(Alu::Add, R1, 1).store(Size::Double, R2, SEEN_AT, R1);
        asm.mov_imm(R2, 0);
    }

    /// Loads the place of a stream's entry. Its number is in `stream`; R1 is lost. Jumps to `none` if there
    /// is no such stream.
    fn emit_stream(&self, asm: &mut Assembler, entry: Reg, stream: Reg, none: Label) {
        asm.jump_if(Cond::Ge, stream, self.layout.streams as i32, none);
        asm.mov(Reg::R1, stream).alu64(Alu::Mul, Reg::R1, self.layout.stream_bytes() as i32);
        asm.load_map_value(entry, &self.streams, 0).alu64(Alu::Add, entry, Reg::R1);
    }

    /// Publishes the record, whose length is in R1: its end, and packets and bytes so far. Their number is
    /// stored first and last, so that a reader that finds both equal has an end and counters that belong
    /// together.
    fn emit_publish(&self, asm: &mut Assembler, pack: &PackSpec) {
        use Reg::{R1, R3, R4, R5, R7, R9, R10};
        asm.load(Size::Double, R3, R10, pack.position()).alu64(Alu::Add, R1, R3);
        asm.load(Size::Double, R4, R9, PACKETS_AT).alu64(Alu::Add, R4, 1).mov(R3, R4);
        asm.load(Size::Double, R5, R9, BYTES_AT).alu64(Alu::Add, R5, R7);
        if self.is_ordered {
            asm.store(Size::Double, R9, PACKETS_AT, R4).store(Size::Double, R9, BYTES_AT, R5);
            asm.store(Size::Double, R9, POSITION_AT, R1);
        } else {
            asm.atomic_exchange(Size::Double, R9, PACKETS_AT, R4).store(Size::Double, R9, BYTES_AT, R5);
            asm.atomic_exchange(Size::Double, R9, POSITION_AT, R1);
        }
        asm.store(Size::Double, R9, PUBLISHED_AT, R3);
    }
}

/// Counts the packet if it was cut. The length of the record stays in R1.
fn emit_count_cut(asm: &mut Assembler, pack: &PackSpec, packed: Label) {
    use Reg::{R2, R9, R10};
    asm.load(Size::Double, R2, R10, pack.original()).jump_if(Cond::Le, R2, MAX_PACKET_BYTES as i32, packed);
    asm.load(Size::Double, R2, R9, CUT_AT).alu64(Alu::Add, R2, 1).store(Size::Double, R9, CUT_AT, R2);
}

/// Brings the stamp on the stack to UTC, and behind the time of the packet before, unless the clock was set
/// back. The stream's entry, which is in R9, has the time afterwards.
fn emit_utc(asm: &mut Assembler, stamp: i16) {
    use Reg::{R1, R2, R3, R4, R9, R10};
    let (behind_leap, is_utc, is_later) = (asm.label(), asm.label(), asm.label());
    asm.load(Size::Double, R1, R10, stamp).load(Size::Double, R2, R9, LEAP_AT);
    asm.jump_if(Cond::Ge, R1, R2, behind_leap);
    asm.load(Size::Double, R2, R9, ADD_AT).alu64(Alu::Add, R1, R2).jump(is_utc);
    asm.bind(behind_leap);
    asm.load(Size::Double, R2, R9, ADD_AFTER_AT).alu64(Alu::Add, R1, R2);
    asm.load(Size::Double, R2, R9, NOT_BEFORE_AT).jump_if(Cond::Ge, R1, R2, is_utc).mov(R1, R2);
    asm.bind(is_utc);

    asm.load(Size::Double, R2, R9, LAST_NS_AT).jump_if(Cond::Gt, R1, R2, is_later);
    asm.mov(R3, R2).alu64(Alu::Sub, R3, R1).jump_if(Cond::Ge, R3, SET_BACK_NS, is_later);
    asm.mov(R1, R2).alu64(Alu::Add, R1, 1).alu64(Alu::Add, R3, 1);
    asm.load(Size::Double, R4, R9, PACKETS_AT).alu64(Alu::Add, R4, 1).store(Size::Double, R9, RAISED_AT, R4);
    asm.load(Size::Double, R4, R9, RAISED_NS_AT).jump_if(Cond::Ge, R4, R3, is_later);
    asm.store(Size::Double, R9, RAISED_NS_AT, R3);
    asm.bind(is_later).store(Size::Double, R9, LAST_NS_AT, R1);
}

/// Goes on at `exit`.
fn emit_exit(asm: &mut Assembler, pack: &PackSpec, exit: Label) {
    emit_forget(asm, pack);
    asm.jump(exit);
}

/// Clears each register and each place on the stack that may point into a block or an entry.
fn emit_forget(asm: &mut Assembler, pack: &PackSpec) {
    use Reg::{R0, R1, R2, R3, R4, R5, R9, R10};
    for register in [R0, R1, R2, R3, R4, R5, R9] {
        asm.mov_imm(register, 0);
    }
    asm.store_imm(Size::Double, R10, pack.place(), 0);
}

/// The length of the packet on the stack, and in R7 as much of it as is packed.
fn emit_length(asm: &mut Assembler, pack: &PackSpec, broken: Label) {
    use Reg::{R0, R7, R10};
    let fits = asm.label();
    match pack.form {
        PacketForm::Frame(length) => length.emit(asm),
        PacketForm::SocketBuffer { tag } => socket_buffer::emit_length(asm, tag),
    }
    asm.store(Size::Double, R10, pack.original(), R0).mov(R7, R0);
    // Not a comparison with 0, from which old verifiers do not learn that there is a byte to copy.
    asm.jump_if(Cond::Lt, R7, 1, broken);
    let longest = MAX_PACKET_BYTES as i32;
    asm.jump_if(Cond::Le, R7, longest, fits).mov_imm(R7, longest);
    asm.bind(fits);
}

/// Writes the record of R7 bytes at R0; `room` is what they take at most. Its length is in R1 afterwards.
///
/// Header, data, then what stands behind: a store into a line that another core has holds up all stores
/// after it. A reader looks at headers, so if packets are equally long it has the line in which a record
/// ends, where the next header begins. Few stores come after that one.
fn emit_record(asm: &mut Assembler, pack: &PackSpec, room: u32, broken: Label) {
    use Reg::{R0, R1, R2, R7, R9, R10};
    let at = |at: usize| at as i16;
    asm.store_imm(Size::Word, R0, at(TYPE_AT), PACKET_TYPE as i32);
    asm.store_imm(Size::Word, R0, at(INTERFACE_AT), pack.interface as i32);
    match pack.stamp {
        Some(stamp) => {
            let (base, from) = if pack.to_utc { (R9, LAST_NS_AT) } else { (R10, stamp) };
            asm.load(Size::Double, R1, base, from).store(Size::Word, R0, at(TIME_LOW_AT), R1);
            asm.alu64(Alu::Rsh, R1, 32).store(Size::Word, R0, at(TIME_HIGH_AT), R1);
        }
        None => {
            asm.store_imm(Size::Word, R0, at(TIME_HIGH_AT), 0).store_imm(Size::Word, R0, at(TIME_LOW_AT), 0);
        }
    }
    asm.store(Size::Word, R0, at(CAPTURED_AT), R7);
    if room == ROOMS[2] {
        asm.load(Size::Double, R1, R10, pack.original()).store(Size::Word, R0, at(ORIGINAL_AT), R1);
    } else {
        asm.store(Size::Word, R0, at(ORIGINAL_AT), R7);
    }
    match pack.form {
        PacketForm::Frame(_) => emit_data(asm, pack.place(), room, broken),
        PacketForm::SocketBuffer { tag } => {
            socket_buffer::emit_copy(asm, tag, pack.place(), room == ROOMS[0], broken);
        }
    }
    emit_padding(asm);
    match pack.option {
        None => {}
        Some(PackOption::Hash(hash)) => emit_hash(asm, hash),
        Some(PackOption::Direction(direction)) => emit_direction(asm, direction),
        Some(PackOption::Queue) => emit_queue(asm),
    }
    let around = (HEADER_BYTES + TRAILER_BYTES) as i32 + pack.option_bytes();
    asm.alu64(Alu::Add, R1, around);
    asm.store(Size::Word, R2, (around - TRAILER_BYTES as i32) as i16, R1);
    asm.store(Size::Word, R0, at(TOTAL_AT), R1);
}

/// Writes zeros behind the R7 bytes of data of the record at R0, up to a multiple of the alignment. That many
/// bytes are in R1 afterwards, and R0 plus that number in R2: the options begin [`HEADER_BYTES`] behind R2.
fn emit_padding(asm: &mut Assembler) {
    use Reg::{R0, R1, R2, R3, R7};
    let (end, none) = (HEADER_BYTES as i16, asm.label());
    asm.mov(R1, R7).alu64(Alu::Add, R1, ALIGNMENT as i32 - 1).alu64(Alu::And, R1, -(ALIGNMENT as i32));
    asm.mov(R2, R0).alu64(Alu::Add, R2, R1);
    asm.mov(R3, R1).alu64(Alu::Sub, R3, R7);
    for byte in 1..ALIGNMENT as i16 {
        asm.jump_if(Cond::Lt, R3, i32::from(byte), none).store_imm(Size::Byte, R2, end - byte, 0);
    }
    asm.bind(none);
}

/// Copies the R7 bytes of the packet behind its header, which is at R0, and stays there. Uses this place on
/// the stack; R1 to R5 are lost.
fn emit_data(asm: &mut Assembler, place: i16, room: u32, broken: Label) {
    use Reg::{R0, R1, R2, R3, R4, R6, R7, R10};
    let (mut begin, copied) = (0, asm.label());
    if room == ROOMS[0] {
        stores::emit_copy(asm, xdp_md::DATA, xdp_md::DATA_END, copied);
    }
    asm.store(Size::Double, R10, place, R0);
    if room == ROOMS[2] {
        // The kernel copies 65,535 bytes at a time at most (bpf_xdp_pointer), and the packet may have more.
        begin = data_bytes(ROOMS[1]);
        asm.mov(R1, R6).mov_imm(R2, 0).mov(R3, R0).alu64(Alu::Add, R3, HEADER_BYTES as i32);
        asm.mov_imm(R4, begin).call(Helper::XdpLoadBytes).jump_if(Cond::Ne, R0, 0, broken);
        asm.load(Size::Double, R0, R10, place);
    }
    asm.mov(R1, R6).mov_imm(R2, begin).mov(R3, R0).alu64(Alu::Add, R3, HEADER_BYTES as i32 + begin);
    asm.mov(R4, R7).alu64(Alu::Sub, R4, begin);
    asm.call(Helper::XdpLoadBytes).jump_if(Cond::Ne, R0, 0, broken);
    asm.load(Size::Double, R0, R10, place);
    asm.bind(copied);
}

/// Writes the hash and its type, which are on the stack, as an option behind R2. Without a hash the algorithm
/// is 0 and the option has the same length, so that no length depends on the hash.
fn emit_hash(asm: &mut Assembler, hash: i16) {
    use Reg::{R2, R3, R5, R10};
    let (none, at) = (asm.label(), HEADER_BYTES as i16);
    asm.store_imm(Size::Half, R2, at, HASH_OPTION.into());
    asm.store_imm(Size::Half, R2, at + 2, HASH_OPTION_LEN.into());
    asm.load(Size::Word, R3, R10, hash).load(Size::Word, R5, R10, hash + 4);
    asm.store_imm(Size::Word, R2, at + 4, 0).store_imm(Size::Word, R2, at + 8, 0);
    asm.store_imm(Size::Word, R2, at + 12, 0);
    asm.jump_if(Cond::Eq, R5, 0, none);
    asm.store_imm(Size::Byte, R2, at + 4, TOEPLITZ.into());
    asm.store(Size::Half, R2, at + 10, R5);
    for byte in (0..4).rev() {
        asm.store(Size::Byte, R2, at + 5 + byte, R3);
        asm.alu64(Alu::Rsh, R3, 8);
    }
    asm.bind(none);
}

/// Writes the direction as an option behind R2, and the end of the options.
fn emit_direction(asm: &mut Assembler, direction: Direction) {
    let at = HEADER_BYTES as i16;
    asm.store_imm(Size::Half, Reg::R2, at, FLAGS_OPTION.into());
    asm.store_imm(Size::Half, Reg::R2, at + 2, FLAGS_OPTION_LEN.into());
    asm.store_imm(Size::Word, Reg::R2, at + 4, flags_of(direction) as i32);
    asm.store_imm(Size::Word, Reg::R2, at + 8, 0);
}

/// Writes the number of the stream as an option behind R2, and the end of the options. The stream's entry is
/// in R9.
fn emit_queue(asm: &mut Assembler) {
    use Reg::{R2, R3, R9};
    let at = HEADER_BYTES as i16;
    asm.store_imm(Size::Half, R2, at, QUEUE_OPTION.into());
    asm.store_imm(Size::Half, R2, at + 2, QUEUE_OPTION_LEN.into());
    asm.load(Size::Word, R3, R9, NUMBER_AT).store(Size::Word, R2, at + 4, R3);
    asm.store_imm(Size::Word, R2, at + 8, 0);
}

/// Unlocks the stream, on a machine whose stores stay in order or not.
fn emit_release(asm: &mut Assembler, is_ordered: bool) {
    use Reg::{R1, R9};
    if is_ordered {
        asm.store_imm(Size::Word, R9, WRITER_AT, 0);
    } else {
        asm.mov_imm(R1, 0).atomic_exchange(Size::Word, R9, WRITER_AT, R1);
    }
}
