//! The two arrays, mapped.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use wirecap_core::Geometry;

use super::{
    PackedError,
    limits::{MIN_BLOCK_BYTES, MIN_BLOCKS},
};
use crate::{
    bpf::{Map, MapKind, MapSpec},
    memory::Need,
    mmap::{Mmap, page_bytes},
};

/// Offsets in a stream's entry. What the program writes for each packed packet has a cache line of its own:
/// `RAISED` is written only when a time is not later than the one before.
pub(super) const POSITION_AT: i16 = 0;
pub(super) const WRITER_AT: i16 = 8;
pub(super) const NUMBER_AT: i16 = 12;
pub(super) const PACKETS_AT: i16 = 16;
pub(super) const BYTES_AT: i16 = 24;
pub(super) const PUBLISHED_AT: i16 = 32;
pub(super) const LAST_NS_AT: i16 = 40;
pub(super) const CUT_AT: i16 = 48;
pub(super) const GIVEN_AT: i16 = 64;
pub(super) const RETIRE_AT: i16 = 72;
pub(super) const ARMED_AT: i16 = 76;
pub(super) const ADD_AT: i16 = 80;
pub(super) const LEAP_AT: i16 = 88;
pub(super) const ADD_AFTER_AT: i16 = 96;
pub(super) const NOT_BEFORE_AT: i16 = 104;
pub(super) const RAISED_NS_AT: i16 = 112;
pub(super) const RAISED_AT: i16 = 120;
/// In a line that the receiver does not poll: the program also counts packets there that it does not pack.
pub(super) const SEEN_AT: i16 = 128;
pub(super) const ORDER_AT: u32 = 192;
/// An entry of `order`, of `warm` and of `cold`, and one of `ends`: where the block ends, packets and bytes
/// up to there, and warm blocks up to it, which are counted before the block is begun.
pub(super) const ORDER_BYTES: u32 = 4;
pub(super) const END_BYTES: u32 = 16;
pub(super) const WARM_IN_END: u32 = 12;
const LINE_BYTES: u32 = 128;
/// `BPF_MAX_VAR_OFF`: the verifier refuses larger offsets into a value.
const MAX_VALUE_BYTES: u32 = 1 << 29;
/// What the kernel keeps for each page of an array, once to find it by and once to map it for this process.
const PAGE_ENTRY_BYTES: u64 = 8;
/// Pages of a ring of events, and of the state that the kernel keeps for it.
const EVENT_RING_PAGES: u64 = 5;

/// The sizes of both arrays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) geometry: Geometry,
    /// How many streams have blocks.
    pools: u32,
    /// How many entries there are: one for each stream, by its number.
    pub(super) streams: u32,
    /// Entries of each table of a stream: a power of two, no fewer than blocks.
    pub(super) numbers: u32,
}

impl Layout {
    fn new(pools: u32, streams: u32, geometry: Geometry) -> Self {
        Self { geometry, pools, streams, numbers: geometry.chunks_per_pool().next_power_of_two() }
    }

    /// The entry of a number in a table: of a block in `order` and `ends`, of a warm block in `warm`, of a
    /// cold one in `cold`.
    pub(super) fn entry(&self, number: u32) -> u32 {
        number & (self.numbers - 1)
    }

    /// Where the entries of `ends` begin.
    pub(super) fn ends_at(&self) -> u32 {
        ORDER_AT + ORDER_BYTES * self.numbers
    }

    /// Where the entries of `warm` begin.
    pub(super) fn warm_at(&self) -> u32 {
        self.ends_at() + END_BYTES * self.numbers
    }

    /// Where the entries of `cold` begin.
    pub(super) fn cold_at(&self) -> u32 {
        self.warm_at() + ORDER_BYTES * self.numbers
    }

    pub(super) fn stream_bytes(&self) -> u32 {
        (self.cold_at() + ORDER_BYTES * self.numbers).next_multiple_of(LINE_BYTES)
    }

    /// The size of all entries.
    ///
    /// # Errors
    /// [`PackedError::ManyStreams`].
    fn stream_value_bytes(&self) -> Result<u32, PackedError> {
        let blocks = self.geometry.chunks_per_pool();
        let bytes = self.streams.checked_mul(self.stream_bytes()).filter(|&bytes| bytes <= MAX_VALUE_BYTES);
        let all_blocks = self.pools.checked_mul(blocks);
        all_blocks.and(bytes).ok_or(PackedError::ManyStreams { streams: self.streams, blocks })
    }

