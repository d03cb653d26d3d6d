//! Whether packets of an interface are packed, decided before there is memory for them.
//!
//! ```text
//!   Modes::Packed ──────────────────────────────────────────────────────────────► blocks, or an error
//!   Modes::Best ── does zero-copy take all its frames? ── yes, or not known ────► cells: zero-copy, else copy
//!                  └─ no ── can its packets be packed? ── no ───────────────────► cells: copy, else generic
//!                                                         └─ yes ─► blocks ── the kernel refuses ──► cells: copy, else generic
//!   others ─────────────────────────────────────────────────────────────────────► cells
//! ```
//!
//! Rule: a port has cells or blocks, never both. Where zero-copy is offered and fails, copy uses the cells,
//! which are in place. Where packing fails, its blocks are released before cells are allocated.

use wirecap_core::{Geometry, geometry::MIN_CELLS_PER_CHUNK_MULTI_BUFFER};
use wirecap_sys::{
    bpf::may_calculate_addresses,
    netdev::Interface,
    packed::{MIN_BLOCK_BYTES, MIN_BLOCKS},
    xsk::BindMode,
};

use super::{
    frame_room::{self, cell_payload},
    members,
};
use crate::{
    Config, Modes, PoolSize,
    diagnostic::{ModeRefusal, PackingRefusal},
    nic::link::longest_frame,
    port::contract::PoolMaker,
};

/// Drivers that run the program on the sender's CPU: several CPUs may run it for one queue at the same
/// time.
const SEVERAL_WRITERS: [&str; 1] = ["tun"];

/// Who makes the pools of an interface, or of some of its queues.
pub(super) fn pool_maker(interface: &Interface, config: &Config) -> PoolMaker {
    let is_packed = match config.xdp_mode {
        Modes::Packed => true,
        Modes::Best => expected_geometry(config).is_some_and(|geometry| {
            !zero_copy_takes_all(interface, geometry) && refusal(interface, config, geometry).is_none()
        }),
        Modes::ZeroCopy | Modes::Copy | Modes::Generic => false,
    };
    if is_packed { PoolMaker::Packed } else { PoolMaker::Registered }
}

/// The sizes of the pools, as far as they are known before the memory of the machine is. `None` if there are
/// no such pools.
fn expected_geometry(config: &Config) -> Option<Geometry> {
    let chunks = match config.pool_size {
        PoolSize::AtMost(chunks) | PoolSize::Chunks(chunks) => chunks,
        PoolSize::Memory(_) => MIN_BLOCKS,
    };
    Geometry::new(config.cells_per_chunk, chunks, config.cell_bytes).ok()
}

/// Whether zero-copy would lose none of the frames that the MTU allows, as far as the kernel says.
fn zero_copy_takes_all(interface: &Interface, geometry: Geometry) -> bool {
    let is_large = longest_frame(interface) > cell_payload(geometry);
    let can_split = geometry.cells_per_chunk() >= MIN_CELLS_PER_CHUNK_MULTI_BUFFER;
    (can_split || !is_large) && zero_copy_refusal(interface, geometry, is_large).is_none()
}

/// Why the kernel would refuse zero-copy, with packets of several cells or without, or why that would cut
/// frames. `None` if neither is known.
pub(super) fn zero_copy_refusal(
    interface: &Interface,
    geometry: Geometry,
    multi_buffer: bool,
) -> Option<ModeRefusal> {
    // The kernel binds by the same bits: xp_assign_dev() of net/xdp/xsk_buff_pool.c.
    let lacks = interface.xdp_features.is_some_and(|features| {
        let splits = features.zero_copy_max_segments.is_some_and(|most| most > 1);
        !(features.native && features.redirect && features.zero_copy) || (multi_buffer && !splits)
    });
    let short_cells = || frame_room::refuses(interface, geometry, BindMode::ZeroCopy);
    if lacks { Some(ModeRefusal::NotOffered) } else { short_cells() }
}

/// Why packets cannot be packed, by what is asked for and by the driver; `None` if nothing is known against
/// it.
pub(super) fn refused_by_settings(interface: &Interface, config: &Config) -> Option<PackingRefusal> {
    let driver = interface.driver.as_ref().map_or("", |driver| &driver.name);
    if config.transmit_entries > 0 || config.allocators > 0 {
        Some(PackingRefusal::Sending)
    } else if config.keep_packets {
        Some(PackingRefusal::Keeping)
    } else if config.ring_entries.is_some() {
        Some(PackingRefusal::Rings)
    } else {
        let has_several = SEVERAL_WRITERS.contains(&driver) || members::running_driver(interface).is_some();
        has_several.then(|| PackingRefusal::SeveralWriters { driver: driver.into() })
    }
}

/// Why packets are not packed without being asked for it, as far as that is known before trying.
pub(super) fn refusal(interface: &Interface, config: &Config, geometry: Geometry) -> Option<PackingRefusal> {
    let (block_bytes, blocks) = (geometry.chunk_bytes(), geometry.chunks_per_pool());
    let by_machine = || match interface.xdp_features {
        _ if block_bytes < MIN_BLOCK_BYTES => Some(PackingRefusal::SmallBlocks { block_bytes }),
        _ if blocks < MIN_BLOCKS => Some(PackingRefusal::FewBlocks { blocks }),
        None => Some(PackingRefusal::ZeroCopyNotKnown),
        Some(features) if !features.native => Some(PackingRefusal::NotNative),
        Some(_) => (!may_calculate_addresses()).then_some(PackingRefusal::NotPermitted),
    };
    refused_by_settings(interface, config).or_else(by_machine)
}

#[cfg(test)]
mod tests;
