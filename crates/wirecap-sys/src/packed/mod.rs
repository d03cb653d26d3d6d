//! Packets that a BPF program packs into memory which this process maps: one behind the other, as pcapng
//! Enhanced Packet Blocks.
//!
//! ```text
//!   two BPF arrays (BPF_F_MMAPABLE), mapped here
//!
//!   blocks:   R blocks for each stream          │ packet: 28 bytes, data, options, 4 bytes │ packet │ …
//!   streams:  one value, with an entry for each stream
//!             │ position  ◄── program: block number and end of the last packet │ writer: a lock │
//!             │ packets   ◄── program: packets and bytes up to there, and the time of the last │
//!             │ seen      ◄── program: packets that it was asked to count                      │
//!             │ given     ──► program: number of blocks given so far, and of warm ones          │
//!             │ retire    ──► program: end this block                                           │
//!             │ armed     ──► program: a thread waits for the next packet                       │
//!             │ shift     ──► program: what makes UTC of a stamp                               │
//!             │ order     ◄── program: which block each number is                              │
//!             │ ends      ◄── program: where each block that it has left ends, the counters there,
//!             │               and how many warm blocks it had taken when it chose the block
//!             │ warm, cold ──► program: free blocks, in two queues                             │
//!             │ number    ──► program: that of the stream                                      │
//! ```
//!
//! A stream is a receive queue, with as many blocks as its pool has chunks. Blocks are numbered in the order
//! in which they are filled: the program takes warm ones first (`blocks.rs`).
//!
//! Rule: bytes of a block are with one of these at a time:
//!
//! | with | which | passed on by |
//! |---|---|---|
//! | the program | a block that was given, behind `position` | the store of `position`, after the bytes |
//! | the [`PackedStream`] | in front of `position`, not received | a [`FilledPart`](crate::memory::FilledPart), made once |
//! | the pool, and the holder of a [`ChunkRange`](wirecap_core::ChunkRange) | parts that were received | the tokens of the pool |
//!
//! Only code that [`PackedMemory::emit_pack`] emits writes into blocks; into entries, only that code and what
//! [`PackedMemory::emit_seen`] emits, which writes `seen` alone. This module gives away neither array, code
//! names only maps that its author was given ([`bpf`](crate::bpf)), no other code jumps into this program,
//! and it leaves no pointer behind. This does not hold against code that opens objects of the kernel by their
//! numbers, as with another library, or this process's files and memory by /proc. The program takes the lock
//! `writer` of its stream before it packs, so two runs for one stream never pack at the same time, wherever
//! the program is attached.
//!
//! Memory order: the program publishes `position` by a plain store on x86-64, where a store is never seen
//! before an earlier one, and elsewhere by `BPF_XCHG`, which is a full barrier; the load that it pairs with
//! has acquire order. The number of packets is stored before it and once more behind it: a reader that loads
//! the second one first and finds both equal has a position and counters of the same packet. `given`, one
//! word with both numbers, is stored here with release order, after the entries of `warm` and `cold`; the
//! program reads these after `given`: loads stay in order on x86-64, and elsewhere a `BPF_XCHG` stands
//! between them. What the program notes of a block, its entry of `order` among it, is read here behind a
//! position in that block or a later one.
//!
//! | to read about | open |
//! |---|---|
//! | the two arrays | `memory.rs`; the entry of a stream: `entry.rs` |
//! | what the program does | `program.rs`; where it puts a packet: `choice.rs`; with a packet in a socket buffer: `socket_buffer.rs`; with a short one: `stores.rs` |
//! | how a packet lies in a block | `record.rs` |
//! | giving blocks and receiving parts | `stream.rs`; which free block is taken next: `blocks.rs`, and how far away the program's cache is: `distance.rs` |
//! | reading packets, and records as they lie | `reader.rs` |
//! | waking a thread that waits for packets | `alarm.rs` |

mod alarm;
mod blocks;
mod choice;
mod distance;
mod entry;
mod error;
mod limits;
mod memory;
mod program;
mod reader;
mod record;
mod socket_buffer;
mod stores;
mod stream;

pub use error::PackedError;
pub use limits::{MAX_PACKET_BYTES, MIN_BLOCK_BYTES, MIN_BLOCKS, SMALL_RECORD_BYTES};
pub use memory::PackedMemory;
pub use program::{PackOption, PackSpec, PacketForm};
pub use reader::{PackedPackets, PackedReader, PackedRecords};
pub use record::{PackedHash, PackedPacket, PackedRecord, RecordMark};
pub use stream::{PackedLook, PackedStream, ReceivedPart};
