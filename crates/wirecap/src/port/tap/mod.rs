//! The `tap` port: copies of an interface's packets, packed into blocks by programs of traffic control. The
//! host keeps its traffic, and both directions are seen.
//!
//! ```text
//!   comes in ──► first of the ingress programs ──► others, the host's stack
//!                             └─┐ a copy
//!                               ├──► block of the CPU ── a part ──► PackedQueue
//!                             ┌─┘ a copy
//!   leaves ────► last of the egress programs ──► queueing discipline, driver
//! ```
//!
//! What comes in can be copied by native XDP instead ([`TapHook`]).
//!
//! It sees what tcpdump does, except packets that leave without traffic control (`PACKET_QDISC_BYPASS`,
//! AF_XDP), and those that another egress program drops. It also sees packets that the queueing discipline,
//! or an older filter of traffic control, drops after it.
//!
//! Rule: the programs are attached by links, so they are gone whatever becomes of this process.

mod attachment;
mod loading;

use std::sync::Arc;

use wirecap_core::{PoolId, chunk::MAX_RINGS};
use wirecap_filter::UserFilter;
use wirecap_sys::{
    cpu,
    netdev::{Interface, PromiscuousMode},
    packed::{MAX_PACKET_BYTES, MIN_BLOCK_BYTES, MIN_BLOCKS},
    packet::Fanout,
};

use self::{
    attachment::TapBackend,
    loading::{AttachedTap, Tap, program_error},
};
use super::{
    contract::{
        OpenRequest, PacketSource, PoolMaker, Port, PortFacts, PortPools, PreparedPort, allocate_blocks,
        packed_error,
    },
    open_port::OpenPort,
    packed_queue::PackedQueue,
    stamp_reader::StampReader,
    vlan_tags,
};
use crate::{
    Config, Diagnostic, Error, HostUse, Modes, PassiveReason, PoolSize, Rss, TapHook, Timestamp,
    diagnostic::{LengthLimitReason, NicDataRefusal, TapRefusal},
    filter::OriginInfo,
    nic::{
        link::{WatchedQueues, longest_packet},
        preflight,
        stamping::Stamping,
        tapping,
        xdp_watch::programs_first,
    },
    program::{Counters, Packing, rx_hash},
    report::{FilterPlace, LengthLimit, LengthLimitPolicy, QueueMode},
};

/// An interface to tap.
#[derive(Debug)]
struct TapPort {
    interface: Interface,
    /// Why it is captured passively, if that was not asked for.
    reason: Option<PassiveReason>,
}

/// A stream for each CPU.
pub(super) fn look_up(
    interface: Interface,
    reason: Option<PassiveReason>,
    host_use: Vec<HostUse>,
) -> Result<PreparedPort, Error> {
    let Some(link_type) = interface.hardware_type.link_type() else {
        let kind = interface.hardware_type.to_string();
        return Err(Error::LinkType { name: interface.name, kind });
    };
    let facts = PortFacts {
        name: interface.name.clone(),
        rings: (0..streams()?).collect(),
        source: PacketSource::Interface { ifindex: interface.ifindex, queues: None },
        link_type,
        origin: OriginInfo::Each,
        pools: PoolMaker::Packed,
        numa_node: interface.numa_node,
        host_use,
        is_tapped_by_default: reason.is_some(),
        // The ring of events.
        files_per_queue: 1,
    };
    Ok(PreparedPort::new(facts, TapPort { interface, reason }))
}

/// A stream for each CPU that is online, by number. A CPU that is added later shares one.
fn streams() -> Result<u16, Error> {
    let end = cpu::online_end().map_err(Error::Cores)?;
    Ok(end.min(MAX_RINGS.into()) as u16)
}

/// Why an interface cannot be tapped with these settings, if it cannot.
pub(super) fn refuses(interface: &Interface, config: &Config) -> Option<TapRefusal> {
    let chunks = match config.pool_size {
        PoolSize::AtMost(chunks) | PoolSize::Chunks(chunks) => chunks,
        // Not known yet: see `Builder::prepare`.
        PoolSize::Memory(_) => MIN_BLOCKS,
    };
    let small = small_pool(config.cells_per_chunk.saturating_mul(config.cell_bytes), chunks);
    small.or_else(|| other_fanout(config)).or_else(|| tapping::lacks(interface))
}

/// That packets are to be spread over the workers as a tap cannot, if they are.
fn other_fanout(config: &Config) -> Option<TapRefusal> {
    let fanout = config.fanout.filter(|&fanout| config.workers != Some(1) && fanout != Fanout::Cpu);
    fanout.map(|fanout| TapRefusal::SeveralWorkers { fanout })
}

/// Why pools of such chunks are too small for a tap, if they are.
fn small_pool(chunk_bytes: u32, chunks: u32) -> Option<TapRefusal> {
    if chunk_bytes < MIN_BLOCK_BYTES {
        return Some(TapRefusal::SmallChunks { least_bytes: MIN_BLOCK_BYTES });
    }
    (chunks < MIN_BLOCKS).then_some(TapRefusal::FewChunks)
}