    fn blocks(&self) -> u32 {
        self.pools * self.geometry.chunks_per_pool()
    }
}

/// The error of a mapping of this size.
pub(super) fn map_failed(bytes: u64) -> impl FnOnce(io::Error) -> PackedError {
    move |source| PackedError::Mapping { bytes, source }
}

/// A ring of events, of the smallest size.
fn event_ring() -> Result<Map, PackedError> {
    let (kind, name, max_entries) = (MapKind::RingBuffer, "wirecap_events", page_bytes() as u32);
    Ok(Map::create(&MapSpec { kind, key_size: 0, value_size: 0, max_entries, name })?)
}

/// The blocks of several streams, which a program fills and this process reads.
#[derive(Debug)]
pub struct PackedMemory {
    pub(super) layout: Layout,
    pub(super) blocks: Map,
    pub(super) streams: Map,
    block_memory: Mmap,
    stream_memory: Mmap,
    /// The numbers of the streams.
    numbers: Box<[u32]>,
    /// The ring of events of each stream, in the order of `numbers`, and all of them for the program.
    rings: Vec<Arc<OwnedFd>>,
    pub(super) all_rings: Map,
    /// Whether stores and loads stay in order among themselves. Elsewhere the program orders them by atomics.
    pub(super) is_ordered: bool,
    /// The number of the first block of each stream: 0, except in tests.
    pub(super) first_number: u32,
    /// Which streams were opened, in the order of `numbers`.
    pub(super) opened: Mutex<Vec<bool>>,
}

