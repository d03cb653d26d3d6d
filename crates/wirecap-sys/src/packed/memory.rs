//! The two arrays, mapped.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64},
    },
};

use wirecap_core::Geometry;

use super::PackedError;
use crate::{
    bpf::{Map, MapKind, MapSpec},
    mapped::Mapped,
    memory::Need,
};

/// The smallest block: it holds the longest packet, and another one.
pub const MIN_BLOCK_BYTES: u32 = 128 << 10;
/// Fewest blocks of a stream: a block ends when the next one begins.
pub const MIN_BLOCKS: u32 = 2;

/// Offsets in a stream's entry. What the program writes for each packet has a cache line of its own.
pub(super) const POSITION_AT: i16 = 0;
pub(super) const WRITER_AT: i16 = 8;
pub(super) const GIVEN_AT: i16 = 64;
pub(super) const RETIRE_AT: i16 = 68;
pub(super) const ARMED_AT: i16 = 72;
pub(super) const ORDER_AT: u32 = 128;
const LINE_BYTES: u32 = 128;
pub(super) const PAGE_BYTES: u32 = 4096;
/// What the kernel keeps for each page of an array, once to find it by and once to map it for this process.
const PAGE_ENTRY_BYTES: u64 = 8;
/// What a ring of events takes: its pages, and those in which the kernel keeps its state.
const EVENT_RING_BYTES: u64 = 5 * PAGE_BYTES as u64;

/// The sizes of both arrays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) geometry: Geometry,
    streams: u32,
    /// Entries of `order` and of `ends`: a power of two, no fewer than blocks.
    pub(super) numbers: u32,
}

impl Layout {
    fn new(streams: u32, geometry: Geometry) -> Self {
        Self { geometry, streams, numbers: geometry.chunks_per_pool().next_power_of_two() }
    }

    /// Where the entries of `ends` begin.
    pub(super) fn ends_at(&self) -> u32 {
        ORDER_AT + 4 * self.numbers
    }

    fn stream_bytes(&self) -> u32 {
        (ORDER_AT + 8 * self.numbers).next_multiple_of(LINE_BYTES)
    }

    fn blocks(&self) -> u32 {
        self.streams * self.geometry.chunks_per_pool()
    }
}

/// The error of a mapping of this size.
pub(super) fn map_failed(bytes: u64) -> impl FnOnce(io::Error) -> PackedError {
    move |source| PackedError::Mapping { bytes, source }
}

/// A ring of events, of the smallest size.
fn event_ring() -> Result<Map, PackedError> {
    let (kind, name) = (MapKind::RingBuffer, "wirecap_events");
    Ok(Map::create(&MapSpec { kind, key_size: 0, value_size: 0, max_entries: PAGE_BYTES, name })?)
}

/// The blocks of several streams, which a program fills and this process reads.
#[derive(Debug)]
pub struct PackedMemory {
    pub(super) layout: Layout,
    pub(super) blocks: Map,
    pub(super) streams: Map,
    block_memory: Mapped,
    stream_memory: Mapped,
    /// The ring of events of each stream, and all of them for the program.
    pub(super) rings: Vec<Arc<OwnedFd>>,
    pub(super) all_rings: Map,
    /// Streams that were opened.
    pub(super) opened: Mutex<Vec<bool>>,
}

impl PackedMemory {
    /// Makes `streams` streams, with the blocks of a pool for each: a block is a chunk. All memory is in
    /// place afterwards.
    ///
    /// # Errors
    /// [`PackedError`].
    pub fn create(streams: u32, geometry: Geometry) -> Result<Self, PackedError> {
        let (blocks, block_bytes) = (geometry.chunks_per_pool(), geometry.chunk_bytes());
        if block_bytes < MIN_BLOCK_BYTES {
            return Err(PackedError::SmallBlock { block_bytes });
        }
        if blocks < MIN_BLOCKS {
            return Err(PackedError::FewBlocks { blocks });
        }
        let layout = Layout::new(streams, geometry);
        let array = |name, value_size, max_entries| -> Result<_, PackedError> {
            let map = Map::create(&MapSpec {
                kind: MapKind::MappedArray,
                key_size: 4,
                value_size,
                max_entries,
                name,
            })?;
            let bytes = u64::from(value_size) * u64::from(max_entries);
            let mapped = Mapped::ring(map.as_fd(), bytes as usize, 0);
            Ok((map, mapped.map_err(map_failed(bytes))?))
        };
        let (blocks, block_memory) = array("wirecap_blocks", block_bytes, layout.blocks())?;
        let (streams_map, stream_memory) = array("wirecap_streams", layout.stream_bytes(), streams)?;
        let rings = (0..streams).map(|_| event_ring()).collect::<Result<Vec<_>, _>>()?;
        let all_rings = Map::array_of(&rings, "wirecap_rings")?;
        let opened = Mutex::new(vec![false; streams as usize]);
        let rings = rings.into_iter().map(|ring| Arc::new(ring.into())).collect();
        Ok(Self {
            layout,
            blocks,
            streams: streams_map,
            block_memory,
            stream_memory,
            rings,
            all_rings,
            opened,
        })
    }

    /// What the kernel takes for `streams` streams.
    pub fn need(streams: u32, geometry: Geometry) -> Need {
        let blocks = u64::from(streams) * geometry.pool_bytes();
        let Need { charged, kernel, .. } = Self::need_beside(streams, geometry);
        Need { charged: blocks + charged, kernel, ..Need::default() }
    }

    /// What the kernel takes for `streams` streams beside their blocks.
    pub fn need_beside(streams: u32, geometry: Geometry) -> Need {
        let layout = Layout::new(streams, geometry);
        let pages = u64::from(streams) * geometry.pool_bytes() / u64::from(PAGE_BYTES);
        let of_stream = u64::from(layout.stream_bytes()) + EVENT_RING_BYTES;
        Need {
            charged: pages * PAGE_ENTRY_BYTES + u64::from(streams) * of_stream,
            kernel: pages * PAGE_ENTRY_BYTES,
            ..Need::default()
        }
    }

    /// Index of a stream's block among all blocks.
    pub(super) fn block_index(&self, stream: u32, block: u32) -> u32 {
        stream * self.layout.geometry.chunks_per_pool() + block
    }

    /// Where a block of a stream begins.
    ///
    /// # Panics
    /// When there is no such block.
    #[inline]
    pub(super) fn block(&self, stream: u32, block: u32) -> NonNull<u8> {
        let index = self.block_index(stream, block);
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
        // SAFETY: lies in the mapping, aligned as entries are; it is only accessed atomically on our side.
        unsafe { self.in_stream(stream, POSITION_AT as u32, 8).cast().as_ref() }
    }

    /// A word of a stream's entry, at a multiple of four bytes.
    #[inline]
    pub(super) fn word(&self, stream: u32, at: u32) -> &AtomicU32 {
        assert!(at % 4 == 0);
        // SAFETY: as in `position`; no word overlaps another one, or the position.
        unsafe { self.in_stream(stream, at, 4).cast().as_ref() }
    }
}