impl Port for TapPort {
    fn check(&self, facts: &PortFacts, config: &Config) -> Result<(), Error> {
        let (name, reason) = (facts.name.clone(), NicDataRefusal::Passive);
        match config.timestamp {
            _ if config.xdp_mode != Modes::Best => {
                return Err(Error::OnlyPassive { name, reason: self.reason.clone() });
            }
            Some(Timestamp::File) => return Err(Error::NoFile(name)),
            Some(Timestamp::Hardware) => return Err(Error::NoHardwareTimestamps { name, reason }),
            _ if config.rx_hash => return Err(rx_hash::refusal(&name, reason)),
            _ if config.rss == Rss::Symmetric => return Err(Error::PassiveRss(name)),
            _ => {}
        }
        let refusal = other_fanout(config).or_else(|| tapping::lacks(&self.interface));
        refusal.map_or(Ok(()), |reason| Err(Error::NotTapped { name, reason }))
    }

    fn open(self: Box<Self>, pools: PortPools, request: &OpenRequest<'_>) -> Result<OpenPort, Error> {
        let Self { interface, reason } = *self;
        let OpenRequest { context, facts, filter, nic_id, .. } = *request;
        preflight::check_up(&interface)?;
        let geometry = context.geometry;
        if let Some(reason) = small_pool(geometry.chunk_bytes(), geometry.chunks_per_pool()) {
            return Err(Error::NotTapped { name: facts.name.clone(), reason });
        }
        let hook = context.config.tap_hook;
        if hook == TapHook::Xdp {
            let checked =
                preflight::check_kind(&interface).and_then(|()| preflight::check_holder(&interface));
            checked.map_err(|error| error.of_xdp_tap(&facts.name))?;
        }
        let stamping = Stamping::prepare(&interface, context.config.timestamp, true)?;
        let memory =
            pools.blocks.map_or_else(|| allocate_blocks(facts, geometry, &context.hooks.give_up), Ok)?;
        // Its streams are CPUs, not queues.
        let to_utc = stamping.as_ref().is_some_and(Stamping::is_for_programs);
        let interface_number = nic_id.into();
        let packing =
            Packing { memory, interface: interface_number, names_queue: false, has_hashes: false, to_utc };
        let streams = facts.rings.len() as u32;
        let counters = Counters::new(streams).map_err(|source| program_error(&interface, source))?;
        let counters = Arc::new(counters);
        let user = filter.map(|filter| UserFilter::for_socket(&filter.filter, interface.ifindex));
        let user = user.map(Arc::new);

        let mut open = OpenPort::new(&facts.name, QueueMode::Tap, facts.link_type);
        for &ring_id in &facts.rings {
            let (id, stamps) = (PoolId { nic_id, ring_id }, StampReader::new(stamping.as_ref()));
            let queue = PackedQueue::open(&packing, id, &counters, user.clone(), stamps, context.config.wait);
            open.queues.push(queue.map_err(|source| packed_error(&facts.name, source))?);
        }
        let promiscuous =
            context.config.promiscuous.then(|| PromiscuousMode::enable(interface.ifindex)).transpose()?;
        let tap = Tap {
            interface: &interface,
            hook,
            packing: &packing,
            counters: &counters,
            streams,
            filter,
            user: user.as_ref(),
            stamping: stamping.as_ref(),
            own_sender: context.hooks.own_sender,
            tags: match hook {
                // A classifier finds the tag in the socket buffer.
                TapHook::Tcx => Err(None),
                TapHook::Xdp => vlan_tags::prepare(&interface, false),
            },
        };
        let AttachedTap { links, not_in_kernel, puts_tags_back, missing_tags } = tap.attach()?;

        let report = &mut open.report;
        report.tap_hook = Some(hook);
        report.filter = filter.zip(user.as_ref()).map(|(filter, user)| {
            filter.report(if not_in_kernel.is_none() { FilterPlace::Kernel } else { FilterPlace::of(user) })
        });
        report.fallbacks.extend(reason.map(|reason| Diagnostic::Passive { reason }));
        report.fallbacks.extend(not_in_kernel);
        report.fallbacks.extend(context.config.ring_entries.map(|_| Diagnostic::RingWithoutEffect));
        report.fallbacks.extend(programs_first(&interface));
        report.fallbacks.extend(missing_tags);
        report.untagged = puts_tags_back.then_some(0);
        report.cut = Some(0);
        if let Some((limit, reason)) = length_limit(longest_packet(&interface)) {
            report.length_limit = Some(limit);
            report.fallbacks.push(Diagnostic::PacketsTooLong { limit, reason });
        }
        if let Some(stamping) = &stamping {
            report.fallbacks.extend_from_slice(&stamping.fallbacks);
            report.timestamp = stamping.report();
        }
        open.backend = Some(Box::new(TapBackend::new(&interface, links, promiscuous)));
        // Queues do not matter here, only what the NIC drops.
        open.watch(&interface, WatchedQueues::None);
        Ok(open)
    }
}

/// The limit beyond which packets are cut, and why, if the longest one is beyond it.
fn length_limit(longest: u32) -> Option<(LengthLimit, LengthLimitReason)> {
    let limit = LengthLimit { bytes: MAX_PACKET_BYTES, beyond: LengthLimitPolicy::Cut };
    (longest > MAX_PACKET_BYTES).then_some((limit, LengthLimitReason::LongSegments { longest }))
}