impl PackedMemory {
    /// Makes streams of these numbers, each with as many blocks as a pool has chunks, and as large ones. All
    /// memory is in place afterwards.
    ///
    /// # Errors
    /// [`PackedError`].
    ///
    /// # Panics
    /// Without a stream.
    pub fn create(numbers: impl IntoIterator<Item = u32>, geometry: Geometry) -> Result<Self, PackedError> {
        let numbers: Box<[u32]> = numbers.into_iter().collect();
        let (blocks, block_bytes) = (geometry.chunks_per_pool(), geometry.chunk_bytes());
        if block_bytes < MIN_BLOCK_BYTES {
            return Err(PackedError::SmallBlock { block_bytes });
        }
        if blocks < MIN_BLOCKS {
            return Err(PackedError::FewBlocks { blocks });
        }
        let streams = 1 + numbers.iter().max().expect("there is a stream");
        let layout = Layout::new(numbers.len() as u32, streams, geometry);
        let stream_value_bytes = layout.stream_value_bytes()?;
        let array = |name, value_size, max_entries| -> Result<_, PackedError> {
            let map = Map::create(&MapSpec {
                kind: MapKind::MappedArray,
                key_size: 4,
                value_size,
                max_entries,
                name,
            })?;
            let bytes = u64::from(value_size) * u64::from(max_entries);
            let mapped = Mmap::ring(map.as_fd(), bytes as usize, 0);
            Ok((map, mapped.map_err(map_failed(bytes))?))
        };
        let (blocks, block_memory) = array("wirecap_blocks", block_bytes, layout.blocks())?;
        // One value holds all streams, so the program reaches them without a look-up.
        let (streams_map, stream_memory) = array("wirecap_streams", stream_value_bytes, 1)?;
        let rings = numbers.iter().map(|_| event_ring()).collect::<Result<Vec<_>, _>>()?;
        let numbered: Vec<_> = numbers.iter().copied().zip(&rings).collect();
        let all_rings = Map::array_of(streams, &numbered, "wirecap_rings")?;
        let opened = Mutex::new(vec![false; numbers.len()]);
        let rings = rings.iter().map(Map::keep_open).collect();
        let memory = Self {
            layout,
            blocks,
            streams: streams_map,
            block_memory,
            stream_memory,
            numbers,
            rings,
            all_rings,
            is_ordered: cfg!(target_arch = "x86_64"),
            first_number: 0,
            opened,
        };
        for &number in &memory.numbers {
            memory.word(number, NUMBER_AT as u32).store(number, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// Has the program order its stores and loads by atomics, as on machines other than x86-64.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn ordered_by_atomics(self) -> Self {
        Self { is_ordered: false, ..self }
    }

    /// Has the blocks of each stream numbered from this number on, as after days of packets.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn numbered_from(self, first_number: u32) -> Self {
        Self { first_number, ..self }
    }

    /// What the kernel takes for `streams` streams that are numbered from 0 on.
    pub fn need(streams: u32, geometry: Geometry) -> Need {
        let blocks = u64::from(streams) * geometry.pool_bytes();
        let Need { charged, kernel, .. } = Self::need_beside(streams, geometry);
        Need { charged: blocks + charged, kernel, ..Need::default() }
    }

    /// What the kernel takes for `streams` streams that are numbered from 0 on, beside their blocks.
    pub fn need_beside(streams: u32, geometry: Geometry) -> Need {
        let layout = Layout::new(streams, streams, geometry);
        let page_bytes = page_bytes() as u64;
        let pages = (u64::from(streams) * geometry.pool_bytes()).div_ceil(page_bytes);
        let of_stream = u64::from(layout.stream_bytes()) + EVENT_RING_PAGES * page_bytes;
        Need {
            charged: pages * PAGE_ENTRY_BYTES + u64::from(streams) * of_stream,
            kernel: pages * PAGE_ENTRY_BYTES,
            ..Need::default()
        }
    }

    /// Where the stream of this number is among those that have blocks.
    pub(super) fn stream_index(&self, stream: u32) -> Option<usize> {
        self.numbers.iter().position(|&number| number == stream)
    }

    /// The ring of events of a stream.
    ///
    /// # Panics
    /// When there is no such stream.
    pub(super) fn ring(&self, stream: u32) -> &Arc<OwnedFd> {
        &self.rings[self.stream_index(stream).expect("a stream of this number")]
    }

    /// The first block of a stream: its index among all blocks.
    ///
    /// # Panics
    /// When there is no such stream.
    pub(super) fn first_block(&self, stream: u32) -> u32 {
        let index = self.stream_index(stream).expect("a stream of this number");
        index as u32 * self.layout.geometry.chunks_per_pool()
    }

    /// Where the block of this index begins.
    ///
    /// # Panics
    /// When there is no such block.
    #[inline]
    pub(super) fn block(&self, index: u32) -> NonNull<u8> {
        assert!(index < self.layout.blocks(), "block {index} of {}", self.layout.blocks());
        let offset = index as usize * self.layout.geometry.chunk_bytes() as usize;
        // SAFETY: the mapping has `layout.blocks()` blocks of this size (`create`).
        unsafe { self.block_memory.start().add(offset) }
    }

    /// A place in a stream's entry.
    fn in_stream(&self, stream: u32, at: u32, bytes: u32) -> NonNull<u8> {
        let Layout { streams, .. } = self.layout;
        assert!(stream < streams && at + bytes <= self.layout.stream_bytes(), "stream {stream} of {streams}");
        let offset = stream as usize * self.layout.stream_bytes() as usize + at as usize;
        // SAFETY: the mapping has `streams` entries of this size (`create`).
        unsafe { self.stream_memory.start().add(offset) }
    }

    /// Where the program is: the number of its block in the upper half, the end of the last packet in the
    /// lower.
    #[inline]
    pub(super) fn position(&self, stream: u32) -> &AtomicU64 {
        self.long(stream, POSITION_AT)
    }

    /// A double word of a stream's entry, at a multiple of eight bytes.
    #[inline]
    pub(super) fn long(&self, stream: u32, at: i16) -> &AtomicU64 {
        assert!(at % 8 == 0);
        // SAFETY: lies in the mapping, aligned as entries are; it is only accessed atomically on our side.
        unsafe { self.in_stream(stream, at as u32, 8).cast().as_ref() }
    }

    /// A word of a stream's entry, at a multiple of four bytes.
    #[inline]
    pub(super) fn word(&self, stream: u32, at: u32) -> &AtomicU32 {
        assert!(at % 4 == 0);
        // SAFETY: as in `long`; no word overlaps another one, or a double word.
        unsafe { self.in_stream(stream, at, 4).cast().as_ref() }
    }
}
